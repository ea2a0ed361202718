package rooms

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// appendEvent appends an event for all viewers of a room. from is the sender, or zero if there is none. Viewers who
// block the sender do not get the event.
func (s *Service) appendEvent(batch []events.Event, id ID, from ParticipantID, typ string, at time.Time, data any) []events.Event {
	text, ok := events.Encode(s.log, typ, data)
	if !ok {
		return batch
	}
	e := events.New(typ, from.String(), at, text)
	// Clients do not resume a room's channel: after a disconnection they load the scene.
	e.On, e.Fleeting = api.RoomChannel(id.String()), true
	return append(batch, e)
}

// publishEvent publishes an event to all viewers of a room.
func (s *Service) publishEvent(id ID, typ string, data any) {
	s.cfg.Bus.Publish(s.appendEvent(nil, id, ParticipantID{}, typ, s.db.Now(), data))
}

// publish publishes the events of a committed change.
func (s *Service) publish(ctx context.Context, d changeSet) {
	if len(d.events) == 0 {
		return
	}
	var users []accounts.ID
	for _, n := range d.events {
		if m, ok := n.data.(Member); ok {
			users = append(users, accounts.ID(m.User))
		}
	}
	profiles := s.cfg.People.ProfilesOrNone(context.WithoutCancel(ctx), users...)
	var batch []events.Event
	for _, n := range d.events {
		data := n.data
		switch v := data.(type) {
		case Member:
			m := v.wire(d.room, profiles)
			m.Version = d.room.Version
			data = m
		case Room:
			v.Version = d.room.Version
			data = v.wire(s.viewersOf(context.WithoutCancel(ctx), v.ID))
		case api.RoomGone:
			if n.versioned() {
				v.Version = d.room.Version
			}
			data = v
		}
		if n.to.IsZero() {
			batch = s.appendEvent(batch, d.room.ID, ParticipantID{}, n.typ, d.at, data)
			continue
		}
		if text, ok := events.Encode(s.log, n.typ, data); ok {
			batch = append(batch, events.New(n.typ, n.to.String(), d.at, text))
		}
	}
	s.cfg.Bus.Publish(batch)
}

func (m Member) wire(r Room, profiles accounts.Profiles) api.RoomMember {
	w := api.RoomMember{Role: m.Role.String(), May: m.may(r).names(), MutedUntil: api.AtOrNil(sqldb.TimeOrZero(m.MutedUntil)),
		Joined: api.At(sqldb.Time(m.Joined))}
	if m.Role == Guest {
		w.User = api.Profile{ID: m.User.String(), Name: m.Name}
	} else {
		w.User = profiles.Wire(accounts.ID(m.User))
	}
	return w
}

func (m Member) self(r Room) api.RoomSelf {
	return api.RoomSelf{ID: m.User.String(), Role: m.Role.String(), May: m.may(r).names(),
		MutedUntil: api.AtOrNil(sqldb.TimeOrZero(m.MutedUntil))}
}

func (r Room) wire(viewers int) api.Room {
	return api.Room{ID: r.ID.String(), Name: r.Name, Access: r.Access.String(), Password: r.Password, Listed: r.Listed, Guests: r.Guests,
		MemberMay: r.MemberMay.names(), GuestMay: r.GuestMay.names(), Hold: r.Hold, Drift: r.Drift, Jump: r.Jump, Loop: r.Loop.String(),
		Viewers: viewers, Created: api.At(sqldb.Time(r.Created)), Version: r.Version}
}

// place returns a room with a participant's membership, which is nil for one who is not a member.
func (r Room) place(me *Member, viewers int) api.RoomPlace {
	w := api.RoomPlace{Room: r.wire(viewers)}
	if me != nil {
		self := me.self(r)
		w.Me = &self
		if me.may(r)&Configure != 0 {
			w.Room.Words = r.Words
		}
	}
	return w
}

func playbackWire(id ID, s playback.State) api.Playback {
	return api.Playback{Room: id.String(), Generation: s.Generation, Version: s.Version, Item: s.Item, Position: s.Position,
		ServerTime: s.Time,
		Rate:       float64(s.Rate) / playback.Normal, Paused: s.Paused, Held: s.Held}
}

// stateOf returns the register of an event.
func stateOf(p api.Playback) playback.State {
	return playback.State{Generation: p.Generation, Version: p.Version, Item: p.Item, Position: p.Position, Time: p.ServerTime,
		Rate: playback.Thousandths(p.Rate), Paused: p.Paused, Held: p.Held}
}

func (it Item) wire() api.RoomItem {
	return api.RoomItem{ID: it.ID.String(), Kind: it.Kind.String(), Source: it.Source, Title: it.Title, Duration: it.Duration,
		By: it.By.String(), Added: api.At(sqldb.Time(it.Added))}
}
