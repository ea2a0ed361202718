package web

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// discard is a ResponseWriter that discards the response.
type discard struct{ h http.Header }

func (n discard) Header() http.Header         { return n.h }
func (n discard) Write(b []byte) (int, error) { return len(b), nil }
func (n discard) WriteHeader(int)             {}

func bench(b *testing.B, h http.Handler, method, target, body string) {
	b.Helper()
	r := httptest.NewRequest(method, target, nil)
	r.Header.Set("Authorization", "Bearer good-ann")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = int64(len(body))
	}
	rd := strings.NewReader(body)
	r.Body = io.NopCloser(rd)
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.h)
		rd.Reset(body)
		r.Body = io.NopCloser(rd)
		h.ServeHTTP(w, r)
	}
}

type small struct {
	Words   int `json:"words,omitempty" minimum:"0" maximum:"100000"`
	Minutes int `json:"minutes,omitempty" minimum:"0" maximum:"1440"`
}

type smallIO struct{ Body small }

// BenchmarkHandle compares an operation with a bare handler that only decodes and encodes.
func BenchmarkHandle(b *testing.B) {
	echo := func(_ context.Context, _ person, in *smallIO) (*smallIO, error) { return &smallIO{in.Body}, nil }
	const body = `{"words":120,"minutes":15}`
	api := func(change func(*Config)) http.Handler {
		cfg := Config{Auth: &tokens{}}
		change(&cfg)
		a := New(cfg)
		Handle(a, Op{Method: "POST", Path: "/v1/echo", ID: "echo"}, echo)
		Handle(a, Op{Method: "GET", Path: "/v1/echo/{id}", ID: "get"}, func(context.Context, person, *struct {
			ID string `path:"id" maxLength:"12"`
		}) (*smallIO, error) {
			return &smallIO{}, nil
		})
		return a.Handler()
	}
	bare := http.NewServeMux()
	bare.HandleFunc("POST /v1/echo", func(w http.ResponseWriter, r *http.Request) {
		var s small
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(s); err != nil {
			panic(err)
		}
	})
	bare.HandleFunc("GET /v1/echo/{id}", func(w http.ResponseWriter, r *http.Request) {
		_ = r.PathValue("id")
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(small{}); err != nil {
			panic(err)
		}
	})
	plain := api(func(*Config) {})
	b.Run("bare/POST", func(b *testing.B) { bench(b, bare, "POST", "/v1/echo", body) })
	b.Run("web/POST", func(b *testing.B) { bench(b, plain, "POST", "/v1/echo", body) })
	b.Run("bare/GET", func(b *testing.B) { bench(b, bare, "GET", "/v1/echo/abc", "") })
	b.Run("web/GET", func(b *testing.B) { bench(b, plain, "GET", "/v1/echo/abc", "") })
	for _, e := range []struct{ name, url string }{{"embedded", "embedded"}, {"server", redistest.Server(b).URL}} {
		b.Run("web+limit/GET/"+e.name, func(b *testing.B) {
			db := redistest.Open(b, e.url)
			limited := api(func(c *Config) {
				c.Limiter, c.Limit = ratelimit.New(db), DefaultLimit
				c.Limit.Max = 1 << 30
			})
			bench(b, limited, "GET", "/v1/echo/abc", "")
		})
	}
}
