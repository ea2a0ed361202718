package accounts

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

// securityRoutes adds the operations on security events to a.
func (s *Service) securityRoutes(a *web.API) {
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me/security", ID: "me.security", Tags: []string{"accounts"},
		Summary: "List security events, newest first",
		Description: "Log-ins, failures, locks, changes of password and address, and actions of operators, kept for 90 days. Failures appear " +
			"after a second or two.",
		Errors: []*errs.Error{trail.ErrCursor}}, s.getSecurity)
}

func (s *Service) getSecurity(ctx context.Context, caller Caller, in *struct {
	Cursor string `query:"cursor" maxLength:"120" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"maximum number of events"`
}) (*web.Body[api.SecurityEvents], error) {
	list, next, err := trail.Page(ctx, s.db, caller.UserID(), in.Cursor, in.Limit)
	if err != nil {
		return nil, asKind(err)
	}
	wire := func(e trail.Event) api.SecurityEvent {
		return api.SecurityEvent{Kind: string(e.Kind), Time: api.At(e.At), Device: e.Device, From: e.ClientNet, By: e.Actor}
	}
	return web.NewBody(api.SecurityEvents{Events: web.List(list, wire), Next: next}), nil
}
