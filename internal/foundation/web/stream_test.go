package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/bubble"
)

type listenIn struct {
	Last string `header:"Last-Event-ID"`
}

type sender = func(event, id string, v any) error

func listen(t *testing.T, fn func(ctx context.Context, caller person, in *listenIn, send sender) error) (*site, *httptest.Server) {
	t.Helper()
	s := newSite(t)
	HandleStream(s.API, Op{Path: "/v1/events", ID: "events"}, fn)
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(srv.Close)
	return s, srv
}

func open(t *testing.T, ctx context.Context, srv *httptest.Server, token string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Last-Event-ID", "41")
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestAStreamSendsEventsAtOnceAndEndsWithTheClient(t *testing.T) {
	next, ended := make(chan struct{}), make(chan error, 1)
	s, srv := listen(t, func(ctx context.Context, caller person, in *listenIn, send sender) error {
		if err := send("thing", "42", map[string]string{"text": "two\nlines", "after": in.Last, "who": caller.name}); err != nil {
			return err
		}
		if err := send("line\nbreak", "", nil); err == nil {
			return errors.New("a line break got through")
		}
		<-next
		if err := send("", "", 7); err != nil {
			return err
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	res := open(t, ctx, srv, "good-ann")
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v", res.StatusCode, res.Header)
	}
	lines := bufio.NewReader(res.Body)
	for i, want := range []string{"event: thing\n", "id: 42\n", `data: {"after":"41","text":"two\nlines","who":"ann"}` + "\n", "\n", "data: 7\n", "\n"} {
		if i == 4 {
			close(next) // the first event came before the second was sent
		}
		line, err := lines.ReadString('\n')
		for line == ":\n" { // a slow machine sees the opening comment
			if _, err = lines.ReadString('\n'); err == nil {
				line, err = lines.ReadString('\n')
			}
		}
		if err != nil || line != want {
			t.Fatalf("line %d: got %q (%v), want %q", i, line, err, want)
		}
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if strings.Contains(s.logged(), "stream failed") {
		t.Errorf("a client that left is logged as a failure: %s", s.logged())
	}
}

func TestAStreamNeedsAToken(t *testing.T) {
	_, srv := listen(t, func(context.Context, person, *listenIn, sender) error { t.Error("ran"); return nil })
	if res := open(t, t.Context(), srv, "bad"); res.StatusCode != 401 {
		t.Errorf("got %d, want 401", res.StatusCode)
	}
}

func TestAStreamThatCannotBeginIsAProblem(t *testing.T) {
	_, srv := listen(t, func(context.Context, person, *listenIn, sender) error { return errAway })
	res := open(t, t.Context(), srv, "good-ann")
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 503 || res.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(string(body), "thing.away") {
		t.Errorf("got %d %v %s (%v)", res.StatusCode, res.Header, body, err)
	}
}

func TestAStreamThatFailsLaterIsLoggedAndEnds(t *testing.T) {
	s, srv := listen(t, func(_ context.Context, _ person, _ *listenIn, send sender) error {
		return errors.Join(send("a", "", 1), errors.New("row 17"))
	})
	res := open(t, t.Context(), srv, "good-ann")
	body, err := io.ReadAll(res.Body)
	if err != nil || string(body) != "event: a\ndata: 1\n\n" {
		t.Errorf("got %q (%v)", body, err)
	}
	if !strings.Contains(s.logged(), "row 17") {
		t.Errorf("not in the log: %s", s.logged())
	}
}

func TestStreamsEndWhenTheServerDrains(t *testing.T) {
	begun := make(chan struct{})
	s, srv := listen(t, func(ctx context.Context, _ person, _ *listenIn, send sender) error {
		err := send("a", "", 1)
		close(begun)
		<-ctx.Done()
		return err
	})
	res := open(t, t.Context(), srv, "good-ann")
	<-begun
	s.EndStreams()
	s.EndStreams()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "event: a\ndata: 1\n\n" {
		t.Errorf("got %q (%v)", body, err)
	}
	if res := open(t, t.Context(), srv, "good-ann"); res.StatusCode != 503 {
		t.Errorf("a new stream got %d, want 503", res.StatusCode)
	}
}

func TestHEADOfAStreamDoesNotBeginOne(t *testing.T) {
	s := newSite(t)
	HandleStream(s.API, Op{Path: "/v1/events", ID: "events"}, func(context.Context, person, *listenIn, sender) error { t.Error("ran"); return nil })
	if w := s.ask(t, "HEAD", "/v1/events", ""); w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

// flushed is a client that always reads.
type flushed struct{ *httptest.ResponseRecorder }

func (flushed) Flush() {}

func TestASilentStreamHasHeartbeatsUntilTheTokenIsRevoked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		HandleStream(s.API, Op{Path: "/v1/events", ID: "events"}, func(ctx context.Context, _ person, _ *listenIn, _ sender) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		time.AfterFunc(2*heartbeat+time.Second, func() { s.auth.revoked.Store(true) })
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/events", nil)
		r.Header.Set("Authorization", "Bearer good-ann")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(flushed{w}, r)
		// One comment opens the stream, two are heartbeats, at the third the
		// token is no longer good.
		if got, want := w.Body.String(), ":\n\n:\n\n:\n\n"; w.Code != 200 || got != want {
			t.Errorf("got %d %q, want %q", w.Code, got, want)
		}
		if got, want := time.Since(began), openAfter+3*heartbeat; got != want {
			t.Errorf("it lasted %s, want %s", got, want)
		}
	})
}
