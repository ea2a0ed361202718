package messaging

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/groups"
)

// Waiting is what waits in a chat for one of its members.
type Waiting struct {
	Chat      ChatRef
	Title     string // of a group
	Seq       int64  // of the newest message
	Unread    int64
	Newest    api.Message // that somebody else has written
	Mentioned bool        // one of the latest mentions the user, or everybody
}

// latestLooked is how many of the latest messages are looked at for who is mentioned.
const latestLooked = 50

// Waiting returns what waits for a user in a conversation, as SQL has it. ErrChat: nothing does, the chat is muted, or the
// user is in it no more. ErrStore.
func (s *Service) Waiting(ctx context.Context, user accounts.ID, conv ConversationID) (w Waiting, err error) {
	defer errs.Wrap(&err, "messaging.Waiting %s", user)
	v, err := s.store.waitingView(ctx, user, conv)
	if err != nil {
		return w, asKind(ctx, err)
	}
	if w.Unread = v.me.unread(v.conversation); w.Unread == 0 || v.me.delivered >= v.seq || v.me.muted > s.store.db.Now().UnixMilli() {
		return w, ErrChat
	}
	w.Title, w.Seq, w.Chat = v.title, v.seq, With(v.me.peer)
	if v.kind == group {
		w.Chat = In(groups.ID(conv))
	}
	list, err := s.store.messages(ctx, s.store.db, user, conv, max(v.me.read, v.me.cleared), v.seq+1, true, latestLooked)
	if err != nil {
		return w, asKind(ctx, err)
	}
	list = slices.DeleteFunc(list, func(m message) bool { return m.from == user || m.recalled != 0 || m.said.Kind == api.MessageSystem })
	if len(list) == 0 {
		return w, ErrChat
	}
	w.Newest = list[0].wire(user, w.Chat.String())
	for _, m := range list {
		w.Mentioned = w.Mentioned || slices.Contains(m.said.Mentions, user.String()) || slices.Contains(m.said.Mentions, api.MentionAll)
	}
	return w, nil
}

// Group is the group whose conversation it is, where it is a group's.
func (c ChatRef) Group() (id groups.ID, ok bool) { return c.group, !c.direct() }

// Peer is the other user of a chat of two.
func (c ChatRef) Peer() accounts.ID { return c.peer }
