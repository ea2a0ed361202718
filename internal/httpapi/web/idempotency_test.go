package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/bind"
	"github.com/stoa-dev/stoa/internal/httpapi/idempotency"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// keyed runs f on each engine, with a clock that only f moves.
func keyed(t *testing.T, f func(t *testing.T, s *site, clock *atomic.Int64)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			clock := &atomic.Int64{}
			clock.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
			db := e.Open(t, func(c *sqldb.Config) { c.Now = func() time.Time { return time.UnixMilli(clock.Load()) } })
			f(t, newSite(t, func(c *Config) { c.DB = db }), clock)
		})
	}
}

// Lifetimes of a try whose response is not stored, of a node that is alive and of a dead one.
const (
	claimLife  = 30 * time.Second
	orphanLife = 5 * time.Second
)

// recordOf returns the record of a request for the thing in thingBody, with the key k.
func recordOf(secrets idempotency.Secrets) idempotency.Record {
	r := httptest.NewRequest("POST", "/v1/things", nil)
	return secrets.Record("ann thing.make", "k", requestParts(new(bind.Input), r, []byte(thingBody))...)
}

func code(w *httptest.ResponseRecorder) string {
	var p struct{ Code string }
	_ = json.Unmarshal(w.Body.Bytes(), &p)
	return p.Code
}

func request(t *testing.T, w *httptest.ResponseRecorder) uint64 {
	t.Helper()
	var r thingReply
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || r.Request == 0 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return r.Request
}

// In the tus protocol, headers describe the created upload.
func TestIdempotency_HeadersArePartOfTheRequest(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		op := Op{Method: "POST", Path: "/v1/measured", ID: "thing.measured", Status: http.StatusCreated}
		Handle(s.API, op, func(_ context.Context, _ person, in *struct {
			Length string `header:"X-Length"`
		}) (*lengthOut, error) {
			return &lengthOut{in.Length}, nil
		})
		ask := func(length string) *httptest.ResponseRecorder {
			return s.ask(t, "POST", "/v1/measured", "", "Idempotency-Key", "k", "X-Length", length)
		}
		if w := ask("5"); w.Code != 201 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		if w := ask("5"); w.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("the same one: got %d %v", w.Code, w.Header())
		}
		if w := ask("7"); code(w) != "idempotency.mismatch" {
			t.Errorf("another one: got %d %v", w.Code, w.Header())
		}
	})
}

func TestIdempotency_RetryGetsTheStoredResponse(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		first := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "key 1")
		if first.Code != 201 || first.Header().Get("Idempotency-Replayed") != "" {
			t.Fatalf("first: got %d %v", first.Code, first.Header())
		}
		clock.Add((24 * time.Hour).Milliseconds() - 1)
		again := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "key 1")
		if again.Code != 201 || again.Body.String() != first.Body.String() ||
			again.Header().Get("Content-Type") != "application/json" || again.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("again: got %d %s %v, want the first answer %s", again.Code, again.Body, again.Header(), first.Body)
		}
		if got := s.runs.Load(); got != 1 {
			t.Errorf("the handler ran %d times, want 1", got)
		}

		// Requests that differ in one part of the scope are different requests.
		for name, w := range map[string]*httptest.ResponseRecorder{
			"other key":       s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "Key 1"),
			"other user":      s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "key 1", "Authorization", "Bearer good-bob"),
			"other operation": s.ask(t, "POST", "/v1/secrets", thingBody, "Idempotency-Key", "key 1"),
			"no key":          s.ask(t, "POST", "/v1/things", thingBody),
		} {
			if w.Header().Get("Idempotency-Replayed") != "" || request(t, w) == request(t, first) {
				t.Errorf("%s: got the first answer", name)
			}
		}
	})
}

func TestIdempotency_ReplaysEmptyBody(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		for i, replayed := range []string{"", "true"} {
			w := s.ask(t, "DELETE", "/v1/things/7", "", "Idempotency-Key", "k")
			if w.Code != 204 || w.Body.Len() != 0 || w.Header().Get("Idempotency-Replayed") != replayed {
				t.Errorf("try %d: got %d %q %v", i, w.Code, w.Body, w.Header())
			}
		}
		if w := s.ask(t, "DELETE", "/v1/things/8", "", "Idempotency-Key", "k"); code(w) != "idempotency.mismatch" {
			t.Errorf("another path got %d %s", w.Code, w.Body)
		}
		if got := s.runs.Load(); got != 1 {
			t.Errorf("the handler ran %d times, want 1", got)
		}
	})
}

func TestIdempotency_AnotherBodyIsAConflict(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		w := s.ask(t, "POST", "/v1/things", `{"name":"other"}`, "Idempotency-Key", "k")
		if w.Code != 409 || code(w) != "idempotency.mismatch" || s.runs.Load() != 1 {
			t.Errorf("got %d %s after %d runs", w.Code, w.Body, s.runs.Load())
		}
	})
}

func TestIdempotency_ConcurrentRequestsRunOnce(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		entered, leave := make(chan struct{}), make(chan struct{})
		s.do.Store(ptr(func(context.Context) error {
			close(entered) // a second run panics here
			<-leave
			return nil
		}))
		const n = 16
		answers := make(chan *httptest.ResponseRecorder, n)
		for range n {
			go func() { answers <- s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k") }()
		}
		<-entered
		for range n - 1 {
			w := <-answers
			if w.Code != 409 || code(w) != "idempotency.busy" || w.Header().Get("Retry-After") != "1" {
				t.Errorf("got %d %s, want 409 idempotency.busy", w.Code, w.Body)
			}
		}
		close(leave)
		if w := <-answers; w.Code != 201 {
			t.Errorf("the one that ran got %d %s", w.Code, w.Body)
		}
		if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); w.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("the retry got %d %s", w.Code, w.Body)
		}
		if got := s.runs.Load(); got != 1 {
			t.Errorf("the handler ran %d times, want 1", got)
		}
	})
}

func TestIdempotency_FailureIsRetriedWithTheSameRequestID(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		for name, fail := range map[string]func(context.Context) error{
			"500":   func(context.Context) error { return errors.New("broken") },
			"503":   func(context.Context) error { return errAway },
			"429":   func(context.Context) error { return errOften },
			"panic": func(context.Context) error { panic("broken") },
		} {
			var ids []uint64
			s.do.Store(ptr(func(ctx context.Context) error {
				ids = append(ids, RequestID(ctx))
				if len(ids) == 1 {
					return fail(ctx)
				}
				return nil
			}))
			if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", name); w.Code < 429 {
				t.Fatalf("%s: got %d", name, w.Code)
			}
			clock.Add(1)
			if w := s.ask(t, "POST", "/v1/things", `{"name":"other"}`, "Idempotency-Key", name); code(w) != "idempotency.mismatch" {
				t.Errorf("%s: another body then got %d %s", name, w.Code, w.Body)
			}
			if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", name); w.Code != 201 {
				t.Errorf("%s: the retry got %d %s", name, w.Code, w.Body)
			}
			if len(ids) != 2 || ids[0] != ids[1] {
				t.Errorf("%s: got the request ids %v, want two equal ones", name, ids)
			}
		}
	})
}

func TestIdempotency_StoresRefusals(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		s.do.Store(ptr(func(context.Context) error { return errFull }))
		first := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		s.do.Store(nil)
		again := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		if first.Code != 409 || again.Code != 409 || again.Body.String() != first.Body.String() ||
			again.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("got %d %s, then %d %s", first.Code, first.Body, again.Code, again.Body)
		}
	})
}

func TestIdempotency_ClaimOfADeadProcessExpires(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		dead, err := s.answers.Claim(t.Context(), recordOf(s.secrets()))
		if err != nil {
			t.Fatal(err)
		}
		clock.Add(claimLife.Milliseconds() - 1)
		if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); code(w) != "idempotency.busy" {
			t.Errorf("before it lapsed: got %d %s", w.Code, w.Body)
		}
		clock.Add(1)
		s.do.Store(ptr(func(ctx context.Context) error {
			// The dead process was only slow: its response comes too late, whether it succeeds or fails.
			late := dead
			late.Status, late.Body = 200, []byte("late")
			return errors.Join(s.answers.Finish(ctx, late), s.answers.Finish(ctx, dead))
		}))
		w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		if w.Code != 201 || request(t, w) != dead.RequestID() {
			t.Errorf("afterwards: got %d %s, want the request id %d", w.Code, w.Body, dead.RequestID())
		}
		if again := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); again.Body.String() != w.Body.String() {
			t.Errorf("got %s, want %s", again.Body, w.Body)
		}
	})
}

// The node of the first try was killed; its lease ends four seconds later.
func TestIdempotency_DoesNotWaitForADeadNode(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		node := func(name string, live ...string) *site {
			return newSite(t, func(c *Config) {
				c.DB, c.Node = s.cfg.DB, name
				c.Live = func(context.Context) ([]string, error) {
					if live == nil {
						return nil, errors.New("redis is unavailable")
					}
					return live, nil
				}
			})
		}
		dead, err := node("a", "a", "b").answers.Claim(t.Context(), recordOf(s.secrets()))
		if err != nil {
			t.Fatal(err)
		}
		retry := func(b *site) *httptest.ResponseRecorder {
			return b.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		}
		for _, left := range []time.Duration{orphanLife, orphanLife - 1500*time.Millisecond, time.Millisecond} {
			clock.Store(dead.Claimed + (orphanLife - left).Milliseconds())
			w := retry(node("b", "b"))
			if want := strconv.Itoa(int(math.Ceil(left.Seconds()))); code(w) != "idempotency.busy" || w.Header().Get("Retry-After") != want {
				t.Errorf("its try may still run: got %d %s, Retry-After %q, want %q", w.Code, w.Body, w.Header().Get("Retry-After"), want)
			}
		}
		clock.Add(1)
		for why, b := range map[string]*site{
			"a is alive": node("b", "a", "b"), "list failed": node("b"), "list incomplete": node("b", "c"), "no list": s,
		} {
			if w := retry(b); code(w) != "idempotency.busy" {
				t.Errorf("%s: got %d %s", why, w.Code, w.Body)
			}
		}
		w := retry(node("b", "b"))
		if w.Code != 201 || request(t, w) != dead.RequestID() {
			t.Errorf("a is dead: got %d %s, want the request id %d", w.Code, w.Body, dead.RequestID())
		}
	})
}

func TestIdempotency_KeyExpiresAfterADay(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		first := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		clock.Add((24 * time.Hour).Milliseconds())
		second := s.ask(t, "POST", "/v1/things", `{"name":"other"}`, "Idempotency-Key", "k")
		if second.Code != 201 || request(t, first) == request(t, second) {
			t.Errorf("got %s, then %d %s, want a new request", first.Body, second.Code, second.Body)
		}
		now := time.UnixMilli(clock.Load())
		if n, err := s.Sweep(t.Context(), now); n != 0 || err != nil {
			t.Errorf("swept %d rows (%v), want none", n, err)
		}
		if n, err := s.Sweep(t.Context(), now.Add(24*time.Hour)); n != 1 || err != nil {
			t.Errorf("a day later, swept %d rows (%v), want 1", n, err)
		}
	})
}

func TestErase_DeletesAUsersResponses(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		ask := func(token string) bool {
			t.Helper()
			w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k", "Authorization", "Bearer "+token)
			if w.Code != 201 {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			return w.Header().Get("Idempotency-Replayed") == "true"
		}
		ask("good-ann")
		ask("good-bob")
		if err := s.Erase(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		if !ask("good-bob") {
			t.Error("another user's answer is gone")
		}
		if ask("good-ann") {
			t.Error("the answer is still there")
		}
	})
}

func TestIdempotency_StoresForADisconnectedClient(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		ctx, leave := context.WithCancel(t.Context())
		s.do.Store(ptr(func(context.Context) error { leave(); return nil }))
		r := httptest.NewRequestWithContext(ctx, "POST", "/v1/things", strings.NewReader(thingBody))
		for name, value := range map[string]string{"Authorization": "Bearer good-ann", "Content-Type": "application/json",
			"Idempotency-Key": "k"} {
			r.Header.Set(name, value)
		}
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		s.do.Store(nil)
		if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); w.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
	})
}

func TestNoReplay_ResponseIsNotStored(t *testing.T) {
	s := newSite(t, func(c *Config) { c.DB = sqldbtest.SQLite(t) })
	first := s.ask(t, "POST", "/v1/secrets", thingBody, "Idempotency-Key", "k")
	again := s.ask(t, "POST", "/v1/secrets", thingBody, "Idempotency-Key", "k")
	if s.runs.Load() != 2 || again.Header().Get("Idempotency-Replayed") != "" {
		t.Errorf("the handler ran %d times, want 2", s.runs.Load())
	}
	if request(t, first) != request(t, again) {
		t.Errorf("got two request ids, want one")
	}
	var rows int
	if err := s.cfg.DB.NewRaw("SELECT COUNT(*) FROM idempotency_keys").Scan(t.Context(), &rows); err != nil || rows != 0 {
		t.Errorf("%d rows were kept (%v)", rows, err)
	}
}

func TestNewID_SameForAllTries(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		s.cfg.Secret = []byte("the server's")
		type thing struct{}
		var made []string
		var fails bool
		s.do.Store(ptr(func(ctx context.Context) error {
			made = append(made, NewID[thing](ctx).String())
			if fails {
				return errAway
			}
			return nil
		}))
		for i, c := range []struct {
			path  string
			fails bool   // the first try
			key   string // "": none is sent
			alike bool
		}{
			{"/v1/things", true, "k", true},
			{"/v1/things", true, "", false},
			{"/v1/keys", false, "k", true},
			{"/v1/keys", true, "k2", true},
			{"/v1/secrets", false, "k", false},
		} {
			made = nil
			var headers []string
			if c.key != "" {
				headers = []string{"Idempotency-Key", c.key}
			}
			fails = c.fails
			s.ask(t, "POST", c.path, thingBody, headers...)
			fails = false
			clock.Add(1)
			if w := s.ask(t, "POST", c.path, thingBody, headers...); w.Code >= 300 || len(made) != 2 || (made[0] == made[1]) != c.alike {
				t.Fatalf("%+v: got %d and the ids %v", c, w.Code, made)
			}
			first := made[0]
			if s.ask(t, "POST", c.path, thingBody, "Idempotency-Key", "another "+strconv.Itoa(i)); made[2] == first {
				t.Errorf("%+v: another request got the same id", c)
			}
		}
		if rec := recordOf(s.secrets()); string(new(API).secrets().Seed(rec)) == string(s.secrets().Seed(rec)) {
			t.Error("the id is predictable from the key")
		}
	})
}

func TestPreviousSecret_RetriesAreTheSameRequest(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		type thing struct{}
		var made []string
		fails := true
		s.do.Store(ptr(func(ctx context.Context) error {
			made = append(made, NewID[thing](ctx).String())
			if fails {
				return errAway
			}
			return nil
		}))
		s.cfg.Secret = []byte("the server's")
		s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		s.cfg.Secret, s.cfg.SecretPrevious = []byte("the next"), s.cfg.Secret
		clock.Add(1)
		s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		fails = false
		clock.Add(1)
		w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		if w.Code != 201 || len(made) != 3 || made[1] != made[0] || made[2] != made[0] {
			t.Errorf("tries before and after the rotation: got %d and the ids %v, want one id", w.Code, made)
		}
		if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); w.Code != 201 ||
			w.Header().Get("Idempotency-Replayed") == "" || len(made) != 3 {
			t.Errorf("a retry after the answer: got %d %v and %d runs, want the stored answer", w.Code, w.Header(), len(made))
		}
		if w := s.ask(t, "POST", "/v1/things", `{"name":"other"}`, "Idempotency-Key", "k"); code(w) != "idempotency.mismatch" {
			t.Errorf("another body: got %d %s", w.Code, w.Body)
		}
	})
}

func TestCreates_TriesDoNotRunAtOnce(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		s.do.Store(ptr(func(context.Context) error {
			if s.runs.Load() > 1 {
				return nil
			}
			if w := s.ask(t, "POST", "/v1/keys", thingBody, "Idempotency-Key", "k"); code(w) != "idempotency.busy" {
				t.Errorf("meanwhile: got %d %s", w.Code, w.Body)
			}
			return nil
		}))
		if w := s.ask(t, "POST", "/v1/keys", thingBody, "Idempotency-Key", "k"); w.Code != 200 || !strings.Contains(w.Body.String(), `"run":1`) {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if w := s.ask(t, "POST", "/v1/keys", `{"name":"other"}`, "Idempotency-Key", "k"); code(w) != "idempotency.mismatch" {
			t.Errorf("another request: got %d %s", w.Code, w.Body)
		}
		var kept int
		if err := s.cfg.DB.NewRaw("SELECT SUM(status) + SUM(LENGTH(body)) FROM idempotency_keys").Scan(t.Context(), &kept); err != nil ||
			kept != 0 {
			t.Errorf("a response was stored (%d, %v)", kept, err)
		}
	})
}

// A body may contain a password, which a reader of the table must not be able to guess.
func TestIdempotency_RequestHashIsKeyed(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		s.cfg.Secret = []byte("the server's")
		s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		var kept string
		if err := s.cfg.DB.NewRaw("SELECT request_hash FROM idempotency_keys").Scan(t.Context(), &kept); err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		for _, part := range []string{"/v1/things", "", thingBody} {
			sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
			sum.Write([]byte(part))
		}
		plain := base64.RawURLEncoding.EncodeToString(sum.Sum(nil))
		if kept == plain || kept == recordOf(idempotency.Secrets{}).RequestHash {
			t.Errorf("stored %s, an unkeyed hash of the body", kept)
		}
		// An older node stored the unkeyed hash; a retry here is the same request.
		if _, err := s.cfg.DB.ExecContext(t.Context(), "UPDATE idempotency_keys SET request_hash = ?", plain); err != nil {
			t.Fatal(err)
		}
		if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); w.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("a retry of an older node's request: got %d %s", w.Code, w.Body)
		}
	})
}

func TestIdempotency_PublicOperationIgnoresTheKey(t *testing.T) {
	s := newSite(t, func(c *Config) { c.DB = sqldbtest.SQLite(t) })
	first := s.ask(t, "POST", "/v1/public", thingBody, "Idempotency-Key", "k", "Authorization", "")
	again := s.ask(t, "POST", "/v1/public", thingBody, "Idempotency-Key", "k", "Authorization", "")
	if s.runs.Load() != 2 || request(t, first) == request(t, again) {
		t.Errorf("strangers share %s and %s", first.Body, again.Body)
	}
}

func TestIdempotency_RefusedWithoutDatabase(t *testing.T) {
	s := newSite(t, func(c *Config) {
		db, err := sqldb.Open(t.Context(), sqldb.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		c.DB = db
	})
	w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
	if w.Code < 500 || s.runs.Load() != 0 {
		t.Errorf("got %d after %d runs, want 5xx and none", w.Code, s.runs.Load())
	}
	if w := s.ask(t, "POST", "/v1/things", thingBody); w.Code != 201 {
		t.Errorf("without a key, got %d", w.Code)
	}
}

func FuzzBearer(f *testing.F) {
	for _, seed := range []string{"", "Bearer", "Bearer ", "Bearer a", "bearer a.b-c_d~e+f/g==", "Bearer  a", "Bearer a b", "Bearer a\x00",
		"Basic a", "Bearer =", "Bearer a=b", "Bearer é", "Bearer\ta", "Bearer " + strings.Repeat("a", maxToken),
		"Bearer " + strings.Repeat("a", maxToken+1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		token, err := bearer(http.Header{"Authorization": {line}})
		if err != nil {
			if !errors.Is(err, ErrMalformedToken) || errs.KindOf(err) != errs.Unauthenticated {
				t.Errorf("%q: got %v", line, err)
			}
			return
		}
		if len(line) != len("Bearer ")+len(token) || !strings.EqualFold(line[:7], "Bearer ") || line[7:] != token ||
			token == "" || len(token) > maxToken || strings.ContainsAny(token, " \t\r\n\x00,;\"") {
			t.Errorf("%q: got the token %q", line, token)
		}
	})
}

func TestIdempotency_OneRunOnTwoNodes(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		nodes := []*site{s, newSite(t, func(c *Config) { c.DB = s.cfg.DB })}
		for round := range 20 {
			key, start := fmt.Sprint("k", round), make(chan struct{})
			answers := make([]*httptest.ResponseRecorder, 8)
			var calls sync.WaitGroup
			for i := range answers {
				calls.Go(func() {
					<-start
					answers[i] = nodes[i%2].ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", key)
				})
			}
			close(start)
			calls.Wait()
			if got := nodes[0].runs.Load() + nodes[1].runs.Load(); got != int64(round+1) {
				t.Fatalf("the handler ran %d times for %d keys", got, round+1)
			}
			var good string
			for _, w := range answers {
				switch {
				case w.Code == 201 && (good == "" || w.Body.String() == good):
					good = w.Body.String()
				case code(w) != "idempotency.busy":
					t.Errorf("got %d %s, want %s or busy", w.Code, w.Body, good)
				}
			}
			if good == "" {
				t.Error("no request got the response")
			}
		}
	})
}

func TestIdempotency_CrashKeepsTheRequestID(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		other := newSite(t, func(c *Config) { c.DB = s.cfg.DB })
		s.do.Store(ptr(func(context.Context) error { s.stopStoring(); return nil })) // the domain's change is committed
		first := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		if w := other.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); code(w) != "idempotency.busy" {
			t.Errorf("at once: got %d %s, want busy", w.Code, w.Body)
		}
		clock.Add(claimLife.Milliseconds())
		again := other.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		if again.Code != 201 || again.Header().Get("Idempotency-Replayed") != "" || request(t, again) != request(t, first) {
			t.Errorf("when the claim has lapsed: got %d %s, want a run with the request id of %s", again.Code, again.Body, first.Body)
		}
		if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k2"); w.Code != 503 {
			t.Errorf("a node that stores no more: got %d %s, want 503", w.Code, w.Body)
		}
	})
}

func storedRows(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	if err := db.NewRaw("SELECT COUNT(*) FROM idempotency_keys").Scan(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestIdempotency_ErasedRowIsNotRestored(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		s.do.Store(ptr(func(ctx context.Context) error { return s.Erase(ctx, "ann") }))
		if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); w.Code != 201 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if got := storedRows(t, s.cfg.DB); got != 0 {
			t.Errorf("%d rows are left, want none", got)
		}
	})
}
