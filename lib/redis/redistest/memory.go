package redistest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// Bubble is [bubble.Test] for a test that takes less than ten minutes of virtual time. Virtual time advances as long as
// something waits for it, so a condition that never occurs fails the test after these ten minutes.
func Bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		limit := time.AfterFunc(10*time.Minute, func() { panic("redistest: ten minutes have passed in the bubble of " + t.Name()) })
		defer limit.Stop()
		test(t)
	})
}

// Memory is a Redis in this process with a network whose faults the test controls. To package redis it is a standalone
// server that can be unavailable, so that a [testing/synctest] bubble contains a whole outage, with the bubble's clock
// as the only one. Tests that depend on Redis itself, such as its persistence, need [Server].
type Memory struct {
	server *miniredis.Miniredis

	mu    sync.Mutex
	run   string // run id and replication id
	down  bool
	wires []*Wire
	calls map[string]int // by command, in lower case
}

// InMemory starts a Memory that ends with the test. For a bubble, call it inside the bubble.
func InMemory(t testing.TB) *Memory {
	t.Helper()
	m := &Memory{server: miniredis.NewMiniRedis(), run: rand.Text(), calls: make(map[string]int)}
	c, err := m.server.Dial() // the first Dial starts a server without a listener
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	m.server.ClockTTL(true)
	m.server.Server().SetPreHook(m.seen)
	t.Cleanup(func() {
		m.Kill()
		m.server.Close()
	})
	return m
}

// seen counts a command, and replies to INFO with the ids that distinguish one run of a server from another.
func (m *Memory) seen(c *server.Peer, cmd string, _ ...string) (done bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[strings.ToLower(cmd)]++
	if cmd != "INFO" {
		return false
	}
	c.WriteBulk(fmt.Sprintf("run_id:%s\r\nmaster_replid:%[1]s\r\n", m.run))
	return true
}

// Calls returns how often each command was received so far, by its name in lower case. A script is one command,
// whatever it calls.
func (m *Memory) Calls() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.calls)
}

// Open connects over a new wire.
func (m *Memory) Open(t testing.TB) *redis.DB {
	t.Helper()
	return OpenConfig(t, m.Wire().Config())
}

// FlushAll removes every key.
func (m *Memory) FlushAll() { m.server.FlushAll() }

// Kill ends the server: connections are reset, and new ones refused.
func (m *Memory) Kill() {
	m.mu.Lock()
	m.down = true
	wires := m.wires
	m.mu.Unlock()
	for _, w := range wires {
		w.Reset()
	}
}

// Restart starts another run of the server, with all its keys.
func (m *Memory) Restart() {
	m.Kill()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down, m.run = false, rand.Text()
}

// RestartEmpty is Restart after the loss of all keys.
func (m *Memory) RestartEmpty() {
	m.FlushAll()
	m.Restart()
}

// Wire returns a connection to the server with its own faults: use one for each node. It is in memory like the server.
func (m *Memory) Wire() *Wire {
	w := newWire()
	w.config = redis.Config{URL: "redis://memory", Dial: func(context.Context, string, string) (net.Conn, error) { return m.dial(w) }}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wires = append(m.wires, w)
	return w
}

func (m *Memory) dial(w *Wire) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, errRefused
	}
	near, far, err := w.connect()
	if err != nil {
		return nil, err
	}
	m.server.Server().ServeConn(far)
	return near, nil
}
