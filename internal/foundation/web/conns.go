package web

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/household"
)

// How many connections a node holds at a time, and how many streams: of all callers, of one
// household, of one user. A person's devices and a large office's stay far below.
const (
	// MaxConns is the largest number of connections that a node holds.
	MaxConns = 50_000

	maxOthersHousehold  = 1_000 // connections that are no sockets
	maxStreamsHousehold = 1_000
	maxStreamsUser      = 32
)

var errStreams = errs.New(errs.TooMany, "too_many_streams", "Too many streams are open. Close some.").Retry(heartbeat)

// counts counts by name.
type counts struct {
	mu    sync.Mutex
	total int
	by    map[string]int
}

// add counts one more of each of names, unless there are max of all or of one of them.
func (c *counts) add(max int, names map[string]int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if max > 0 && c.total >= max {
		return false
	}
	for name, max := range names {
		if c.by[name] >= max {
			return false
		}
	}
	c.total++
	for name := range names {
		if c.by == nil {
			c.by = map[string]int{}
		}
		c.by[name]++
	}
	return true
}

func (c *counts) remove(names map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	for name := range names {
		if c.by[name]--; c.by[name] == 0 {
			delete(c.by, name)
		}
	}
}

// listener closes connections beyond what a node, and a household, may have. It takes a
// trusted proxy for as many households as it likes.
type listener struct {
	net.Listener
	api     *API
	open    counts
	refused prometheus.Counter

	mu     sync.Mutex
	logged time.Time
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		names := map[string]int{}
		if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && !l.api.trusts(at.Addr().Unmap()) {
			names[household.Of(at.Addr().Unmap())] = maxOthersHousehold + l.api.cfg.SocketsFrom
		}
		if l.open.add(MaxConns, names) {
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { l.open.remove(names) })}, nil
		}
		l.refuse(conn)
	}
}

// refuse closes a connection without an answer: writing one could block. It is logged
// once a minute.
func (l *listener) refuse(conn net.Conn) {
	_ = conn.Close()
	l.refused.Inc()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.logged) >= time.Minute {
		l.logged = now
		l.api.log.Warn("connections are refused: too many are open", slog.String("from", conn.RemoteAddr().String()))
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite ends what is sent, so that net/http can let a refused client read the
// answer before it closes.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
