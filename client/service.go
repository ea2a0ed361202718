package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stoa-dev/stoa/api"
)

// External identifies a user by the app's own id, for [Client.As] and the operations of a service key.
func External(id string) string { return "external:" + id }

// As returns a client with the same service key that calls in the name of a user: an id, or [External]. It may call the
// operations of chats, groups, friends and check-in.
func (c *Client) As(user string) *Client {
	return &Client{base: c.base, http: c.http, timeout: c.timeout, wait: c.wait, idle: c.idle, reconnect: c.reconnect,
		refreshing: make(chan struct{}, 1), as: user, tokens: c.Tokens()}
}

func servicePath(user, rest string) string {
	return "/v1/service/users/" + url.PathEscape(user) + rest
}

// ProvideUsers creates accounts for at most 500 users of the app. It returns the accounts of all of them, in the same
// order. Existing accounts are not changed.
func (c *Client) ProvideUsers(ctx context.Context, users ...api.ExternalUser) ([]api.ServiceUser, error) {
	var out api.ServiceUsers
	err := c.do(ctx, call{method: http.MethodPost, path: "/v1/service/users", in: api.ExternalUsers{Users: users}, out: &out})
	return out.Users, err
}

// ServiceUser returns a user in the form for a service key.
func (c *Client) ServiceUser(ctx context.Context, user string) (out api.ServiceUser, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: servicePath(user, ""), out: &out})
	return out, err
}

// ChangeUser changes a user with a service key.
func (c *Client) ChangeUser(ctx context.Context, user string, in api.ServiceUserUpdate) (out api.ServiceUser, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: servicePath(user, ""), in: in, out: &out})
	return out, err
}

// DeleteUser deletes a user's account with a service key. It is erased after the grace period.
func (c *Client) DeleteUser(ctx context.Context, user string) (out api.AccountDeleted, err error) {
	err = c.do(ctx, call{method: http.MethodDelete, path: servicePath(user, ""), out: &out})
	return out, err
}

// EraseUser is DeleteUser without the grace period.
func (c *Client) EraseUser(ctx context.Context, user string) (out api.AccountDeleted, err error) {
	err = c.do(ctx, call{method: http.MethodDelete, path: servicePath(user, ""), query: url.Values{"now": {"true"}}, out: &out})
	return out, err
}

// BanUser bans a user with a service key.
func (c *Client) BanUser(ctx context.Context, user string, in api.ServiceBan) error {
	return c.do(ctx, call{method: http.MethodPut, path: servicePath(user, "/ban"), in: in})
}

// UnbanUser lifts a ban with a service key.
func (c *Client) UnbanUser(ctx context.Context, user string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: servicePath(user, "/ban")})
}

// LogOutUser logs out all devices of a user with a service key.
func (c *Client) LogOutUser(ctx context.Context, user string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: servicePath(user, "/sessions")})
}

// IssueTokens logs in a device of a user with a service key. The tokens belong to this device.
func (c *Client) IssueTokens(ctx context.Context, user string, in api.ServiceTokens) (out api.Tokens, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: servicePath(user, "/tokens"), in: in, out: &out})
	return out, err
}

// Post sends a message with a service key.
func (c *Client) Post(ctx context.Context, in api.ServiceMessage) (out api.Sent, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/service/messages", in: in, out: &out})
	return out, err
}

// MakeGroup creates a group with a service key.
func (c *Client) MakeGroup(ctx context.Context, in api.ServiceGroup) (out api.Group, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/service/groups", in: in, out: &out})
	return out, err
}

// AddMembers adds users to a group with a service key.
func (c *Client) AddMembers(ctx context.Context, group string, in api.ServiceMembers) (out api.ServiceJoined, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/service/groups/" + url.PathEscape(group) + "/members", in: in, out: &out})
	return out, err
}

// TakeOut removes a member from a group with a service key.
func (c *Client) TakeOut(ctx context.Context, group, user string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/service/groups/" + url.PathEscape(group) + "/members/" + url.PathEscape(user)})
}

// LoginByJWT exchanges a token of the app for the tokens of this device, and logs the client in.
func (c *Client) LoginByJWT(ctx context.Context, in api.JWTRequest) (out api.Tokens, err error) {
	if err = c.do(ctx, call{method: http.MethodPost, path: "/v1/auth/jwt", in: in, out: &out, open: true}); err == nil {
		c.setTokens(out)
	}
	return out, err
}
