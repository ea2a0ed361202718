package accounts

import (
	"context"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// credentialRoutes adds the operations on passwords and addresses to a. None of
// their requests is remembered by its Idempotency-Key, since a hash of a body with a password in it
// would undo what Argon2 is for. A retry is known by its event in the trail.
func (s *Service) credentialRoutes(a *web.API) {
	tags := []string{"accounts"}
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/password", ID: "auth.reset_password", Summary: "Set a password by a mailed code", Tags: tags,
		Description: "Logs all devices out, and lets log-ins be tried again that wrong ones had locked. The address gets a mail.",
		Status:      http.StatusNoContent, Errors: []*errs.Error{ErrSignInOff, emails.ErrInvalid, ErrPassword, ErrPasswordCommon, ErrBusy, codes.ErrWrong, codes.ErrSuspended, ErrStore}}, s.postPassword)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/me/password", ID: "me.change_password", Summary: "Change the password, or set the first one", Tags: tags,
		Description: "Logs all other devices out. The caller's address gets a mail. The first password needs a code to the caller's address with the purpose set_password.",
		NoReplay:    true, Status: http.StatusNoContent, Errors: []*errs.Error{ErrPassword, ErrPasswordCommon, ErrPasswordWrong, codes.ErrWrong, codes.ErrSuspended, ErrLocked, ErrBusy}}, s.putPassword)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/me/codes", ID: "me.codes", Summary: "Ask for a code at the caller's own address", Tags: tags,
		Description: "For an account without a password: to set the first one, or to change the address.",
		Limit:       ratelimit.Limit{Max: 10, Window: time.Hour}, Errors: []*errs.Error{codes.ErrPurpose, codes.ErrTooMany, ErrNoEmail}}, s.postOwnCodes)
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/email/undo", ID: "auth.undo_email", Summary: "Take a change of address back", Tags: tags,
		Description: "By the token of the link that the old address was mailed, for 72 hours. The account has that address again, all devices are logged out, and the password is removed: log in by code.",
		Status:      http.StatusNoContent, Errors: []*errs.Error{ErrUndo, ErrEmailTaken, ErrStore}}, s.postUndo)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/me/email/codes", ID: "me.email_codes", Summary: "Ask for a code at the caller's address to be", Tags: tags,
		Description: "The answer is the same whether the address has an account or not; the mail tells. Only the caller can use the code.",
		// Mails to whomever the caller names.
		Limit: ratelimit.Limit{Max: 10, Window: time.Hour}, Errors: []*errs.Error{emails.ErrInvalid, codes.ErrTooMany}}, s.postEmailCodes)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/me/email", ID: "me.change_email", Summary: "Change the address", Tags: tags,
		Description: "All devices stay logged in. Needs the password, or where there is none a code to the old address with the purpose leave_email. The old address gets a mail with a link that takes the change back for 72 hours.",
		NoReplay:    true, Errors: []*errs.Error{emails.ErrInvalid, ErrPasswordWrong, ErrLocked, ErrBusy, codes.ErrWrong, codes.ErrSuspended, ErrEmailTaken}}, s.putEmail)
}

func (s *Service) postPassword(ctx context.Context, in *web.Body[api.PasswordReset]) (*web.Empty, error) {
	return &web.Empty{}, s.ResetPassword(ctx, Reset{Email: in.Body.Email, Code: in.Body.Code, Password: in.Body.Password, Household: clientnet.From(ctx)})
}

func (s *Service) putPassword(ctx context.Context, caller Caller, in *web.Body[api.PasswordChange]) (*web.Empty, error) {
	return &web.Empty{}, s.ChangePassword(ctx, caller.User, caller.Device, PasswordChange{Event: eventOf(ctx), Current: in.Body.Current, Code: in.Body.Code, Password: in.Body.Password})
}

// eventOf is what the trail calls what a request does.
func eventOf(ctx context.Context) ids.ID[trail.Event] {
	return ids.Of[trail.Event](binary.BigEndian.AppendUint64(nil, web.RequestID(ctx)))
}

func (s *Service) postOwnCodes(ctx context.Context, caller Caller, in *web.Body[api.OwnCodeRequest]) (*web.Body[api.CodeReply], error) {
	life, err := s.RequestOwnCode(ctx, caller.User, in.Body.Purpose, clientnet.From(ctx))
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.CodeReply{ExpiresIn: int(life.Seconds())}), nil
}

func (s *Service) postUndo(ctx context.Context, in *web.Body[api.EmailUndo]) (*web.Empty, error) {
	return &web.Empty{}, s.UndoEmail(ctx, in.Body.Token, clientnet.From(ctx))
}

func (s *Service) postEmailCodes(ctx context.Context, caller Caller, in *web.Body[api.EmailCodeRequest]) (*web.Body[api.CodeReply], error) {
	life, err := s.RequestEmailCode(ctx, caller.User, in.Body.Email, clientnet.From(ctx))
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.CodeReply{ExpiresIn: int(life.Seconds())}), nil
}

func (s *Service) putEmail(ctx context.Context, caller Caller, in *web.Body[api.EmailChange]) (*web.Body[api.User], error) {
	return s.user(s.ChangeEmail(ctx, caller.User, caller.Device, EmailChange{Event: eventOf(ctx), Email: in.Body.Email, Code: in.Body.Code, Password: in.Body.Password, OldCode: in.Body.OldCode}))
}
