package messaging

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/groups"
)

// Waiting describes the unread messages of a chat for one member.
type Waiting struct {
	Chat        ChatRef
	Title       string // of a group
	Seq         int64  // of the newest message
	Unread      int64
	Newest      api.Message // the newest message of another user
	MentionedAt int64       // seq of the newest message that mentions the user, or all members; 0 if none of the latest does
}

// latestLooked is the number of latest messages that are checked for mentions.
const latestLooked = 50

// Place is a conversation from the view of one member.
type Place struct {
	User accounts.ID
	Conv ConversationID
}

// Waiting returns the unread messages of users in conversations from SQL, with three statements for 100 places. The
// result omits a place if it has no unread messages, is muted, or its user is no longer a member. It returns ErrStore
// if SQL fails.
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

// waiting returns the unread messages of a chat. list are its latest messages, the newest first, without hidden ones.
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

// Group returns the group of a group's chat.
func (c ChatRef) Group() (id groups.ID, ok bool) { return c.group, !c.direct() }

// Peer returns the other user of a chat of two.
func (c ChatRef) Peer() accounts.ID { return c.peer }
