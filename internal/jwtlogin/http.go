package jwtlogin

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/webhooks"
)

// Routes adds the operation to a.
func (s *Service) Routes(a *web.API) {
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/jwt", ID: "auth.jwt", Tags: []string{"accounts"},
		Summary: "Log in by the app's token",
		Description: "The token is a JSON Web Token that the app's backend or identity provider has signed. A new user gets an account, " +
			"unless the operator has disabled that.",
		Errors: []*errs.Error{ErrOff, ErrToken, ErrUnknown, accounts.ErrExternalID, accounts.ErrDeviceName, accounts.ErrBanned,
			accounts.ErrCredentials, accounts.ErrStore,
			webhooks.ErrRefused, webhooks.ErrUnavailable}}, s.post)
}

func (s *Service) post(ctx context.Context, in *web.Body[api.JWTRequest]) (*web.Body[api.Tokens], error) {
	t, err := s.Exchange(ctx, in.Body.Token, accounts.Login{Device: in.Body.Device, Agent: web.UserAgent(ctx), IP: web.ClientIP(ctx)})
	if err != nil {
		return nil, err
	}
	return web.NewBody(s.cfg.People.WireTokens(t)), nil
}

// Fetcher is the HTTP client for the public keys.
type Fetcher = *http.Client
