package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/stoa-dev/stoa/api"
)

// Presence returns the presence of up to 200 users, as far as the caller may see it.
func (c *Client) Presence(ctx context.Context, users ...string) (out api.Presences, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/presence", query: url.Values{"users": {strings.Join(users, ",")}}, out: &out})
	return out, err
}

// PresenceAndLastSeen is Presence with the last connection of users who are offline.
func (c *Client) PresenceAndLastSeen(ctx context.Context, users ...string) (out api.Presences, err error) {
	query := url.Values{"users": {strings.Join(users, ",")}, "last_seen": {"true"}}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/presence", query: query, out: &out})
	return out, err
}

// FriendsOnline returns the caller's friends who are online.
func (c *Client) FriendsOnline(ctx context.Context) (out api.Presences, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/friends/presence", out: &out})
	return out, err
}

// MyPresence returns the caller's presence and wish.
func (c *Client) MyPresence(ctx context.Context) (out api.MyPresence, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/me/presence", out: &out})
	return out, err
}

// SetPresence sets the caller's state while connected: online, away or busy.
func (c *Client) SetPresence(ctx context.Context, status string) (out api.MyPresence, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/me/presence", in: api.PresenceUpdate{Status: status}, out: &out})
	return out, err
}

// Connections returns the connections of all the caller's devices to all nodes.
func (c *Client) Connections(ctx context.Context) (out api.Connections, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/me/connections", out: &out})
	return out, err
}
