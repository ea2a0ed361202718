package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stoa-dev/stoa/api"
)

// Sessions lists the caller's logged-in devices, the last used first.
func (c *Client) Sessions(ctx context.Context) ([]api.Session, error) {
	var out api.Sessions
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/sessions", out: &out})
	return out.Sessions, err
}

// EndSession logs one device out.
func (c *Client) EndSession(ctx context.Context, device string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/sessions/" + url.PathEscape(device)})
}

// EndSessions logs out all the caller's devices, including this one, and deletes the tokens.
func (c *Client) EndSessions(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/sessions", leaves: true})
}

// EndOtherSessions logs out all the caller's devices except this one.
func (c *Client) EndOtherSessions(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/sessions", query: url.Values{"others": {"true"}}})
}

// SecurityEvents lists the security events of the caller's account, newest first. The cursor is the Next of the
// previous page. With a zero limit the server chooses the limit.
func (c *Client) SecurityEvents(ctx context.Context, cursor string, limit int) (out api.SecurityEvents, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/me/security", query: pageOf(cursor, limit), out: &out})
	return out, err
}
