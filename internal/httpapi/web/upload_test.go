package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

type streamIn struct {
	Stream *Stream `contentType:"application/x-stream"`
}

type lengthOut struct {
	Length string `header:"X-Length"`
}

var errTeapot = errs.New(errs.Invalid, "teapot", "It is a teapot.")

// swallow adds an operation that reads its body itself, and refuses a body of "no".
func (s *site) swallow() {
	op := Op{Method: "PATCH", Path: "/v1/stream", ID: "stream.put", Errors: []*errs.Error{errTeapot}, Statuses: map[string]int{"teapot": 418}}
	Handle(s.API, op, func(ctx context.Context, _ person, in *streamIn) (*lengthOut, error) {
		s.runs.Add(1)
		Header(ctx).Set("X-Always", "yes")
		b, err := io.ReadAll(in.Stream)
		if string(b) == "no" {
			return nil, errTeapot
		}
		return &lengthOut{fmt.Sprint(in.Stream.Length, " ", len(b))}, err
	})
}

func TestStream_IsReadByItsHandler(t *testing.T) {
	s := newSite(t, func(c *Config) { c.DB = sqldbtest.SQLite(t) })
	s.swallow()
	put := func(body string, headers ...string) *httptest.ResponseRecorder {
		return s.ask(t, "PATCH", "/v1/stream", body, append([]string{"Content-Type", "application/x-stream"}, headers...)...)
	}
	large := strings.Repeat("a", 10*defaultMaxBody)
	if w := put(large); w.Code != http.StatusNoContent || w.Header().Get("X-Length") != fmt.Sprint(len(large), " ", len(large)) {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
	if w := put("x", "Content-Type", "application/json"); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("another media type: got %d", w.Code)
	}
	if w := put("no"); w.Code != 418 || code(w) != "teapot" || w.Header().Get("X-Always") != "yes" {
		t.Errorf("a refusal with its own status: got %d %v %s", w.Code, w.Header(), w.Body)
	}
	if got := string(s.OpenAPI()); !strings.Contains(got, `"418"`) {
		t.Error("the description lacks the status")
	}
	before := s.runs.Load()
	for range 2 { // the server cannot compare a stream without reading it
		if w := put("x", "Idempotency-Key", "k"); w.Code != http.StatusNoContent || w.Header().Get("Idempotency-Replayed") != "" {
			t.Errorf("got %d %v", w.Code, w.Header())
		}
	}
	if n := s.runs.Load() - before; n != 2 {
		t.Errorf("it ran %d times", n)
	}
}

func TestStream_OnlyIdleTimeIsBounded(t *testing.T) {
	for _, pause := range []time.Duration{streamIdleTimeout - time.Second, streamIdleTimeout + time.Second} {
		bubble.Test(t, func(t *testing.T) {
			s := newSite(t)
			s.swallow()
			network := s.listen(t)
			c, err := network.Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, "PATCH /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good-ann\r\nContent-Type: "+
				"application/x-stream\r\nConnection: close\r\nContent-Length: 20\r\n\r\n")
			for range 20 {
				<-time.After(pause)
				if _, err := fmt.Fprint(c, "a"); err != nil {
					break
				}
			}
			answer, _ := io.ReadAll(c)
			if came := strings.HasPrefix(string(answer), "HTTP/1.1 204"); came != (pause < streamIdleTimeout) {
				t.Errorf("with pauses of %s: %.200s", pause, answer)
			}
		})
	}
}

// A client whose upload is cut gets a response, even if its server waits for more. A body that was read to its end is
// not cut.
func TestStream_EndsWhenCut(t *testing.T) {
	for _, body := range []string{"some", "something all"} {
		bubble.Test(t, func(t *testing.T) {
			s := newSite(t)
			streams := make(chan *Stream)
			Handle(s.API, Op{Method: "PATCH", Path: "/v1/stream", ID: "stream.put", Errors: []*errs.Error{errTeapot}},
				func(ctx context.Context, _ person, in *streamIn) (*struct{}, error) {
					streams <- in.Stream
					_, err := io.ReadAll(in.Stream)
					<-time.After(time.Second)
					if err != nil || ctx.Err() != nil {
						return nil, errTeapot
					}
					return nil, nil
				})
			c, err := s.listen(t).Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, "PATCH /v1/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good-ann\r\nContent-Type: "+
				"application/x-stream\r\nConnection: close\r\nContent-Length: 13\r\n\r\n", body)
			stream, began := <-streams, time.Now()
			<-time.After(time.Millisecond) // the server has read all available bytes
			stream.Cut()
			answer, err := io.ReadAll(c)
			want := "HTTP/1.1 422"
			if len(body) == 13 {
				want = "HTTP/1.1 204"
			}
			if !strings.HasPrefix(string(answer), want) || time.Since(began) >= streamIdleTimeout {
				t.Errorf("%q, cut, is answered after %s: %.200s, %v", body, time.Since(began), answer, err)
			}
		})
	}
}
