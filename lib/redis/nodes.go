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

// nodes watches the servers, so that commands fail at once while one is away.
// The client library dials on the path of a command, and commands that share a
// connection wait for that dial whatever their contexts say; a server that
// accepts and never answers would hold them all. Hence:
//
//   - a server found away is dialled by the watcher alone, with a back-off;
//     meanwhile every dial for a command fails at once;
//   - a command that ran out of time raises suspicion: the watcher asks every
//     server over a fresh connection, and cuts all connections to one that does
//     not answer;
//   - a connection that the client library gives up before any answer, after
//     Config.Patience, has asked already: its server is away.
//   - a time-out that this process notices late is no proof: the process was
//     stopped, or got no processor time. The watcher asks again.
type nodes struct {
	log  *slog.Logger
	open func(ctx context.Context, network, addr string) (net.Conn, error) // Config.Dial

	patience time.Duration // Config.Patience

	who      Credentials            // Config.Credentials
	watchers rueidis.SentinelOption // user and password at the sentinels

	mu     sync.Mutex
	by     map[string]*node
	closed bool
	made   uint64 // connections
	again  uint64 // those that replaced one
	losses uint64
	ends   atomic.Uint64 // connections that ended; counted before another replaces one

	wake     chan struct{} // a server is away, or under suspicion
	flood    chan struct{} // too many commands wait to wait any longer
	suspects atomic.Bool
	late     atomic.Int32 // commands that ran out of time since the last check
}

type node struct {
	addr   string
	dialer *net.Dialer
	tls    *tls.Config
	conns  map[*tracked]struct{}
	said   atomic.Uint64 // how often something came from it
	ended  int           // connections not replaced yet
	away   error         // why, an ErrUnavailable; nil while it is there
	wanted time.Time     // when a command last asked for it
}

const (
	// floodLimit is how many late commands end Config.Patience. The client
	// library queues 1,024 on a connection, and blocks beyond.
	floodLimit = 400
	// hurry is how long servers have left then, for the others of a cluster are there: enough to answer
	// nearby, and too short for a crowd to fill that queue.
	hurry = 10 * time.Millisecond

	probeEvery    = 20 * time.Millisecond  // at first, then doubling
	probeEveryMax = 250 * time.Millisecond // bounds how late a return is noticed
	forgetAfter   = 30 * time.Second       // a server that is not asked for any longer

	little = 1 << 10 // bytes, of some twenty commands
)

var errHangs = errors.New("no answer, and too many commands wait for one")

func newNodes(cfg Config, log *slog.Logger) *nodes {
	return &nodes{log: log, open: cfg.Dial, patience: cfg.Patience, who: cfg.Credentials, by: make(map[string]*node), wake: make(chan struct{}, 1), flood: make(chan struct{}, 1)}
}

// dial is the client library's way to a server.
func (ns *nodes) dial(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	ns.mu.Lock()
	if ns.closed {
		ns.mu.Unlock()
		return nil, ErrClosed
	}
	n := ns.by[addr]
	if n == nil {
		n = &node{addr: addr, dialer: d, tls: cfg, conns: make(map[*tracked]struct{})}
		ns.by[addr] = n
	}
	n.wanted = time.Now()
	away := n.away
	ns.mu.Unlock()
	if away != nil {
		return nil, &dialError{away}
	}
	began := time.Now()
	c, err := ns.connect(ctx, n)
	if err != nil {
		if ctx.Err() != nil { // the caller's patience ended, which proves nothing
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
	if err != nil { // which says nothing of the server: connections that are there stay
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
	ns.made++
	if n.ended > 0 {
		n.ended--
		ns.again++
	}
	return t, nil
}

// A dialError is why there is no connection: what waited for one was not sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

func undialled(err error) bool {
	var e *dialError
	return errors.As(err, &e)
}

// connect dials; an address that begins with a slash is a socket's path.
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

// starved reports whether a wait that was limited to d took so long that this process itself was stopped, or got no processor
// time. A time-out then says nothing about the server.
func starved(began time.Time, d time.Duration) bool { return time.Since(began) > d+d/8 }

// ask reports whether the server answers on a fresh connection, be it with an
// error: before authentication it may say little else. A starved process asks again, three times at most.
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
		return fmt.Errorf("no answer from %s: %w", n.addr, n.hint(err))
	}
	return nil
}

// ping returns the first line that a server says on a fresh connection. What it says
// before it ends the connection counts, even where nothing can be sent to it any longer.
func ping(ctx context.Context, c net.Conn) (line []byte, err error) {
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	_, unsent := c.Write([]byte("*1\r\n$4\r\nPING\r\n"))
	if line, err = bufio.NewReader(c).ReadSlice('\n'); err != nil && errors.Is(err, io.EOF) && unsent != nil {
		err = unsent
	}
	return line, err
}

// hint says what may be the matter with a server that ended a connection before it
// answered anything.
func (n *node) hint(err error) error {
	if n.tls != nil || n.addr[0] == '/' || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	return fmt.Errorf("%w, before any answer: a server that speaks TLS needs rediss:// or ?tls=true", err)
}

// suspect has the watcher ask every server; a command ran out of time.
func (ns *nodes) suspect() {
	if ns.late.Add(1) == floodLimit {
		signal(ns.flood)
	}
	if ns.suspects.CompareAndSwap(false, true) {
		signal(ns.wake)
	}
}

// lost marks a server as away and cuts its connections, so that whoever waits
// for a reply learns of it now.
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
		ns.log.Warn("redis is away", "addr", n.addr, "err", err)
	}
	for c := range cut {
		c.Conn.Close()
	}
	signal(ns.wake)
}

// close cuts every connection and allows no more.
func (ns *nodes) close() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.closed = true
	for _, n := range ns.by {
		for c := range n.conns {
			c.Conn.Close()
		}
	}
}

// watch runs until ctx ends. Suspicions, of which there may be many, take nothing from
// those that are away: when it is time to ask for them is settled without regard to what
// woke it.
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

// check asks every server that has connections.
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
		for range 10 { // a starved process had less time to read the answers
			began := time.Now()
			select {
			case <-time.After(hurry):
			case <-asking.Done():
				return
			}
			if !starved(began, hurry) {
				break
			}
		}
		enough()
	})
	ns.each(func(n *node) bool { return n.away == nil }, func(n *node) {
		before := n.said.Load()
		err := ns.ask(asking, n)
		switch {
		case err == nil || ctx.Err() != nil:
		case asking.Err() != nil && n.said.Load() != before: // it is another server that hangs
		case asking.Err() != nil: // only the asking was cancelled, no command was
			ns.lost(n, errHangs)
		default:
			ns.lost(n, err)
		}
	})
	ns.suspects.Store(false)
}

// recover asks every server that is away.
func (ns *nodes) recover(ctx context.Context) {
	ns.each(func(n *node) bool { return n.away != nil }, func(n *node) {
		if ns.ask(ctx, n) != nil {
			return
		}
		ns.mu.Lock()
		n.away = nil
		ns.mu.Unlock()
		ns.log.Info("redis is back", "addr", n.addr)
	})
}

// each calls fn for the chosen servers at once and waits for all; it forgets
// those that are not needed any longer.
func (ns *nodes) each(choose func(*node) bool, fn func(*node)) {
	var all sync.WaitGroup
	ns.mu.Lock()
	for addr, n := range ns.by {
		switch {
		case n.away != nil && time.Since(n.wanted) > forgetAfter:
			delete(ns.by, addr)
		case choose(n):
			all.Go(func() { fn(n) })
		}
	}
	ns.mu.Unlock()
	all.Wait()
}

// count fills in what is known of connections.
func (ns *nodes) count(s *Stats) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	s.Connects, s.Reconnects, s.Losses = ns.made, ns.again, ns.losses
	for _, n := range ns.by {
		s.Connections += len(n.conns)
		if n.away != nil {
			s.ServersAway++
		}
	}
}

func (ns *nodes) isAway(addr string) bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	n := ns.by[addr]
	return n != nil && n.away != nil
}

func (ns *nodes) anyAway() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, n := range ns.by {
		if n.away != nil {
			return true
		}
	}
	return false
}

// note looks at a command's error.
func (ns *nodes) note(err error) {
	// What was not sent is late for the network's sake, and dial has seen to that.
	if errors.Is(err, context.DeadlineExceeded) && !undialled(err) {
		ns.suspect()
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// tracked is a connection that knows its server.
type tracked struct {
	net.Conn
	nodes *nodes
	node  *node
	by    net.Addr // the server's, perhaps with credentials
	made  time.Time
	heard atomic.Bool // the server answered something
}

func (t *tracked) RemoteAddr() net.Addr { return t.by }

func (t *tracked) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	if n > 0 {
		t.node.said.Add(1)
	}
	if err != nil && !t.heard.Load() {
		err = t.node.hint(err)
	} else if n > 0 && !t.heard.Load() {
		t.heard.Store(true)
	}
	return n, err
}

// Write sends what the client library has gathered. Before it sends little it lets
// whoever can run put more commands behind it: else two processors send a crowd's
// commands nearly one by one, and a system call costs more than a command.
func (t *tracked) Write(b []byte) (int, error) {
	if len(b) < little {
		runtime.Gosched()
	}
	return t.Conn.Write(b)
}

func (t *tracked) Close() error {
	t.nodes.mu.Lock()
	_, open := t.node.conns[t] // else it was cut
	if open {
		delete(t.node.conns, t)
		t.node.ended++
		t.nodes.ends.Add(1)
	}
	silent := open && !t.nodes.closed && !t.heard.Load() && time.Since(t.made) >= t.nodes.patience
	late := starved(t.made, t.nodes.patience)
	t.nodes.mu.Unlock()
	err := t.Conn.Close()
	switch {
	case silent && late:
		t.nodes.suspect()
	case silent:
		t.nodes.lost(t.node, fmt.Errorf("no answer from %s: %w", t.node.addr, os.ErrDeadlineExceeded))
	}
	return err
}
