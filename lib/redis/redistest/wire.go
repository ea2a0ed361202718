package redistest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis"
)

// A Wire is the network between one node and a Redis, a [Memory] or a server at a TCP address. Like a network it loses no
// byte of a connection that survives: data that is held back arrives when the fault is over, however late.
type Wire struct {
	Addr string // the TCP address for the node; empty in memory

	config redis.Config
	work   sync.WaitGroup // of a wire with an Addr

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

var errRefused = &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}

func newWire() *Wire {
	w := &Wire{links: make(map[*link]struct{})}
	w.change.L = &w.mu
	return w
}

// NewWire returns a wire to the server at a TCP address, until the test ends. The node connects to the wire's Addr.
func NewWire(t testing.TB, server string) *Wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := newWire()
	w.Addr = listener.Addr().String()
	w.config.URL = "redis://" + w.Addr
	w.work.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			w.work.Go(func() { w.carry(near.(*net.TCPConn), server) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		w.Refuse()
		w.work.Wait()
	})
	return w
}

// carry connects a node's connection with a new one to the server, over the wire.
func (w *Wire) carry(node *net.TCPConn, server string) {
	near, far, err := w.connect()
	if err != nil {
		reset(node)
		return
	}
	w.work.Go(func() { join(node, near) })
	conn, err := net.DialTimeout("tcp", server, time.Second)
	if err != nil {
		_ = far.Close()
		return
	}
	join(conn.(*net.TCPConn), far)
}

// join copies data between a connection and an end of a link, until one of them ends. If the link is cut, the peer of the
// connection gets a reset.
func join(conn *net.TCPConn, e *end) {
	var received sync.WaitGroup
	received.Go(func() {
		_, _ = io.Copy(e, conn)
		_ = e.Close()
	})
	if _, err := io.Copy(conn, e); err != nil {
		_ = conn.SetLinger(0)
	}
	_ = conn.Close()
	received.Wait()
}

// reset closes a connection so that its peer gets a reset.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// Config returns the configuration for the node at the near end.
func (w *Wire) Config() redis.Config { return w.config }

// connect returns the two ends of a new link, for the node and for the server.
func (w *Wire) connect() (near, far *end, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse {
		return nil, nil, errRefused
	}
	l := &link{lanes: [2]*lane{{wire: w, to: ToServer}, {wire: w, to: ToNode}}}
	w.links[l] = struct{}{}
	return &end{w, l, ToNode}, &end{w, l, ToServer}, nil
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

// Refuse cuts every connection and accepts none until [Wire.Heal]. With an Addr, a new connection gets a reset.
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

// LoseMessages drops the server's push messages: messages of channels, and invalidations of client-side caching.
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
	ended    bool   // the writer has closed it: data under way arrives
	cut      bool   // no more data arrives
	losing   int    // remaining bytes of a message that is being lost
	head     []byte // the beginning of a message, whose length is not known yet
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
	b, l.head = append(l.head, b...), nil
	for len(b) > 0 {
		if l.losing == 0 && w.mute && l.to == ToNode {
			var known bool
			if l.losing, known = message(b); !known {
				l.head = b
				return n, nil
			}
			if l.losing > 0 {
				w.lost++
			}
		}
		if l.losing == 0 {
			break
		}
		lost := min(l.losing, len(b)) // a server writes a long message in pieces
		l.losing, b = l.losing-lost, b[lost:]
	}
	if len(b) > 0 {
		l.pieces = append(l.pieces, piece{b, time.Now().Add(w.delay + rand.N(w.jitter+1))})
		w.change.Broadcast()
	}
	return n, nil
}

// pushed matches the beginning of a message of a channel, or of an invalidation of client-side caching.
var pushed = regexp.MustCompile(`^[*>]\d+\r\n\$\d+\r\n(s|p)?(message|invalidate)\r\n`)

// maxHead is larger than the part of a push message that shows its length.
const maxHead = 1 << 10

// message returns the length of the push message at the beginning of a server's text, or 0 if it begins with something
// else. The text may contain only the beginning of the message, because the message contains its lengths. If the text is
// too short to show them, known is false.
func message(text []byte) (n int, known bool) {
	if text[0] != '*' && text[0] != '>' {
		return 0, true
	}
	switch n = element(text); {
	case n == 0:
		return 0, len(text) > maxHead
	case !pushed.Match(text):
		return 0, true
	}
	return n, true
}

// element returns the length of the reply or push at the beginning of a server's text. It returns 0 if the text does not
// show the length.
func element(text []byte) int {
	head, _, ok := bytes.Cut(text, []byte("\r\n"))
	if !ok || len(head) == 0 {
		return 0
	}
	all := len(head) + 2
	size, _ := strconv.Atoi(string(head[1:]))
	switch head[0] {
	case '$':
		if size >= 0 {
			all += size + 2
		}
	case '*', '>':
		for range size {
			n := element(text[min(all, len(text)):])
			if n == 0 {
				return 0
			}
			all += n
		}
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
