package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestLimit_CountsPerUserAndOperation(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
	})
}

func TestLimit_PublicCountsPerNetwork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
			{"2001:db8::1", 200}, {"2001:db8::2", 200}, {"2001:db8::3", 429}, {"2001:db8:0:1::1", 200}, // one /64 is one client network
		} {
			if w := s.ask(t, "POST", "/v1/public", thingBody, "X-Forwarded-For", tc.address, "Authorization", ""); w.Code != tc.want {
				t.Errorf("%s: got %d %s, want %d", tc.address, w.Code, w.Body, tc.want)
			}
		}
		if w := s.ask(t, "GET", "/v1/things/a", ""); w.Header().Get("RateLimit-Limit") != "" {
			t.Errorf("without a default limit, got %v", w.Header())
		}
		redistest.KeysDeclared(t, db, Keys)
	})
}

func TestLimit_NoneWithoutLimiter(t *testing.T) {
	s := newSite(t)
	for range 5 {
		if w := s.ask(t, "POST", "/v1/public", thingBody); w.Code != 200 || w.Header().Get("RateLimit-Limit") != "" {
			t.Errorf("got %d %v", w.Code, w.Header())
		}
	}
}

func TestLimit_HoldsWithoutRedis(t *testing.T) {
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

// Pages and probes share one limit of a client network. A caller in the server's own networks, such as a probe, is
// never refused.
func TestLimit_PagesShareOnePerNetwork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t, func(c *Config) {
			c.Limiter = ratelimit.New(redistest.Open(t, "embedded"))
			c.TrustProxy = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		})
		page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) })
		s.Raw("GET /{$}", page)
		s.Raw("GET /probe", page)
		ask := func(path, from string) int {
			return s.ask(t, "GET", path, "", "X-Forwarded-For", from, "Authorization", "").Code
		}
		for i := range rawLimit.Max {
			if got := ask([]string{"/", "/probe"}[i%2], fmt.Sprintf("2001:db8::%x", i)); got != 200 {
				t.Fatalf("request %d: got %d", i, got)
			}
		}
		w := s.ask(t, "GET", "/probe", "", "X-Forwarded-For", "2001:db8::1", "Authorization", "")
		if w.Code != 429 || code(w) != "limit.exceeded" || w.Header().Get("Retry-After") != "60" {
			t.Errorf("one more: got %d %s %v", w.Code, w.Body, w.Header())
		}
		if got := ask("/", "2001:db8:0:1::1"); got != 200 {
			t.Errorf("another client network: got %d", got)
		}
		for _, near := range []string{"127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "fd00::1"} {
			for range rawLimit.Max + 1 {
				if got := ask("/probe", near); got != 200 {
					t.Fatalf("%s: got %d", near, got)
				}
			}
		}
		time.Sleep(rawLimit.Window)
		if got := ask("/", "2001:db8::1"); got != 200 {
			t.Errorf("in the next window: got %d", got)
		}
	})
}

// Requests to unknown paths are counted, whether the ServeMux responds with 404, 405 or a redirect.
func TestLimit_UnknownPathsPerNetwork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		s := newSite(t, func(c *Config) {
			c.Limiter = ratelimit.New(db)
			c.TrustProxy = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		})
		s.Raw("GET /probe", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		ask := func(method, path, from string) *httptest.ResponseRecorder {
			return s.ask(t, method, path, "", "X-Forwarded-For", from, "Authorization", "")
		}
		tries := []struct {
			method, path string
			status       int
		}{{"GET", "/wp-login.php", 404}, {"GET", "/.env", 404}, {"POST", "/probe", 405}, {"DELETE", "/v1/things", 405},
			{"GET", "/a/../probe", 307}}
		for i := range unmatched.op.Limit.Max {
			try := tries[i%len(tries)]
			w := ask(try.method, try.path, fmt.Sprintf("2001:db8::%x", i))
			if left := fmt.Sprint(unmatched.op.Limit.Max - 1 - i); w.Code != try.status || w.Header().Get("RateLimit-Remaining") != left {
				t.Fatalf("try %d, %s %s: got %d with %q left, want %d with %s", i, try.method, try.path, w.Code, w.Header().Get("RateLimit-Remaining"),
					try.status, left)
			}
		}
		for _, try := range tries {
			w := ask(try.method, try.path, "2001:db8::1")
			if w.Code != 429 || code(w) != "limit.exceeded" || w.Header().Get("Retry-After") != "60" ||
				w.Header().Get("RateLimit-Limit") != fmt.Sprint(unmatched.op.Limit.Max) || w.Header().Get("Location")+w.Header().Get("Allow") != "" {
				t.Errorf("one more %s %s: got %d %s %v", try.method, try.path, w.Code, w.Body, w.Header())
			}
		}
		if w := ask("GET", "/probe", "2001:db8::1"); w.Code != 200 {
			t.Errorf("an existing path: got %d", w.Code)
		}
		if w := ask("GET", "/.env", "2001:db8:0:1::1"); w.Code != 404 {
			t.Errorf("another client network: got %d", w.Code)
		}
		for range unmatched.op.Limit.Max + 1 {
			if w := ask("GET", "/.env", "10.0.0.1"); w.Code != 404 {
				t.Fatalf("the server's own network: got %d", w.Code)
			}
		}
		time.Sleep(unmatched.op.Limit.Window)
		if w := ask("GET", "/.env", "2001:db8::1"); w.Code != 404 {
			t.Errorf("in the next window: got %d", w.Code)
		}
		redistest.KeysDeclared(t, db, Keys)
	})
}

func TestHeavyOperation_OneUserDoesNotDelayAnother(t *testing.T) {
	t.Run("each call", func(t *testing.T) { testHeavy(t, Op{Heavy: true}) })
	t.Run("calls with a query", func(t *testing.T) { testHeavy(t, Op{HeavyQuery: "q"}) })
}

func testHeavy(t *testing.T, op Op) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		over := make(chan struct{})
		op.Method, op.Path, op.ID = "GET", "/v1/heavy", "thing.heavy"
		Handle(s.API, op, func(_ context.Context, caller person, in *struct {
			Q string `query:"q"`
		}) (*struct{}, error) {
			if caller.name != "bob" && in.Q != "" {
				<-over
			}
			return nil, nil
		})
		const others, refused = heavyRuns/2 + heavyWaitingPerUser, 3
		answers := make(chan *httptest.ResponseRecorder, others+refused)
		for range others + refused {
			go func() { answers <- s.ask(t, "GET", "/v1/heavy?q=x", "") }()
		}
		synctest.Wait()
		if len(answers) != refused {
			t.Fatalf("%d requests are answered, want %d", len(answers), refused)
		}
		for range refused {
			if w := <-answers; w.Code != 503 || code(w) != "request.busy" || w.Header().Get("Retry-After") != "2" {
				t.Errorf("got %d %s %v, want 503 request.busy", w.Code, w.Body, w.Header())
			}
		}
		if w := s.ask(t, "GET", "/v1/heavy?q=x", "", "Authorization", "Bearer good-bob"); w.Code != 204 {
			t.Errorf("another user: got %d %s", w.Code, w.Body)
		}
		if op.HeavyQuery != "" {
			if w := s.ask(t, "GET", "/v1/heavy", ""); w.Code != 204 {
				t.Errorf("a call without the query: got %d %s", w.Code, w.Body)
			}
		}
		close(over)
		for range others {
			if w := <-answers; w.Code != 204 {
				t.Errorf("a request that waited: got %d %s", w.Code, w.Body)
			}
		}
	})
}

func TestHeavyOperation_HasTimeAfterItsWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		Handle(s.API, Op{Method: "GET", Path: "/v1/heavy", ID: "thing.heavy", Heavy: true},
			func(ctx context.Context, _ person, _ *struct{}) (*struct{}, error) {
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(heavyWait - time.Millisecond):
					return nil, nil
				}
			})
		var all sync.WaitGroup
		for range heavyRuns { // the second half waits for the first
			all.Go(func() {
				if w := s.ask(t, "GET", "/v1/heavy", ""); w.Code != 204 {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
			})
		}
		all.Wait()
	})
}
