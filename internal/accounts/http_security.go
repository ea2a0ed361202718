package accounts

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

// securityRoutes adds the operations on what happened to the security of an account.
func (s *Service) securityRoutes(a *web.API) {
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me/security", ID: "me.security", Tags: []string{"accounts"},
		Summary:     "What happened to the security of the caller's account, the newest first",
		Description: "Log-ins, failures and locks, changes of password and address, what operators did; kept for 90 days. A failure shows a second or two after it.",
		Errors:      []*errs.Error{trail.ErrCursor}}, s.getSecurity)
}

func (s *Service) getSecurity(ctx context.Context, caller Caller, in *struct {
	Cursor string `query:"cursor" maxLength:"120" doc:"the next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"at most so many"`
}) (*web.Body[api.SecurityEvents], error) {
	list, next, err := trail.Page(ctx, s.db, caller.UserID(), in.Cursor, in.Limit)
	if err != nil {
		return nil, asKind(err)
	}
	wire := func(e trail.Event) api.SecurityEvent {
		return api.SecurityEvent{Kind: string(e.Kind), Time: api.At(e.At), Device: e.Device, From: e.Household, By: e.Actor}
	}
	return web.NewBody(api.SecurityEvents{Events: web.List(list, wire), Next: next}), nil
}
