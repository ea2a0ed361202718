package bus

import (
	"context"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
)

// Skew is how far the servers' clock is ahead of this node's, as of the last beat
// and within half a round trip; negative when it is behind. It makes moments
// that several nodes compare those of one clock. In a cluster the owners' clocks
// are taken for one.
func (b *Bus) Skew() time.Duration { return time.Duration(b.skew.Load()) }

// readClock asks a server for its time.
func (b *Bus) readClock(ctx context.Context) error {
	asked := time.Now()
	items, err := b.db.Do(ctx, keyspace.Cmd{Name: "TIME"}).Items()
	if err != nil {
		return err
	}
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
	took := time.Since(asked)
	b.skew.Store(int64(time.Unix(s, us*1000).Sub(asked.Add(took / 2))))
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
