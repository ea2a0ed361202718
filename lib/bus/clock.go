package bus

import (
	"context"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Time is the servers' time, as of the last beat and within half a round trip of it,
// so that several nodes can compare moments of one clock. This node's own clock may be
// wrong, or be set while it runs: it is used before the first beat only. In a cluster
// the masters' clocks are assumed to agree.
func (b *Bus) Time() time.Time {
	if zero := b.zero.Load(); zero != 0 {
		return time.Unix(0, zero+int64(Now()))
	}
	return time.Now()
}

// When is the moment at which the servers' clock shows ms, in Unix milliseconds. See
// [Bus.Time].
func (b *Bus) When(ms int64) Moment {
	t := time.UnixMilli(ms)
	if zero := b.zero.Load(); zero != 0 {
		return Moment(t.UnixNano() - zero)
	}
	return Now() + Moment(time.Until(t))
}

// readClock asks a server for its time.
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

// Wait returns when this node has looked at the log for the first time, or when
// ctx ends.
func (b *Bus) Wait(ctx context.Context) error {
	select {
	case <-b.up:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
