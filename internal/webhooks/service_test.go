package webhooks

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

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
