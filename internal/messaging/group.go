package messaging

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Each group has a conversation with the group's id. Its members are the members of the group, because both change in
// one transaction. A new member sees only later messages, and a former member sees none. System messages report the
// changes of the group.

// namedUsers is the largest number of users that one system message names.
const namedUsers = 100

// groupUpdate is the change that a transaction makes to the conversation of a group.
type groupUpdate struct {
	change   change
	messages []message
}

// Around implements [groups.Follower].
func (s *Service) Around(ctx context.Context, run func(record groups.Record) error) error {
	at := s.sql.db.Now()
	s.projection.Begin(at)
	var attempted, update groupUpdate
	err := run(func(ctx context.Context, tx *sqldb.Tx, c groups.Difference) (err error) {
		attempted, err = s.record(ctx, tx, c)
		result := attempted
		tx.AfterCommit(func() { update = result }) // a transaction that runs again may find nothing to do
		return err
	})
	if err != nil {
		update = attempted
	}
	s.settleGroup(ctx, at, update, err)
	return err
}

// Forget implements [groups.Follower]. The fact that the group is dissolved stays stored, because members' devices may
// not have synchronised yet.
func (s *Service) Forget(ctx context.Context, id groups.ID) error {
	return asKind(ctx, s.sql.deleteMessages(ctx, conversationOf(id)))
}

// settleGroup is [Service.settle] for a change of a group's conversation. It also publishes the system messages to
// members.
func (s *Service) settleGroup(ctx context.Context, at time.Time, update groupUpdate, err error) {
	s.settle(ctx, at, update.change, err)
	if err == nil && len(update.messages) > 0 {
		s.publishToGroup(ctx, update.change.conv, api.EventMessageNew, false, update.messages...)
	}
}

// record applies the change that tx makes to a group to its conversation.
func (s *Service) record(ctx context.Context, tx *sqldb.Tx, in groups.Difference) (update groupUpdate, err error) {
	id := conversationOf(in.Group.ID)
	update.change = change{conv: id, kind: group, users: slices.Concat(in.Joined, in.Left)}
	if in.New {
		if err := s.sql.createGroup(ctx, tx, id); err != nil {
			return update, err
		}
	}
	found, err := s.sql.lock(ctx, tx, []ConversationID{id})
	if err != nil {
		return update, err
	}
	c, ok := found[id]
	if !ok {
		return update, ErrChat
	}
	if in.Group.Dissolved != 0 { // no member sees it now
		if err := s.removeFileReferences(ctx, tx, id); err != nil {
			return update, err
		}
	}
	c.title = in.Group.Name
	now := tx.Now().UnixMilli()
	if err := s.sql.join(ctx, tx, c, in.Joined, now); err != nil {
		return update, err
	}
	if err := s.sql.leave(ctx, tx, id, in.Left, now); err != nil {
		return update, err
	}
	for _, n := range in.Notes {
		users := make([]string, min(len(n.Users), namedUsers))
		for i := range users {
			users[i] = n.Users[i].String()
		}
		update.addSystemMessage(&c, n.By, api.System{Event: n.What, Users: users, Text: n.Text}, now)
	}
	return update, s.sql.storeSystemMessages(ctx, tx, c, update.messages)
}

// addSystemMessage adds a system message to a locked conversation.
func (d *groupUpdate) addSystemMessage(c *conversation, by accounts.ID, event api.System, now int64) {
	c.seq++
	c.lastAt = max(c.lastAt, now)
	c.changed = max(c.changed, c.lastAt)
	c.uncount(c.seq)
	// No client can choose such a client_id.
	m := message{conv: c.id, seq: c.seq, id: ids.New[message](), from: by, clientID: ":" + strconv.FormatInt(c.seq, 10), at: c.lastAt,
		body: messageBody{Content: api.Content{Kind: api.MessageSystem, System: &event}}}
	d.messages = append(d.messages, m)
	d.change.steps = append(d.change.steps, step{message: &m, chatRev: c.rev})
}

// typingInGroup publishes to the other members that the user is writing, or has stopped.
func (s *Service) typingInGroup(ctx context.Context, user accounts.ID, id groups.ID, typing bool) error {
	members, err := s.groups.MemberIDs(ctx, id)
	switch {
	case err != nil:
		return asKind(ctx, err)
	case !slices.Contains(members, user):
		return ErrChat
	}
	event := api.Typing{Chat: In(id).String(), User: user.String(), Typing: typing}
	if len(members) > maxFanOut { // members of a large group do not need to know who is writing
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(members), func(m accounts.ID) bool { return m == user })
	sights := s.sights(ctx, user, others)
	others = slices.DeleteFunc(others, func(m accounts.ID) bool { return !sights[m].Contact })
	s.publishFleeting(others, api.EventChatTyping, event)
	return nil
}

// Readers returns the members who have read a message of the user. It omits members who hide receipts, and members who
// block the user or whom the user blocks. The result is empty if the user hides receipts. It returns ErrLarge in a
// group of more than maxFanOut members. Its other errors are ErrChat, ErrMessage, ErrNotYours and ErrStore.
func (s *Service) Readers(ctx context.Context, user accounts.ID, chat ChatRef, seq int64) (_ api.Readers, err error) {
	defer errs.Wrap(&err, "messaging.Readers %s", user)
	out := api.Readers{Users: []string{}}
	v, m, err := s.messageOf(ctx, user, chat, seq)
	switch {
	case err != nil:
		return out, asKind(ctx, err)
	case m.from != user:
		return out, ErrNotYours
	}
	if !chat.direct() {
		members, err := s.groups.MemberIDs(ctx, chat.group)
		switch {
		case err != nil:
			return out, asKind(ctx, err)
		case len(members) > maxFanOut:
			return out, ErrLarge
		}
	}
	found, err := s.sql.readers(ctx, v.id, user, seq)
	if err != nil {
		return out, asKind(ctx, err)
	}
	set, err := s.settings.GetMany(ctx, append(found, user))
	if err != nil {
		return out, asKind(ctx, err)
	}
	apart, err := s.relations.Apart(ctx, user, found)
	if err != nil {
		return out, asKind(ctx, err)
	}
	for _, u := range found {
		if set[user].Receipts && set[u].Receipts && !apart[u] {
			out.Users = append(out.Users, u.String())
		}
	}
	return out, nil
}

// messageOf returns a message that the user sees, and the user's view of the chat.
func (s *Service) messageOf(ctx context.Context, user accounts.ID, chat ChatRef, seq int64) (view, message, error) {
	v, err := s.sql.view(ctx, s.sql.db, user, chat)
	if err != nil {
		return v, message{}, err
	}
	m, err := s.sql.visibleMessage(ctx, s.sql.db, v, seq)
	return v, m, err
}

// maxPins is the largest number of pinned messages in a group.
const maxPins = 50

// Pin pins a message of a group for all members, or unpins it. Repeating it changes nothing. It returns ErrChat,
// ErrMessage, ErrRecalled, ErrPins, groups.ErrMay or ErrStore.
func (s *Service) Pin(ctx context.Context, user accounts.ID, chat ChatRef, seq int64, on bool) (err error) {
	defer errs.Wrap(&err, "messaging.Pin %s", user)
	if chat.direct() {
		return ErrChat
	}
	var update groupUpdate
	at, err := s.inTurn(ctx, user, chat, func(ctx context.Context, tx *sqldb.Tx) error {
		update = groupUpdate{}
		v, err := s.locked(ctx, tx, user, chat)
		if err != nil {
			return err
		}
		member := groups.MemberKey{Group: chat.group, User: user}
		found, err := groups.Standings(ctx, tx, []groups.MemberKey{member})
		if err != nil {
			return err
		}
		if err := found[member].MayPin(); err != nil {
			return err
		}
		m, err := s.sql.visibleMessage(ctx, tx, v, seq)
		switch {
		case err != nil && on:
			return err
		case on && m.recalled != 0:
			return ErrRecalled
		}
		changed, err := s.sql.setPin(ctx, tx, v.id, seq, user, on)
		if err != nil || !changed {
			return err
		}
		event := api.System{Event: api.SystemPinned, Seq: seq}
		if !on {
			event.Event = api.SystemUnpinned
		}
		update.change = v.change()
		update.addSystemMessage(&v.conversation, user, event, tx.Now().UnixMilli())
		return s.sql.storeSystemMessages(ctx, tx, v.conversation, update.messages)
	})
	s.settleGroup(ctx, at, update, err)
	return asKind(ctx, err)
}

// Pins returns the pinned messages of a group that the user sees, the last pinned one first. It returns ErrChat or
// ErrStore.
func (s *Service) Pins(ctx context.Context, user accounts.ID, chat ChatRef) (_ api.Pins, err error) {
	defer errs.Wrap(&err, "messaging.Pins %s", user)
	out := api.Pins{Messages: []api.Message{}}
	v, err := s.sql.view(ctx, s.sql.db, user, chat)
	if err != nil {
		return out, asKind(ctx, err)
	}
	list, err := s.sql.pins(ctx, user, v.id, v.me.cleared)
	if err != nil {
		return out, asKind(ctx, err)
	}
	places := make([]place, len(list))
	for i, seq := range list {
		places[i] = place{v.id, seq}
	}
	found, err := s.sql.messagesAt(ctx, s.sql.db, places)
	if err != nil {
		return out, asKind(ctx, err)
	}
	for _, p := range places {
		if m, ok := found[p]; ok && m.recalled == 0 {
			out.Messages = append(out.Messages, m.wire(user, chat.String()))
		}
	}
	return out, nil
}
