package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/stoa-dev/stoa/api"
)

// ofStream returns the path of a resource of a live stream.
func ofStream(stream string, parts ...string) string {
	path := "/v1/streams/" + url.PathEscape(stream)
	for _, p := range parts {
		path += "/" + p
	}
	return path
}

// CreateStream creates a live stream. Only this response has its keys.
func (c *Client) CreateStream(ctx context.Context, in api.StreamNew) (out api.StreamKeyed, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/streams", in: in, out: &out})
	return out, err
}

// MyStreams returns the caller's streams.
func (c *Client) MyStreams(ctx context.Context) (out api.Streams, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/streams", out: &out})
	return out, err
}

// LiveStreams returns a page of the open streams that are live.
func (c *Client) LiveStreams(ctx context.Context, cursor string, limit int) (out api.Streams, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/streams/live", query: pageOf(cursor, limit), out: &out})
	return out, err
}

// Stream returns a stream that the caller may watch.
func (c *Client) Stream(ctx context.Context, stream string) (out api.Stream, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: ofStream(stream), out: &out})
	return out, err
}

// UpdateStream changes a stream's settings.
func (c *Client) UpdateStream(ctx context.Context, stream string, in api.StreamUpdate) (out api.Stream, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: ofStream(stream), in: in, out: &out})
	return out, err
}

// DeleteStream deletes a stream.
func (c *Client) DeleteStream(ctx context.Context, stream string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: ofStream(stream)})
}

// RotateStreamKeys replaces the keys of a stream, and returns the new ones.
func (c *Client) RotateStreamKeys(ctx context.Context, stream string, in api.StreamRotate) (out api.StreamKeys, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: ofStream(stream, "keys"), in: in, out: &out})
	return out, err
}

// StopStream disconnects the publisher of a stream.
func (c *Client) StopStream(ctx context.Context, stream string) error {
	return c.do(ctx, call{method: http.MethodPost, path: ofStream(stream, "stop")})
}

// StreamViewers returns the viewers of the caller's stream.
func (c *Client) StreamViewers(ctx context.Context, stream string) (out api.StreamViewers, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: ofStream(stream, "viewers"), out: &out})
	return out, err
}

// StreamRecordings returns a page of the recordings of the caller's stream.
func (c *Client) StreamRecordings(ctx context.Context, stream, cursor string, limit int) (out api.StreamRecordings, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: ofStream(stream, "recordings"), query: pageOf(cursor, limit), out: &out})
	return out, err
}
