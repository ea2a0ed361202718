package wholeserver

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

const (
	// maxStale bounds how long any node accepts a revoked session.
	maxStale = 500 * time.Millisecond
	// step is the interval of checks in lasts.
	step = 25 * time.Millisecond
)

// deployment is some nodes on one database, each with its own wire to the same Redis, and a user who can log devices in.
// In a bubble, all of it is in the bubble.
type deployment struct {
	t      *testing.T
	memory *redistest.Memory
	nodes  []*testkit.Server
	wires  []*redistest.Wire
	email  string // of the user, once a device has logged in
	dir    string // folder of the database
}

// deploy starts n nodes.
func deploy(t *testing.T, n int, change ...func(*app.Config)) *deployment {
	t.Helper()
	p := &deployment{t: t, memory: redistest.InMemory(t), dir: t.TempDir()}
	for range n {
		p.start(change...)
	}
	return p
}

// start adds a node.
func (p *deployment) start(change ...func(*app.Config)) *testkit.Server {
	p.t.Helper()
	wire := p.memory.Wire()
	node := testkit.Start(p.t, append([]func(*app.Config){func(c *app.Config) {
		c.Data, c.Redis, c.DialRedis, c.Secret = p.dir, wire.Config().URL, wire.Config().Dial, "the same secret of thirty-two bytes"
	}}, change...)...)
	p.nodes, p.wires = append(p.nodes, node), append(p.wires, wire)
	return node
}

func (p *deployment) client(node int, opts ...client.Option) *client.Client {
	p.t.Helper()
	return p.nodes[node].Client(p.t, opts...)
}

// enter logs a device in at a node.
func (p *deployment) enter(node int) api.Tokens {
	p.t.Helper()
	if p.email == "" {
		p.email = "ann@example.org"
		p.nodes[0].Register(p.t, api.RegisterRequest{Email: p.email, Name: "Ann", Password: "correct horse"})
	}
	tokens, err := p.client(node).Login(p.t.Context(), api.LoginRequest{Email: p.email, Password: "correct horse"})
	must(p.t, err)
	return tokens
}

// good reports whether a node accepts a device's access token.
func (p *deployment) good(node int, d api.Tokens) bool {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), "GET", p.nodes[node].URL+"/v1/me", nil)
	must(p.t, err)
	r.Header.Set("Authorization", "Bearer "+d.AccessToken)
	resp, err := p.nodes[node].HTTP.Do(r)
	must(p.t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusUnauthorized {
		p.t.Fatalf("node %d answers %s", node, resp.Status)
	}
	return resp.StatusCode == http.StatusOK
}

// warm lets a node cache the device's session.
func (p *deployment) warm(node int, d api.Tokens) {
	p.t.Helper()
	for range 3 {
		if !p.good(node, d) {
			p.t.Fatalf("node %d refuses a device that is logged in", node)
		}
	}
}

// revoke logs a device out at a node with the device's own token.
func (p *deployment) revoke(node int, d api.Tokens) {
	p.t.Helper()
	must(p.t, p.client(node, client.WithTokens(d)).Logout(p.t.Context()))
}

// lasts returns how long a node accepts the revoked session.
func (p *deployment) lasts(node int, d api.Tokens) time.Duration {
	p.t.Helper()
	began := time.Now()
	last := time.Duration(0)
	for ; time.Now().Before(began.Add(3 * maxStale)); bubble.Sleep(step) {
		if now := time.Now(); p.good(node, d) {
			last = max(step, now.Sub(began))
		} else if last == 0 || now.After(began.Add(last+maxStale/5)) {
			return last
		}
	}
	return last
}

// The node that revokes is cut off from Redis, which the other node still uses.
func TestANodeThatIsCutOffRevokesForTheOthers(t *testing.T) {
	for name, cut := range map[string]func(*redistest.Wire){"refused": (*redistest.Wire).Refuse, "silent": (*redistest.Wire).BlackHole} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := deploy(t, 2)
				devices := make([]api.Tokens, 6)
				for i := range devices {
					devices[i] = p.enter(0)
				}
				var lasted []time.Duration
				cut(p.wires[0])
				for i, d := range devices {
					p.warm(1, d)
					if i == len(devices)/2 {
						bubble.Sleep(maxStale) // from now on the node knows that it is cut off
					}
					p.revoke(0, d)
					if p.good(0, d) {
						t.Error("the node that revoked a session accepts it")
					}
					lasted = append(lasted, p.lasts(1, d))
				}
				slices.Sort(lasted)
				t.Logf("the other node accepted the sessions for %s", lasted)
				if last := lasted[len(lasted)-1]; last > maxStale {
					t.Errorf("a revoked session was good for %s", last)
				}
				p.wires[0].Heal()
			})
		})
	}
}

// The node that revokes has Redis, and the other node does not.
func TestANodeThatIsCutOffHearsOfRevocations(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		for i := range 4 {
			d := p.enter(0)
			p.warm(1, d)
			p.wires[1].BlackHole()
			p.revoke(0, d)
			if last := p.lasts(1, d); last > maxStale {
				t.Errorf("%d: a revoked session was good for %s", i, last)
			}
			p.wires[1].Heal()
			if last := p.lasts(1, d); last != 0 {
				t.Errorf("%d: healed, the node accepts a revoked session for %s", i, last)
			}
			eventually.True(t, "the healed node to open sessions that it accepts", func() bool { return p.good(1, p.enter(1)) })
		}
	})
}

// All nodes lose Redis, whose data remains.
func TestAfterAnOutageNoRevokedSessionComesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		for i := range 4 {
			stays, goes := p.enter(0), p.enter(0)
			for node := range p.nodes {
				p.warm(node, stays)
				p.warm(node, goes)
			}
			for _, wire := range p.wires {
				wire.Refuse()
			}
			if i%2 == 1 {
				bubble.Sleep(2 * maxStale) // all nodes have the drop
			}
			p.revoke(0, goes)
			if last := p.lasts(1, goes); last > maxStale {
				t.Errorf("%d: without Redis a revoked session was good for %s", i, last)
			}
			bubble.Sleep(maxStale) // until each node has tried to read drops and failed
			for _, wire := range slices.Backward(p.wires) {
				wire.Heal()
			}
			for began := time.Now(); time.Since(began) < 3*maxStale; bubble.Sleep(step) {
				for node := range p.nodes {
					if p.good(node, goes) {
						t.Fatalf("%d: a revoked session is good again after %s", i, time.Since(began))
					}
					if !p.good(node, stays) {
						t.Fatalf("%d: somebody was logged out", i)
					}
				}
			}
		}
	})
}

func TestRedisIsEmptiedOrAwayAndNobodyIsLoggedOut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		before := p.enter(0)
		for _, step := range []struct {
			name string
			do   func()
		}{{"emptied", p.memory.FlushAll}, {"away", p.memory.Kill}, {"back, empty", p.memory.RestartEmpty}} {
			step.do()
			meanwhile := p.enter(1)
			for node := range p.nodes {
				if !p.good(node, before) || !p.good(node, meanwhile) {
					t.Errorf("%s: somebody is logged out at node %d", step.name, node)
				}
			}
			c := p.client(1, client.WithTokens(meanwhile))
			after, err := c.Refresh(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			for node := range p.nodes {
				if p.lasts(node, meanwhile) > maxStale || !p.good(node, after) {
					t.Errorf("%s: node %d accepts the token traded in, or not the new one", step.name, node)
				}
			}
			if err := c.EndSession(t.Context(), before.Device); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			for node := range p.nodes {
				if p.lasts(node, before) > maxStale {
					t.Errorf("%s: node %d accepts a revoked session", step.name, node)
				}
			}
			before = after
		}
	})
}

// A node that is cut off from Redis continues to store rows, and dies before it can publish them. The rows reach Redis
// anyway, and the other node returns them.
func TestWhatANodeStoredWhileItWasCutOffIsThereAfterItsEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		ann, bob := p.client(0, client.WithTokens(p.enter(0))), p.nodes[1].SignUp(t, "UTC")
		if _, err := bob.ChangeChatSettings(t.Context(),
			api.ChatSettingsUpdate{MessagesFrom: new("everybody"), Receipts: new(true)}); err != nil {
			t.Fatal(err)
		}
		says := func() {
			t.Helper()
			if _, err := ann.Send(t.Context(), client.ChatWith(bob.Tokens().User.ID),
				api.Send{ClientID: ids.New[api.Send]().String(), Content: api.Content{Kind: api.MessageText, Text: "Hi"}}); err != nil {
				t.Fatal(err)
			}
		}
		unread := func() int64 {
			t.Helper()
			got, err := bob.Chats(t.Context(), "", "", 10)
			must(t, err)
			return got.Unread
		}
		days := func() int {
			t.Helper()
			got, err := p.client(1, client.WithTokens(ann.Tokens())).CheckinStatus(t.Context())
			must(t, err)
			return got.Total
		}
		says()
		eventually.Equal(t, "what waits for Bob", 1, unread) // Redis has it from here on
		if got := days(); got != 0 {
			t.Fatalf("%d days before the first", got)
		}
		p.wires[0].Refuse()
		for range 7 { // longer than the minute that other nodes read again in any case
			bubble.Sleep(10 * time.Second)
			says()
		}
		if _, err := ann.Checkin(t.Context(), api.CheckinRequest{}); err != nil {
			t.Fatal(err)
		}
		p.nodes[0].Stop()
		bubble.Sleep(30 * time.Second)
		if got := unread(); got != 8 {
			t.Errorf("%d messages wait for Bob, want 8", got)
		}
		if got := days(); got != 1 {
			t.Errorf("%d days are counted, want 1", got)
		}
	})
}
