package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/leaktest"
	"github.com/stoa-dev/stoa/internal/base/origin"
	"github.com/stoa-dev/stoa/internal/httpapi/idempotency"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	flag.Parse()
	// One MariaDB serves all tests and ends with the process.
	leaktest.Main(m, "github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest.(*server).start.func1")
}

// thing has one field for each kind of fault in a body.
type thing struct {
	Name     string    `json:"name" minLength:"1" maxLength:"10"`
	Password string    `json:"password,omitempty" minLength:"8"`
	Email    string    `json:"email,omitempty" format:"email"`
	Count    int       `json:"count,omitempty" minimum:"0" maximum:"100"`
	At       time.Time `json:"at,omitzero"`
	Parts    []part    `json:"parts,omitempty" maxItems:"3"`
}

type part struct {
	Kind string `json:"kind" enum:"red,green"`
}

type thingIn struct{ Body thing }

type thingOut struct{ Body thingReply }

type thingReply struct {
	Name    string `json:"name"`
	Run     int64  `json:"run"`
	Request uint64 `json:"request"`
	User    string `json:"user"`
	IP      string `json:"ip"`
}

var (
	errFull    = errs.New(errs.Conflict, "thing.full", "There are enough things.")
	errUnknown = errs.New(errs.NotFound, "thing.unknown", "There is no such thing.")
	errAway    = errs.New(errs.Unavailable, "thing.away", "The things are away.")
	errOften   = errs.New(errs.TooMany, "thing.often", "Too often.")
	errToken   = errs.New(errs.Unauthenticated, "auth.token_invalid", "The access token is wrong, expired or revoked.")
)

// person is the caller that a token belongs to.
type person struct{ name string }

func (p person) UserID() string { return p.name }

// tokens accepts the token of each user: "good-" and the name.
type tokens struct{ revoked atomic.Bool }

func (k *tokens) Authenticate(_ context.Context, token string) (Caller, error) {
	name, ok := strings.CutPrefix(token, "good-")
	if !ok || k.revoked.Load() {
		return nil, errToken
	}
	return person{name}, nil
}

// site is a small API with its log.
type site struct {
	*API
	stopStoring func() // as if the node died
	auth        *tokens
	runs        atomic.Int64
	do          atomic.Pointer[func(ctx context.Context) error] // an additional step of thing.make

	mu  sync.Mutex
	log bytes.Buffer
}

func (s *site) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

func (s *site) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// listen serves the API in a bubble.
func (s *site) listen(t *testing.T) *bubble.Network {
	t.Helper()
	network := bubble.NewNetwork()
	srv := &http.Server{Handler: s.Handler(), WriteTimeout: answerTimeout}
	var served sync.WaitGroup
	served.Go(func() { _ = srv.Serve(network) })
	t.Cleanup(func() { _ = srv.Close(); served.Wait() })
	return network
}

func newSite(t testing.TB, change ...func(*Config)) *site {
	t.Helper()
	s := &site{auth: &tokens{}}
	cfg := Config{Title: "Things", Version: "1", Auth: s.auth, Metrics: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&cfg)
	}
	s.API = New(cfg)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context())) // handlers may outlive the test's function
	var stored sync.WaitGroup
	stored.Go(func() { _ = s.Run(ctx) })
	s.stopStoring = func() { stop(); stored.Wait() }
	t.Cleanup(s.stopStoring)

	makeThing := func(ctx context.Context, caller person, in *thingIn) (*thingOut, error) {
		run := s.runs.Add(1)
		if f := s.do.Load(); f != nil {
			if err := (*f)(ctx); err != nil {
				return nil, err
			}
		}
		return &thingOut{thingReply{in.Body.Name, run, RequestID(ctx), caller.name, ClientIP(ctx)}}, nil
	}
	Handle(s.API, Op{Method: "POST", Path: "/v1/things", ID: "thing.make", Summary: "Make a thing", Status: 201,
		Tags: []string{"things"}, Errors: []*errs.Error{errFull, errAway}}, makeThing)
	Handle(s.API, Op{Method: "POST", Path: "/v1/secrets", ID: "thing.secret", NoReplay: true}, makeThing)
	Handle(s.API, Op{Method: "POST", Path: "/v1/keys", ID: "thing.key", NoReplay: true, Creates: true}, makeThing)
	HandlePublic(s.API, Op{Method: "POST", Path: "/v1/public", ID: "thing.public", Limit: ratelimit.Limit{Max: 2, Window: time.Minute}},
		func(ctx context.Context, in *thingIn) (*thingOut, error) { return makeThing(ctx, person{}, in) })
	Handle(s.API, Op{Method: "DELETE", Path: "/v1/things/{id}", ID: "thing.drop"},
		func(ctx context.Context, _ person, in *struct {
			ID int `path:"id" minimum:"1"`
		}) (*struct{}, error) {
			s.runs.Add(1)
			return nil, nil
		})
	Handle(s.API, Op{Method: "GET", Path: "/v1/things/{name}", ID: "thing.get", Errors: []*errs.Error{errUnknown}},
		func(ctx context.Context, _ person, in *struct {
			Name  string `path:"name" maxLength:"20"`
			Limit int    `query:"limit" minimum:"1" maximum:"100" default:"10"`
		}) (*thingOut, error) {
			switch in.Name {
			case "unknown":
				return nil, fmt.Errorf("looking: %w", errUnknown.On("path.name", "is not a thing"))
			case "forbidden":
				return nil, errs.New(errs.Forbidden, "thing.forbidden", "Not yours.")
			case "away":
				return nil, fmt.Errorf("%w: dial tcp 10.1.2.3: refused", errAway.Retry(2100*time.Millisecond))
			case "often":
				return nil, errOften.Retry(90 * time.Second)
			case "broken":
				return nil, errors.New("row 17 holds hunter2")
			case "internal":
				return nil, errs.New(errs.Internal, "thing.secret_state", "The secret state.")
			case "slow":
				return nil, fmt.Errorf("query: %w", context.DeadlineExceeded)
			case "panic":
				panic("hunter2")
			}
			return &thingOut{thingReply{Name: in.Name, Run: int64(in.Limit), IP: ClientIP(ctx)}}, nil
		})
	return s
}

// ask sends one request through the whole handler; headers are pairs.
func (s *site) ask(t testing.TB, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "/", rd)
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	r.Header["Authorization"] = []string{"Bearer good-ann"}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

const thingBody = `{"name":"clock"}`

func TestRefusal_IsAProblemDocumentWithoutValues(t *testing.T) {
	s := newSite(t)
	deep := strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000)
	for _, tc := range []struct {
		name, method, target, body string
		headers                    []string
	}{
		{"unknown route", "GET", "/v1/nothing", "", nil},
		{"wrong method", "PUT", "/v1/things", thingBody, nil},
		{"invented method", "HUNTER2", "/v1/things", "", nil},
		{"no token", "GET", "/v1/things/a", "", []string{"Authorization", ""}},
		{"other scheme", "GET", "/v1/things/a", "", []string{"Authorization", "Basic aHVudGVyMg=="}},
		{"malformed token", "GET", "/v1/things/a", "", []string{"Authorization", "Bearer hunter2 hunter2"}},
		{"wrong token", "GET", "/v1/things/a", "", []string{"Authorization", "Bearer hunter2"}},
		{"token in the query", "GET", "/v1/things/a?access_token=good-ann", "", []string{"Authorization", ""}},
		{"empty body", "POST", "/v1/things", "", []string{"Content-Type", "application/json"}},
		{"not JSON", "POST", "/v1/things", `hunter2`, nil},
		{"cut off", "POST", "/v1/things", `{"name":"hunter2`, nil},
		{"trailing garbage", "POST", "/v1/things", thingBody + `{"hunter2":1}`, nil},
		{"trailing comma", "POST", "/v1/things", `{"name":"hunter2",}`, nil},
		{"single quotes", "POST", "/v1/things", `{'name':'hunter2'}`, nil},
		{"duplicate name", "POST", "/v1/things", `{"name":"a","name":"hunter2"}`, nil},
		{"duplicate name further down", "POST", "/v1/things", `{"name":"a","parts":[{"kind":"red","kind":"hunter2"}]}`, nil},
		{"nested too deeply", "POST", "/v1/things", deep, nil},
		{"not UTF-8", "POST", "/v1/things", "{\"name\":\"hunter2\xff\"}", nil},
		{"byte order mark", "POST", "/v1/things", "\ufeff" + thingBody, nil},
		{"no content type", "POST", "/v1/things", thingBody, []string{"Content-Type", ""}},
		{"form", "POST", "/v1/things", "name=hunter2", []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{"other charset", "POST", "/v1/things", thingBody, []string{"Content-Type", "application/json; charset=latin1"}},
		{"too large", "POST", "/v1/things", `{"name":"` + strings.Repeat("x", 64<<10) + `"}`, nil},
		{"null", "POST", "/v1/things", `null`, nil},
		{"list", "POST", "/v1/things", `["hunter2"]`, nil},
		{"required field missing", "POST", "/v1/things", `{}`, nil},
		{"unknown fields", "POST", "/v1/things", `{"name":"a","zeta":"hunter2","admin":true}`, nil},
		{"other case", "POST", "/v1/things", `{"Name":"hunter2"}`, nil},
		{"short password", "POST", "/v1/things", `{"name":"a","password":"hunter2"}`, nil},
		{"e-mail", "POST", "/v1/things", `{"name":"a","email":"hunter2 <a@b.example>, hunter2"}`, nil},
		{"wrong types", "POST", "/v1/things", `{"name":7,"count":"hunter2","at":"hunter2"}`, nil},
		{"out of range", "POST", "/v1/things", `{"name":"hunter2hunter2","count":101}`, nil},
		{"almost a whole number", "POST", "/v1/things", `{"name":"a","count":1.00000000000000000001}`, nil},
		{"huge number", "POST", "/v1/things", `{"name":"a","count":1e999}`, nil},
		{"enum", "POST", "/v1/things", `{"name":"a","parts":[{"kind":"red"},{"kind":"hunter2"}]}`, nil},
		{"many unknown fields with long names", "POST", "/v1/things", manyFields(), nil},
		{"path", "DELETE", "/v1/things/hunter2", "", nil},
		{"query", "GET", "/v1/things/a?limit=hunter2", "", nil},
		{"query out of range", "GET", "/v1/things/a?limit=101", "", nil},
		{"path not UTF-8", "GET", "/v1/things/hunter2\xff", "", nil},
		{"query not UTF-8", "GET", "/v1/things/a?limit=%ff", "", nil},
		{"path with NUL", "GET", "/v1/things/hunter2\x00", "", nil},
		{"query with NUL", "GET", "/v1/things/a?limit=hunter2%00", "", nil},
		{"body with NUL", "POST", "/v1/things", `{"name":"clock","parts":[{"kind":"hunter2\u0000"}]}`, nil},
		{"body with a name with NUL", "POST", "/v1/things", `{"name":"clock","hunter2\u0000":1}`, nil},
		{"query badly escaped", "GET", "/v1/things/a?limit=%zz", "", nil},
		{"idempotency key too long", "POST", "/v1/things", thingBody, []string{"Idempotency-Key", strings.Repeat("hunter2", 19)}},
		{"idempotency key not ASCII", "POST", "/v1/things", thingBody, []string{"Idempotency-Key", "hunter2é"}},
		{"domain: not found", "GET", "/v1/things/unknown", "", nil},
		{"domain: forbidden", "GET", "/v1/things/forbidden", "", nil},
		{"domain: unavailable", "GET", "/v1/things/away", "", nil},
		{"domain: too many", "GET", "/v1/things/often", "", nil},
		{"domain: an accident", "GET", "/v1/things/broken", "", nil},
		{"domain: internal", "GET", "/v1/things/internal", "", nil},
		{"domain: too slow", "GET", "/v1/things/slow", "", nil},
		{"domain: panic", "GET", "/v1/things/panic", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := s.ask(t, tc.method, tc.target, tc.body, tc.headers...)
			var out strings.Builder
			fmt.Fprintf(&out, "%d\n", w.Code)
			for _, name := range []string{"Allow", "Cache-Control", "Content-Type", "Retry-After", "Www-Authenticate"} {
				if v := w.Header().Get(name); v != "" {
					fmt.Fprintf(&out, "%s: %s\n", name, v)
				}
			}
			var p api.Problem
			d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
			d.DisallowUnknownFields()
			if err := d.Decode(&p); err != nil {
				t.Fatalf("%d %q is not a problem document: %v", w.Code, w.Body, err)
			}
			if p.Status != w.Code || p.Type != "about:blank#"+p.Code || p.Title == "" || p.Code == "" {
				t.Errorf("got status %d and %+v", w.Code, p)
			}
			if strings.Contains(strings.ToLower(w.Body.String()), "hunter2") {
				t.Errorf("the refusal repeats a value: %s", w.Body)
			}
			pretty, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			out.Write(pretty)
			out.WriteByte('\n')
			golden(t, strings.NewReplacer(" ", "-", ":", "").Replace(tc.name), out.String())
		})
	}
	if got := s.runs.Load(); got != 0 {
		t.Errorf("the handler ran %d times, want 0", got)
	}
	// Unexpected errors are logged with their cause, tokens never are.
	for _, want := range []string{"row 17", "The secret state", "panic in a handler", "dial tcp"} {
		if !strings.Contains(s.logged(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	for _, secret := range []string{"Bearer", "good-ann", "access_token", "aHVudGVyMg"} {
		if strings.Contains(s.logged(), secret) {
			t.Errorf("the log contains %q", secret)
		}
	}
}

func manyFields() string {
	var b strings.Builder
	b.WriteString(`{"name":"a"`)
	for i := range 40 {
		fmt.Fprintf(&b, `,"f%02d%s":1`, i, strings.Repeat("é", 90))
	}
	return b.String() + "}"
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "problems", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

func TestOutage_LogsOneLineASecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				s.ask(t, "GET", "/v1/things/away", "")
				s.ask(t, "GET", "/v1/things/slow", "")
			})
		}
		all.Wait()
		bubble.Sleep(time.Second)
		s.ask(t, "GET", "/v1/things/away", "")
		for msg, want := range map[string]int{"web: dependency unavailable": 2, "request took too long": 1} {
			if got := strings.Count(s.logged(), msg); got != want {
				t.Errorf("%d lines say %q, want %d", got, msg, want)
			}
		}
		if !strings.Contains(s.logged(), "others=49") {
			t.Errorf("the others were not counted:\n%s", s.logged())
		}
	})
}

func TestResponse_HasAllHeaders(t *testing.T) {
	s := newSite(t)
	w := s.ask(t, "POST", "/v1/things", `{"name":"clock","count":100,"at":"2026-01-02T03:04:05Z"}`,
		"Content-Type", "Application/JSON; charset=UTF-8", "X-Request-ID", "trace-1.a_B")
	if w.Code != 201 {
		t.Fatalf("got %d %s, want 201", w.Code, w.Body)
	}
	var got thingReply
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "clock" || got.User != "ann" || got.IP != "192.0.2.1" || got.Request == 0 || got.Request > idempotency.MaxID {
		t.Errorf("got %+v", got)
	}
	for name, want := range map[string]string{
		"Content-Type":            "application/json",
		"X-Request-Id":            "trace-1.a_B",
		"X-Content-Type-Options":  "nosniff",
		"Referrer-Policy":         "no-referrer",
		"X-Frame-Options":         "DENY",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		"Cache-Control":           "no-store",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestTrace_ForgedRequestIDIsReplaced(t *testing.T) {
	s := newSite(t)
	for _, forged := range []string{"a b", "x\"y", strings.Repeat("a", 65), "é"} {
		got := s.ask(t, "GET", "/v1/things/a", "", "X-Request-ID", forged).Header().Get("X-Request-ID")
		if got == forged || !traceable(got) {
			t.Errorf("%q was answered by %q", forged, got)
		}
	}
}

func TestBody_OfTheExactLimitIsAccepted(t *testing.T) {
	s := newSite(t)
	body := thingBody + strings.Repeat(" ", defaultMaxBody-len(thingBody))
	if w := s.ask(t, "POST", "/v1/things", body); w.Code != 201 {
		t.Errorf("got %d %s, want 201", w.Code, w.Body)
	}
}

func TestHEAD_IsGETWithoutABody(t *testing.T) {
	s := newSite(t)
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	for target, want := range map[string]int{"/v1/things/a": 200, "/v1/things/unknown": 404, "/v1/nothing": 404} {
		r, err := http.NewRequestWithContext(t.Context(), "HEAD", srv.URL+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer good-ann")
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || len(body) != 0 || res.StatusCode != want {
			t.Errorf("%s: got %d %q (%v), want %d and nothing", target, res.StatusCode, body, err, want)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestClientIP_IsTheLastUntrustedAddress(t *testing.T) {
	s := newSite(t, func(c *Config) {
		c.TrustProxy = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.0.0.0/8")}
	})
	plain := newSite(t)
	for _, tc := range []struct{ forwarded, trusted string }{
		{"", "192.0.2.1"},
		{"203.0.113.9", "203.0.113.9"},
		{"198.51.100.1, 203.0.113.9", "203.0.113.9"},
		{"203.0.113.9, 10.1.1.1,10.2.2.2", "203.0.113.9"},
		{"::ffff:203.0.113.9", "203.0.113.9"},
		{"2001:db8::1", "2001:db8::1"},
		{"198.51.100.1, 203.0.113.9:51820", "203.0.113.9"},
		{"[2001:db8::1]:443", "2001:db8::1"},
		{"203.0.113.9:80, [2001:db8::1]", "2001:db8::1"},
		{"203.0.113.9:80:80", "192.0.2.1"},
		{"203.0.113.9, nonsense", "192.0.2.1"},
		{"10.1.1.1", "10.1.1.1"},
		{",", "192.0.2.1"},
	} {
		for _, side := range []struct {
			s    *site
			want string
		}{{s, tc.trusted}, {plain, "192.0.2.1"}} {
			var got thingReply
			w := side.s.ask(t, "GET", "/v1/things/a", "", "X-Forwarded-For", tc.forwarded)
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if got.IP != side.want {
				t.Errorf("%q: got %s, want %s", tc.forwarded, got.IP, side.want)
			}
		}
	}
}

func TestCORS_OnlyListedOrigins(t *testing.T) {
	s := newSite(t, func(c *Config) {
		c.Origins = origin.MustPatterns("https://app.example.org", "capacitor://localhost", "https://*.tenants.example.org")
	})
	for _, tc := range []struct {
		origin, allowed string
		preflight       int
	}{
		{"https://app.example.org", "https://app.example.org", 204},
		{"capacitor://localhost", "capacitor://localhost", 204},
		{"https://a.tenants.example.org", "https://a.tenants.example.org", 204},
		{"https://tenants.example.org", "", 405},
		{"https://evil.example.org", "", 405},
		{"null", "", 405},
		{"", "", 405},
	} {
		w := s.ask(t, "GET", "/v1/things/a", "", "Origin", tc.origin)
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != tc.allowed || w.Header().Get("Vary") != "Origin" {
			t.Errorf("%q: got %q, want %q", tc.origin, got, tc.allowed)
		}
		w = s.ask(t, "OPTIONS", "/v1/things", "", "Origin", tc.origin, "Authorization", "", "Access-Control-Request-Method", "POST")
		if w.Code != tc.preflight {
			t.Errorf("%q: preflight got %d, want %d", tc.origin, w.Code, tc.preflight)
		}
	}
	w := newSite(t).ask(t, "GET", "/v1/things/a", "", "Origin", "https://app.example.org")
	if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("without origins in the configuration, got %q", got)
	}
}

func TestMetrics_CountByRouteMethodAndStatus(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := newSite(t, func(c *Config) { c.Metrics = reg })
	s.Raw("GET /page", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }))
	s.ask(t, "GET", "/v1/things/a", "")
	s.ask(t, "GET", "/v1/things/b", "")
	s.ask(t, "GET", "/v1/things/unknown", "")
	s.ask(t, "HUNTER2", "/v1/elsewhere", "")
	s.ask(t, "GET", "/page", "")
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			got[f.GetName()+" "+strings.Join(labels, " ")] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"stoa_http_requests_total 200 GET thing.get":         2,
		"stoa_http_requests_total 404 GET thing.get":         1,
		"stoa_http_requests_total 404 other unmatched":       1,
		"stoa_http_requests_total 200 GET GET /page":         1,
		"stoa_http_request_duration_seconds thing.get":       3,
		"stoa_http_request_duration_seconds GET /page":       1,
		"stoa_http_request_duration_seconds GET /docs/":      0,
		"stoa_http_request_duration_seconds thing.make":      0,
		"stoa_http_requests_total 200 GET GET /openapi.json": 0,
	} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
}

func TestPanic_DuringTheResponseClosesTheConnection(t *testing.T) {
	s := newSite(t)
	s.Raw("GET /half", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic("late")
	}))
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	res, err := srv.Client().Get(srv.URL + "/half")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("got %q as a whole answer", body)
	}
}

func TestServe_DrainsWhenItsContextEnds(t *testing.T) {
	s := newSite(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	s.do.Store(ptr(func(ctx context.Context) error {
		close(entered)
		<-leave
		return ctx.Err() // a request in flight is not cancelled
	}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	type answer struct {
		res *http.Response
		err error
	}
	answers := make(chan answer, 1)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	go func() {
		r, err := http.NewRequest("POST", "http://"+ln.Addr().String()+"/v1/things", strings.NewReader(thingBody))
		if err != nil {
			answers <- answer{nil, err}
			return
		}
		r.Header.Set("Authorization", "Bearer good-ann")
		r.Header.Set("Content-Type", "application/json")
		res, err := client.Do(r)
		answers <- answer{res, err}
	}()
	<-entered
	cancel()
	<-s.quit // the drain has begun
	close(leave)
	got := <-answers
	if got.err != nil || got.res.StatusCode != 201 {
		t.Errorf("the request in flight got %v %v", got.res, got.err)
	}
	if got.res != nil {
		_ = got.res.Body.Close()
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// A load balancer that keeps connections for ten minutes must not send a request on one that the server closes.
func TestServe_ProxyConnectionsStayIdleTenMinutes(t *testing.T) {
	for proxies, want := range map[string]time.Duration{"": idleTimeout, "10.0.0.0/8": proxyTimeout} {
		bubble.Test(t, func(t *testing.T) {
			s := newSite(t, func(c *Config) {
				if proxies != "" {
					c.TrustProxy = []netip.Prefix{netip.MustParsePrefix(proxies)}
				}
			})
			network := bubble.NewNetwork()
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- s.Serve(ctx, network) }()
			conn, err := network.Dial(t.Context(), "tcp", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "GET /none HTTP/1.1\r\nHost: stoa.test\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := io.Copy(io.Discard, conn); err != nil || time.Since(began) != want {
				t.Errorf("proxies %q: the connection ended after %s, %v, want %s", proxies, time.Since(began), err, want)
			}
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestServe_SlowBodyTimesOut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		network := s.listen(t)
		conn, err := network.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = io.WriteString(conn, "POST /v1/things HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good-ann\r\n"+
			"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{")
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn) // until the server closes
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") || !strings.Contains(string(answer), `"request.timeout"`) {
			t.Errorf("got %q (%v)", answer, err)
		}
	})
}

func TestServe_RefusedClientCannotKeepTheConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		network := s.listen(t)
		for _, path := range []string{"/v1/things", "/v1/nothing", "/openapi.json"} {
			conn, err := network.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{"); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(conn); err != nil {
				t.Errorf("%s: the connection is still open after %q: %v", path, answer, err)
			}
		}
	})
}

func TestServe_BodyDeadlineDoesNotEndTheRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t, func(c *Config) { c.OpTime = time.Minute })
		s.do.Store(ptr(func(ctx context.Context) error {
			select { // the deadline for the body must not end the request
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(3 * bodyTimeout):
				return nil
			}
		}))
		network := s.listen(t)
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://site/v1/things", strings.NewReader(thingBody))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer good-ann")
		r.Header.Set("Content-Type", "application/json")
		res, err := network.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != 201 {
			t.Errorf("got %d, want 201", res.StatusCode)
		}
	})
}

func TestBody_TooLargeInChunksIsRefused(t *testing.T) {
	s := newSite(t)
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	body := io.MultiReader(strings.NewReader(`{"name":"`), strings.NewReader(strings.Repeat("x", defaultMaxBody)))
	r, err := http.NewRequestWithContext(t.Context(), "POST", srv.URL+"/v1/things", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer good-ann")
	r.Header.Set("Content-Type", "application/json")
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("got %d, want 413", res.StatusCode)
	}
}

func TestHandle_PanicsOnMalformedDeclarations(t *testing.T) {
	type in struct{}
	nothing := func(context.Context, person, *in) (*struct{}, error) { return nil, nil }
	for name, op := range map[string]Op{
		"no id":           {Method: "GET", Path: "/a"},
		"long id":         {Method: "GET", Path: "/a", ID: strings.Repeat("a", 65)},
		"used id":         {Method: "GET", Path: "/a", ID: "thing.get"},
		"used path":       {Method: "GET", Path: "/v1/things/{other}", ID: "other"},
		"unknown method":  {Method: "TRACE", Path: "/a", ID: "a"},
		"limit of a week": {Method: "GET", Path: "/a", ID: "a", Limit: ratelimit.Limit{Max: 1, Window: 7 * 24 * time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, func(c *Config) { c.Limiter = ratelimit.New(redistest.Open(t, "embedded")) })
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			Handle(s.API, op, nothing)
		})
	}
}

func ptr[T any](v T) *T { return &v }
