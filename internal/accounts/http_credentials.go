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

// credentialRoutes adds the operations on passwords and addresses to a. None of their requests is stored for its
// Idempotency-Key, because a stored hash of a body with a password would be easier to crack than Argon2. The id of the
// event in the trail identifies a retry.
func (s *Service) credentialRoutes(a *web.API) {
	tags := []string{"accounts"}
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/password", ID: "auth.reset_password",
		Summary: "Reset the password by code", Tags: tags,
		Description: "Logs out all devices, unlocks log-in and mails a notice.",
		Status:      http.StatusNoContent, Errors: []*errs.Error{ErrSignInOff, emails.ErrInvalid, ErrPassword, ErrPasswordCommon, ErrBusy,
			codes.ErrWrong, codes.ErrSuspended, ErrStore}}, s.postPassword)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/me/password", ID: "me.change_password", Summary: "Set the password", Tags: tags,
		Description: "Logs out all other devices and mails a notice. The first password needs a code with the purpose set_password.",
		NoReplay:    true, Status: http.StatusNoContent, Errors: []*errs.Error{ErrPassword, ErrPasswordCommon, ErrPasswordWrong, codes.ErrWrong,
			codes.ErrSuspended, ErrLocked, ErrBusy}}, s.putPassword)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/me/codes", ID: "me.codes", Summary: "Request a code", Tags: tags,
		Description: "The code is mailed to the caller's address. For an account without a password: to set the first one, or to change the " +
			"address.",
		Limit: ratelimit.Limit{Max: 10, Window: time.Hour}, Errors: []*errs.Error{codes.ErrPurpose, codes.ErrTooMany, ErrNoEmail}},
		s.postOwnCodes)
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/auth/email/undo", ID: "auth.undo_email",
		Summary: "Undo a change of address", Tags: tags,
		Description: "Needs the token of the link that was mailed to the old address, valid for 72 hours. It restores that address, logs out " +
			"all devices and removes the password: log in by code.",
		Status: http.StatusNoContent, Errors: []*errs.Error{ErrUndo, ErrEmailTaken, ErrStore}}, s.postUndo)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/me/email/codes", ID: "me.email_codes", Summary: "Request a code for an address",
		Tags: tags,
		Description: "The code is mailed to the new address. The response is the same whether or not the address has an account; only the " +
			"mail differs. Only the caller can use the code.",
		// The caller chooses the recipient of the mail.
		Limit: ratelimit.Limit{Max: 10, Window: time.Hour}, Errors: []*errs.Error{emails.ErrInvalid, codes.ErrTooMany}}, s.postEmailCodes)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/me/email", ID: "me.change_email", Summary: "Change the address", Tags: tags,
		Description: "All devices stay logged in. Needs the password or, without one, a code to the old address with the purpose leave_email. " +
			"The old address gets a mail with a link that undoes the change, valid for 72 hours.",
		NoReplay: true, Errors: []*errs.Error{emails.ErrInvalid, ErrPasswordWrong, ErrLocked, ErrBusy, codes.ErrWrong, codes.ErrSuspended,
			ErrEmailTaken}}, s.putEmail)
}

func (s *Service) postPassword(ctx context.Context, in *web.Body[api.PasswordReset]) (*web.Empty, error) {
	return &web.Empty{}, s.ResetPassword(ctx, Reset{Email: in.Body.Email, Code: in.Body.Code, Password: in.Body.Password,
		ClientNet: clientnet.From(ctx)})
}

func (s *Service) putPassword(ctx context.Context, caller Caller, in *web.Body[api.PasswordChange]) (*web.Empty, error) {
	return &web.Empty{}, s.ChangePassword(ctx, caller.User, caller.Device,
		PasswordChange{Event: eventOf(ctx), Current: in.Body.Current, Code: in.Body.Code, Password: in.Body.Password})
}

// eventOf returns the id in the trail for the change of a request.
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
	return s.user(s.ChangeEmail(ctx, caller.User, caller.Device,
		EmailChange{Event: eventOf(ctx), Email: in.Body.Email, Code: in.Body.Code, Password: in.Body.Password, OldCode: in.Body.OldCode}))
}
