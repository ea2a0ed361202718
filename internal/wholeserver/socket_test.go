package wholeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// device is a device with a socket. It records the types of events, and the state of the connection.
type device struct {
	*client.Socket
	c *client.Client

	line  *line
	ended chan error

	mu    sync.Mutex
	heard []string
	got   map[string]bool // types of events
}

// line is a device's connection to the servers. It can be cut, and be moved to another node.
type line struct {
	mu    sync.Mutex
	node  *testkit.Server
	cut   bool
	conns []net.Conn
}

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("the line is cut")
	}
	conn, err := l.node.Dial(ctx, network, addr)
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

// harm cuts the line, or breaks its connections and moves it to a node.
func (l *line) harm(to *testkit.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = to == nil
	if to != nil {
		l.node = to
	}
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

func (d *device) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = append(d.heard, what)
}

func (d *device) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.heard)
}

// types returns the types of all received events.
func (d *device) types() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.got)
}

// hears waits until exactly these events are recorded.
func (d *device) hears(t *testing.T, want ...string) {
	t.Helper()
	eventually.Equal(t, "what a device hears", fmt.Sprint(want), func() string { return fmt.Sprint(d.all()) })
}

// socket opens a device's socket at a node, until the test ends.
func (p *deployment) socket(node int, tokens api.Tokens) *device {
	p.t.Helper()
	bubble.Sleep(time.Second) // earlier events have been delivered
	d := &device{line: &line{node: p.nodes[node]}, ended: make(chan error, 1), got: map[string]bool{}}
	h := &http.Client{Transport: &http.Transport{DialContext: d.line.dial}}
	p.t.Cleanup(h.CloseIdleConnections)
	d.c = p.client(node, client.WithTokens(tokens), client.WithHTTPClient(h))
	d.Socket = d.c.Socket(client.SocketListener{
		Open: func(resumed bool) { d.note(map[bool]string{true: "resumed", false: "opened"}[resumed]) },
		Event: func(e api.Event) {
			d.mu.Lock()
			d.got[e.Type] = true
			d.mu.Unlock()
			if e.Type == api.EventNoticeNew { // its tests ignore these
				return
			}
			if data, ok := e.Data.(json.RawMessage); ok && e.Type == api.EventAccountUpdated {
				var u struct{ Name string }
				_ = json.Unmarshal(data, &u)
				d.note(e.Type + " " + u.Name)
				return
			}
			if data, ok := e.Data.(json.RawMessage); ok && e.Type == api.EventPresenceChanged {
				var of api.Presence
				_ = json.Unmarshal(data, &of)
				d.note(of.User + " " + of.Status)
				return
			}
			d.note(describeEvent(e))
		},
		Closed: func(error) { d.note("closed") },
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	go func() { d.ended <- d.Run(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		<-d.ended
	})
	eventually.True(p.t, "a socket to open", func() bool { return len(d.all()) > 0 })
	return d
}

// rename changes the name of the user of d.
func (d *device) rename(t *testing.T, name string) {
	t.Helper()
	must(t, d.Call(t.Context(), "me.update", api.SocketCall{Body: map[string]string{"name": name}}, nil))
}

func TestASocketCallsAndHearsOnEveryNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		here, there := p.socket(0, p.enter(0)), p.socket(1, p.enter(1))
		here.hears(t, "opened", "session.opened") // of the other device
		there.hears(t, "opened")
		var me api.User
		if err := here.Call(t.Context(), "me.update", api.SocketCall{Body: map[string]string{"name": "Anna"}}, &me); err != nil ||
			me.Name != "Anna" {
			t.Fatalf("got %+v, %v", me, err)
		}
		here.hears(t, "opened", "session.opened", "account.updated Anna")
		there.hears(t, "opened", "account.updated Anna")

		err := there.Call(t.Context(), "me.update", api.SocketCall{Body: map[string]string{"name": ""}}, nil)
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 422 || e.Code != "request.invalid" && e.Code != "account.name_invalid" {
			t.Errorf("a bad name: %v", err)
		}
		if err := there.Call(t.Context(), "me.nothing", api.SocketCall{}, nil); client.CodeOf(err) != "operation.unknown" {
			t.Errorf("an unknown operation: %v", err)
		}
		var profile api.Profile
		if err := there.Call(t.Context(), "users.get", api.SocketCall{Path: map[string]any{"user": me.ID}}, &profile); err != nil ||
			profile.Name != "Anna" {
			t.Errorf("with a path: %+v, %v", profile, err)
		}
		var seen api.Presences
		if err := there.Call(t.Context(), "presence.get",
			api.SocketCall{Query: map[string]any{"users": []string{me.ID, "nobody-at-al"}, "last_seen": true}}, &seen); err != nil ||
			len(seen.Users) != 2 || seen.Users[0].User != me.ID {
			t.Errorf("with a list in the query: %+v, %v", seen, err)
		}
		first := api.SocketCall{Body: map[string]any{"words": 7}, Key: "one"}
		for range 2 {
			must(t, here.Call(t.Context(), "checkin.mark", first, nil))
		}
		there.hears(t, "opened", "account.updated Anna", "checkin.marked")
		if again, err := there.c.Checkin(t.Context(), api.CheckinRequest{}); err != nil || again.New || again.Streak != 1 || again.Total != 1 {
			t.Errorf("again on the other node: %+v, %v", again, err)
		}
		for _, token := range []string{"", "hunter2", strings.Repeat("x", 600), "two words"} {
			s := p.client(0, client.WithTokens(api.Tokens{AccessToken: token})).Socket(client.SocketListener{})
			if err := s.Run(t.Context()); client.CodeOf(err) != "auth.token_invalid" {
				t.Errorf("%.10q: %v", token, err)
			}
		}
	})
}

func TestABrokenSocketResumesOnAnotherNodeOrTellsThatItCannot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		// A client with only an access token also resumes.
		stays, goes := p.socket(0, p.enter(0)), p.socket(1, api.Tokens{AccessToken: p.enter(1).AccessToken})
		bubble.Sleep(time.Second)
		began := len(goes.all())
		goes.line.harm(nil)
		stays.rename(t, "One")
		stays.rename(t, "Two")
		bubble.Sleep(15 * time.Second)
		goes.line.harm(p.nodes[0])
		eventually.Equal(t, "what is heard after a break", "[closed resumed account.updated One account.updated Two]", func() string {
			return fmt.Sprint(goes.all()[began:])
		})
		goes.line.harm(nil)
		goes.line.harm(p.nodes[1])
		want := "[closed resumed account.updated One account.updated Two closed resumed]"
		eventually.Equal(t, "what is heard after another break", want, func() string { return fmt.Sprint(goes.all()[began:]) })

		began = len(goes.all())
		goes.line.harm(nil)
		stays.rename(t, "Three")
		p.memory.FlushAll()
		bubble.Sleep(time.Second)
		goes.line.harm(p.nodes[1])
		eventually.Equal(t, "what is heard after Redis was emptied", "[closed opened]", func() string { return fmt.Sprint(goes.all()[began:]) })
		stays.rename(t, "Four")
		eventually.Equal(t, "what is heard then", "[closed opened account.updated Four]", func() string { return fmt.Sprint(goes.all()[began:]) })
	})
}

func TestASocketEndsWithItsSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		owner, lost := p.enter(0), p.enter(1)
		stays, goes := p.socket(0, owner), p.socket(1, lost)
		bubble.Sleep(time.Second)
		began := len(goes.all())
		must(t, p.client(0, client.WithTokens(owner)).EndSession(t.Context(), lost.Device))
		stays.rename(t, "Secret")
		err := <-goes.ended
		goes.ended <- err
		if err == nil || errors.Is(err, client.ErrUnreachable) {
			t.Errorf("the socket ended with %v", err)
		}
		if got := goes.all()[began:]; !slices.Equal(got, []string{"closed"}) {
			t.Errorf("after the end of its session the device heard %q", got)
		}
		if goes.c.Tokens().AccessToken != "" {
			t.Error("the client keeps its tokens")
		}
		if err := goes.Call(t.Context(), "me.get", api.SocketCall{}, nil); !errors.Is(err, client.ErrClosed) {
			t.Errorf("a call afterwards: %v", err)
		}
	})
}

// A node that is cut off from the others must not publish events to a logged-out device.
func TestASocketOnANodeThatIsCutOffHearsNothingAfterItsSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		owner, lost := p.enter(0), p.enter(1)
		stays, goes := p.socket(1, owner), p.socket(1, lost)
		bubble.Sleep(time.Second)
		began := len(goes.all())
		p.wires[1].Refuse()
		must(t, p.client(0, client.WithTokens(owner)).EndSession(t.Context(), lost.Device))
		bubble.Sleep(maxStale)
		stays.rename(t, "Secret")
		eventually.True(t, "the other device to hear of it", func() bool { return slices.Contains(stays.all(), "account.updated Secret") })
		if got := goes.all()[began:]; slices.Contains(got, "account.updated Secret") {
			t.Errorf("a logged-out device heard %q", got)
		}
	})
}

// A socket that was opened during an outage of Redis has no position in its channel, and cannot resume there. This
// holds during the outage, and after it, when the channel begins a new epoch.
func TestASocketThatOpenedWithoutRedisDoesNotResume(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		tokens := p.enter(0)
		p.wires[0].Refuse()
		d := p.socket(0, tokens)
		d.line.harm(nil)
		d.line.harm(p.nodes[0])
		d.hears(t, "opened", "closed", "opened")
		p.wires[0].Heal()
		d.hears(t, "opened", "closed", "opened", "closed", "opened")
		d.rename(t, "Ann")
		d.hears(t, "opened", "closed", "opened", "closed", "opened", "account.updated Ann")
	})
}

func TestASocketOutlivesItsToken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := testkit.Start(t, func(c *app.Config) { c.Accounts.AccessLife = time.Minute })
		c := server.SignUp(t, "UTC")
		old := c.Tokens().AccessToken
		var closed atomic.Bool
		s := c.Socket(client.SocketListener{Closed: func(error) { closed.Store(true) }})
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		for range 6 {
			bubble.Sleep(30 * time.Second)
			must(t, s.Call(t.Context(), "me.get", api.SocketCall{}, nil))
		}
		if c.Tokens().AccessToken == old || closed.Load() {
			t.Error("the token was not renewed, or the connection broke")
		}
	})
}
