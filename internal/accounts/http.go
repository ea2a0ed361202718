package accounts

import (
	"context"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/webhooks"
)

// errStrays is returned by any operation for a client network that presents too many unknown tokens.
var errStrays = web.ErrLimit

// Authenticate implements web.Authenticator.
func (s *Service) Authenticate(ctx context.Context, bearer string) (web.Caller, error) {
	c, err := s.Verify(ctx, bearer)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// StillHere implements gateway.Sessions with [Service.Continues].
func (s *Service) StillHere(ctx context.Context, c web.Caller) (web.Caller, error) {
	caller, err := s.Continues(ctx, c.(Caller))
	if err != nil {
		return nil, err
	}
	return caller, nil
}

// UserID implements web.Caller.
func (c Caller) UserID() string { return c.User.String() }

// DeviceID returns the id of the caller's session, for sockets.
func (c Caller) DeviceID() string { return c.Device.String() }

// ExpiresAt returns the expiry of the caller's token, for sockets.
func (c Caller) ExpiresAt() time.Time { return c.Expires }

// AuthErrors lists the errors of [Service.Authenticate], and of operations whose account was deleted in the meantime.
// All operations with a token list them.
var AuthErrors = []*errs.Error{ErrToken, ErrStore, ErrNoUser}

// Routes adds the operations of the domain to a.
func (s *Service) Routes(a *web.API) {
	s.credentialRoutes(a)
	s.leavingRoutes(a)
	tags := []string{"accounts"}
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/codes", ID: "auth.codes", Summary: "Request a verification code",
		Tags:        tags,
		Description: "The response is the same whether or not the address has an account; only the mail differs.",
		Errors:      []*errs.Error{emails.ErrInvalid, codes.ErrPurpose, codes.ErrTooMany, ErrSignInOff, ErrStore}}, s.postCodes)
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/register", ID: "auth.register", Summary: "Open an account", Tags: tags,
		Status: http.StatusCreated,
		Errors: []*errs.Error{emails.ErrInvalid, ErrName, ErrDeviceName, ErrPassword, ErrPasswordCommon, ErrBusy, civil.ErrZone, codes.ErrWrong,
			codes.ErrSuspended, ErrEmailTaken, webhooks.ErrRefused, webhooks.ErrUnavailable, ErrSignInOff, ErrStore}}, s.postRegister)
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/login", ID: "auth.login", Summary: "Log in by password or code",
		Tags: tags,
		Errors: []*errs.Error{emails.ErrInvalid, ErrDeviceName, ErrEither, ErrCredentials, ErrLocked, ErrBusy, codes.ErrSuspended, ErrBanned,
			ErrSignInOff, ErrStore}}, s.postLogin)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/me", ID: "me.get", Summary: "Get the caller's account", Tags: tags}, s.getMe)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/me", ID: "me.update", Summary: "Update the caller's account", Tags: tags,
		Description: "Name, bio, time zone, and who may find, contact and see the caller. A new zone applies from the next midnight in the " +
			"old one.",
		Errors: []*errs.Error{ErrName, ErrBio, civil.ErrZone}}, s.patchMe)
	s.sessionsRoutes(a)
	s.securityRoutes(a)
	s.profileRoutes(a)
	s.avatarRoutes(a)
	s.cardRoutes(a)
}

func (s *Service) postCodes(ctx context.Context, in *web.Body[api.CodeRequest]) (*web.Body[api.CodeReply], error) {
	life, err := s.RequestCode(ctx, in.Body.Email, in.Body.Purpose, clientnet.From(ctx))
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.CodeReply{ExpiresIn: int(life.Seconds())}), nil
}

func (s *Service) postRegister(ctx context.Context, in *web.Body[api.RegisterRequest]) (*web.Body[api.Tokens], error) {
	r := in.Body
	return s.tokens(s.Register(ctx, Registration{
		Email: r.Email, Code: r.Code, Password: r.Password, Name: r.Name, Zone: r.Zone, Device: r.Device, Agent: web.UserAgent(ctx),
		IP: web.ClientIP(ctx),
	}))
}

func (s *Service) postLogin(ctx context.Context, in *web.Body[api.LoginRequest]) (*web.Body[api.Tokens], error) {
	r := in.Body
	return s.tokens(s.Login(ctx, Login{Email: r.Email, Password: r.Password, Code: r.Code, Device: r.Device, Agent: web.UserAgent(ctx),
		IP: web.ClientIP(ctx)}))
}

func (s *Service) getMe(ctx context.Context, caller Caller, _ *web.Empty) (*web.Body[api.User], error) {
	return s.user(s.User(ctx, caller.User))
}

func (s *Service) patchMe(ctx context.Context, caller Caller, in *web.Body[api.UserUpdate]) (*web.Body[api.User], error) {
	return s.user(s.Update(ctx, caller.User, Change{Name: in.Body.Name, Bio: in.Body.Bio, Zone: in.Body.Zone,
		FindByID: in.Body.FindByID, FindByEmail: in.Body.FindByEmail, Requests: in.Body.Requests, OnBoards: in.Body.OnBoards,
		Presence: audience(in.Body.Presence)}))
}

func (s *Service) tokens(t Tokens, err error) (*web.Body[api.Tokens], error) {
	if err != nil {
		return nil, err
	}
	return web.NewBody(s.WireTokens(t)), nil
}

// WireTokens returns tokens in the format of the API.
func (s *Service) WireTokens(t Tokens) api.Tokens {
	now := s.db.Now()
	return api.Tokens{
		AccessToken: t.Access, RefreshToken: t.Refresh, ExpiresIn: int(t.Expires.Sub(now).Round(time.Second).Seconds()),
		User: wireUser(t.User, now), Device: t.Device.String(), Restored: t.Restored,
	}
}

func (s *Service) user(u User, err error) (*web.Body[api.User], error) {
	if err != nil {
		return nil, err
	}
	return web.NewBody(wireUser(u, s.db.Now())), nil
}

func wireUser(u User, now time.Time) api.User {
	w := api.User{ID: u.ID.String(), Email: u.Email, Name: u.Name, Bio: u.Bio, Avatar: u.Avatar, Zone: u.Clock.In(now),
		FindByID: u.FindByID, FindByEmail: u.FindByEmail, Requests: u.Requests, OnBoards: u.OnBoards, Presence: u.Presence.String(),
		HasPassword: u.HasPassword, Created: api.At(u.Created), Version: u.Version}
	if u.Clock.Next != w.Zone {
		w.NextZone = u.Clock.Next
	}
	return w
}
