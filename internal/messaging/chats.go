package messaging

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// clockSkew is the largest delay of the clock of a node that starts. Until its first mark, no other node knows of its
// commits.
const clockSkew = 10 * time.Second

// Chats returns a page of the user's chats: pinned ones first, then by their newest message. With since, the sync
// cursor of an earlier response, it returns all changed chats, also cleared ones, the newest change first. It returns
// ErrCursor if a cursor is invalid, or ErrStore.
func (s *Service) Chats(ctx context.Context, user accounts.ID, since, cursor string, limit int) (_ api.Chats, err error) {
	defer errs.Wrap(&err, "messaging.Chats %s", user)
	mark := time.UnixMilli(s.projection.Agreed()) // read before the list, so that the list has all older changes
	from, err := parseNumber(since)
	if err != nil {
		return api.Chats{}, err
	}
	skip, err := parseNumber(cursor)
	if err != nil {
		return api.Chats{}, err
	}
	list, unread, err := s.list(ctx, user, from, int(min(skip, math.MaxInt32)), limit+1)
	if err != nil {
		return api.Chats{}, asKind(ctx, err)
	}
	out := api.Chats{Sync: strconv.FormatInt(max(1, mark.Add(-clockSkew).UnixMilli()), 10), Unread: unread}
	if len(list) > limit {
		list, out.Next = list[:limit], strconv.FormatInt(skip+int64(limit), 10)
	}
	out.Chats, err = s.wire(ctx, user, list)
	return out, asKind(ctx, err)
}

// list returns a part of a user's chats, and the number of unread messages in all of them. It reads Redis if Redis has
// all chats, else SQL, in the same order.
func (s *Service) list(ctx context.Context, user accounts.ID, since int64, skip, n int) (list []state, unread int64, err error) {
	now := s.sql.db.Now().UnixMilli()
	if s.projection.Up() {
		directChats, groupChats, sum, err := s.redis.list(ctx, user, since, skip+n, now)
		if err == nil {
			groupChats, err = s.addHeads(ctx, groupChats)
		}
		if err == nil && s.projection.Up() { // Redis was trusted all the time
			s.metrics.read(true)
			return sortedPage(append(directChats, groupChats...), since, skip, n), sum + sumUnread(groupChats, now), nil
		}
		s.suspectRedis(ctx, err)
	}
	s.metrics.read(false)
	all, err := s.loader.Do(ctx, user)
	if err != nil {
		return nil, 0, err
	}
	unread = sumUnread(all, now)
	return sortedPage(all, since, skip, n), unread, nil
}

// sumUnread returns the number of unread messages in chats that are not muted.
func sumUnread(list []state, now int64) (unread int64) {
	for _, st := range list {
		if st.me.muted <= now && st.me.gone == 0 {
			unread += st.unread(st.hidden)
		}
	}
	return unread
}

// sortedPage returns a part of chats in the order of the list, or with since the changed ones by their last change. It
// modifies all.
func sortedPage(all []state, since int64, skip, n int) []state {
	order := view.place
	if since > 0 {
		order = view.lastChange
	}
	all = slices.DeleteFunc(all, func(st state) bool { return order(st.view) <= since })
	slices.SortFunc(all, func(a, b state) int {
		return cmp.Or(cmp.Compare(order(b.view), order(a.view)), strings.Compare(b.name(), a.name()))
	})
	all = all[min(skip, len(all)):]
	return all[:min(n, len(all))]
}

// addHeads adds the heads to the user's own parts of groups' chats. It stores in Redis the heads that Redis lacks.
func (s *Service) addHeads(ctx context.Context, own []state) ([]state, error) {
	list := make([]ConversationID, len(own))
	for i, st := range own {
		list[i] = st.id
	}
	found, err := s.redis.heads(ctx, list)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(id ConversationID) bool { return found[id].seq > 0 })
	if len(list) > 0 {
		rows, err := s.sql.conversations(ctx, list)
		if err != nil {
			return nil, err
		}
		heads, err := s.heads(ctx, s.sql.db, rows, nil)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			found[h.id] = h
		}
		if s.projection.Writable() {
			s.suspectRedis(ctx, s.redis.putHeads(ctx, heads))
		}
	}
	out := make([]state, len(own))
	for i, st := range own {
		out[i] = found[st.id].withOwnPart(st)
	}
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

// Chat returns one of the user's chats. It returns ErrChat or ErrStore.
func (s *Service) Chat(ctx context.Context, user accounts.ID, chat ChatRef) (_ api.Chat, err error) {
	defer errs.Wrap(&err, "messaging.Chat %s", user)
	st, err := s.stateOf(ctx, user, chat)
	if err != nil {
		return api.Chat{}, err
	}
	chats, err := s.wire(ctx, user, []state{st})
	if err != nil {
		return api.Chat{}, asKind(ctx, err)
	}
	return chats[0], nil
}

// wire returns a user's chats in the form of the API, with the names of the other users.
func (s *Service) wire(ctx context.Context, user accounts.ID, list []state) ([]api.Chat, error) {
	users := []accounts.ID{user}
	for _, st := range list {
		if st.kind != group {
			users = append(users, st.me.peer)
		}
	}
	set, err := s.settings.GetMany(ctx, users)
	if err != nil {
		return nil, err
	}
	profiles, err := s.people.Profiles(ctx, users)
	if err != nil {
		return nil, err
	}
	var shown []accounts.ID // users whose marks exist and may be visible
	for _, st := range list {
		if st.kind == direct && st.peerGot > 0 && set[user].Receipts && set[st.me.peer].Receipts {
			shown = append(shown, st.me.peer)
		}
	}
	sights := s.sights(ctx, user, shown)
	out := make([]api.Chat, len(list))
	for i, v := range list {
		p := profiles[v.me.peer]
		c := api.Chat{Chat: v.name(), Seq: v.seq, Rev: v.rev, Cleared: v.me.cleared, Read: v.me.mark(),
			Unread: v.unread(v.hidden), Uncounted: v.uncountedFor(v.hidden), Pinned: api.AtOrNil(sqldb.TimeOrZero(v.me.pinned)), Draft: v.me.draft,
			At: api.At(sqldb.Time(v.lastAt)), Version: v.me.version + 1}
		if v.kind == group {
			c.Group, c.GroupName, c.Gone = v.id.String(), v.title, v.me.gone != 0
		} else {
			c.Peer, c.PeerGone, c.PeerName, c.PeerPhoto = v.me.peer.String(), p.Deleted, p.Name, p.Avatar
		}
		if c.Gone { // a user who has left does not see later changes
			c.Seq, c.Rev, c.Unread, c.Uncounted = 0, 0, 0, nil
			c.GroupName, c.At, v.last = "", api.At(sqldb.Time(v.me.gone)), nil
		}
		if v.me.muted > s.sql.db.Now().UnixMilli() {
			c.Muted = api.AtOrNil(sqldb.TimeOrZero(v.me.muted))
		}
		if v.kind == direct { // a sight exists only if both users show receipts
			shown := marks{v.peerRead, v.peerGot}.shown(sights[v.me.peer])
			c.PeerRead, c.PeerGot = shown.read, shown.delivered
		}
		if v.last != nil {
			w := v.last.wire(user, c.Chat)
			c.Last = &w
		}
		out[i] = c
	}
	return out, nil
}

// sightTimeout bounds the wait of a list for the relations to other users.
const sightTimeout = 2 * time.Second

// sights returns what a user may see of other users. It returns nothing if the relations cannot be read, so that a list
// from Redis does not fail with SQL.
func (s *Service) sights(ctx context.Context, user accounts.ID, others []accounts.ID) map[accounts.ID]social.Sight {
	ctx, cancel := context.WithTimeout(ctx, sightTimeout)
	defer cancel()
	sights, err := s.relations.Sights(ctx, user, others)
	if err != nil {
		s.log.Debug("messaging: marks omitted: relations not read", "err", err)
	}
	return sights
}

// sightOfMarks returns what the other user in a chat of two may see of the user's marks. It is empty in a group or
// without receipts.
func (s *Service) sightOfMarks(ctx context.Context, user accounts.ID, chat ChatRef) (social.Sight, error) {
	if !chat.direct() {
		return social.Sight{}, nil
	}
	set, err := s.settings.GetMany(ctx, []accounts.ID{user, chat.peer})
	if err != nil || !set[user].Receipts || !set[chat.peer].Receipts {
		return social.Sight{}, err
	}
	return s.sights(ctx, chat.peer, []accounts.ID{user})[user], nil
}

// Mark moves the user's marks in a chat forward. It returns ErrChat, ErrFuture if a mark is after the newest message,
// or ErrStore.
func (s *Service) Mark(ctx context.Context, user accounts.ID, chat ChatRef, read, delivered int64) (err error) {
	defer errs.Wrap(&err, "messaging.Mark %s", user)
	st, err := s.stateOf(ctx, user, chat)
	if err != nil {
		return err
	}
	delivered = max(delivered, read) // a message that is read was also delivered
	if delivered > st.seq {
		return fmt.Errorf("%d of %d: %w", delivered, st.seq, ErrFuture)
	}
	if read <= st.me.read && delivered <= st.me.delivered {
		return nil
	}
	was, to := marks{st.me.read, st.me.delivered}, marks{max(read, st.me.read), max(delivered, st.me.delivered)}
	sight, err := s.sightOfMarks(ctx, user, chat)
	if err != nil {
		return asKind(ctx, err)
	}
	at := s.sql.db.Now()
	s.projection.Begin(at)
	changed := s.sql.db.Now().UnixMilli() // not before Begin: the sync of another user's list may be between the two
	var marked int64
	if to.shown(sight) != was.shown(sight) {
		marked = changed
	}
	refused, err := s.movedMarks.Do(ctx, marking{member{user: user, conv: st.id, peer: st.me.peer, read: to.read, delivered: to.delivered,
		changed: changed, marked: marked}, st.kind, at, was})
	s.settleUnaccepted(at, err)
	return asKind(ctx, cmp.Or(err, refused))
}

// Set updates the user's settings of a chat and returns the chat. It returns ErrChat or ErrStore.
func (s *Service) Set(ctx context.Context, user accounts.ID, chat ChatRef, to api.ChatChange) (_ api.Chat, err error) {
	defer errs.Wrap(&err, "messaging.Set %s", user)
	return s.set(ctx, user, chat, func(v *view, now int64) {
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

// Clear deletes all messages of a chat for the user, and removes the chat from the user's list. It returns ErrChat or
// ErrStore.
func (s *Service) Clear(ctx context.Context, user accounts.ID, chat ChatRef) (err error) {
	defer errs.Wrap(&err, "messaging.Clear %s", user)
	sight, err := s.sightOfMarks(ctx, user, chat)
	if err != nil {
		return asKind(ctx, err)
	}
	_, err = s.set(ctx, user, chat, func(v *view, now int64) {
		if sight.Contact && v.me.read < v.seq {
			v.me.marked = now
		}
		v.me.cleared, v.me.read, v.me.pinned, v.me.draft = v.seq, v.seq, 0, ""
	})
	return err
}

func (s *Service) set(ctx context.Context, user accounts.ID, chat ChatRef, fn func(v *view, now int64)) (api.Chat, error) {
	var c change
	err := s.transact(ctx, user, chat, &c, func(ctx context.Context, tx *sqldb.Tx) (*step, error) {
		v, err := s.locked(ctx, tx, user, chat)
		if err != nil {
			return nil, err
		}
		c = v.change(user)
		c.ownOnly = true
		now := tx.Now().UnixMilli()
		fn(&v, now)
		v.me.changed = now
		return &step{}, s.sql.setMember(ctx, tx, v.me)
	})
	if err != nil {
		return api.Chat{}, asKind(ctx, err)
	}
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchTimeout) // the event is published even if the caller disconnects
	defer cancel()
	now, err := s.Chat(reading, user, chat)
	if err == nil {
		s.publish(user, api.EventChatUpdated, now)
	}
	return now, asKind(ctx, err)
}

// Typing publishes to the other user that the user is writing, or has stopped. It stores nothing, and publishes nothing
// to a user who accepts no messages from the caller. It returns ErrSelf or ErrStore.
func (s *Service) Typing(ctx context.Context, user accounts.ID, chat ChatRef, typing bool) (err error) {
	defer errs.Wrap(&err, "messaging.Typing %s", user)
	if !chat.direct() {
		return s.typingInGroup(ctx, user, chat.group, typing)
	}
	peer := chat.peer
	if user == peer {
		return ErrSelf
	}
	if err := s.mayWrite(ctx, user, peer, false); err != nil {
		if errs.KindOf(err) == errs.Forbidden {
			return nil
		}
		return asKind(ctx, err)
	}
	s.publishFleeting([]accounts.ID{peer}, api.EventChatTyping, api.Typing{Chat: With(user).String(), User: user.String(), Typing: typing})
	return nil
}

// Settings returns the user's chat settings.
func (s *Service) Settings(ctx context.Context, user accounts.ID) (_ api.ChatSettings, err error) {
	defer errs.Wrap(&err, "messaging.Settings %s", user)
	set, err := s.settings.Get(ctx, user)
	if err != nil {
		return api.ChatSettings{}, asKind(ctx, err)
	}
	return s.wireSettings(set), nil
}

func (s *Service) wireSettings(set settings) api.ChatSettings {
	return api.ChatSettings{MessagesFrom: cmp.Or(set.From.String(), s.cfg.MessagesFrom), Receipts: set.Receipts, Version: set.Version}
}

// SetSettings updates the user's chat settings and returns all of them.
func (s *Service) SetSettings(ctx context.Context, user accounts.ID, u api.ChatSettingsUpdate) (_ api.ChatSettings, err error) {
	defer errs.Wrap(&err, "messaging.SetSettings %s", user)
	var set settings
	err = s.caches.Change(ctx, SettingsChanged.Of(s.caches.Runtime, user), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		set, err = setSettings(ctx, tx, user, u)
		return err
	})
	if err != nil {
		return api.ChatSettings{}, asKind(ctx, err)
	}
	out := s.wireSettings(set)
	s.publish(user, api.EventChatSettings, out)
	return out, nil
}
