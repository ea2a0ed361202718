package accounts

import (
	"time"

	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// publish publishes an event of a committed change to all devices of a user, and to the subscribers of the user's
// notifications in Redis. data is a wire type; package api lists the event types.
func (s *Service) publish(typ string, user ID, at time.Time, data any) {
	text, ok := events.Encode(s.log, typ, data)
	if !ok {
		return
	}
	e := events.New(typ, user.String(), at, text)
	e.Channel = notifications.At(user)
	s.bus.Publish([]events.Event{e})
}

// Notifications returns the Redis channel of a user's account events.
func Notifications(user ID) keyspace.Messages[events.Event] { return notifications.At(user) }
