package bus

import (
	"context"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Time returns the servers' time as read within the last second, exact to half a round trip, so that several nodes can
// compare times of one clock. This node's own clock may be wrong, or be set while it runs; it is only used before the first
// beat. In a cluster the masters' clocks are assumed to agree.
func (b *Bus) Time() time.Time {
	if zero := b.zero.Load(); zero != 0 {
		return time.Unix(0, zero+int64(Now()))
	}
	return time.Now()
}

// When converts a time of the servers' clock, in Unix milliseconds, to a moment of this process. See [Bus.Time].
func (b *Bus) When(ms int64) Moment {
	t := time.UnixMilli(ms)
	if zero := b.zero.Load(); zero != 0 {
		return Moment(t.UnixNano() - zero)
	}
	return Now() + Moment(time.Until(t))
}

// readClock reads the time of a server.
func (b *Bus) readClock(ctx context.Context) error {
	asked := Now()
	items, err := b.db.Do(ctx, keyspace.Cmd{Name: "TIME"}).Items()
	if err != nil {
		return err
	}
	answered := Now()
	if len(items) != 2 {
		return keyspace.ErrReply
	}
	s, err := strconv.ParseInt(items[0].Str, 10, 64)
	if err != nil {
		return err
	}
	us, err := strconv.ParseInt(items[1].Str, 10, 64)
	if err != nil {
		return err
	}
	b.zero.Store(time.Unix(s, us*1000).UnixNano() - int64(asked+answered)/2)
	return nil
}

// Wait returns when this node has read the log for the first time, or when ctx ends.
func (b *Bus) Wait(ctx context.Context) error {
	select {
	case <-b.up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
