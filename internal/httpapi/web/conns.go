package web

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Limits of one node, for each client network or user. A person's devices and a large office stay far below them.
const (
	maxOtherConnsPerNetwork = 1_000 // connections in addition to those allowed for sockets
	maxStreamsPerNetwork    = 1_000
	maxStreamsPerUser       = 32
)

// ErrNoPlace refuses a socket or a stream beyond [Capacity].Lasting.
var ErrNoPlace = errs.New(errs.Unavailable, "connections.full",
	"This server has too many connections. Please try again.").Retry(10 * time.Second)

var errStreams = errs.New(errs.TooMany, "too_many_streams", "Too many event streams are open. Close one first.").Retry(heartbeat)

// counts counts connections, in total and by name.
type counts struct {
	mu    sync.Mutex
	total int
	by    map[string]int
}

// add counts one more connection, in total and for each of names. It reports false, and counts nothing, if the total
// has reached max (0: no limit) or a name has reached its own maximum.
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

// open returns the total.
func (c *counts) open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
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

// AcquireConn counts a socket or another long-lived connection until free is called. It reports false if the node has
// reached its maximum.
func (a *API) AcquireConn() (free func(), ok bool) {
	if !a.lasting.add(a.cfg.Capacity.Lasting, nil) {
		return nil, false
	}
	return sync.OnceFunc(func() { a.lasting.remove(nil) }), true
}

// listener closes connections beyond the limits of the node and of a client network. A trusted proxy has no limit of
// its own, because it carries many client networks.
type listener struct {
	net.Listener
	api *API

	refusals, failures rate.Sometimes // one log line a minute each
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.failed(err)
			return nil, err
		}
		names := map[string]int{}
		if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && !l.api.trusts(at.Addr().Unmap()) {
			names[clientnet.Of(at.Addr().Unmap())] = maxOtherConnsPerNetwork + l.api.cfg.MaxSocketsPerNetwork
		}
		if l.api.conns.add(l.api.cfg.Capacity.Conns, names) {
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { l.api.conns.remove(names) })}, nil
		}
		l.refuse(conn)
	}
}

// refuse closes a connection without a response, because writing one could block.
func (l *listener) refuse(conn net.Conn) {
	_ = conn.Close()
	l.api.stats.refused.Inc()
	l.refusals.Do(func() {
		l.api.log.Warn("web: connections refused, too many are open", slog.String("from", conn.RemoteAddr().String()))
	})
}

// failed counts and logs an error of Accept, such as a reached limit of open files. net/http retries Accept.
func (l *listener) failed(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	l.api.stats.acceptErrors.Inc()
	l.failures.Do(func() { l.api.log.Warn("web: connections cannot be accepted", slog.Any("err", err)) })
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

// CloseWrite shuts down the sending side, so that net/http can let a refused client read the response before it
// closes.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
