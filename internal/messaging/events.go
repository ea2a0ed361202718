package messaging

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// event returns an event about a commit, for all devices of a user.
func (s *Service) event(user accounts.ID, typ string, at time.Time, data any) (events.Event, bool) {
	text, ok := events.Encode(s.log, typ, data)
	if !ok {
		return events.Event{}, false
	}
	e := events.New(typ, user.String(), at, text)
	e.Channel = messagesChannel.At(user)
	return e, true
}

func (s *Service) publish(user accounts.ID, typ string, data any) {
	if e, ok := s.event(user, typ, s.sql.db.Now(), data); ok {
		s.bus.Publish([]events.Event{e})
	}
}

func (s *Service) publishFleeting(users []accounts.ID, typ string, data any) {
	batch := make([]events.Event, 0, len(users))
	for _, user := range users {
		if e, ok := s.event(user, typ, s.sql.db.Now(), data); ok {
			e.Fleeting = true
			batch = append(batch, e)
		}
	}
	s.bus.Publish(batch)
}

// maxConcurrentLookups is the largest number of groups whose members are read at once while senders wait. Without Redis
// each is an SQL statement, and other callers need connections too.
const maxConcurrentLookups = 8

// publishSent publishes the messages of a batch to both sides. It also publishes messages that were stored already,
// because the node that stored one may have died before its event.
func (s *Service) publishSent(results []sent) {
	batch := make([]events.Event, 0, 2*len(results))
	byGroup, hasDuplicate := map[ConversationID][]message{}, map[ConversationID]bool{}
	for i := range results {
		m := &results[i].message
		switch {
		case results[i].refusal != nil:
		case m.to.direct():
			batch = append(batch, s.toBoth(api.EventMessageNew, sqldb.Time(m.at), m.from, m.to.peer, *m, nil)...)
		default:
			byGroup[m.conv] = append(byGroup[m.conv], *m)
			hasDuplicate[m.conv] = hasDuplicate[m.conv] || results[i].duplicate
		}
	}
	s.bus.Publish(batch)
	var memberReads errgroup.Group
	memberReads.SetLimit(maxConcurrentLookups)
	for conv, list := range byGroup {
		memberReads.Go(func() error {
			s.publishToGroup(s.base, conv, api.EventMessageNew, hasDuplicate[conv], list...)
			return nil
		})
	}
	_ = memberReads.Wait()
}

// toBoth returns the events of a message for the two users of a chat. A user in unaware does not see the message and
// gets only the chat's progress.
func (s *Service) toBoth(typ string, at time.Time, a, b accounts.ID, m message, unaware []accounts.ID) (batch []events.Event) {
	for _, side := range [][2]accounts.ID{{b, a}, {a, b}} {
		to, chat := side[0], With(side[1]).String()
		e, ok := s.event(to, typ, at, m.wire(to, chat))
		if slices.Contains(unaware, to) {
			e, ok = s.event(to, api.EventChatStands, at, api.ChatStands{Chat: chat, Seq: max(m.seq, m.chatSeq), Rev: m.rev})
		}
		if ok {
			batch = append(batch, e)
		}
	}
	return batch
}

// maxFanOut is the largest group whose members each receive every message.
const maxFanOut = 200

// publishToGroup publishes messages of one group in their order. In a group of more than 200 members, connected members
// get only the chat's progress ([pendingProgress]), and members with the open chat get the messages. old means that
// some messages may be older than a member's membership. Such a member gets the chat's progress instead of a message,
// and the shared channel of the open chat gets no event. In a smaller group the same applies to a changed message that
// a member has deleted for themselves.
func (s *Service) publishToGroup(ctx context.Context, conv ConversationID, typ string, old bool, list ...message) {
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchTimeout)
	defer cancel()
	id := groups.ID(conv)
	reached, minSeq := api.ChatStands{Chat: In(id).String()}, list[0].seq
	for _, m := range list {
		reached.Seq, reached.Rev, minSeq = max(reached.Seq, m.seq, m.chatSeq), max(reached.Rev, m.rev), min(minSeq, m.seq)
	}
	var members []accounts.ID // members who get each message
	if !s.pendingProgress.raise(conv, reached) {
		all, err := s.groups.MemberIDs(ctx, id)
		switch {
		case err != nil: // the message is stored: clients get it when they list messages
			s.log.Warn("messaging: event not published: members not read", "group", id, "err", err)
			return
		case len(all) > maxFanOut:
			s.pendingProgress.add(conv, progress{reached, true})
		default:
			members = all
		}
	}
	var unaware map[accounts.ID]int64
	if old { // read after the members, so that no member has joined in between
		var err error
		if unaware, err = s.unawareMembers(ctx, conv, typ, minSeq, members); err != nil {
			s.log.Warn("messaging: event not published: hidden messages not read", "group", id, "err", err)
			return
		}
	}
	s.bus.Publish(s.groupEvents(id, typ, reached, list, members, unaware))
}

// unawareMembers returns the members who do not see a message, each with the seq of the last unseen one. The message is
// older than the membership, or the member has deleted it for themselves. Without members, one result is enough.
func (s *Service) unawareMembers(ctx context.Context, conv ConversationID, typ string, minSeq int64,
	members []accounts.ID) (map[accounts.ID]int64, error) {
	if len(members) == 0 {
		return s.sql.selectUnaware(ctx, conv, minSeq, 1)
	}
	unaware, err := s.sql.selectUnaware(ctx, conv, minSeq, math.MaxInt32)
	if err != nil || typ != api.EventMessageChanged {
		return unaware, err
	}
	hidden, err := s.sql.selectUnseen(ctx, conv, minSeq, members) // a change concerns one message
	for _, user := range hidden {
		unaware[user] = minSeq
	}
	return unaware, err
}

// groupEvents returns the events of messages of one group, for its channel and for members.
func (s *Service) groupEvents(id groups.ID, typ string, reached api.ChatStands, list []message, members []accounts.ID,
	unaware map[accounts.ID]int64) (batch []events.Event) {
	encoded, ok := events.Encode(s.log, api.EventChatStands, reached)
	if !ok {
		return nil
	}
	for _, m := range list {
		all, ok := events.Encode(s.log, typ, m.wire(accounts.ID{}, reached.Chat))
		if !ok {
			return nil
		}
		// Programs next to the server receive it once.
		open := events.New(typ, "", sqldb.Time(m.at), all)
		open.Fleeting, open.Channel = true, groupChannel.At(id)
		if len(unaware) == 0 {
			open.On = api.GroupChannel(id.String())
		}
		batch = append(batch, open)
		for _, to := range members {
			if cleared, hidden := unaware[to]; hidden && m.seq <= cleared {
				batch = append(batch, events.New(api.EventChatStands, to.String(), s.sql.db.Now(), encoded))
				continue
			}
			text := all
			if to == m.from {
				if text, ok = events.Encode(s.log, typ, m.wire(to, reached.Chat)); !ok {
					continue
				}
			}
			batch = append(batch, events.New(typ, to.String(), sqldb.Time(m.at), text))
		}
	}
	return batch
}

// MaySubscribe returns ErrChat if a user may not receive the messages of a channel, which is api.GroupChannel of a
// group. It returns ErrStore if SQL fails.
func (s *Service) MaySubscribe(ctx context.Context, user, channel string) error {
	id, group, err := subscription(user, channel)
	if err != nil {
		return err
	}
	_, err = s.sql.view(ctx, s.sql.db, id, In(group))
	return asKind(ctx, err)
}

// MayStay is [Service.MaySubscribe] for a user who has subscribed already. It reads the cache of groups, and SQL only
// for users who are not members there, because idle sockets repeat this check.
func (s *Service) MayStay(ctx context.Context, user, channel string) error {
	id, group, err := subscription(user, channel)
	if err != nil {
		return err
	}
	if in, err := s.groups.IsMember(ctx, group, id); err == nil && in {
		return nil
	}
	return s.MaySubscribe(ctx, user, channel)
}

// subscription returns the user and the group of a channel, or ErrChat.
func subscription(user, channel string) (id accounts.ID, group groups.ID, err error) {
	name, ok := strings.CutPrefix(channel, api.GroupChannel(""))
	id, userErr := ids.Parse[accounts.User](user)
	group, groupErr := ids.Parse[groups.Group](name)
	if !ok || userErr != nil || groupErr != nil {
		err = ErrChat
	}
	return id, group, err
}

// publishChanged publishes the present state of a message to all members.
func (s *Service) publishChanged(user accounts.ID, chat ChatRef, m message) {
	if !chat.direct() {
		s.publishToGroup(s.base, m.conv, api.EventMessageChanged, true, m)
		return
	}
	ctx, cancel := context.WithTimeout(s.base, batchTimeout)
	defer cancel()
	both := []accounts.ID{user, chat.peer}
	unaware, err := s.sql.selectUnseen(ctx, m.conv, m.seq, both)
	if err != nil { // clients get the message when they list changes
		s.log.Warn("messaging: change published without the message", "chat", m.conv, "err", err)
		unaware = both
	}
	s.bus.Publish(s.toBoth(api.EventMessageChanged, s.sql.db.Now(), user, chat.peer, m, unaware))
}

// publishMarks publishes marks to the devices of their members. In a chat of two, the other user gets the part that
// this user may see.
func (s *Service) publishMarks(batch []marking) {
	ctx, cancel := context.WithTimeout(s.base, batchTimeout)
	defer cancel()
	var users []accounts.ID
	for _, in := range batch {
		if in.kind == direct {
			users = append(users, in.user, in.peer)
		}
	}
	set, err := s.settings.GetMany(ctx, users)
	var views []social.View
	for _, in := range batch {
		if in.kind == direct && set[in.user].Receipts && set[in.peer].Receipts {
			views = append(views, social.View{Viewer: in.peer, Of: in.user})
		}
	}
	var sights map[social.View]social.Sight
	if err == nil {
		sights, err = s.relations.SightsNow(ctx, views)
	}
	if err != nil {
		s.log.Warn("messaging: marks not published to other users", "users", len(users), "err", err)
	}
	var out []events.Event
	add := func(to accounts.ID, mark api.ChatMark) {
		if e, ok := s.event(to, api.EventChatMarked, s.sql.db.Now(), mark); ok {
			out = append(out, e)
		}
	}
	for _, in := range batch {
		mark := api.ChatMark{Chat: in.chat().String(), User: in.user.String(), Read: in.read, Delivered: in.delivered}
		add(in.user, mark)
		// Readers of a message in a group are listed on request. A sight exists only if both users show receipts.
		sight := sights[social.View{Viewer: in.peer, Of: in.user}]
		shown := marks{in.read, in.delivered}.shown(sight)
		if shown == in.was.shown(sight) { // the event would show that a device is connected
			continue
		}
		mark.Chat, mark.Read, mark.Delivered = With(in.user).String(), shown.read, shown.delivered
		add(in.peer, mark)
	}
	s.bus.Publish(out)
}
