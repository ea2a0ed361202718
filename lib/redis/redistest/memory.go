package redistest

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
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

// Wire returns a connection to the server with its own faults: use one for each node.
func (m *Memory) Wire() *Wire {
	w := &Wire{memory: m, links: make(map[*link]struct{})}
	w.change.L = &w.mu
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wires = append(m.wires, w)
	return w
}

// A Wire is the network between one node and a [Memory]. Like a network it loses no byte of a connection that survives:
// data that is held back arrives when the fault is over, however late.
type Wire struct {
	memory *Memory

	mu     sync.Mutex
	change sync.Cond
	links  map[*link]struct{}
	refuse bool
	held   [2]bool // by direction
	delay  time.Duration
	jitter time.Duration
	mute   bool
	lost   int
}

// A Direction is one way over a wire.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToNode
)

// Config returns the configuration for the node at the near end.
func (w *Wire) Config() redis.Config { return redis.Config{URL: "redis://memory", Dial: w.dial} }

func (w *Wire) dial(_ context.Context, _, _ string) (net.Conn, error) {
	w.memory.mu.Lock()
	defer w.memory.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse || w.memory.down {
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	}
	l := &link{lanes: [2]*lane{{wire: w, to: ToServer}, {wire: w, to: ToNode}}}
	w.links[l] = struct{}{}
	w.memory.server.Server().ServeConn(&end{w, l, ToServer})
	return &end{w, l, ToNode}, nil
}

// Reset cuts every connection; new ones are accepted.
func (w *Wire) Reset() { w.cut(func(*link) bool { return true }) }

// ResetSubscriptions cuts the connections with subscriptions.
func (w *Wire) ResetSubscriptions() { w.cut(func(l *link) bool { return l.subscribed }) }

func (w *Wire) cut(which func(*link) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		if which(l) {
			l.lanes[ToServer].cut, l.lanes[ToNode].cut = true, true
			delete(w.links, l)
		}
	}
	w.change.Broadcast()
}

// Refuse cuts every connection and accepts none until [Wire.Heal].
func (w *Wire) Refuse() {
	w.mu.Lock()
	w.refuse = true
	w.mu.Unlock()
	w.Reset()
}

// Hold stops the data in one direction.
func (w *Wire) Hold(d Direction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[d] = true
}

// BlackHole stops both directions; connections are accepted and stay silent.
func (w *Wire) BlackHole() {
	w.Hold(ToServer)
	w.Hold(ToNode)
}

// Delay delays all later data by d.
func (w *Wire) Delay(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = d
}

// Jitter delays all later data by a random time up to most.
func (w *Wire) Jitter(most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jitter = most
}

// LoseMessages drops the messages of channels.
func (w *Wire) LoseMessages() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = true
}

// Lost returns the number of dropped messages.
func (w *Wire) Lost() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// Heal ends all faults.
func (w *Wire) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse, w.held, w.delay, w.jitter, w.mute = false, [2]bool{}, 0, 0, false
	w.change.Broadcast()
}

// link is a connection over a wire.
type link struct {
	lanes      [2]*lane // by direction
	subscribed bool
}

// lane carries bytes in one direction. The wire's mutex guards it.
type lane struct {
	wire     *Wire
	to       Direction
	pieces   []piece
	ended    bool // the writer has closed it: data under way arrives
	cut      bool // no more data arrives
	losing   int  // remaining bytes of a message that is being lost
	deadline time.Time
	timer    *time.Timer // wakes a waiting reader
}

// piece is the data of one Write.
type piece struct {
	bytes []byte
	due   time.Time
}

func (l *lane) read(b []byte) (int, error) {
	w := l.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		now := time.Now()
		wake := l.deadline
		switch {
		case l.cut:
			return 0, syscall.ECONNRESET
		case w.held[l.to]:
		case len(l.pieces) > 0 && !l.pieces[0].due.After(now):
			n := copy(b, l.pieces[0].bytes)
			if l.pieces[0].bytes = l.pieces[0].bytes[n:]; len(l.pieces[0].bytes) == 0 {
				l.pieces = l.pieces[1:]
			}
			return n, nil
		case len(l.pieces) > 0:
			if wake.IsZero() || l.pieces[0].due.Before(wake) {
				wake = l.pieces[0].due
			}
		case l.ended:
			return 0, io.EOF
		}
		if !l.deadline.IsZero() && !l.deadline.After(now) {
			return 0, os.ErrDeadlineExceeded
		}
		if !wake.IsZero() {
			if l.timer != nil {
				l.timer.Stop()
			}
			l.timer = time.AfterFunc(wake.Sub(now), w.change.Broadcast)
		}
		w.change.Wait()
	}
}

func (l *lane) write(b []byte) (int, error) {
	w := l.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.cut || l.ended {
		return 0, syscall.EPIPE
	}
	n := len(b)
	if l.to == ToNode && w.mute && l.losing == 0 {
		if l.losing = message(b); l.losing > 0 {
			w.lost++
		}
	}
	lost := min(l.losing, len(b)) // a server writes a long message in pieces
	l.losing -= lost
	if b = b[lost:]; len(b) > 0 {
		l.pieces = append(l.pieces, piece{bytes.Clone(b), time.Now().Add(w.delay + mathrand.N(w.jitter+1))})
		w.change.Broadcast()
	}
	return n, nil
}

// message returns the length of the channel message at the beginning of a server's text, or 0 if it begins with
// something else. The text may contain only the beginning of the message, because the message contains its lengths.
func message(text []byte) int {
	if len(text) == 0 || text[0] != '*' && text[0] != '>' {
		return 0
	}
	head, rest, _ := bytes.Cut(text, []byte("\r\n"))
	all := len(head) + 2
	for i := range 3 { // "message", the channel, the payload
		size, after, ok := bytes.Cut(rest, []byte("\r\n"))
		n, err := strconv.Atoi(strings.TrimPrefix(string(size), "$"))
		if !ok || err != nil || i == 0 && !bytes.HasPrefix(after, []byte("message\r\n")) {
			return 0
		}
		all += len(size) + 2 + n + 2
		rest = after[min(n+2, len(after)):]
	}
	return all
}

// end is one end of a link. It reads one lane and writes the other.
type end struct {
	wire  *Wire
	link  *link
	reads Direction
}

func (e *end) Read(b []byte) (int, error) { return e.link.lanes[e.reads].read(b) }

func (e *end) Write(b []byte) (int, error) {
	if e.reads == ToNode && bytes.Contains(b, []byte("SUBSCRIBE")) {
		e.wire.mu.Lock()
		e.link.subscribed = true
		e.wire.mu.Unlock()
	}
	return e.link.lanes[1-e.reads].write(b)
}

func (e *end) Close() error {
	e.wire.mu.Lock()
	defer e.wire.mu.Unlock()
	in, out := e.link.lanes[e.reads], e.link.lanes[1-e.reads]
	in.cut, out.ended = true, true
	if in.ended {
		delete(e.wire.links, e.link)
	}
	e.wire.change.Broadcast()
	return nil
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.wire.mu.Lock()
	defer e.wire.mu.Unlock()
	e.link.lanes[e.reads].deadline = t
	e.wire.change.Broadcast()
	return nil
}

func (e *end) SetDeadline(t time.Time) error      { return e.SetReadDeadline(t) }
func (e *end) SetWriteDeadline(t time.Time) error { return nil } // writing never waits
func (e *end) LocalAddr() net.Addr                { return memoryAddr{} }
func (e *end) RemoteAddr() net.Addr               { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }
