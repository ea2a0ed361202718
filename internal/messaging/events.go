package messaging

import (
	"context"
	"encoding/json"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/events"
)

// event returns an event of what was committed, for all devices of a user.
func (s *Service) event(user accounts.ID, typ string, at time.Time, data any) (events.Event, bool) {
	text, err := json.Marshal(data)
	if err != nil {
		s.log.Error("messaging: an event has no JSON", "type", typ, "err", err)
		return events.Event{}, false
	}
	e := events.New(typ, user.String(), at, text)
	e.Channel = messagesChannel.At(user)
	return e, true
}

func (s *Service) tell(user accounts.ID, typ string, data any) {
	if e, ok := s.event(user, typ, s.store.db.Now(), data); ok {
		s.bus.Publish([]events.Event{e})
	}
}

func (s *Service) tellFleeting(user accounts.ID, typ string, data any) {
	if e, ok := s.event(user, typ, s.store.db.Now(), data); ok {
		e.Fleeting = true
		s.bus.Publish([]events.Event{e})
	}
}

// tellSent tells both sides of the messages of a batch, also of those that were there
// already: the node that stored one may have died before it told anybody.
func (s *Service) tellSent(results []sent) {
	batch := make([]events.Event, 0, 2*len(results))
	for i := range results {
		m := &results[i].message
		if results[i].refusal != nil {
			continue
		}
		for _, side := range [][2]accounts.ID{{m.to, m.from}, {m.from, m.to}} {
			if e, ok := s.event(side[0], api.EventMessageNew, moment(m.at), m.wire(side[0], chatWith(side[1]))); ok {
				batch = append(batch, e)
			}
		}
	}
	s.bus.Publish(batch)
}

// tellChanged tells both sides what a message is by now.
func (s *Service) tellChanged(user, peer accounts.ID, m message) {
	var batch []events.Event
	for _, side := range [][2]accounts.ID{{user, peer}, {peer, user}} {
		if e, ok := s.event(side[0], api.EventMessageChanged, s.store.db.Now(), m.wire(side[0], chatWith(side[1]))); ok {
			batch = append(batch, e)
		}
	}
	s.bus.Publish(batch)
}

// tellMarks tells members' own devices of their marks, and the others where both show them.
func (s *Service) tellMarks(batch []marking) {
	ctx, cancel := context.WithTimeout(s.base, batchTime)
	defer cancel()
	var users []accounts.ID
	for _, in := range batch {
		users = append(users, in.user, in.peer)
	}
	set, err := s.settings.GetMany(ctx, users)
	if err != nil {
		s.log.Warn("messaging: marks are told to nobody else", "err", err)
	}
	var out []events.Event
	add := func(to accounts.ID, mark api.ChatMark) {
		if e, ok := s.event(to, api.EventChatMarked, s.store.db.Now(), mark); ok {
			out = append(out, e)
		}
	}
	for _, in := range batch {
		mark := api.ChatMark{Chat: chatWith(in.peer), User: in.user.String(), Read: in.read, Delivered: in.delivered}
		add(in.user, mark)
		mark.Chat = chatWith(in.user)
		if !set[in.user].Receipts || !set[in.peer].Receipts {
			mark.Read = 0
		}
		if err == nil {
			add(in.peer, mark)
		}
	}
	s.bus.Publish(out)
}
