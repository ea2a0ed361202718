package messaging

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// overlap is how far back a sync looks beyond its cursor: a commit may become visible
// after one that has a later time.
const overlap = 10 * time.Second

// Chats returns a page of the user's chats, pinned ones first, then by their newest message.
// With since, the sync cursor of an earlier answer, it returns all that have changed, among them
// such as are cleared by now. ErrCursor, ErrStore.
func (s *Service) Chats(ctx context.Context, user accounts.ID, since, cursor string, limit int) (_ api.Chats, err error) {
	defer errs.Wrap(&err, "messaging.Chats %s", user)
	now := s.store.db.Now()
	from, err := parseNumber(since)
	if err != nil {
		return api.Chats{}, err
	}
	skip, err := parseNumber(cursor)
	if err != nil {
		return api.Chats{}, err
	}
	all, err := s.store.views(ctx, s.store.db, user, 0)
	if err != nil {
		return api.Chats{}, asKind(ctx, err)
	}
	out := api.Chats{Chats: []api.Chat{}, Sync: strconv.FormatInt(max(1, now.Add(-overlap).UnixMilli()), 10)}
	for _, v := range all {
		if v.me.muted <= now.UnixMilli() {
			out.Unread += v.me.unread(v.conversation)
		}
	}
	if from > 0 {
		all = slices.DeleteFunc(all, func(v view) bool { return max(v.changed, v.me.changed, v.peerChanged) <= from })
	} else {
		all = slices.DeleteFunc(all, func(v view) bool { return v.seq <= v.me.cleared && v.me.draft == "" && v.me.pinned == 0 })
	}
	slices.SortFunc(all, func(a, b view) int {
		return cmp.Or(cmp.Compare(b.me.pinned, a.me.pinned), cmp.Compare(b.lastAt, a.lastAt), a.id.Compare(b.id))
	})
	all = all[min(int(skip), len(all)):]
	if len(all) > limit {
		all, out.Next = all[:limit], strconv.Itoa(int(skip)+limit)
	}
	chats, err := s.wire(ctx, user, all)
	if err != nil {
		return api.Chats{}, asKind(ctx, err)
	}
	out.Chats = append(out.Chats, chats...)
	return out, nil
}

func parseNumber(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 62)
	if err != nil || n < 0 {
		return 0, ErrCursor
	}
	return n, nil
}

// Chat returns one of the user's chats. ErrChat, ErrStore.
func (s *Service) Chat(ctx context.Context, user, peer accounts.ID) (_ api.Chat, err error) {
	defer errs.Wrap(&err, "messaging.Chat %s", user)
	v, err := s.view(ctx, user, peer)
	if err != nil {
		return api.Chat{}, err
	}
	chats, err := s.wire(ctx, user, []view{v})
	if err != nil {
		return api.Chat{}, asKind(ctx, err)
	}
	return chats[0], nil
}

// wire returns chats with their newest messages and the others' names.
func (s *Service) wire(ctx context.Context, user accounts.ID, list []view) ([]api.Chat, error) {
	places, users := make([]place, 0, len(list)), []accounts.ID{user}
	for _, v := range list {
		users = append(users, v.me.peer)
		if v.seq > v.me.cleared {
			places = append(places, place{v.id, v.seq})
		}
	}
	newest, err := s.store.at(ctx, s.store.db, places)
	if err != nil {
		return nil, err
	}
	hiddenOnes, err := s.store.hiddenAt(ctx, s.store.db, user, places)
	if err != nil {
		return nil, err
	}
	set, err := s.store.settings(ctx, s.store.db, users...)
	if err != nil {
		return nil, err
	}
	who, err := s.people.Profiles(ctx, users)
	if err != nil {
		return nil, err
	}
	out := make([]api.Chat, len(list))
	for i, v := range list {
		p := who[v.me.peer]
		c := api.Chat{Chat: chatWith(v.me.peer), Peer: v.me.peer.String(), Seq: v.seq, Rev: v.rev, Cleared: v.me.cleared, Read: max(v.me.read, v.me.cleared),
			Unread: v.me.unread(v.conversation), Pinned: v.me.pinned != 0, Draft: v.me.draft, At: moment(v.lastAt), PeerGot: v.peerGot,
			PeerGone: p.Deleted, PeerName: p.Name, PeerPhoto: p.Avatar}
		if v.me.muted > s.store.db.Now().UnixMilli() {
			c.Muted = momentOrNil(v.me.muted)
		}
		if set[user].receipts && set[v.me.peer].receipts {
			c.PeerRead = v.peerRead
		}
		if m, there := newest[place{v.id, v.seq}]; there && !hiddenOnes[place{v.id, v.seq}] {
			w := m.wire(user, c.Chat)
			c.Last = &w
		}
		out[i] = c
	}
	return out, nil
}

// Mark moves the user's marks in a chat forward. ErrChat, ErrFuture, ErrStore.
func (s *Service) Mark(ctx context.Context, user, peer accounts.ID, read, delivered int64) (err error) {
	defer errs.Wrap(&err, "messaging.Mark %s", user)
	v, err := s.view(ctx, user, peer)
	if err != nil {
		return err
	}
	delivered = max(delivered, read) // what is read has arrived
	if err := v.bounded(delivered); err != nil {
		return err
	}
	if read <= v.me.read && delivered <= v.me.delivered {
		return nil
	}
	_, err = s.marks.Do(ctx, marking{member{user: user, conv: v.id, peer: peer, read: max(read, v.me.read), delivered: max(delivered, v.me.delivered), changed: s.store.db.Now().UnixMilli()}})
	return asKind(ctx, err)
}

// Set changes what the user has set for a chat, and returns it. ErrChat, ErrStore.
func (s *Service) Set(ctx context.Context, user, peer accounts.ID, to api.ChatChange) (_ api.Chat, err error) {
	defer errs.Wrap(&err, "messaging.Set %s", user)
	return s.set(ctx, user, peer, func(v *view, now int64) {
		switch {
		case to.Pinned == nil:
		case !*to.Pinned:
			v.me.pinned = 0
		case v.me.pinned == 0:
			v.me.pinned = now
		}
		if to.Muted != nil {
			v.me.muted = max(0, to.Muted.UnixMilli())
		}
		if to.Draft != nil {
			v.me.draft = *to.Draft
		}
	})
}

// Clear deletes all messages of a chat for the user, and with them the chat from the list.
// ErrChat, ErrStore.
func (s *Service) Clear(ctx context.Context, user, peer accounts.ID) (err error) {
	defer errs.Wrap(&err, "messaging.Clear %s", user)
	_, err = s.set(ctx, user, peer, func(v *view, _ int64) {
		v.me.cleared, v.me.read, v.me.pinned, v.me.draft = v.seq, v.seq, 0, ""
	})
	return err
}

func (s *Service) set(ctx context.Context, user, peer accounts.ID, fn func(v *view, now int64)) (api.Chat, error) {
	err := s.store.transact(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		v, err := s.locked(ctx, tx, user, peer)
		if err != nil {
			return err
		}
		now := tx.Now().UnixMilli()
		fn(&v, now)
		v.me.changed = now
		return s.store.setMember(ctx, tx, v.me)
	})
	if err != nil {
		return api.Chat{}, asKind(ctx, err)
	}
	c, err := s.Chat(ctx, user, peer)
	if err == nil {
		s.tell(user, api.EventChatUpdated, c)
	}
	return c, err
}

// Typing tells the other that the user is writing, or has stopped. Nothing is stored, and
// where the other would take no message nothing is told. ErrSelf, ErrStore.
func (s *Service) Typing(ctx context.Context, user, peer accounts.ID, typing bool) (err error) {
	defer errs.Wrap(&err, "messaging.Typing %s", user)
	if user == peer {
		return ErrSelf
	}
	if err := s.mayWrite(ctx, user, peer); err != nil {
		if errs.KindOf(err) == errs.Forbidden {
			return nil
		}
		return asKind(ctx, err)
	}
	s.tellFleeting(peer, api.EventChatTyping, api.Typing{Chat: chatWith(user), User: user.String(), Typing: typing})
	return nil
}

// Settings returns how the user wants to be reached.
func (s *Service) Settings(ctx context.Context, user accounts.ID) (_ api.ChatSettings, err error) {
	defer errs.Wrap(&err, "messaging.Settings %s", user)
	set, err := s.store.settings(ctx, s.store.db, user)
	if err != nil {
		return api.ChatSettings{}, asKind(ctx, err)
	}
	out := api.ChatSettings{MessagesFrom: cmp.Or(set[user].from.String(), s.cfg.MessagesFrom), Receipts: set[user].receipts}
	return out, nil
}

// SetSettings changes how the user wants to be reached.
func (s *Service) SetSettings(ctx context.Context, user accounts.ID, to api.ChatSettings) (err error) {
	defer errs.Wrap(&err, "messaging.SetSettings %s", user)
	return asKind(ctx, s.store.setSettings(ctx, user, settings{parsePolicy(to.MessagesFrom), to.Receipts}))
}
