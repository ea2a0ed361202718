package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stoa-dev/stoa/api"
)

// Notices returns at most limit (0: the server's choice) of the caller's notices, newest first, from behind
// the cursor on; the empty cursor begins.
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

// NoticeCounts returns how many notices the caller has not read.
func (c *Client) NoticeCounts(ctx context.Context) (out api.NoticeCounts, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/notices/counts", out: &out})
	return out, err
}

// MarkNotices says that all notices up to a number are read.
func (c *Client) MarkNotices(ctx context.Context, upTo int64) (out api.NoticeCounts, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/notices/mark", in: api.NoticeMark{Read: upTo}, out: &out})
	return out, err
}

// ReadNotice says that one notice is read.
func (c *Client) ReadNotice(ctx context.Context, seq int64) (out api.NoticeCounts, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/notices/" + strconv.FormatInt(seq, 10) + "/read", out: &out})
	return out, err
}

// PushKey returns the key with which browsers subscribe to pushes.
func (c *Client) PushKey(ctx context.Context) (out api.PushKey, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/push/key", out: &out})
	return out, err
}

// SubscribePush has what the caller should see pushed to the calling device while none of the caller's is on line.
func (c *Client) SubscribePush(ctx context.Context, s api.PushSubscription) (out api.PushStatus, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/push/subscription", in: s, out: &out})
	return out, err
}

// UnsubscribePush ends that.
func (c *Client) UnsubscribePush(ctx context.Context) (out api.PushStatus, err error) {
	err = c.do(ctx, call{method: http.MethodDelete, path: "/v1/push/subscription", out: &out})
	return out, err
}

// PushStatus returns what is pushed to the caller.
func (c *Client) PushStatus(ctx context.Context) (out api.PushStatus, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/push", out: &out})
	return out, err
}

// UpdatePush changes what is pushed to the caller.
func (c *Client) UpdatePush(ctx context.Context, in api.PushUpdate) (out api.PushStatus, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: "/v1/push", in: in, out: &out})
	return out, err
}
