package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/origin"
	"github.com/stoa-dev/stoa/internal/httpapi/openapi"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

type rawIn struct {
	RawBody []byte `contentType:"image/*"`
}

type rawOut struct {
	Type string `header:"Content-Type"`
	Body []byte
}

// echo adds an operation that accepts pictures and returns them.
func (s *site) echo(op Op) {
	op.Method, op.Path, op.ID, op.MaxBody, op.MediaType = "PUT", "/v1/picture", "picture.put", 100, "image/png"
	Handle(s.API, op, func(_ context.Context, _ person, in *rawIn) (*rawOut, error) {
		s.runs.Add(1)
		return &rawOut{"image/png", append([]byte("got "), in.RawBody...)}, nil
	})
}

func TestRawBody_AcceptsOnlyItsMediaTypes(t *testing.T) {
	s := newSite(t)
	s.echo(Op{})
	for _, tc := range []struct {
		media, body string
		status      int
		answer      string // the body, or a problem's code
	}{
		{"image/png", "\xff\x00{", 200, "got \xff\x00{"},
		{"image/anything; x=y", "a", 200, "got a"},
		{"IMAGE/PNG", "a", 200, "got a"},
		{"image/png", strings.Repeat("a", 100), 200, "got " + strings.Repeat("a", 100)},
		{"image/png", strings.Repeat("a", 101), 413, "request.too_large"},
		{"image/png", "", 400, "request.malformed"},
		{"", "a", 415, "request.media_type"},
		{"imagepng", "a", 415, "request.media_type"},
		{"image/", "a", 415, "request.media_type"},
		{"application/json", "{}", 415, "request.media_type"},
		{"application/image/png", "{}", 415, "request.media_type"},
		{"text/html", "a", 415, "request.media_type"},
	} {
		w := s.ask(t, "PUT", "/v1/picture", tc.body, "Content-Type", tc.media)
		got := w.Body.String()
		if w.Code >= 400 {
			got = code(w)
		}
		if w.Code != tc.status || got != tc.answer {
			t.Errorf("%q %.10q: got %d %q, want %d %q", tc.media, tc.body, w.Code, got, tc.status, tc.answer)
		}
	}
	if w := s.ask(t, "PUT", "/v1/picture", "a", "Content-Type", "text/html"); !strings.Contains(w.Body.String(), "image/*") {
		t.Errorf("the refusal does not name the media type: %s", w.Body)
	}
	if w := s.ask(t, "POST", "/v1/things", thingBody, "Content-Type", "image/png"); w.Code != 415 {
		t.Errorf("a JSON operation took an image: %d", w.Code)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Required bool
				Content  map[string]any
			}
			Responses map[string]struct{ Content map[string]any }
		}
	}
	if err := openapi.Unmarshal(s.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	op := doc.Paths["/v1/picture"]["put"]
	if body := op.RequestBody; !body.Required || len(body.Content) != 1 || body.Content["image/*"] == nil {
		t.Errorf("the body is described as %v", body)
	}
	if c := op.Responses["200"].Content; len(c) != 1 || c["image/png"] == nil {
		t.Errorf("the answer is described as %v", c)
	}
	for _, status := range []string{"408", "413", "415"} {
		if op.Responses[status].Content == nil {
			t.Errorf("%s is not described", status)
		}
	}
}

func TestRawBody_HasIdempotencyKey(t *testing.T) {
	s := newSite(t, func(c *Config) { c.DB = sqldbtest.SQLite(t) })
	s.echo(Op{})
	put := func(body string) *httptest.ResponseRecorder {
		return s.ask(t, "PUT", "/v1/picture", body, "Content-Type", "image/png", "Idempotency-Key", "k")
	}
	first, again, other := put("\xffa"), put("\xffa"), put("\xffb")
	if first.Code != 200 || again.Body.String() != first.Body.String() || again.Header().Get("Idempotency-Replayed") != "true" ||
		s.runs.Load() != 1 {
		t.Errorf("got %d %q, then %d %q after %d runs", first.Code, first.Body, again.Code, again.Body, s.runs.Load())
	}
	if code(other) != "idempotency.mismatch" {
		t.Errorf("another picture: got %d %s", other.Code, other.Body)
	}
}

func TestOperation_MayExtendBodyTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		s.echo(Op{BodyTime: time.Minute})
		network := s.listen(t)
		for _, tc := range []struct{ rest, want string }{{"b", "HTTP/1.1 200"}, {"", "HTTP/1.1 408"}} {
			c, err := network.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, "PUT /v1/picture HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good-ann\r\nContent-Type: image/png\r\nConnection: "+
				"close\r\nContent-Length: 2\r\n\r\na")
			if tc.rest != "" {
				<-time.After(3 * bodyTimeout)
				fmt.Fprint(c, tc.rest)
			}
			answer, err := io.ReadAll(c)
			if err != nil || !strings.HasPrefix(string(answer), tc.want) {
				t.Errorf("the rest %q: got %.200s, %v, want %s", tc.rest, answer, err, tc.want)
			}
		}
	})
}

func TestOrigin_FollowsTheRequest(t *testing.T) {
	s := newSite(t, func(c *Config) { c.TrustProxy = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	var got string
	HandlePublic(s.API, Op{Method: "GET", Path: "/v1/origin", ID: "origin"}, func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		got = Origin(ctx)
		return nil, nil
	})
	for _, tc := range []struct {
		host, peer, proto string
		tls               bool
		want              string
	}{
		{"stoa.example.org", "10.1.2.3:4", "", false, "http://stoa.example.org"},
		{"stoa.example.org:8443", "10.1.2.3:4", "", true, "https://stoa.example.org:8443"},
		{"[::1]:8080", "192.0.2.1:4", "", false, "http://[::1]:8080"},
		{"stoa.example.org", "10.1.2.3:4", "https", false, "https://stoa.example.org"},
		{"stoa.example.org", "10.1.2.3:4", "https, http", false, "https://stoa.example.org"},
		{"stoa.example.org", "10.1.2.3:4", "HTTPS", false, "https://stoa.example.org"},
		{"stoa.example.org", "10.1.2.3:4", "http, https", false, "http://stoa.example.org"},
		{"stoa.example.org", "192.0.2.1:4", "https", false, "http://stoa.example.org"}, // an untrusted client can send this header
		{"", "192.0.2.1:4", "", false, ""},
		{"a@b", "192.0.2.1:4", "", false, ""},
		{"a/b", "192.0.2.1:4", "", false, ""},
		{strings.Repeat("a", 300), "192.0.2.1:4", "", false, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/origin", nil)
		r.Host, r.RemoteAddr = tc.host, tc.peer
		if tc.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if tc.proto != "" {
			r.Header.Set("X-Forwarded-Proto", tc.proto)
		}
		got = "nothing"
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if got != tc.want {
			t.Errorf("%+v: got %q", tc, got)
		}
	}
}

func TestOrigin_IsThePublicURLForEveryHost(t *testing.T) {
	s := newSite(t, func(c *Config) { c.PublicURL = origin.MustParse("https://stoa.example.org:8443") })
	var got string
	HandlePublic(s.API, Op{Method: "GET", Path: "/v1/origin", ID: "origin"}, func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		got = Origin(ctx)
		return nil, nil
	})
	for _, host := range []string{"stoa.example.org", "stoa.example.org:8443", "evil.example", "a@b"} {
		r := httptest.NewRequest(http.MethodGet, "/v1/origin", nil)
		r.Host = host
		got = ""
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		if got != "https://stoa.example.org:8443" {
			t.Errorf("%s: got %q", host, got)
		}
	}
}
