package wholeserver

import (
	"net/http"
	"testing"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestLimits_OfOperations(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := testkit.Start(t, func(cfg *app.Config) { cfg.Limits = true })
		ann, bob := s.SignUp(t, "UTC"), s.SignUp(t, "UTC")
		for _, c := range []struct {
			method, path, body string
			most, otherwise    int // requests per user, and the status of the others
		}{
			{"POST", "/v1/friends/requests", "{}", 60, http.StatusUnprocessableEntity},
			{"GET", "/v1/rooms?q=film", "", 120, http.StatusOK},
		} {
			for n := range c.most {
				if got, _, _ := s.Call(t, ann, c.method, c.path, c.body); got != c.otherwise {
					t.Fatalf("%s: call %d got %d, want %d", c.path, n+1, got, c.otherwise)
				}
			}
			if got, _, _ := s.Call(t, ann, c.method, c.path, c.body); got != http.StatusTooManyRequests {
				t.Errorf("%s: one more got %d, want 429", c.path, got)
			}
			if got, _, _ := s.Call(t, bob, c.method, c.path, c.body); got != c.otherwise {
				t.Errorf("%s: another user got %d, want %d", c.path, got, c.otherwise)
			}
		}
		for part := range 200 { // an export of 100,000 messages is not limited
			if _, err := bob.ExportChats(t.Context(), ""); err != nil {
				t.Fatalf("part %d of an export: %v", part, err)
			}
		}
	})
}
