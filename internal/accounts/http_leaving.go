package accounts

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

// leavingRoutes adds the deletion of an account to a.
func (s *Service) leavingRoutes(a *web.API) {
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/me/deletion", ID: "me.delete", Summary: "Delete the account",
		Tags:        []string{"accounts"},
		Description: "Logs out all devices and mails a notice. Other users see a deleted user. A log-in before the erasure restores the account.",
		// A stored response contains a hash of the request, which would help to guess the password.
		NoReplay: true, Errors: []*errs.Error{ErrPasswordWrong, ErrLocked, ErrBusy}}, s.postDeletion)
}

func (s *Service) postDeletion(ctx context.Context, caller Caller,
	in *web.Body[*api.AccountDeletion]) (*web.Body[api.AccountDeleted], error) {
	password := ""
	if in.Body != nil {
		password = in.Body.Password
	}
	erased, err := s.Delete(ctx, caller.User, caller.Device, password)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.AccountDeleted{Erased: api.At(erased)}), nil
}
