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

// EndSessions logs all the caller's devices out, this one too, and forgets the
// tokens.
func (c *Client) EndSessions(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/sessions", leaves: true})
}

// EndOtherSessions logs all the caller's devices out but this one.
func (c *Client) EndOtherSessions(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/sessions", query: url.Values{"others": {"true"}}})
}

// SecurityEvents lists what happened to the security of the caller's account, the newest
// first. The cursor is Next of the page before; a zero limit leaves it to the server.
func (c *Client) SecurityEvents(ctx context.Context, cursor string, limit int) (out api.SecurityEvents, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/me/security", query: pageOf(cursor, limit), out: &out})
	return out, err
}
