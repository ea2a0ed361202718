package messaging

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/groups"
)

// Waiting is what waits in a chat for one of its members.
type Waiting struct {
	Chat        ChatRef
	Title       string // of a group
	Seq         int64  // of the newest message
	Unread      int64
	Newest      api.Message // that somebody else has written
	MentionedAt int64       // number of the newest one that mentions the user, or everybody; 0: none of the latest does
}

// latestLooked is how many of the latest messages are looked at for who is mentioned.
const latestLooked = 50

// Place is a conversation as one of its members has it.
type Place struct {
	User accounts.ID
	Conv ConversationID
}

// Waiting returns what waits for users in conversations, as SQL has it, by three statements for a hundred
// places. A place that is not in the answer has nothing that waits, is muted, or its user is in it no more. ErrStore.
func (s *Service) Waiting(ctx context.Context, places []Place) (_ map[Place]Waiting, err error) {
	defer errs.Wrap(&err, "messaging.Waiting")
	all := make(map[Place]Waiting, len(places))
	for some := range slices.Chunk(places, waitingAtOnce) {
		views, err := s.sql.viewsAt(ctx, memberKeys(some))
		if err != nil {
			return nil, asKind(ctx, err)
		}
		hidden, err := s.sql.hiddenLately(ctx, views)
		if err != nil {
			return nil, asKind(ctx, err)
		}
		now := s.sql.db.Now().UnixMilli()
		views = slices.DeleteFunc(views, func(v view) bool {
			return v.me.gone != 0 || v.unread(hidden[v.key()]) == 0 || v.me.delivered >= v.seq || v.me.muted > now
		})
		latest, err := s.sql.waitingMessages(ctx, views, hidden, latestLooked)
		if err != nil {
			return nil, asKind(ctx, err)
		}
		for _, v := range views {
			if w, there := v.waiting(latest[v.key()], hidden[v.key()]); there {
				all[Place{v.me.user, v.id}] = w
			}
		}
	}
	return all, nil
}

// waiting is what waits in a chat whose latest messages are list, the newest first, without those that are hidden.
func (v view) waiting(list []message, hidden []int64) (w Waiting, there bool) {
	w.Title, w.Seq, w.Unread, w.Chat = v.title, v.seq, v.unread(hidden), With(v.me.peer)
	if v.kind == group {
		w.Chat = In(groups.ID(v.id))
	}
	for _, m := range list {
		if m.from == v.me.user || m.needsNoReading() {
			continue
		}
		if !there {
			w.Newest, there = m.wire(v.me.user, w.Chat.String()), true
		}
		if w.MentionedAt == 0 && (slices.Contains(m.said.Mentions, v.me.user.String()) || slices.Contains(m.said.Mentions, api.MentionAll)) {
			w.MentionedAt = m.seq
		}
	}
	return w, there
}

// Group is the group whose conversation it is, where it is a group's.
func (c ChatRef) Group() (id groups.ID, ok bool) { return c.group, !c.direct() }

// Peer is the other user of a chat of two.
func (c ChatRef) Peer() accounts.ID { return c.peer }
