package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// ann is the owner of every token.
type ann struct{}

func (ann) UserID() string       { return "ann" }
func (ann) DeviceID() string     { return "phone" }
func (ann) ExpiresAt() time.Time { return time.Now().Add(time.Hour) }

type sessions struct{}

// Authenticate accepts tokens from one client network.
func (sessions) Authenticate(ctx context.Context, _ string) (web.Caller, error) {
	if from := clientnet.From(ctx); from != "192.0.2.1" {
		return nil, fmt.Errorf("somebody from %q", from)
	}
	return ann{}, nil
}

func (sessions) StillHere(_ context.Context, c web.Caller) (web.Caller, error) { return c, nil }

// slow are channels that refuse every user after a while.
type slow struct {
	Channels
	answer       chan struct{} // closed when they may reply
	asked, waits atomic.Int64
}

func (s *slow) MaySubscribe(ctx context.Context, _, _ string) error {
	s.asked.Add(1)
	s.waits.Add(1)
	defer s.waits.Add(-1)
	select {
	case <-s.answer:
	case <-ctx.Done():
	}
	return errs.New(errs.NotFound, "channel.unknown", "There is no such channel.")
}

// serve runs a gateway in a bubble; its callers may subscribe most times a minute. dial opens a socket.
func serve(t *testing.T, memory *redistest.Memory, most int, cfg Config) (g *Gateway, dial func() *websocket.Conn) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db := memory.Open(t)
	bus := events.NewBus(db, "here", log)
	a := web.New(web.Config{Title: "Test", Version: "1", Auth: cfg.Sessions, Log: log, NoDocs: true,
		TrustProxy: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Limiter:    ratelimit.New(db), Limit: ratelimit.Limit{Max: most, Window: time.Minute}})
	cfg.API, cfg.Bus, cfg.Node, cfg.Version = a, bus, "here", "1"
	g, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	g.Routes(a)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = bus.Run(ctx, func() {}) })
	running.Go(func() { _ = g.Run(ctx, func() {}) })
	network := bubble.NewNetwork()
	server := &http.Server{Handler: a.Handler()}
	running.Go(func() { _ = server.Serve(network) })
	t.Cleanup(func() {
		_ = server.Close()
		cancel()
		running.Wait()
		bubble.Sleep(2 * time.Second) // the library waits that long for clients that come back
	})
	if err := bus.Nodes().Wait(ctx); err != nil {
		t.Fatal(err)
	}
	return g, func() *websocket.Conn {
		conn, _, err := websocket.Dial(ctx, "ws://here/v1/socket",
			&websocket.DialOptions{HTTPClient: network.Client(), HTTPHeader: http.Header{"X-Forwarded-For": {"192.0.2.1"}}})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

func TestSubscribe_IsLimited(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const most, tries = 50, 80
		channels := &slow{answer: make(chan struct{})}
		_, dial := serve(t, redistest.InMemory(t), most,
			Config{Sessions: sessions{}, Channels: channels, Settings: Settings{Ping: 25 * time.Second, MaxUser: 2, MaxFrom: 2}})
		ctx := t.Context()

		conn := dial()
		defer conn.CloseNow()
		frame := `{"id":1,"connect":{"token":"good"}}`
		for i := range tries {
			frame += fmt.Sprintf("\n"+`{"id":%d,"subscribe":{"channel":"chat/%d"}}`, i+2, i)
		}
		if err := conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
			t.Fatal(err)
		}
		bubble.Sleep(time.Second)
		if got := channels.waits.Load(); got != maxConcurrentCalls {
			t.Errorf("%d subscriptions run at once, want %d", got, maxConcurrentCalls)
		}
		close(channels.answer)
		refused := map[int]int{}
		for n := 0; n < tries; {
			_, data, err := conn.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(string(data), "\n") {
				var reply struct{ Error struct{ Code int } }
				if err := json.Unmarshal([]byte(line), &reply); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if reply.Error.Code != 0 {
					refused[reply.Error.Code]++
					n++
				}
			}
		}
		if denied, tooMany, asked := refused[103], refused[111], channels.asked.Load(); denied != most || tooMany != tries-most || asked != most {
			t.Errorf("%d are denied, %d too many, and channels were asked %d times, want %d, %d and %d", denied, tooMany, asked, most, tries-most,
				most)
		}
	})
}

func TestFaults_AreCountedUnderConcurrentFaults(t *testing.T) {
	f := faults{all: map[string]fault{}}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				f.due("a fault")
			}
		})
	}
	all.Wait()
	if n := f.all["a fault"].others; n != 799 {
		t.Errorf("%d unlogged faults, want 799", n)
	}
}

func TestTurns_ConcurrentCallersGetDifferentTurns(t *testing.T) {
	var ts turns
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				ts.next(time.Hour)
			}
		})
	}
	all.Wait()
	if wait := ts.next(time.Hour); wait < 799*time.Hour {
		t.Errorf("after 800 turns the next one is in %s, want 800 hours", wait)
	}
}
