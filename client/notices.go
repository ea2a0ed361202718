package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stoa-dev/stoa/api"
)

// Notices returns at most limit of the caller's notices after the cursor, newest first. With a zero limit the server
// chooses the limit. An empty cursor starts at the newest notice.
func (c *Client) Notices(ctx context.Context, cursor string, limit int) (out api.Notices, err error) {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/notices", query: query, out: &out})
	return out, err
}

// NoticeCounts returns the numbers of the caller's unread notices.
func (c *Client) NoticeCounts(ctx context.Context) (out api.NoticeCounts, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/notices/counts", out: &out})
	return out, err
}

// MarkNotices marks all notices up to a number as read.
func (c *Client) MarkNotices(ctx context.Context, upTo int64) (out api.NoticeCounts, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/notices/mark", in: api.NoticeMark{Read: upTo}, out: &out})
	return out, err
}

// ReadNotice marks one notice as read.
func (c *Client) ReadNotice(ctx context.Context, seq int64) (out api.NoticeCounts, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/notices/" + strconv.FormatInt(seq, 10) + "/read", out: &out})
	return out, err
}

// PushKey returns the key for a browser's subscription to pushes.
func (c *Client) PushKey(ctx context.Context) (out api.PushKey, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/push/key", out: &out})
	return out, err
}

// SubscribePush subscribes the calling device to pushes, which are sent while none of the caller's devices is
// connected.
func (c *Client) SubscribePush(ctx context.Context, s api.PushSubscription) (out api.PushStatus, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/push/subscription", in: s, out: &out})
	return out, err
}

// UnsubscribePush ends the subscription of the calling device.
func (c *Client) UnsubscribePush(ctx context.Context) (out api.PushStatus, err error) {
	err = c.do(ctx, call{method: http.MethodDelete, path: "/v1/push/subscription", out: &out})
	return out, err
}

// PushStatus returns the caller's settings of pushes.
func (c *Client) PushStatus(ctx context.Context) (out api.PushStatus, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/push", out: &out})
	return out, err
}

// UpdatePush changes the caller's settings of pushes.
func (c *Client) UpdatePush(ctx context.Context, in api.PushUpdate) (out api.PushStatus, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: "/v1/push", in: in, out: &out})
	return out, err
}
