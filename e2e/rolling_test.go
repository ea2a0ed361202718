package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// proxy sends connections to ready nodes, as a load balancer does.
type proxy []*node

func (p proxy) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	for _, i := range rand.Perm(len(p)) {
		if p[i].isDown() {
			continue
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p[i].URL()+"/readyz", nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			continue
		}
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(p[i].URL(), "http://")); err == nil {
			return conn, nil
		}
	}
	return nil, errors.New("no node is ready")
}

// client returns a user's client behind the proxy, with its own connections.
func (p proxy) client(t *testing.T, who *person) *client.Client {
	t.Helper()
	transport := &http.Transport{DialContext: p.dial}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New("http://stoa.internal", client.WithTokens(api.Tokens{AccessToken: who.token}),
		client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Two nodes are restarted one after the other, as in an upgrade. Each is drained first, and ends by itself. Meanwhile
// users write and receive messages.
func TestARollingRestartLosesNoMessage(t *testing.T) {
	t.Parallel()
	cfg, redis := sqldb.Config{URL: sqldbtest.Server(t).URL}, redistest.Server(t).URL
	people := enrol(t, sqldbtest.Open(t, cfg), rand.New(rand.NewPCG(1, 1)), 2)
	ann, bob := people[0], people[1]
	env := []string{"STOA_SECRET=0123456789abcdef0123456789abcdef"}
	common := []string{"--sql", cfg.URL, "--redis", redis, "--dev=true", "--limits=false", "--gateway-drain-over", "1s",
		"--chats-messages-from", "everybody"}
	nodes := proxy{newNode(t, env, common...), newNode(t, env, common...)}

	// Bob's devices subscribe at both nodes.
	const listeners = 6
	var mu sync.Mutex
	heard := make([]map[string]int, listeners) // number of receptions by text
	opened, lost := 0, 0
	listening, hangUp := context.WithCancel(context.WithoutCancel(t.Context()))
	var ended sync.WaitGroup
	defer ended.Wait()
	defer hangUp()
	for i := range listeners {
		heard[i] = map[string]int{}
		socket := nodes.client(t, bob).Socket(client.SocketListener{
			Open: func(resumed bool) {
				mu.Lock()
				defer mu.Unlock()
				if opened++; opened > listeners && !resumed {
					lost++
				}
			},
			Event: func(e api.Event) {
				var m api.Message
				if data, ok := e.Data.(json.RawMessage); ok && e.Type == api.EventMessageNew && json.Unmarshal(data, &m) == nil {
					mu.Lock()
					defer mu.Unlock()
					heard[i][m.Text]++
				}
			},
		})
		ended.Go(func() { _ = socket.Run(listening) })
	}
	eventually.True(t, "all to listen", func() bool { mu.Lock(); defer mu.Unlock(); return opened == listeners })

	// Ann writes from four devices, and retries messages without a response.
	writing, enough := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	var said []string
	for w := range 4 {
		c := nodes.client(t, ann)
		writers.Go(func() {
			pace := time.NewTicker(100 * time.Millisecond) // a socket that is disconnected for seconds misses less than the server stores
			defer pace.Stop()
			for n := 0; writing.Err() == nil; n++ {
				name := fmt.Sprint("m", w, "-", n)
				eventually.NoError(t, "a message to be acknowledged", func() error {
					_, err := c.Send(t.Context(), client.ChatWith(bob.id),
						api.Send{ClientID: name, Content: api.Content{Kind: api.MessageText, Text: name}})
					return err
				})
				mu.Lock()
				said = append(said, name)
				mu.Unlock()
				<-pace.C
			}
		})
	}
	for _, n := range nodes {
		id := nodeID(t, redis, n)
		out, err := exec.Command(stoaBinary(t), "nodes", "drain", id, "--stop", "--redis", redis).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		eventually.True(t, "a node that is told to stop to end", n.isDown)
		n.Start()
		waitReady(t, http.DefaultClient, n)
	}
	enough()
	writers.Wait()

	for i := range heard {
		eventually.Equal(t, fmt.Sprint("messages that listener ", i, " has not heard"), "", func() string {
			mu.Lock()
			defer mu.Unlock()
			var missed []string
			for n, name := range said {
				if heard[i][name] == 0 {
					missed = append(missed, fmt.Sprint(n, ": ", name))
				}
			}
			if missed == nil {
				return ""
			}
			return fmt.Sprintf("%s of %d; %d sockets were opened %d times, %d of them without what came meanwhile", missed, len(said), listeners,
				opened, lost)
		})
	}
	mu.Lock()
	defer mu.Unlock()
	for i, of := range heard {
		for name, times := range of {
			if times != 1 {
				t.Errorf("listener %d has heard %s %d times", i, name, times)
			}
		}
	}
	if opened < 2*listeners || lost > 0 {
		t.Errorf("%d sockets were opened %d times, %d of them without what came meanwhile", listeners, opened, lost)
	}
	var stored []string
	c := nodes.client(t, bob)
	for after := int64(0); ; {
		page, err := c.Messages(t.Context(), client.ChatWith(ann.id), client.MessageRange{After: &after, Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Messages {
			stored, after = append(stored, m.Text), m.Seq
		}
		if len(page.Messages) == 0 {
			break
		}
	}
	slices.Sort(stored)
	slices.Sort(said)
	if !slices.Equal(stored, said) {
		t.Errorf("%d messages were acknowledged, %d are stored", len(said), len(stored))
	}
	t.Logf("%d messages, %d sockets opened %d times", len(said), listeners, opened)
}

// nodeID returns the id of a node.
func nodeID(t *testing.T, redis string, n *node) string {
	t.Helper()
	out, err := exec.Command(stoaBinary(t), "nodes", "--redis", redis, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		Nodes []struct{ ID, Address, Status string }
	}
	if err := json.Unmarshal(out, &page); err != nil {
		t.Fatal(err)
	}
	for _, one := range page.Nodes {
		if "http://"+one.Address == n.URL() && one.Status == "serving" {
			return one.ID
		}
	}
	t.Fatalf("%s is not among %s", n.URL(), out)
	return ""
}
