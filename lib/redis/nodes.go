package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

// nodes watches the servers, so that commands fail at once while one is unavailable. The client library dials on the
// path of a command, and commands that share a connection wait for that dial whatever their contexts. A server that
// accepts and never replies would block all of them. Therefore:
//
//   - Only the watcher dials a server that was found unavailable, with a back-off. Until then every dial for a command
//     fails at once.
//   - A command that timed out raises suspicion: the watcher pings every server over a new connection, and cuts all
//     connections to a server that does not reply.
//   - If the client library gives up a connection without any reply after Config.Patience, its server counts as
//     unavailable without another ping.
//   - A timeout that this process notices late proves nothing, because the process was paused or got no processor time.
//     The watcher pings again.
type nodes struct {
	log  *slog.Logger
	open func(ctx context.Context, network, addr string) (net.Conn, error) // Config.Dial

	patience time.Duration // Config.Patience

	askCredentials  Credentials            // Config.Credentials
	sentinelOptions rueidis.SentinelOption // user and password for the sentinels

	mu         sync.Mutex
	byAddr     map[string]*node
	closed     bool
	connects   uint64 // connections made
	reconnects uint64 // connections that replaced an ended one
	losses     uint64
	ends       atomic.Uint64 // ended connections; counted before another replaces one

	wake     chan struct{} // a server is unavailable, or suspected
	flood    chan struct{} // too many commands wait to wait any longer
	suspects atomic.Bool
	late     atomic.Int32 // commands that timed out since the last check
}

type node struct {
	addr       string
	dialer     *net.Dialer
	tls        *tls.Config
	conns      map[*tracked]struct{}
	received   atomic.Uint64 // number of reads with data from it
	ended      int           // connections not replaced yet
	away       error         // the reason, an ErrUnavailable; nil while it is available
	lastWanted time.Time     // when a command last needed it
}

const (
	// floodLimit is the number of late commands that ends Config.Patience. The client library queues 1,024 on a
	// connection, and blocks beyond.
	floodLimit = 400
	// floodGrace is how long the servers of a cluster then have to reply, for the sake of the available ones: long
	// enough for nearby servers, and too short to fill that queue.
	floodGrace = 10 * time.Millisecond

	probeEvery    = 20 * time.Millisecond  // at first, then doubling
	probeEveryMax = 250 * time.Millisecond // bounds the delay before a return is noticed
	forgetAfter   = 30 * time.Second       // unavailable servers that no command needs any longer

	smallWrite = 1 << 10 // bytes, about twenty commands
)

var errHangs = errors.New("no reply, and too many commands are waiting")

func newNodes(cfg Config, log *slog.Logger) *nodes {
	return &nodes{log: log, open: cfg.Dial, patience: cfg.Patience, askCredentials: cfg.Credentials, byAddr: make(map[string]*node),
		wake: make(chan struct{}, 1), flood: make(chan struct{}, 1)}
}

// dial is the dialer of the client library.
func (ns *nodes) dial(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	ns.mu.Lock()
	if ns.closed {
		ns.mu.Unlock()
		return nil, ErrClosed
	}
	n := ns.byAddr[addr]
	if n == nil {
		n = &node{addr: addr, dialer: d, tls: cfg, conns: make(map[*tracked]struct{})}
		ns.byAddr[addr] = n
	}
	n.lastWanted = time.Now()
	away := n.away
	ns.mu.Unlock()
	if away != nil {
		return nil, &dialError{away}
	}
	began := time.Now()
	c, err := ns.connect(ctx, n)
	if err != nil {
		if ctx.Err() != nil { // the caller's context ended, which proves nothing
			ns.suspect()
			return nil, err
		}
		if starved(began, ns.patience) {
			ns.suspect()
		} else {
			ns.lost(n, err)
		}
		return nil, &dialError{err}
	}
	by, err := ns.credentials(ctx, addr, d, c)
	if err != nil { // no fault of the server: existing connections stay
		c.Close()
		return nil, &dialError{&unavailable{err}}
	}
	t := &tracked{Conn: c, nodes: ns, node: n, by: by, made: time.Now()}
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.closed {
		c.Close()
		return nil, ErrClosed
	}
	n.conns[t] = struct{}{}
	ns.connects++
	if n.ended > 0 {
		n.ended--
		ns.reconnects++
	}
	return t, nil
}

// A dialError means that there is no connection: the commands that waited for one were not sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

func isDialError(err error) bool {
	var e *dialError
	return errors.As(err, &e)
}

// connect dials; an address that begins with a slash is the path of a socket.
func (ns *nodes) connect(ctx context.Context, n *node) (net.Conn, error) {
	network := "tcp"
	if n.addr[0] == '/' {
		network = "unix"
	}
	if ns.open != nil {
		ctx, cancel := context.WithTimeout(ctx, ns.patience)
		defer cancel()
		return ns.open(ctx, network, n.addr)
	}
	if n.tls == nil {
		return n.dialer.DialContext(ctx, network, n.addr)
	}
	ctx, cancel := context.WithTimeout(ctx, ns.patience)
	defer cancel()
	plain, err := n.dialer.DialContext(ctx, network, n.addr)
	if err != nil {
		return nil, err
	}
	c, err := encrypt(ctx, plain, n.addr, n.tls)
	if err != nil {
		plain.Close()
		return nil, err
	}
	return c, nil
}

// starved reports whether a wait that was limited to d took so long that this process itself was paused, or got no
// processor time. A timeout then proves nothing about the server.
func starved(began time.Time, d time.Duration) bool { return time.Since(began) > d+d/8 }

// ask pings the server on a new connection. Any reply counts, even an error, because before authentication the server
// may send nothing else. A starved process retries, at most three times.
func (ns *nodes) ask(ctx context.Context, n *node) (err error) {
	for range 3 {
		began := time.Now()
		if err = ns.askOnce(ctx, n); err == nil || ctx.Err() != nil || !starved(began, ns.patience) {
			break
		}
	}
	return err
}

func (ns *nodes) askOnce(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, ns.patience)
	defer cancel()
	c, err := ns.connect(ctx, n)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = ping(ctx, c); err != nil {
		return fmt.Errorf("no reply from %s: %w", n.addr, n.hint(err))
	}
	return nil
}

// ping returns the first line that a server sends on a new connection. A line that it sends before it closes the
// connection counts, even if the PING could no longer be sent.
func ping(ctx context.Context, c net.Conn) (line []byte, err error) {
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	_, unsent := c.Write([]byte("*1\r\n$4\r\nPING\r\n"))
	if line, err = bufio.NewReader(c).ReadSlice('\n'); err != nil && errors.Is(err, io.EOF) && unsent != nil {
		err = unsent
	}
	return line, err
}

// hint adds a likely cause to the error of a server that closed a connection without any reply.
func (n *node) hint(err error) error {
	if n.tls != nil || n.addr[0] == '/' || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	return fmt.Errorf("%w, before any reply: a server with TLS needs rediss:// or ?tls=true", err)
}

// suspect makes the watcher ping every server, because a command timed out.
func (ns *nodes) suspect() {
	if ns.late.Add(1) == floodLimit {
		signal(ns.flood)
	}
	if ns.suspects.CompareAndSwap(false, true) {
		signal(ns.wake)
	}
}

// lost marks a server as unavailable and cuts its connections, so that callers that wait for a reply get the error now.
func (ns *nodes) lost(n *node, err error) {
	ns.mu.Lock()
	known := n.away != nil
	n.away = &unavailable{err}
	cut := n.conns
	n.conns = make(map[*tracked]struct{})
	n.ended += len(cut)
	ns.ends.Add(uint64(len(cut)))
	if !known {
		ns.losses++
	}
	ns.mu.Unlock()
	if !known {
		ns.log.Warn("redis: server unavailable", "addr", n.addr, "err", err)
	}
	for c := range cut {
		c.Conn.Close()
	}
	signal(ns.wake)
}

// close cuts every connection and refuses new ones.
func (ns *nodes) close() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.closed = true
	for _, n := range ns.byAddr {
		for c := range n.conns {
			c.Conn.Close()
		}
	}
}

// watch runs until ctx ends. Many suspicions do not delay the pings to unavailable servers: when these are due does not
// depend on what woke the loop.
func (ns *nodes) watch(ctx context.Context) {
	wait, asked := probeEvery, time.Now()
	for {
		var timer <-chan time.Time
		if ns.anyAway() {
			timer = time.After(time.Until(asked.Add(wait)))
		} else {
			wait = probeEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-ns.wake:
		case <-timer:
		}
		if ns.suspects.Load() {
			ns.check(ctx)
		}
		if timer != nil && time.Since(asked) >= wait {
			ns.recover(ctx)
			wait, asked = min(2*wait, probeEveryMax), time.Now()
		}
	}
}

// check pings every server that has connections.
func (ns *nodes) check(ctx context.Context) {
	ns.late.Store(0)
	select {
	case <-ns.flood:
	default:
	}
	asking, enough := context.WithCancel(ctx)
	var guard sync.WaitGroup
	defer guard.Wait()
	defer enough()
	guard.Go(func() {
		select {
		case <-ns.flood:
		case <-asking.Done():
			return
		}
		for range 10 { // a starved process had less time to read the replies
			began := time.Now()
			select {
			case <-time.After(floodGrace):
			case <-asking.Done():
				return
			}
			if !starved(began, floodGrace) {
				break
			}
		}
		enough()
	})
	ns.each(func(n *node) bool { return n.away == nil }, func(n *node) {
		before := n.received.Load()
		err := ns.ask(asking, n)
		switch {
		case err == nil || ctx.Err() != nil:
		case asking.Err() != nil && n.received.Load() != before: // another server hangs
		case asking.Err() != nil: // only this ping was cancelled, no command was
			ns.lost(n, errHangs)
		default:
			ns.lost(n, err)
		}
	})
	ns.suspects.Store(false)
}

// recover pings every unavailable server.
func (ns *nodes) recover(ctx context.Context) {
	ns.each(func(n *node) bool { return n.away != nil }, func(n *node) {
		if ns.ask(ctx, n) != nil {
			return
		}
		ns.mu.Lock()
		n.away = nil
		ns.mu.Unlock()
		ns.log.Info("redis: server available again", "addr", n.addr)
	})
}

// each calls fn for the chosen servers concurrently and waits for all; it removes those that are no longer needed.
func (ns *nodes) each(choose func(*node) bool, fn func(*node)) {
	var all sync.WaitGroup
	ns.mu.Lock()
	for addr, n := range ns.byAddr {
		switch {
		case n.away != nil && time.Since(n.lastWanted) > forgetAfter:
			delete(ns.byAddr, addr)
		case choose(n):
			all.Go(func() { fn(n) })
		}
	}
	ns.mu.Unlock()
	all.Wait()
}

// count sets the fields about connections.
func (ns *nodes) count(s *Stats) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	s.Connects, s.Reconnects, s.Losses = ns.connects, ns.reconnects, ns.losses
	for _, n := range ns.byAddr {
		s.Connections += len(n.conns)
		if n.away != nil {
			s.ServersAway++
		}
	}
}

func (ns *nodes) connectsSoFar() uint64 {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.connects
}

func (ns *nodes) isAway(addr string) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	n := ns.byAddr[addr]
	return n != nil && n.away != nil
}

func (ns *nodes) anyAway() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, n := range ns.byAddr {
		if n.away != nil {
			return true
		}
	}
	return false
}

// suspectIfLate checks a command's error for a timeout.
func (ns *nodes) suspectIfLate(err error) {
	// A command that was not sent is late because of the dial, which has already handled that.
	if errors.Is(err, context.DeadlineExceeded) && !isDialError(err) {
		ns.suspect()
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// tracked is a connection with a reference to its server.
type tracked struct {
	net.Conn
	nodes    *nodes
	node     *node
	by       net.Addr // address of the server, perhaps with credentials
	made     time.Time
	answered atomic.Bool // the server has sent something
}

func (t *tracked) RemoteAddr() net.Addr { return t.by }

func (t *tracked) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	if n > 0 {
		t.node.received.Add(1)
	}
	if err != nil && !t.answered.Load() {
		err = t.node.hint(err)
	} else if n > 0 && !t.answered.Load() {
		t.answered.Store(true)
	}
	return n, err
}

// Write sends the commands that the client library has collected. Before a small write it yields, so that other
// goroutines can add more commands. Otherwise two processors send the commands of many callers nearly one by one, and a
// system call costs more than a command.
func (t *tracked) Write(b []byte) (int, error) {
	if len(b) < smallWrite {
		runtime.Gosched()
	}
	return t.Conn.Write(b)
}

func (t *tracked) Close() error {
	t.nodes.mu.Lock()
	_, open := t.node.conns[t] // false: it was cut
	if open {
		delete(t.node.conns, t)
		t.node.ended++
		t.nodes.ends.Add(1)
	}
	silent := open && !t.nodes.closed && !t.answered.Load() && time.Since(t.made) >= t.nodes.patience
	late := starved(t.made, t.nodes.patience)
	t.nodes.mu.Unlock()
	err := t.Conn.Close()
	switch {
	case silent && late:
		t.nodes.suspect()
	case silent:
		t.nodes.lost(t.node, fmt.Errorf("no reply from %s: %w", t.node.addr, os.ErrDeadlineExceeded))
	}
	return err
}
