package transfers

import (
	"context"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

// publishChange publishes a committed change of a transfer to both sides, or to the sender of an upload for messages,
// and stores its progress in Redis.
func (s *Service) publishChange(ctx context.Context, t *Transfer) {
	p := t.progress(t.Stored, s.chunk)
	s.publish(t, api.EventTransferUpdated, t.wire(p), false)
	if err := s.redis.storeProgress(context.WithoutCancel(ctx), t, p); err != nil {
		s.log.Debug("transfers: change not stored in Redis", "transfer", t.ID, "err", err)
	}
	if t.Status.final() {
		s.limiter.forget(t.ID)
	}
}

// publishErased publishes the end of a transfer to the other side when a user's account is erased.
func (s *Service) publishErased(t *Transfer, erased accounts.ID) {
	p := t.progress(t.Stored, s.chunk)
	text, ok := events.Encode(s.log, api.EventTransferUpdated, t.wire(p))
	if !ok {
		return
	}
	if t.forMessages() {
		s.limiter.forget(t.ID)
		return
	}
	other := t.To
	if other == erased {
		other = t.From
	}
	s.bus.Publish([]events.Event{events.New(api.EventTransferUpdated, other.String(), s.sql.db.Now(), text)})
	s.limiter.forget(t.ID)
}

func (s *Service) publish(t *Transfer, typ string, data any, fleeting bool) {
	text, ok := events.Encode(s.log, typ, data)
	if !ok {
		return
	}
	var batch []events.Event
	for _, user := range []accounts.ID{t.To, t.From} {
		if user.IsZero() {
			continue
		}
		e := events.New(typ, user.String(), s.sql.db.Now(), text)
		e.Fleeting = fleeting
		batch = append(batch, e)
	}
	s.bus.Publish(batch)
}

// progressEvery is the shortest time between two events about the progress of a transfer.
const progressEvery = 100 * time.Millisecond

// watch publishes the progress of an upload to both sides, at most ten times a second, until stop is called. stop
// returns after the last event.
func (s *Service) watch(ctx context.Context, t Transfer, u *upload) (stop func()) {
	quit := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for last := t.Stored; ; {
			ended := false
			select {
			case <-tick.C:
			case <-quit:
				ended = true // even a piece faster than a tick has progress
			}
			if n := u.received.Load(); n != last && n < t.Size && s.limiter.may(t.ID, time.Now()) {
				last, t.Stored = n, u.stored.Load()
				s.publishProgress(ctx, &t, n)
			}
			if ended {
				return
			}
		}
	})
	return func() { close(quit); watching.Wait() }
}

func (s *Service) publishProgress(ctx context.Context, t *Transfer, received int64) {
	p := t.progress(received, s.chunk)
	s.publish(t, api.EventTransferProgress, api.TransferProgress{ID: t.ID.String(), Received: p.received, Size: t.Size, Percent: p.percent,
		Chunk: p.chunk, Chunks: p.chunks}, true)
	if err := s.redis.storeProgress(ctx, t, p); err != nil {
		s.log.Debug("transfers: progress not stored in Redis", "transfer", t.ID, "err", err)
	}
}

// maxProgressTimes bounds the number of transfers with a stored time of the last event.
const maxProgressTimes = 10_000

// progressLimiter has the times of the last progress events.
type progressLimiter struct {
	mu sync.Mutex
	at map[ID]time.Time
}

// may reports whether progress may be published now, and records the time if so.
func (t *progressLimiter) may(id ID, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.at[id]) < progressEvery {
		return false
	}
	if len(t.at) >= maxProgressTimes {
		clear(t.at) // at most one event too many for each transfer
	}
	t.at[id] = now
	return true
}

func (t *progressLimiter) forget(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.at, id)
}
