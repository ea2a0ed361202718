package web

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/ratelimit"
	"github.com/stoa-dev/stoa/redis/redistest"
)

func TestLimitsCountPerUserAndOperation(t *testing.T) {
	db := redistest.Open(t, "embedded")
	s := newSite(t, func(c *Config) {
		c.Limiter = ratelimit.New(db)
		c.Limit = ratelimit.Limit{Max: 3, Window: time.Minute}
	})
	for i := range 3 {
		w := s.ask(t, "GET", "/v1/things/a", "")
		if got, want := w.Header().Get("RateLimit-Remaining"), fmt.Sprint(2-i); w.Code != 200 || got != want {
			t.Errorf("request %d: got %d with %q remaining, want 200 with %s", i, w.Code, got, want)
		}
		if w.Header().Get("RateLimit-Limit") != "3" || w.Header().Get("RateLimit-Reset") != "60" {
			t.Errorf("request %d: got the headers %v", i, w.Header())
		}
	}
	w := s.ask(t, "GET", "/v1/things/a", "")
	if w.Code != 429 || code(w) != "limit.exceeded" || w.Header().Get("RateLimit-Remaining") != "0" || w.Header().Get("Retry-After") != "60" {
		t.Errorf("request 4: got %d %s %v", w.Code, w.Body, w.Header())
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"other user":      s.ask(t, "GET", "/v1/things/a", "", "Authorization", "Bearer good-bob"),
		"other operation": s.ask(t, "POST", "/v1/things", thingBody),
	} {
		if w.Code >= 400 {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
	}
	redistest.KeysDeclared(t, db, Keys)
}

func TestPublicLimitsCountPerAddress(t *testing.T) {
	db := redistest.Open(t, "embedded")
	s := newSite(t, func(c *Config) {
		c.Limiter = ratelimit.New(db)
		c.TrustProxy = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	for _, tc := range []struct {
		address string
		want    int
	}{
		{"203.0.113.9", 200}, {"203.0.113.9", 200}, {"203.0.113.9", 429}, {"203.0.113.10", 200},
		{"2001:db8::1", 200}, {"2001:db8::2", 200}, {"2001:db8::3", 429}, {"2001:db8:0:1::1", 200}, // one /64 is one subscriber
	} {
		if w := s.ask(t, "POST", "/v1/public", thingBody, "X-Forwarded-For", tc.address, "Authorization", ""); w.Code != tc.want {
			t.Errorf("%s: got %d %s, want %d", tc.address, w.Code, w.Body, tc.want)
		}
	}
	if w := s.ask(t, "GET", "/v1/things/a", ""); w.Header().Get("RateLimit-Limit") != "" {
		t.Errorf("without a default limit, got %v", w.Header())
	}
	redistest.KeysDeclared(t, db, Keys)
}

func TestWithoutALimiterNothingIsLimited(t *testing.T) {
	s := newSite(t)
	for range 5 {
		if w := s.ask(t, "POST", "/v1/public", thingBody); w.Code != 200 || w.Header().Get("RateLimit-Limit") != "" {
			t.Errorf("got %d %v", w.Code, w.Header())
		}
	}
}

func TestWithRedisAwayRequestsAreStillLimited(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	s := newSite(t, func(c *Config) { c.Limiter = ratelimit.New(db) })
	server.Kill()
	var got []int
	for range 3 {
		got = append(got, s.ask(t, "POST", "/v1/public", thingBody).Code)
	}
	if fmt.Sprint(got) != "[200 200 429]" {
		t.Errorf("got %v, want [200 200 429]", got)
	}
}
