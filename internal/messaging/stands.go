package messaging

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/events"
)

// A node that dies takes with it the events of commits that it has not sent, as it may not
// have come to tell Redis of them. Whoever replays them into Redis, another node or its
// successor, then tells the members of these conversations how far they have come: a client
// that is behind asks, and is answered by a Redis that has them.

// tellStands tells all members of conversations how far these have come.
func (s *Service) tellStands(ctx context.Context, changes []change) error {
	list := make([]ConversationID, len(changes))
	for i, c := range changes {
		list[i] = c.conv
	}
	views, err := s.store.viewsOf(ctx, slices.Compact(list))
	if err != nil {
		return err
	}
	views = slices.DeleteFunc(views, func(v view) bool { return v.me.gone != 0 })
	batch := make([]events.Event, 0, len(views))
	for _, v := range views {
		if e, ok := s.event(v.me.user, api.EventChatStands, s.store.db.Now(), api.ChatStands{Chat: v.name(), Seq: v.seq, Rev: v.rev}); ok {
			batch = append(batch, e)
		}
	}
	s.bus.Publish(batch)
	return nil
}
