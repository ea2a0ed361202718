package messaging

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/events"
)

// A node that dies takes with it the events of commits that it has not sent. Another one
// notices that it is gone and tells the members of every conversation in which something
// was new of late how far it has come: a client that is behind asks.

const (
	watchEvery = 2 * time.Second

	// lately is how long before the moment at which all nodes were known to live a commit
	// may be whose event was not sent: the time of a batch, and of its event on the way.
	lately = 30 * time.Second

	// unwatched is that time where nobody has watched, as after a start.
	unwatched = 2 * time.Minute

	standsAtOnce = 500
)

// watch is what the job knows of the nodes.
type watch struct {
	mu    sync.Mutex
	nodes []string
	whole time.Time // when all of them lived; zero: nobody has looked yet
}

// tellStands looks whether a node has gone since it last looked.
func (s *Service) tellStands(ctx context.Context) error {
	if s.live == nil {
		return nil
	}
	now := s.store.db.Now()
	nodes, err := s.live(ctx)
	if err != nil {
		return nil //nolint:nilerr // while Redis is away nobody knows; the next look covers this time
	}
	w := &s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	since := now.Add(-unwatched)
	if !w.whole.IsZero() {
		since = w.whole.Add(-lately)
	}
	if w.whole.IsZero() || slices.ContainsFunc(w.nodes, func(n string) bool { return !slices.Contains(nodes, n) }) {
		if err := s.tellSince(ctx, since.UnixMilli()); err != nil {
			return asKind(ctx, err)
		}
	}
	w.nodes, w.whole = nodes, now
	return nil
}

// tellSince tells all members of conversations in which something is new since a moment.
func (s *Service) tellSince(ctx context.Context, since int64) error {
	for last := (conversation{changed: since}); ; {
		list, next, err := s.store.changedAfter(ctx, last, standsAtOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		last = next
		batch := make([]events.Event, 0, len(list))
		for _, m := range list {
			if e, ok := s.event(m.user, api.EventChatStands, s.store.db.Now(), api.ChatStands{Chat: chatWith(m.peer), Seq: m.seq, Rev: m.rev}); ok {
				batch = append(batch, e)
			}
		}
		s.bus.Publish(batch)
	}
}
