package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/centrifugal/centrifuge"
	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/stoa-dev/stoa/internal/base/origin"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// The failure of a subscription may be detected late, when the connection already has the next one.
func TestLeave_EndsOnlyItsSubscription(t *testing.T) {
	t.Parallel()
	var cs connections
	c := &connection{}
	first := cs.addSubscription(c, "room", nil)
	if !cs.removeSubscription(c, "room", nil) {
		t.Fatal("the connection had nothing to leave")
	}
	second := cs.addSubscription(c, "room", []string{"ann"})
	if cs.removeSubscription(c, "room", first) || cs.hasSubscription(c, "room", first) || !cs.hasSubscription(c, "room", second) ||
		len(cs.subscribers("room")) != 1 {
		t.Errorf("the end of the first subscription left %v, and on the channel %d", cs.subscriptionsOf(c), len(cs.subscribers("room")))
	}
	if !cs.removeSubscription(c, "room", second) || cs.removeSubscription(c, "room", second) || len(cs.subscribers("room")) != 0 ||
		len(cs.subscriptionsOf(c)) != 0 {
		t.Errorf("the end of the second subscription left %v, and on the channel %d", cs.subscriptionsOf(c), len(cs.subscribers("room")))
	}
}

// All clients load the state after Redis was emptied, but do not reconnect all at once.
func TestLost_ClientsReconnectInTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const clients = 200
		memory := redistest.InMemory(t)
		_, dial := serve(t, memory, 1, Config{Sessions: sessions{}, Settings: Settings{Ping: time.Minute, MaxUser: clients, MaxFrom: clients}})
		gone := make(chan time.Time, clients)
		for range clients {
			conn := dial()
			defer conn.CloseNow()
			if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"id":1,"connect":{"token":"good"}}`)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := conn.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _, err := conn.Read(t.Context())
				if code := websocket.CloseStatus(err); code != websocket.StatusCode(centrifuge.DisconnectInsufficientState.Code) {
					t.Errorf("a client got %v", err)
				}
				gone <- time.Now()
			}()
		}
		memory.FlushAll()
		wantInTurn(t, gone, clients)
	})
}

// wantInTurn receives n times and checks that they are a millisecond apart and within the time for all.
func wantInTurn(t *testing.T, moments <-chan time.Time, n int) {
	t.Helper()
	first := <-moments
	last := first
	for range n - 1 {
		last = <-moments
	}
	if over := last.Sub(first); over < time.Duration(n-1)*time.Millisecond || over > resyncOver {
		t.Errorf("got a spread over %s", over)
	}
}

// everybodys are channels that every user may get.
type everybodys struct{}

func (everybodys) MaySubscribe(context.Context, string, string) error       { return nil }
func (everybodys) MayStay(context.Context, string, string) error            { return nil }
func (everybodys) Hidden(context.Context, string, string) ([]string, error) { return nil, nil }
func (everybodys) Subscribed(string, string, string)                        {}
func (everybodys) Unsubscribed(string, string, string)                      {}

// Events of a room may be lost while no others are: then no connection ends.
func TestLost_SubscribersResubscribeInTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const clients, room = 200, "room/1"
		g, dial := serve(t, redistest.InMemory(t), clients,
			Config{Sessions: sessions{}, Channels: everybodys{}, Settings: Settings{Ping: time.Minute, MaxUser: clients, MaxFrom: clients}})
		told := make(chan time.Time, 2*clients)
		for range clients {
			conn := dial()
			defer conn.CloseNow()
			frame := `{"id":1,"connect":{"token":"good"}}` + "\n" + `{"id":2,"subscribe":{"channel":"` + room + `"}}`
			if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
				t.Fatal(err)
			}
			go func() {
				for {
					_, data, err := conn.Read(t.Context())
					if err != nil {
						return
					}
					if strings.Contains(string(data), `"code":2500`) {
						told <- time.Now()
					}
				}
			}()
		}
		bubble.Sleep(time.Second)
		if n := len(g.conns.subscribers(room)); n != clients {
			t.Fatalf("%d have subscribed, want %d", n, clients)
		}
		g.lost(room)
		g.lost(room)
		wantInTurn(t, told, clients)
		if bubble.Sleep(resyncOver); len(told) > 0 {
			t.Errorf("%d are told twice", len(told))
		}
	})
}

// A connection may have many subscriptions.
func TestLost_AllSubscriptionsGetTheirTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const channels = 20_000
		var g Gateway
		c := &connection{}
		c.resyncScheduled.Store(true) // nothing else happens when the turn comes
		for i := range channels {
			g.conns.addSubscription(c, fmt.Sprint("room/", i), nil)
		}
		for channel := range g.conns.subscriptionsOf(c) {
			g.lost(channel)
		}
		bubble.Sleep(resyncOver)
		waiting := 0
		for channel, s := range g.conns.subscriptionsOf(c) {
			if s.resyncScheduled.Load() {
				waiting++
			}
			g.conns.addSubscription(c, channel, nil)
			g.conns.removeSubscription(c, channel, nil)
		}
		if left := g.conns.subscriptions.Load(); waiting > 0 || left != 0 {
			t.Errorf("%d subscriptions wait for their turn, and %d are left of none", waiting, left)
		}
	})
}

// caller is a caller whose token is their name.
type caller struct {
	ann
	name string
}

func (c caller) UserID() string { return c.name }

// distant are sessions that take a while to check.
type distant struct{}

func (distant) Authenticate(_ context.Context, token string) (web.Caller, error) {
	return caller{name: token}, nil
}

const away = 10 * time.Millisecond

func (distant) StillHere(_ context.Context, c web.Caller) (web.Caller, error) {
	<-time.After(away)
	return c, nil
}

// The sessions of simultaneous events are checked concurrently, whichever node the events come from.
func TestAhead_ChecksSessionsConcurrently(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		memory := redistest.InMemory(t)
		here, dial := serve(t, memory, 1, Config{Sessions: distant{},
			Settings: Settings{Ping: time.Minute, MaxUser: 1, MaxFrom: maxConcurrentChecks}})
		there := events.NewBus(memory.Open(t), "there", slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = there.Run(ctx, func() {}) }()
		defer func() { stop(); <-ended }()
		var batch []events.Event
		heard := make(chan time.Time, maxConcurrentChecks)
		for i := range maxConcurrentChecks {
			name := fmt.Sprint("user", i)
			batch = append(batch, events.New("tick", name, time.Now(), json.RawMessage("{}")))
			conn := dial()
			defer conn.CloseNow()
			if err := conn.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"id":1,"connect":{"token":%q}}`, name)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := conn.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			go func() {
				for {
					if _, _, err := conn.Read(t.Context()); err != nil {
						return
					}
					heard <- time.Now()
				}
			}()
		}
		for node, bus := range map[string]*events.Bus{"this": here.cfg.Bus, "another": there} {
			bubble.Sleep(time.Second) // no check for MaxStale
			began, last := time.Now(), time.Time{}
			bus.Publish(slices.Clone(batch))
			for range batch {
				last = <-heard
			}
			if took := last.Sub(began); took >= 2*away {
				t.Errorf("the last client got an event of %[2]s node after %[1]s", took, node)
			}
		}
	})
}

// The second case is a proxy on a port of its own that passes the Host header without the port.
func TestMayConnect_TakesOwnPublicAndListedOrigins(t *testing.T) {
	var log logtest.Buffer
	g := &Gateway{
		cfg: Config{PublicURL: origin.MustParse("https://stoa.example.org:8443"),
			Origins: origin.MustPatterns("capacitor://localhost", "https://*.example.com")},
		log:           slog.New(slog.NewTextHandler(&log, nil)),
		metrics:       newMetrics(nil, func() float64 { return 0 }),
		refusedOrigin: rate.Sometimes{First: 1},
	}
	for _, tc := range []struct {
		origin, host string
		want         bool
	}{
		{"", "stoa.example.org", true},
		{"https://stoa.example.org:8443", "stoa.example.org", true},
		{"https://stoa.example.org", "stoa.example.org:443", true},
		{"http://Stoa.example.org:80", "stoa.example.org", true},
		{"http://localhost:8080", "localhost:8080", true},
		{"capacitor://localhost", "stoa.example.org", true},
		{"https://a.example.com", "stoa.example.org", true},
		{"https://stoa.example.org:9443", "stoa.example.org", false},
		{"https://evil.example", "stoa.example.org", false},
		{"null", "stoa.example.org", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/socket", nil)
		r.Host = tc.host
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		if got := g.mayConnect(r); got != tc.want {
			t.Errorf("%s at %s: got %t", tc.origin, tc.host, got)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "stoa.example.org:9443") {
		t.Errorf("the log has %d lines: %s", n, log.String())
	}
}
