package client

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
)

// ResetPassword sets the password of whoever has the code that RequestCode had
// mailed, and logs all the account's devices out.
func (c *Client) ResetPassword(ctx context.Context, in api.PasswordReset) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/auth/password", in: in, open: true})
}

// ChangePassword sets the caller's password and logs the caller's other devices
// out.
func (c *Client) ChangePassword(ctx context.Context, in api.PasswordChange) error {
	return c.do(ctx, call{method: http.MethodPut, path: "/v1/me/password", in: in})
}

// RequestEmailCode has a code mailed to the address that is to be the caller's.
func (c *Client) RequestEmailCode(ctx context.Context, in api.EmailCodeRequest) (out api.CodeReply, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/me/email/codes", in: in, out: &out})
	return out, err
}

// RequestOwnCode has a code mailed to the caller's own address, for [Client.ChangePassword]
// or [Client.ChangeEmail] of an account without a password.
func (c *Client) RequestOwnCode(ctx context.Context, in api.OwnCodeRequest) (out api.CodeReply, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/me/codes", in: in, out: &out})
	return out, err
}

// UndoEmail takes a change of address back by the token of the link that the old address
// was mailed, and logs all the account's devices out.
func (c *Client) UndoEmail(ctx context.Context, in api.EmailUndo) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/auth/email/undo", in: in, open: true})
}

// ChangeEmail changes the caller's address with the code that RequestEmailCode
// had mailed to it.
func (c *Client) ChangeEmail(ctx context.Context, in api.EmailChange) (out api.User, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/me/email", in: in, out: &out})
	return out, err
}
