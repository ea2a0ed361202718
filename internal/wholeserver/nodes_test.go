package wholeserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// asks sends a GET and returns the status, the headers and the JSON document of the response.
func asks(t *testing.T, s *testkit.Server, path string) (status int, header http.Header, doc map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	must(t, err)
	resp, err := s.HTTP.Do(r)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	_ = json.Unmarshal(text, &doc) // a page is not JSON
	return resp.StatusCode, resp.Header, doc
}

// TestTwoGatewaysOneAPIAndOneWorker tests the layout in docs/operate.md. Each path is served only by the nodes that the
// proxy uses for it, and users notice no difference.
func TestTwoGatewaysOneAPIAndOneWorker(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 0)
		start := func(role string) *testkit.Server {
			return p.start(func(c *app.Config) { c.Roles, c.Chats.MessagesFrom = []string{role}, "everybody" })
		}
		gateways, front, worker := []*testkit.Server{start("gateway"), start("gateway")}, start("api"), start("worker")
		for name, c := range map[string]struct {
			node *testkit.Server
			want map[string]int
		}{
			"api": {front, map[string]int{"/healthz": 200, "/readyz": 200, "/": 200, "/v1/me": 401, "/v1/socket": 404}},
			"gateway": {gateways[0], map[string]int{"/healthz": 200, "/readyz": 200, "/": 404, "/v1/me": 404, "/v1/events": 404, "/dev/mail": 404,
				"/openapi.json": 404, "/v1/socket": 400}},
			"worker": {worker, map[string]int{"/healthz": 200, "/readyz": 200, "/": 404, "/v1/me": 404, "/v1/socket": 404}},
		} {
			for path, want := range c.want {
				if got, _, _ := asks(t, c.node, path); got != want {
					t.Errorf("%s answers %d to %s, want %d", name, got, path, want)
				}
			}
		}

		ann, bob := front.SignUp(t, "UTC"), front.SignUp(t, "UTC") // the worker mails their codes
		writes, first, second := p.socket(0, ann.Tokens()), p.socket(0, bob.Tokens()), p.socket(1, bob.Tokens())
		var sent api.Sent
		must(t, writes.Call(t.Context(), "chats.send", api.SocketCall{Path: map[string]any{"chat": client.ChatWith(id(bob))},
			Body: saying("over the socket")}, &sent))
		_, err := ann.Send(t.Context(), client.ChatWith(id(bob)), saying("over HTTP"))
		must(t, err)
		for _, d := range []*device{first, second} {
			eventually.Equal(t, "messages that a device of bob's hears", 2, func() int {
				return len(slices.DeleteFunc(d.all(), func(s string) bool { return !strings.HasPrefix(s, api.EventMessageNew) }))
			})
		}
		page, err := bob.Messages(t.Context(), client.ChatWith(id(ann)), client.MessageRange{})
		if err != nil || len(page.Messages) != 2 || page.Messages[0].Seq != sent.Seq {
			t.Errorf("bob reads %+v, %v", page.Messages, err)
		}
		st, err := bob.MyPresence(t.Context())
		if err != nil || st.Status != api.StatusOnline {
			t.Errorf("to the API bob is %+v, %v", st, err)
		}
	})
}

// lay sets the node of a device's next connection; existing connections stay.
func (l *line) lay(to *testkit.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.node = to
}

// registry is the Redis of the nodes, as an operator's command opens it, and the node of the test.
type registry struct {
	*redis.DB
	t    *testing.T
	node cluster.ID
}

// newRegistry returns a registry for the node at an address.
func newRegistry(t *testing.T, memory *redistest.Memory, of *testkit.Server) *registry {
	t.Helper()
	cfg := memory.Wire().Config()
	cfg.Prefix = "stoa"
	db, err := redis.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	all, err := cluster.List(t.Context(), db)
	must(t, err)
	for _, e := range all {
		if "http://"+e.Address == of.URL {
			return &registry{db, t, e.ID}
		}
	}
	t.Fatalf("%s is not among %+v", of.URL, all)
	return nil
}

func (r *registry) tell(o cluster.Order) {
	r.t.Helper()
	o.ID = ids.New[cluster.Order]().String()
	must(r.t, cluster.Send(r.t.Context(), r.DB, r.node, o))
}

// entry returns the node's entry in the registry.
func (r *registry) entry() cluster.Entry {
	r.t.Helper()
	all, err := cluster.List(r.t.Context(), r.DB)
	must(r.t, err)
	for _, e := range all {
		if e.ID == r.node {
			return e
		}
	}
	return cluster.Entry{}
}

func TestADrainedNodeSendsItsSocketsToOthersAndNoneLosesAnEvent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		r := newRegistry(t, p.memory, p.nodes[0])
		ctx := t.Context()
		const many = 10
		var devices []*device
		for range many {
			d := p.socket(0, p.enter(0))
			d.line.lay(p.nodes[1]) // a proxy sends no connections to a node that is not ready
			devices = append(devices, d)
		}
		time.Sleep(2 * time.Second)
		if e := r.entry(); e.Status != cluster.Serving || e.Sockets != many {
			t.Fatalf("before: %s with %d sockets", e.Status, e.Sockets)
		}
		writer := p.client(1, client.WithTokens(p.enter(1)))
		for _, d := range devices { // from here on
			d.mu.Lock()
			d.heard = nil
			d.mu.Unlock()
		}

		r.tell(cluster.Order{Drain: true})
		time.Sleep(2 * time.Second)
		if status, _, doc := asks(t, p.nodes[0], "/readyz"); status != http.StatusServiceUnavailable || doc["status"] != "draining" {
			t.Errorf("/readyz while it drains: %d, %v", status, doc)
		}
		if status, header, doc := asks(t, p.nodes[0], "/v1/socket"); status != http.StatusServiceUnavailable ||
			doc["code"] != "gateway.draining" || header.Get("Retry-After") != "1" {
			t.Errorf("a new socket while it drains: %d, %v, Retry-After %q", status, doc, header.Get("Retry-After"))
		}
		if status, _, _ := asks(t, p.nodes[0], "/v1/me"); status != http.StatusUnauthorized {
			t.Errorf("a request without a token while it drains: %d", status)
		}
		var want []string
		left := []int{}
		for i := range 25 {
			name := fmt.Sprint("name ", i)
			_, err := writer.UpdateMe(ctx, api.UserUpdate{Name: &name})
			must(t, err)
			want = append(want, api.EventAccountUpdated+" "+name)
			left = append(left, r.entry().Sockets)
			time.Sleep(time.Second)
		}
		if e := r.entry(); e.Status != cluster.Drained || e.Sockets != 0 || !e.Alive {
			t.Errorf("afterwards: %s with %d sockets, lives: %t", e.Status, e.Sockets, e.Alive)
		}
		if i := len(left) * 2 / 5; left[i] == 0 || left[i] == many { // ten of the twenty seconds
			t.Errorf("in the midst of the drain %d of %d sockets are left; by seconds: %v", left[i], many, left)
		}
		for i, d := range devices {
			var got []string
			moved := 0
			for _, s := range d.all() {
				switch {
				case s == "resumed":
					moved++
				case strings.HasPrefix(s, api.EventAccountUpdated):
					got = append(got, s)
				case s != "closed" && !strings.HasPrefix(s, api.EventSessionOpened):
					t.Errorf("device %d: %s", i, s)
				}
			}
			if moved != 1 || !slices.Equal(got, want) {
				t.Errorf("device %d moved %d times and heard %v, want %v", i, moved, got, want)
			}
		}

		// The node serves again after an order, also if it has just begun to drain.
		for range 4 {
			r.tell(cluster.Order{})
			eventually.Equal(t, "the node's word", cluster.Serving, func() cluster.Status { return r.entry().Status })
			r.tell(cluster.Order{Drain: true})
			eventually.True(t, "the node to drain", func() bool { return r.entry().Status != cluster.Serving })
		}
		r.tell(cluster.Order{})
		eventually.Equal(t, "the node's word", cluster.Serving, func() cluster.Status { return r.entry().Status })
		if status, _, _ := asks(t, p.nodes[0], "/readyz"); status != http.StatusOK {
			t.Errorf("/readyz after the undo: %d", status)
		}
		p.socket(0, p.enter(0)).hears(t, "opened")

		// After an order to stop, it ends by itself.
		r.tell(cluster.Order{Drain: true, Stop: true})
		eventually.Equal(t, "the node's last word", cluster.Stopped, func() cluster.Status { return r.entry().Status })
	})
}

// A node without sockets, such as one with the role api only, drains as long as other nodes.
func TestANodeWithoutSocketsStaysUntilProxiesHaveSeenItDrain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		r := newRegistry(t, p.memory, p.nodes[0])
		var streams []<-chan heard
		for range 10 {
			streams = append(streams, p.listen(0, p.enter(0)))
		}
		time.Sleep(2 * time.Second)
		began := time.Now()
		r.tell(cluster.Order{Drain: true, Stop: true})
		time.Sleep(2 * time.Second)
		if status, _, doc := asks(t, p.nodes[0], "/readyz"); status != http.StatusServiceUnavailable || doc["status"] != "draining" {
			t.Errorf("/readyz while it drains: %d, %v", status, doc)
		}
		for _, s := range streams {
			<-s
		}
		if took := time.Since(began); took < 5*time.Second {
			t.Errorf("the last of ten streams ended after %s", took)
		}
		eventually.Equal(t, "the node's last word", cluster.Stopped, func() cluster.Status { return r.entry().Status })
		if took := time.Since(began); took < 20*time.Second {
			t.Errorf("it stopped after %s", took)
		}
	})
}

// A proxy, or Kubernetes, sends requests to a stopping node until it has probed /readyz again. The proxy may run on the
// node's own machine.
func TestStop_ServesUntilProxiesHaveProbed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := deploy(t, 1, behind).nodes[0]
		get := func(path string) *http.Response {
			resp, err := s.HTTP.Get(s.URL + path)
			must(t, err)
			resp.Body.Close()
			return resp
		}
		if get("/v1/me").Close {
			t.Error("a serving node closes connections")
		}
		s.Stop()
		time.Sleep(4 * time.Second)
		s.HTTP.CloseIdleConnections() // the next requests open connections
		for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/v1/socket": http.StatusBadRequest,
			"/v1/me": http.StatusUnauthorized} {
			if resp := get(path); resp.StatusCode != want || !resp.Close {
				t.Errorf("%s: got %d, and the connection closes: %t", path, resp.StatusCode, resp.Close)
			}
		}
		time.Sleep(2 * time.Second)
		if conn, err := s.Dial(t.Context(), "tcp", ""); err == nil {
			conn.Close()
			t.Error("the port is still open")
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func saying(s string) api.Send {
	return api.Send{ClientID: strings.ReplaceAll(s, " ", "-"), Content: api.Content{Kind: api.MessageText, Text: s}}
}
