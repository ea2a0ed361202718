package webhooks

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestBefore_EndsWithinItsLongestTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		cfg := Settings{Secret: "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)),
			Before: Before{URL: "http://app.example.org", Timeout: 10 * time.Second, Concurrency: 1}}
		s, err := New(Config{Settings: cfg, Log: slog.New(slog.DiscardHandler), Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }() // never answers
			return ours, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, asker := range []string{"ann", "bob"} {
			all.Go(func() {
				began := time.Now()
				_, err := s.Before(t.Context(), "before.message", asker, struct{}{}, nil)
				if took, most := time.Since(began), cfg.Before.Longest(); took > most || err != nil && !errors.Is(err, ErrUnavailable) {
					t.Errorf("%s: got %v after %s, want the policy or ErrUnavailable within %s", asker, err, took, most)
				}
			})
		}
		all.Wait()
	})
}

// transport responds with a status.
type transport int

func (s transport) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(s), Body: http.NoBody}, nil
}

func TestSend_StatusDecidesWhetherTheTryCounts(t *testing.T) {
	sign, err := standardwebhooks.NewWebhook("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]string{200: "done", 204: "done", 301: "counts", 400: "counts", 404: "counts", 429: "does not count",
		500: "counts", 501: "counts", 502: "does not count", 503: "does not count", 504: "does not count"} {
		_, err := (&poster{sign, &http.Client{Transport: transport(status), CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}}).send(t.Context(), "http://app.example.org", envelope{ID: "msg_1"})
		got := "counts"
		if err == nil {
			got = "done"
		} else if errors.Is(err, errUnreachable) {
			got = "does not count"
		}
		if got != want {
			t.Errorf("%d: got %q, %v, want %q", status, got, err, want)
		}
	}
}
