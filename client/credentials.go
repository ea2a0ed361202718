package client

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
)

// ResetPassword sets a new password with the code that RequestCode mailed, and logs out all devices of the account.
func (c *Client) ResetPassword(ctx context.Context, in api.PasswordReset) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/auth/password", in: in, open: true})
}

// ChangePassword sets the caller's password and logs out the caller's other devices.
func (c *Client) ChangePassword(ctx context.Context, in api.PasswordChange) error {
	return c.do(ctx, call{method: http.MethodPut, path: "/v1/me/password", in: in})
}

// RequestEmailCode requests a code to the caller's new address.
func (c *Client) RequestEmailCode(ctx context.Context, in api.EmailCodeRequest) (out api.CodeReply, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/me/email/codes", in: in, out: &out})
	return out, err
}

// RequestOwnCode requests a code to the caller's own address. [Client.ChangePassword] and [Client.ChangeEmail] need it
// for an account without a password.
func (c *Client) RequestOwnCode(ctx context.Context, in api.OwnCodeRequest) (out api.CodeReply, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/me/codes", in: in, out: &out})
	return out, err
}

// UndoEmail undoes a change of address, and logs out all devices of the account. The token is from the link that was
// mailed to the old address.
func (c *Client) UndoEmail(ctx context.Context, in api.EmailUndo) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/auth/email/undo", in: in, open: true})
}

// ChangeEmail changes the caller's address with the code that RequestEmailCode mailed to it.
func (c *Client) ChangeEmail(ctx context.Context, in api.EmailChange) (out api.User, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/me/email", in: in, out: &out})
	return out, err
}
