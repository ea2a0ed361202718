package presence

import (
	"context"
	"fmt"
	"net/http"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/social"
)

// Routes adds the domain's operations to a.
func (s *Service) Routes(a *web.API) {
	tags := []string{"presence"}
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/presence", ID: "presence.get", Tags: tags,
		Summary:     "Get the presence of users",
		Description: "For up to 200 users. In the order asked for. The caller sees friends who let themselves be seen, and themselves; all others look off line, whether they exist or not.",
		Errors:      []*errs.Error{ErrTooMany, ids.ErrMalformed, ErrStore, social.ErrStore, accounts.ErrStore}}, s.getPresence)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/friends/presence", ID: "presence.friends", Tags: tags,
		Summary:     "List friends who are online",
		Description: "Friends who are not listed are off line, unless the answer is partial: then ask again after presence.complete. Changes come as presence.changed: open the socket or stream first, then ask.",
		Errors:      []*errs.Error{ErrStore, social.ErrStore, accounts.ErrStore}}, s.getFriends)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me/presence", ID: "presence.mine", Tags: tags,
		Summary: "Get the caller's presence", Errors: []*errs.Error{ErrStore}}, s.getMine)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/me/presence", ID: "presence.set", Tags: tags,
		Summary:     "Set the caller's presence",
		Description: "The status applies while the caller is connected. The wish holds for all devices, until it is changed. To look off line to everybody, set `presence` to `nobody` with PATCH /v1/me.",
		Errors:      []*errs.Error{ErrWish, ErrStore}}, s.putMine)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me/connections", ID: "presence.connections", Tags: tags,
		Summary:     "List the caller's connections",
		Description: "Connections of all devices to all nodes, oldest first. One that has just closed may be listed for some seconds.",
		Errors:      []*errs.Error{ErrStore}}, s.getConnections)
}

type presenceInput struct {
	Users    []string `query:"users" required:"true" minItems:"1" maxItems:"200" doc:"ids, with commas between"`
	LastSeen bool     `query:"last_seen" doc:"tell also when those who are off line were last on line"`
}

func (s *Service) getPresence(ctx context.Context, caller accounts.Caller, in *presenceInput) (*web.Body[api.Presences], error) {
	users := make([]accounts.ID, len(in.Users))
	for i, text := range in.Users {
		var err error
		if users[i], err = ids.Parse[accounts.User](text); err != nil {
			return nil, ids.ErrMalformed.On(fmt.Sprintf("query.users[%d]", i), "is not an identifier")
		}
	}
	return wire(s.Of(ctx, caller.User, users, in.LastSeen))
}

func (s *Service) getFriends(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.Presences], error) {
	return wire(s.FriendsOnline(ctx, caller.User))
}

func wire(found []Seen, partial bool, err error) (*web.Body[api.Presences], error) {
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.Presences{Users: web.List(found, Seen.wire), Partial: partial}), nil
}

func (s *Service) getMine(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.MyPresence], error) {
	now, wish, partial, err := s.Mine(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.MyPresence{Status: now.String(), Wish: wish.String(), Partial: partial}), nil
}

func (s *Service) putMine(ctx context.Context, caller accounts.Caller, in *web.Body[api.PresenceUpdate]) (*web.Body[api.MyPresence], error) {
	to, err := parseWish(in.Body.Status)
	if err != nil {
		return nil, err
	}
	if err := s.SetWish(ctx, caller.User, to); err != nil {
		return nil, err
	}
	return s.getMine(ctx, caller, nil)
}

func (s *Service) getConnections(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.Connections], error) {
	found, partial, err := s.Connections(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	wire := func(c Connection) api.Connection {
		return api.Connection{Device: c.Device.String(), Kind: c.Kind.String(), Node: c.Node.String(), Since: api.At(c.Since)}
	}
	return web.NewBody(api.Connections{Connections: web.List(found, wire), Partial: partial}), nil
}
