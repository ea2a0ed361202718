package accounts

import (
	"context"
	"errors"
	"net/http"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

// sessionsRoutes adds the operations on tokens and devices.
func (s *Service) sessionsRoutes(a *web.API) {
	tags := []string{"accounts"}
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/refresh", ID: "auth.refresh", Summary: "Refresh the tokens",
		Tags:        tags,
		Description: "Within ten seconds the same token returns the same pair; later it logs the device out.",
		Errors:      []*errs.Error{ErrRefresh, ErrReused, ErrBanned, ErrStore}}, s.postRefresh)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/logout", ID: "auth.logout", Summary: "Log this device out", Tags: tags,
		Status: http.StatusNoContent}, s.postLogout)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/sessions", ID: "sessions.list", Summary: "List devices, last used first",
		Tags: tags}, s.getSessions)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/sessions/{device}", ID: "sessions.revoke", Summary: "Log one device out",
		Tags:   tags,
		Status: http.StatusNoContent, Errors: []*errs.Error{ErrNoSession}}, s.deleteSession)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/sessions", ID: "sessions.revoke_all", Summary: "Log out all or other devices",
		Tags:   tags,
		Status: http.StatusNoContent}, s.deleteAllSessions)
}

func (s *Service) postRefresh(ctx context.Context, in *web.Body[api.RefreshRequest]) (*web.Body[api.Tokens], error) {
	return s.tokens(s.Refresh(ctx, in.Body.RefreshToken))
}

func (s *Service) postLogout(ctx context.Context, caller Caller, _ *web.Empty) (*web.Empty, error) {
	err := s.Revoke(ctx, caller.User, caller.Device)
	if errors.Is(err, ErrNoSession) { // another request has already ended the session
		err = nil
	}
	return &web.Empty{}, err
}

func (s *Service) getSessions(ctx context.Context, caller Caller, _ *web.Empty) (*web.Body[api.Sessions], error) {
	list, err := s.Sessions(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	out := api.Sessions{Sessions: make([]api.Session, 0, len(list))}
	for _, l := range list {
		w := wireSession(l)
		w.Current = l.Device == caller.Device
		out.Sessions = append(out.Sessions, w)
	}
	return web.NewBody(out), nil
}

func (s *Service) deleteSession(ctx context.Context, caller Caller, in *struct {
	Device DeviceID `path:"device" unknown:"session.unknown" doc:"the device's id"`
}) (*web.Empty, error) {
	return &web.Empty{}, s.Revoke(ctx, caller.User, in.Device)
}

func (s *Service) deleteAllSessions(ctx context.Context, caller Caller, in *struct {
	Others bool `query:"others" doc:"this device stays logged in"`
}) (*web.Empty, error) {
	var spared DeviceID
	if in.Others {
		spared = caller.Device
	}
	return &web.Empty{}, s.RevokeAll(ctx, caller.User, spared)
}

func wireSession(d Session) api.Session {
	return api.Session{Device: d.Device.String(), Name: d.Name, Agent: d.Agent, IP: d.IP, Created: api.At(d.Created), Used: api.At(d.Used)}
}
