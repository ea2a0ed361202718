package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// serve starts a server in the test's bubble and returns a client of it.
func serve(t *testing.T, routes map[string]http.HandlerFunc) *Client {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, handler := range routes {
		mux.HandleFunc(pattern, handler)
	}
	network := bubble.NewNetwork()
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx }}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(network) }()
	h := network.Client()
	t.Cleanup(func() {
		cancel()
		h.CloseIdleConnections()
		_ = server.Close()
		<-stopped
	})
	c, err := New("http://h", WithHTTPClient(h), WithTokens(api.Tokens{AccessToken: "a0", RefreshToken: "r0"}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// silence accepts a request and never responds.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func expired(w http.ResponseWriter, _ *http.Request) {
	problem(w, http.StatusUnauthorized, "auth.token_invalid")
}

// socketAnswering upgrades, reads one frame and sends answer, unless that is empty.
func socketAnswering(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer conn.CloseNow()
		_, _, err = conn.Read(r.Context())
		if err == nil && answer != "" {
			err = conn.Write(r.Context(), websocket.MessageText, []byte(answer))
		}
		for err == nil {
			_, _, err = conn.Read(r.Context())
		}
	}
}

// socketClosing upgrades, reads one frame and closes with code.
func socketClosing(code websocket.StatusCode) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		if _, _, err := conn.Read(r.Context()); err == nil {
			_ = conn.Close(code, "closed by the test")
		}
	}
}

func TestConnections_RetryAServerThatNeverAnswers(t *testing.T) {
	const tokenExpired = `{"id":1,"error":{"code":109,"message":"token expired"}}`
	run := func(c *Client, ctx context.Context) error { return c.Socket(SocketListener{}).Run(ctx) }
	for name, test := range map[string]struct {
		socket, events, refresh http.HandlerFunc
		run                     func(*Client, context.Context) error
	}{
		"upgrade":                  {socket: silence, run: run},
		"connect":                  {socket: socketAnswering(""), run: run},
		"connect, closed as late":  {socket: socketClosing(3502), run: run},
		"upgrade, refused as late": {socket: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestTimeout) }, run: run},
		"refresh of a socket":      {socket: socketAnswering(tokenExpired), refresh: silence, run: run},
		"refresh of an open socket": {
			socket:  socketAnswering(`{"id":1,"connect":{"client":"c","version":"v","expires":true,"ttl":1,"ping":25,"subs":{"ann":{}}}}`),
			refresh: silence, run: run,
		},
		"stream of events": {events: silence, run: func(c *Client, ctx context.Context) error { return c.Listen(ctx, Listener{}) }},
		"refresh of a stream": {events: expired, refresh: silence, run: func(c *Client, ctx context.Context) error {
			return c.Listen(ctx, Listener{})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var tries atomic.Int32
				routes := map[string]http.HandlerFunc{}
				for pattern, handler := range map[string]http.HandlerFunc{"/v1/socket": test.socket, "/v1/events": test.events,
					"/v1/auth/refresh": test.refresh} {
					if handler != nil {
						routes[pattern] = func(w http.ResponseWriter, r *http.Request) { tries.Add(1); handler(w, r) }
					}
				}
				c := serve(t, routes)
				ctx, cancel := context.WithCancel(t.Context())
				over := make(chan error, 1)
				go func() { over <- test.run(c, ctx) }()
				bubble.Sleep(5 * time.Minute)
				select {
				case err := <-over:
					t.Errorf("ended: %v", err)
				default:
					if n := tries.Load(); n < 4 {
						t.Errorf("%d requests in five minutes, want at least 4", n)
					}
					cancel()
					if err := <-over; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
						t.Errorf("the caller's end: got %v, want %v", err, context.Canceled)
					}
				}
				cancel()
			})
		})
	}
}

func TestCall_TimesOutAsUnreachable(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := serve(t, map[string]http.HandlerFunc{"/v1/me": silence, "/v1/checkin": expired, "/v1/auth/refresh": silence})
		c.timeout = time.Second
		if _, err := c.Me(t.Context()); !errors.Is(err, ErrUnreachable) {
			t.Errorf("no answer: got %v, want %v", err, ErrUnreachable)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := c.Me(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
			t.Errorf("the caller's deadline: got %v, want %v", err, context.DeadlineExceeded)
		}
		errs := make(chan error, 2)
		for range cap(errs) { // one renews the tokens, and the other waits for it
			go func() {
				_, err := c.Checkin(t.Context(), api.CheckinRequest{})
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, ErrUnreachable) {
				t.Errorf("no answer to the renewal: got %v, want %v", err, ErrUnreachable)
			}
		}
	})
}

// The node of the first try has died, and its claim expires after some time.
func TestWrite_RetriesBusyUntilItsTimeout(t *testing.T) {
	for name, test := range map[string]struct {
		lapses time.Duration
		code   string
	}{
		"the claim lapses": {25 * time.Second, ""},
		"the claim stays":  {time.Hour, "idempotency.busy"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				began, tries := time.Now(), 0
				c := serve(t, map[string]http.HandlerFunc{"/v1/checkin": func(w http.ResponseWriter, r *http.Request) {
					switch tries++; {
					case tries == 1:
						panic(http.ErrAbortHandler)
					case time.Since(began) < test.lapses:
						w.Header().Set("Retry-After", "1")
						problem(w, http.StatusConflict, "idempotency.busy")
					default:
						answer(w, http.StatusOK, api.CheckinReply{})
					}
				}})
				if _, err := c.Checkin(t.Context(), api.CheckinRequest{}); CodeOf(err) != test.code || test.code == "" && err != nil {
					t.Errorf("got %v, want code %q", err, test.code)
				}
				if took := time.Since(began); took < min(test.lapses, defaultTimeout) || took > defaultTimeout {
					t.Errorf("it took %s", took)
				}
				if tries > 40 {
					t.Errorf("%d tries", tries)
				}
			})
		})
	}
}

func TestSocket_EndsWithoutATokenThatServes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := serve(t, map[string]http.HandlerFunc{"/v1/socket": socketClosing(3500)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.Socket(SocketListener{}).Run(ctx); CodeOf(err) != "auth.token_invalid" {
			t.Errorf("got %v, want auth.token_invalid", err)
		}
	})
}
