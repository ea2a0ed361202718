package accounts

import (
	"time"

	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// publish sends an event of what was committed to all devices of a user, and to
// subscribers of the user's notifications in Redis. data is a wire type; the types of
// events are in package api.
func (s *Service) publish(typ string, user ID, at time.Time, data any) {
	text, ok := events.Encode(s.log, typ, data)
	if !ok {
		return
	}
	e := events.New(typ, user.String(), at, text)
	e.Channel = notifications.At(user)
	s.bus.Publish([]events.Event{e})
}

// Notifications is the channel in Redis of what users are told beside their chats.
func Notifications(user ID) keyspace.Messages[events.Event] { return notifications.At(user) }
