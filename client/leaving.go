package client

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
)

// DeleteAccount deletes the caller's account and forgets the tokens. Logging in
// before the moment it returns takes that back.
func (c *Client) DeleteAccount(ctx context.Context, in api.AccountDeletion) (out api.AccountDeleted, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/me/deletion", in: in, out: &out, leaves: true})
	return out, err
}
