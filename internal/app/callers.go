package app

import (
	"context"
	"strings"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/live"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/presence"
	"github.com/stoa-dev/stoa/internal/realtime/gateway"
	"github.com/stoa-dev/stoa/internal/rooms"
	"github.com/stoa-dev/stoa/internal/servicekeys"
)

// callers authenticates all callers. Users are recorded as active. Only the operations of rooms accept guests, and only
// the media operations of live streams accept bearers of a stream's key.
type callers struct {
	users  gateway.Sessions
	keys   *servicekeys.Service
	guests *rooms.Service
	live   *live.Service
	seen   func(accounts.ID)
}

func (a *App) callers() callers {
	return callers{a.accounts, a.keys, a.rooms, a.live, a.activity.RecordActive}
}

// Authenticate implements [web.Authenticator].
func (c callers) Authenticate(ctx context.Context, bearer string) (web.Caller, error) {
	switch {
	case strings.HasPrefix(bearer, rooms.GuestPrefix):
		return orNobody(c.guests.Verify(ctx, bearer))
	case strings.HasPrefix(bearer, live.Prefix):
		return orNobody(c.live.Verify(ctx, bearer))
	case strings.HasPrefix(bearer, servicekeys.Prefix):
		return orNobody(c.keys.Authenticate(ctx, bearer))
	}
	return c.noted(c.users.Authenticate(ctx, bearer))
}

// StillHere implements [gateway.Sessions].
func (c callers) StillHere(ctx context.Context, who web.Caller) (web.Caller, error) {
	if guest, ok := who.(rooms.GuestCaller); ok {
		return orNobody(c.guests.Continues(ctx, guest))
	}
	return c.noted(c.users.StillHere(ctx, who))
}

// orNobody returns the caller, or a nil caller after an error.
func orNobody[C web.Caller](who C, err error) (web.Caller, error) {
	if err != nil {
		return nil, err
	}
	return who, nil
}

func (c callers) noted(who web.Caller, err error) (web.Caller, error) {
	if caller, ok := who.(accounts.Caller); ok && err == nil {
		c.seen(caller.User)
	}
	return who, err
}

// sockets passes connections of users to presence. Guests have no presence.
type sockets struct{ *presence.Watch }

func (a *App) sockets() sockets { return sockets{a.presence.Watch(presence.Socket)} }

// Opened implements [gateway.Watch]. The device of a guest is the guest.
func (s sockets) Opened(user, device, connection string) {
	if user != device {
		s.Watch.Opened(user, device, connection)
	}
}

// channels checks subscriptions to the chats of groups and to rooms.
type channels struct {
	chats *messaging.Service
	rooms *rooms.Service
}

func (a *App) channels() channels { return channels{a.messages, a.rooms} }

// MaySubscribe implements [gateway.Channels].
func (c channels) MaySubscribe(ctx context.Context, user, channel string) error {
	if rooms.Owns(channel) {
		return c.rooms.MaySubscribe(ctx, user, channel)
	}
	return c.chats.MaySubscribe(ctx, user, channel)
}

// MayStay implements [gateway.Channels]. Rooms always check with their cached copies.
func (c channels) MayStay(ctx context.Context, user, channel string) error {
	if rooms.Owns(channel) {
		return c.rooms.MaySubscribe(ctx, user, channel)
	}
	return c.chats.MayStay(ctx, user, channel)
}

// Hidden implements [gateway.Channels]. A group's chat hides no users.
func (c channels) Hidden(ctx context.Context, user, channel string) ([]string, error) {
	if rooms.Owns(channel) {
		return c.rooms.Hidden(ctx, user, channel)
	}
	return nil, nil
}

// Subscribed implements [gateway.Channels].
func (c channels) Subscribed(user, connection, channel string) {
	c.rooms.Subscribed(user, connection, channel)
}

// Unsubscribed implements [gateway.Channels].
func (c channels) Unsubscribed(user, connection, channel string) {
	c.rooms.Unsubscribed(user, connection, channel)
}
