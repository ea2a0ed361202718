package messaging

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/groups"
)

// UnreadChat describes the unread messages of a chat for one member.
type UnreadChat struct {
	Chat        ChatRef
	Title       string // of a group
	Seq         int64  // of the newest message
	Unread      int64
	Newest      api.Message // the newest message of another user
	MentionedAt int64       // seq of the newest message that mentions the user, or all members; 0 if none of the latest does
}

// maxMentionScan is the number of latest messages that are checked for mentions.
const maxMentionScan = 50

// Place is a conversation from the view of one member.
type Place struct {
	User accounts.ID
	Conv ConversationID
}

// UnreadChats returns the unread messages of users in conversations from SQL, with three statements for 100 places. The
// result omits a place if it has no unread messages, is muted, or its user is no longer a member. It returns ErrStore
// if SQL fails.
func (s *Service) UnreadChats(ctx context.Context, places []Place) (_ map[Place]UnreadChat, err error) {
	defer errs.Wrap(&err, "messaging.UnreadChats")
	all := make(map[Place]UnreadChat, len(places))
	for chunk := range slices.Chunk(places, unreadChunk) {
		views, err := s.sql.viewsAt(ctx, s.sql.db, memberKeys(chunk))
		if err != nil {
			return nil, asKind(ctx, err)
		}
		hidden, err := s.sql.latestHidden(ctx, s.sql.db, views)
		if err != nil {
			return nil, asKind(ctx, err)
		}
		now := s.sql.db.Now().UnixMilli()
		views = slices.DeleteFunc(views, func(v view) bool {
			return v.me.gone != 0 || v.unread(hidden[v.key()]) == 0 || v.me.delivered >= v.seq || v.me.muted > now
		})
		latest, err := s.sql.unreadMessages(ctx, views, hidden, maxMentionScan)
		if err != nil {
			return nil, asKind(ctx, err)
		}
		for _, v := range views {
			if w, ok := v.unreadChat(latest[v.key()], hidden[v.key()]); ok {
				all[Place{v.me.user, v.id}] = w
			}
		}
	}
	return all, nil
}

// unreadChat returns the unread messages of a chat. list are its latest messages, the newest first, without hidden
// ones.
func (v view) unreadChat(list []message, hidden []int64) (w UnreadChat, ok bool) {
	w.Title, w.Seq, w.Unread, w.Chat = v.title, v.seq, v.unread(hidden), With(v.me.peer)
	if v.kind == group {
		w.Chat = In(groups.ID(v.id))
	}
	for _, m := range list {
		if m.from == v.me.user || m.needsNoReading() {
			continue
		}
		if !ok {
			w.Newest, ok = m.wire(v.me.user, w.Chat.String()), true
		}
		if w.MentionedAt == 0 && (slices.Contains(m.body.Mentions, v.me.user.String()) || slices.Contains(m.body.Mentions, api.MentionAll)) {
			w.MentionedAt = m.seq
		}
	}
	return w, ok
}

// Group returns the group of a group's chat.
func (c ChatRef) Group() (id groups.ID, ok bool) { return c.group, !c.direct() }

// Peer returns the other user of a chat of two.
func (c ChatRef) Peer() accounts.ID { return c.peer }
