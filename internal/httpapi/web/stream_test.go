package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

type listenIn struct {
	Since string `query:"since"`
}

type sender = Send

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
	r, err := http.NewRequestWithContext(ctx, "GET", srv.URL+"/v1/events?since=41", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func TestEventStream_FlushesAndEndsWithTheClient(t *testing.T) {
	next, ended := make(chan struct{}), make(chan error, 1)
	s, srv := listen(t, func(ctx context.Context, caller person, in *listenIn, send sender) error {
		if err := send("thing", map[string]string{"text": "two\nlines", "after": in.Since, "who": caller.name}); err != nil {
			return err
		}
		if err := send("line\nbreak", nil); err == nil {
			return errors.New("a line break got through")
		}
		<-next
		if err := send("", 7); err != nil {
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
	for i, want := range []string{"event: thing\n", `data: {"after":"41","text":"two\nlines","who":"ann"}` + "\n", "\n", "data: 7\n", "\n"} {
		if i == 3 {
			close(next) // the first event arrived before the second was sent
		}
		line, err := lines.ReadString('\n')
		for line == ":\n" { // a slow machine gets the opening comment
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
		t.Errorf("a client that disconnected is logged as a failure: %s", s.logged())
	}
}

func TestEventStream_ConcurrentEventsAreWhole(t *testing.T) {
	_, srv := listen(t, func(_ context.Context, _ person, _ *listenIn, send sender) error {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for range 20 {
					if err := send("thing", i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		return nil
	})
	body, err := io.ReadAll(open(t, t.Context(), srv, "good-ann").Body)
	counts := map[string]int{}
	for event := range strings.SplitSeq(strings.ReplaceAll(string(body), ":\n\n", ""), "\n\n") {
		counts[event]++
	}
	for i := range 8 {
		if event := fmt.Sprintf("event: thing\ndata: %d", i); counts[event] != 20 {
			t.Errorf("%q arrived %d times, want 20 (%v)", event, counts[event], err)
		}
	}
}

func TestEventStream_NeedsAToken(t *testing.T) {
	_, srv := listen(t, func(context.Context, person, *listenIn, sender) error { t.Error("ran"); return nil })
	if res := open(t, t.Context(), srv, "bad"); res.StatusCode != 401 {
		t.Errorf("got %d, want 401", res.StatusCode)
	}
}

func TestEventStream_EarlyErrorIsAProblem(t *testing.T) {
	_, srv := listen(t, func(context.Context, person, *listenIn, sender) error { return errAway })
	res := open(t, t.Context(), srv, "good-ann")
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 503 || res.Header.Get("Content-Type") != "application/problem+json" ||
		!strings.Contains(string(body), "thing.away") {
		t.Errorf("got %d %v %s (%v)", res.StatusCode, res.Header, body, err)
	}
}

func TestEventStream_LateErrorIsLogged(t *testing.T) {
	s, srv := listen(t, func(_ context.Context, _ person, _ *listenIn, send sender) error {
		return errors.Join(send("a", 1), errors.New("row 17"))
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

func TestEventStream_EndsWhenTheServerDrains(t *testing.T) {
	begun := make(chan struct{})
	s, srv := listen(t, func(ctx context.Context, _ person, _ *listenIn, send sender) error {
		err := send("a", 1)
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

func TestEventStream_HEADDoesNotStartOne(t *testing.T) {
	s := newSite(t)
	HandleStream(s.API, Op{Path: "/v1/events", ID: "events"}, func(context.Context, person, *listenIn, sender) error {
		t.Error("ran")
		return nil
	})
	if w := s.ask(t, "HEAD", "/v1/events", ""); w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

// flushed is a client that always reads.
type flushed struct{ *httptest.ResponseRecorder }

func (flushed) Flush() {}

func TestEventStream_HeartbeatsUntilRevocation(t *testing.T) {
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
		// One comment opens the stream, and two are heartbeats. At the third the token is no longer valid.
		if got, want := w.Body.String(), ":\n\n:\n\n:\n\n"; w.Code != 200 || got != want {
			t.Errorf("got %d %q, want %q", w.Code, got, want)
		}
		if got, want := time.Since(began), openAfter+3*heartbeat; got != want {
			t.Errorf("it lasted %s, want %s", got, want)
		}
	})
}

// Many streams of one token, or of many tokens in one client network, do not fill the server's memory.
func TestEventStream_LimitsPerUserAndNetwork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		HandleStream(s.API, Op{Path: "/v1/events", ID: "events"}, func(ctx context.Context, _ person, _ *listenIn, _ sender) error {
			<-ctx.Done()
			return nil
		})
		net := bubble.NewNetwork()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, net) }()
		hc := net.Client()
		try := func(user string) *http.Response {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://stoa.test/v1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer good-"+user)
			res, err := hc.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, res.Body) }() // a client that does not read is disconnected
			return res
		}
		counted := func() int {
			s.streams.mu.Lock()
			defer s.streams.mu.Unlock()
			return s.streams.total
		}
		var open []*http.Response
		for range maxStreamsPerUser {
			open = append(open, try("ann"))
		}
		if res := try("ann"); res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
			t.Errorf("beyond a user's limit: got %d %v", res.StatusCode, res.Header)
		}
		if res := try("bob"); res.StatusCode != http.StatusOK {
			t.Errorf("another user's: got %d", res.StatusCode)
		} else {
			open = append(open, res)
		}
		_ = open[0].Body.Close()
		synctest.Wait()
		if res := try("ann"); res.StatusCode != http.StatusOK {
			t.Errorf("after one was closed: got %d", res.StatusCode)
		}
		for i := len(open); i < maxStreamsPerNetwork; i++ {
			if res := try(fmt.Sprint("user", i)); res.StatusCode != http.StatusOK {
				t.Fatalf("stream %d of a client network: got %d", i, res.StatusCode)
			}
		}
		if res := try("eve"); res.StatusCode != http.StatusTooManyRequests {
			t.Errorf("beyond a client network's limit: got %d, and %d are counted", res.StatusCode, counted())
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		hc.CloseIdleConnections()
		synctest.Wait()
		if s.streams.total != 0 || len(s.streams.by) != 0 {
			t.Errorf("%d streams are counted after the end, %v", s.streams.total, s.streams.by)
		}
	})
}

// A client that requests a large response and reads nothing is disconnected.
func TestServe_DisconnectsIdleReaders(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		wrote := make(chan error, 1)
		s.Raw("GET /large", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var err error
			for range 100 {
				if _, err = w.Write(make([]byte, 64<<10)); err != nil {
					break
				}
			}
			wrote <- err
		}))
		net := bubble.NewNetwork()
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, net) }()
		ask := func() io.ReadCloser {
			conn, err := net.Dial(t.Context(), "tcp", "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: stoa.test\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return conn
		}
		began := time.Now()
		silent := ask()
		if err := <-wrote; err == nil || time.Since(began) > 2*answerTimeout {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		_ = silent.Close()

		slow := ask() // but reads
		began = time.Now()
		for range 100 {
			if _, err := io.ReadFull(slow, make([]byte, 64<<10)); err != nil {
				t.Fatalf("a slow client was cut off after %s: %v", time.Since(began), err)
			}
			bubble.Sleep(answerTimeout / 2)
		}
		_ = slow.Close()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestConnections_AreLimited(t *testing.T) {
	c := counts{}
	names, user := map[string]int{"from a": 2, "user b": 3}, map[string]int{"user b": 3}
	for i, tt := range []struct {
		max   int
		names map[string]int
		want  bool
	}{{0, names, true}, {0, names, true}, {0, names, false}, {0, user, true}, {0, user, false}, {3, nil, false}} {
		if got := c.add(tt.max, tt.names); got != tt.want {
			t.Errorf("%d: got %v, counted %+v", i, got, c.by)
		}
	}
	c.remove(names)
	if !c.add(3, names) || c.add(3, nil) || c.total != 3 {
		t.Errorf("after one was removed: %+v, %d", c.by, c.total)
	}
}
