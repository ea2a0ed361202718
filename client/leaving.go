package client

import (
	"context"
	"net/http"

	"github.com/stoa-dev/stoa/api"
)

// DeleteAccount deletes the caller's account and the client's tokens. A log-in before the returned time cancels the
// deletion.
func (c *Client) DeleteAccount(ctx context.Context, in api.AccountDeletion) (out api.AccountDeleted, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/me/deletion", in: in, out: &out, leaves: true})
	return out, err
}
