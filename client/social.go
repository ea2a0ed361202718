package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/api"
)

// AskFriend sends a friend request. If the other user has already sent one to the caller, they become friends at once.
func (c *Client) AskFriend(ctx context.Context, in api.FriendRequestNew) (out api.FriendRequestReply, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/friends/requests", in: in, out: &out})
	return out, err
}

// FriendRequests returns a page of the pending requests to the caller ("in") or of the caller ("out"), after the
// cursor. With a zero limit the server chooses the limit.
func (c *Client) FriendRequests(ctx context.Context, box, cursor string, limit int) (out api.FriendRequests, err error) {
	query := pageOf(cursor, limit)
	query.Set("box", box)
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/friends/requests", query: query, out: &out})
	return out, err
}

// AcceptFriend accepts a request to the caller.
func (c *Client) AcceptFriend(ctx context.Context, request string, in api.FriendRequestAccept) (out api.Friend, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/friends/requests/" + url.PathEscape(request) + "/accept", in: in, out: &out})
	return out, err
}

// RefuseFriend refuses a request to the caller.
func (c *Client) RefuseFriend(ctx context.Context, request string) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/friends/requests/" + url.PathEscape(request) + "/refuse"})
}

// WithdrawFriend withdraws a request of the caller.
func (c *Client) WithdrawFriend(ctx context.Context, request string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/friends/requests/" + url.PathEscape(request)})
}

// UnreadRequests returns the number of requests since the caller last opened the list.
func (c *Client) UnreadRequests(ctx context.Context) (int, error) {
	var out api.Unread
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/friends/requests/unread", out: &out})
	return out.Unread, err
}

// SawRequests records that the caller has opened the list of requests.
func (c *Client) SawRequests(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/friends/requests/unread"})
}

// Friends returns a page of the caller's friends after the cursor. If tag is not empty, it returns only friends with
// this tag. With a zero limit the server chooses the limit.
func (c *Client) Friends(ctx context.Context, tag, cursor string, limit int) (out api.Friends, err error) {
	query := pageOf(cursor, limit)
	if tag != "" {
		query.Set("tag", tag)
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/friends", query: query, out: &out})
	return out, err
}

// Friend returns one of the caller's friends.
func (c *Client) Friend(ctx context.Context, user string) (out api.Friend, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/friends/" + url.PathEscape(user), out: &out})
	return out, err
}

// FriendChanges returns the changes of the caller's list since a version. With a zero limit the server chooses the
// limit.
func (c *Client) FriendChanges(ctx context.Context, since int64, limit int) (out api.FriendChanges, err error) {
	query := pageOf("", limit)
	query.Set("since", strconv.FormatInt(since, 10))
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/friends/changes", query: query, out: &out})
	return out, err
}

// UpdateFriend changes the fields of the caller's friend row that in sets.
func (c *Client) UpdateFriend(ctx context.Context, user string, in api.FriendUpdate) (out api.Friend, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: "/v1/friends/" + url.PathEscape(user), in: in, out: &out})
	return out, err
}

// RemoveFriend ends a friendship for both users.
func (c *Client) RemoveFriend(ctx context.Context, user string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/friends/" + url.PathEscape(user)})
}

// Relations returns the caller's relations to up to 100 users, in the same order.
func (c *Client) Relations(ctx context.Context, users ...string) ([]api.Relation, error) {
	var out api.Relations
	err := c.do(ctx, call{method: http.MethodGet, path: "/v1/relations", query: url.Values{"ids": {strings.Join(users, ",")}}, out: &out})
	return out.Relations, err
}

// Block blocks a user for the caller.
func (c *Client) Block(ctx context.Context, user string) error {
	return c.do(ctx, call{method: http.MethodPut, path: "/v1/blocks/" + url.PathEscape(user)})
}

// Unblock removes a block. Friendships and requests that it ended stay ended.
func (c *Client) Unblock(ctx context.Context, user string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/blocks/" + url.PathEscape(user)})
}

// Blocks returns a page of the users whom the caller blocks, after the cursor. With a zero limit the server chooses the
// limit.
func (c *Client) Blocks(ctx context.Context, cursor string, limit int) (out api.Blocks, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/blocks", query: pageOf(cursor, limit), out: &out})
	return out, err
}

// pageOf returns the query for a page of a list.
func pageOf(cursor string, limit int) url.Values {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return query
}
