package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoa-dev/stoa/api"
)

// Presence returns whether up to 200 users are on line, as the caller may see it.
func (c *Client) Presence(ctx context.Context, users ...string) (out api.Presences, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/presence", query: url.Values{"users": {strings.Join(users, ",")}}, out: &out})
	return out, err
}

// PresenceAndLastSeen is Presence, and tells when those that are off line were last on line.
func (c *Client) PresenceAndLastSeen(ctx context.Context, users ...string) (out api.Presences, err error) {
	query := url.Values{"users": {strings.Join(users, ",")}, "last_seen": {"true"}}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/presence", query: query, out: &out})
	return out, err
}

// FriendsOnline returns the caller's friends who are on line.
func (c *Client) FriendsOnline(ctx context.Context) (out api.Presences, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/friends/presence", out: &out})
	return out, err
}

// MyPresence returns what the caller is, and wishes to be.
func (c *Client) MyPresence(ctx context.Context) (out api.MyPresence, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/me/presence", out: &out})
	return out, err
}

// SetPresence sets what the caller is while connected: online, away or busy.
func (c *Client) SetPresence(ctx context.Context, status string) (out api.MyPresence, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/me/presence", in: api.PresenceUpdate{Status: status}, out: &out})
	return out, err
}

// Connections returns the caller's connections, of all devices to all nodes.
func (c *Client) Connections(ctx context.Context) (out api.Connections, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/me/connections", out: &out})
	return out, err
}
