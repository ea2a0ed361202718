package presence

import (
	"context"
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
		Summary: "Get the presence of users",
		Description: "Returns up to 200 users, in the order of the request. The caller sees friends with a visible presence, and themselves. " +
			"All other ids are reported as offline, even if no such user exists.",
		Errors: []*errs.Error{ErrTooMany, ids.ErrMalformed, ErrStore, social.ErrStore, accounts.ErrStore}}, s.getPresence)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/friends/presence", ID: "presence.friends", Tags: tags,
		Summary: "List friends who are online",
		Description: "Friends who are not listed are offline, unless the response is partial. After a partial response, list again when " +
			"presence.complete arrives. Changes arrive as presence.changed: open the socket or event stream before listing.",
		Errors: []*errs.Error{ErrStore, social.ErrStore, accounts.ErrStore}}, s.getOnlineFriends)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me/presence", ID: "presence.mine", Tags: tags,
		Summary: "Get the caller's presence", Errors: []*errs.Error{ErrStore}}, s.getOwn)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/me/presence", ID: "presence.set", Tags: tags,
		Summary: "Set the caller's presence",
		Description: "The status applies while the caller is connected, on all devices, until the caller changes it. To appear offline to all " +
			"users, set `presence` to `nobody` with PATCH /v1/me.",
		Errors: []*errs.Error{ErrWish, ErrStore}}, s.putOwn)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me/connections", ID: "presence.connections", Tags: tags,
		Summary:     "List the caller's connections",
		Description: "Returns the connections of all devices to all nodes, oldest first. A closed connection may stay listed for some seconds.",
		Errors:      []*errs.Error{ErrStore}}, s.getConnections)
}

type presenceInput struct {
	Users    []accounts.ID `query:"users" required:"true" minItems:"1" maxItems:"200" doc:"ids, separated by commas"`
	LastSeen bool          `query:"last_seen" doc:"also return when offline users were last online"`
}

func (s *Service) getPresence(ctx context.Context, caller accounts.Caller, in *presenceInput) (*web.Body[api.Presences], error) {
	return wireList(s.Get(ctx, caller.User, in.Users, in.LastSeen))
}

func (s *Service) getOnlineFriends(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.Presences], error) {
	return wireList(s.OnlineFriends(ctx, caller.User))
}

func wireList(statuses []UserStatus, partial bool, err error) (*web.Body[api.Presences], error) {
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.Presences{Users: web.List(statuses, UserStatus.wire), Partial: partial}), nil
}

func (s *Service) getOwn(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.MyPresence], error) {
	now, wish, partial, err := s.Own(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.MyPresence{Status: now.String(), Wish: wish.String(), Partial: partial}), nil
}

func (s *Service) putOwn(ctx context.Context, caller accounts.Caller, in *web.Body[api.PresenceUpdate]) (*web.Body[api.MyPresence], error) {
	to, err := parseWish(in.Body.Status)
	if err != nil {
		return nil, err
	}
	if err := s.SetWish(ctx, caller.User, to); err != nil {
		return nil, err
	}
	return s.getOwn(ctx, caller, nil)
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
