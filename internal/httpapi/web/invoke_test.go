package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// opened is the request that opened ann's socket.
func opened() *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/socket", nil)
	r.Header.Set("User-Agent", "test")
	return r
}

func invocation(op, body string, in Invocation) Invocation {
	in.Op, in.Opened, in.Body = op, opened(), []byte(body)
	if in.Caller == nil {
		in.Caller = holds("good-ann")
	}
	return in
}

// holds returns the function that authenticates a token.
func holds(token string) func(context.Context) (Caller, error) {
	return func(ctx context.Context) (Caller, error) { return new(tokens).Authenticate(ctx, token) }
}

func TestInvoke_MatchesHTTP(t *testing.T) {
	s := newSite(t)
	get := func(name, limit string) Invocation {
		in := Invocation{Path: map[string]string{"name": name}}
		if limit != "" {
			in.Query = map[string]string{"limit": limit}
		}
		return invocation("thing.get", "", in)
	}
	for _, tc := range []struct {
		name, method, target, body string
		headers                    []string
		in                         Invocation
	}{
		{"read", "GET", "/v1/things/a?limit=3", "", nil, get("a", "3")},
		{"write", "POST", "/v1/public", `{"name":"a","password":"short"}`, nil,
			invocation("thing.public", `{"name":"a","password":"short"}`, Invocation{})},
		{"no body to answer with", "DELETE", "/v1/things/7", "", nil,
			invocation("thing.drop", "", Invocation{Path: map[string]string{"id": "7"}})},
		{"path of another form", "DELETE", "/v1/things/x", "", nil, invocation("thing.drop", "", Invocation{Path: map[string]string{"id": "x"}})},
		{"wrong token", "GET", "/v1/things/a", "", []string{"Authorization", "Bearer hunter2"},
			invocation("thing.get", "", Invocation{Caller: holds("hunter2"), Path: map[string]string{"name": "a"}})},
		{"no JSON", "POST", "/v1/things", `hunter2`, nil, invocation("thing.make", `hunter2`, Invocation{})},
		{"a name twice", "POST", "/v1/things", `{"name":"a","name":"b"}`, nil, invocation("thing.make", `{"name":"a","name":"b"}`, Invocation{})},
		{"not UTF-8", "POST", "/v1/things", "{\"name\":\"\xff\"}", nil, invocation("thing.make", "{\"name\":\"\xff\"}", Invocation{})},
		{"too large", "POST", "/v1/things", `{"name":"` + strings.Repeat("x", 64<<10) + `"}`, nil,
			invocation("thing.make", `{"name":"`+strings.Repeat("x", 64<<10)+`"}`, Invocation{})},
		{"unknown field", "POST", "/v1/things", `{"name":"a","admin":true}`, nil,
			invocation("thing.make", `{"name":"a","admin":true}`, Invocation{})},
		{"no body", "POST", "/v1/things", "", []string{"Content-Type", "application/json"}, invocation("thing.make", "", Invocation{})},
		{"bad key", "POST", "/v1/things", thingBody, []string{"Idempotency-Key", "é"}, invocation("thing.make", thingBody, Invocation{Key: "é"})},
		{"NUL in the query", "GET", "/v1/things/a?limit=%00", "", nil, get("a", "\x00")},
		{"NUL in the path", "GET", "/v1/things/a\x00", "", nil, get("a\x00", "")},
		{"path not UTF-8", "GET", "/v1/things/a\xff", "", nil, get("a\xff", "")},
		{"out of range", "GET", "/v1/things/a?limit=101", "", nil, get("a", "101")},
		{"domain: not found", "GET", "/v1/things/unknown", "", nil, get("unknown", "")},
		{"domain: away", "GET", "/v1/things/away", "", nil, get("away", "")},
		{"domain: an accident", "GET", "/v1/things/broken", "", nil, get("broken", "")},
		{"domain: panic", "GET", "/v1/things/panic", "", nil, get("panic", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, got := s.ask(t, tc.method, tc.target, tc.body, tc.headers...), s.Invoke(t.Context(), tc.in)
			if got.Status != want.Code || string(got.Body) != strings.TrimSuffix(want.Body.String(), "\n") {
				t.Errorf("by the socket %d %s, by HTTP %d %s", got.Status, got.Body, want.Code, want.Body)
			}
			for _, name := range []string{"Cache-Control", "Content-Type", "Retry-After", "Www-Authenticate"} {
				if got, want := got.Header.Get(name), want.Header().Get(name); got != want {
					t.Errorf("%s: %q by the socket, %q by HTTP", name, got, want)
				}
			}
		})
	}
	if got := s.Invoke(t.Context(), invocation("thing.make", thingBody, Invocation{})); got.Status != 201 ||
		!strings.Contains(string(got.Body), `"user":"ann","ip":"192.0.2.1"`) {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
}

func TestInvoke_RefusesOtherFormatsThanJSON(t *testing.T) {
	s := newSite(t)
	type picture struct {
		RawBody []byte `contentType:"image/*"`
	}
	Handle(s.API, Op{Method: "PUT", Path: "/v1/picture", ID: "picture.set"}, func(context.Context, person, *picture) (*struct{}, error) {
		s.runs.Add(1)
		return nil, nil
	})
	HandleStream(s.API, Op{Path: "/v1/listen", ID: "listen"}, func(context.Context, person, *struct{}, Send) error {
		s.runs.Add(1)
		return nil
	})
	for op, status := range map[string]int{"picture.set": 422, "listen": 422, "hunter2": 404, "": 404} {
		got := s.Invoke(t.Context(), invocation(op, "", Invocation{}))
		if got.Status != status || !strings.Contains(string(got.Body), `"code":"operation.`) || strings.Contains(string(got.Body), "hunter2") {
			t.Errorf("%q: got %d %s, want %d", op, got.Status, got.Body, status)
		}
	}
	if s.runs.Load() != 0 {
		t.Error("a handler ran")
	}
}

func TestInvoke_SharesKeysAndLimitsWithHTTP(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rdb, db := redistest.Open(t, "embedded"), sqldbtest.SQLite(t)
		s := newSite(t, func(c *Config) {
			c.DB, c.Limiter, c.Limit = db, ratelimit.New(rdb), ratelimit.Limit{Max: 3, Window: time.Hour}
		})
		first := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		again := s.Invoke(t.Context(), invocation("thing.make", thingBody, Invocation{Key: "k"}))
		if again.Status != 201 || string(again.Body) != strings.TrimSpace(first.Body.String()) ||
			again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("got %d %s, want %s", again.Status, again.Body, first.Body)
		}
		if other := s.Invoke(t.Context(), invocation("thing.make", `{"name":"other"}`, Invocation{Key: "k"})); other.Status != 409 {
			t.Errorf("another body: got %d %s", other.Status, other.Body)
		}
		if s.runs.Load() != 1 {
			t.Errorf("the handler ran %d times", s.runs.Load())
		}
		if over := s.ask(t, "POST", "/v1/things", thingBody); over.Code != 429 {
			t.Errorf("the fourth: got %d", over.Code)
		}
		if over := s.Invoke(t.Context(), invocation("thing.make", thingBody, Invocation{})); over.Status != 429 ||
			over.Header.Get("Retry-After") == "" {
			t.Errorf("the fifth: got %d %v", over.Status, over.Header)
		}
	})
}

func TestInvoke_UnknownOperationsAreLimited(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t, func(c *Config) { c.Limiter = ratelimit.New(redistest.Open(t, "embedded")) })
		opened := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		opened.RemoteAddr = "203.0.113.9:1"
		for i := range unmatched.op.Limit.Max {
			if got := s.Invoke(t.Context(), Invocation{Op: "no.such", Opened: opened}); got.Status != 404 {
				t.Fatalf("try %d: got %d", i, got.Status)
			}
		}
		if over := s.Invoke(t.Context(), Invocation{Op: "no.such", Opened: opened}); over.Status != 429 || over.Header.Get("Retry-After") == "" {
			t.Errorf("one more: got %d %v", over.Status, over.Header)
		}
	})
}

func TestInvoke_DisconnectedCallerIsNoFault(t *testing.T) {
	s := newSite(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := invocation("thing.get", "", Invocation{Path: map[string]string{"name": "a"}})
	in.Caller = func(ctx context.Context) (Caller, error) { return nil, ctx.Err() }
	if got := s.Invoke(ctx, in); got.Status != statusGone {
		t.Errorf("status %d, want %d: %s", got.Status, statusGone, got.Body)
	}
	if log := s.log.String(); strings.Contains(log, "request failed") {
		t.Errorf("the log has a fault: %s", log)
	}
}
