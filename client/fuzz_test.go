package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// A server, or a proxy in front of it, may send any text.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{"", ":\n\n", "data: {}\n\n", "id: 1\nevent: x\nretry: 99999999999\ndata: {\"type\":\"checkin.marked\",\n" +
		"data: \"data\":{\"streak\":\"x\"}}\n\n",
		"data\n\n", "data: null\r\n\r\n", "\x00: \xff\n", "data: {\"time\":1}\n\n", "retry: 0\nretry: 1\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		n, silence := 0, time.NewTimer(time.Hour)
		defer silence.Stop()
		s := stream{c: &Client{idle: time.Hour}, first: firstReconnect, l: Listener{Event: func(api.Event) error { n++; return nil }}}
		if err := s.read(context.WithoutCancel(t.Context()), strings.NewReader(body), silence); err == nil {
			t.Error("a stream that ended is no error")
		}
		if n > strings.Count(body, "\n") || s.first <= 0 || s.first > maxReconnect {
			t.Errorf("%q: %d events, wait %s", body, n, s.first)
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(`{"code":"a","detail":"b","errors":[{"location":"c","message":"d"}]}`, "3")
	f.Add("<html>", "Sun, 22 Nov 2026 05:29:15 GMT")
	f.Add("null", "-1")
	f.Fuzz(func(t *testing.T, body, after string) {
		e := refusal(&http.Response{StatusCode: 502, Header: http.Header{"Retry-After": {after}}, Body: io.NopCloser(strings.NewReader(body))},
			time.Unix(1_800_000_000, 0))
		if e.Code == "" || e.RetryAfter < 0 || e.Error() == "" {
			t.Errorf("%q, %q: got %+v", body, after, e)
		}
	})
}
