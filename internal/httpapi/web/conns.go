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

// How many connections a node holds at a time, and how many streams: of one
// household, of one user. A person's devices and a large office's stay far below.
const (
	maxOthersHousehold  = 1_000 // connections that are no sockets
	maxStreamsHousehold = 1_000
	maxStreamsUser      = 32
)

// ErrNoPlace refuses a socket or a stream beyond [Capacity].Lasting.
var ErrNoPlace = errs.New(errs.Unavailable, "connections.full", "This server has too many connections. Please try again.").Retry(10 * time.Second)

var errStreams = errs.New(errs.TooMany, "too_many_streams", "Too many streams are open. Close some.").Retry(heartbeat)

// counts counts all, and by name.
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

// open returns the count of all.
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

// TakePlace counts a socket or another connection that stays open until free is called. It reports
// false if the node has as many as it may.
func (a *API) TakePlace() (free func(), ok bool) {
	if !a.lasting.add(a.cfg.Capacity.Lasting, nil) {
		return nil, false
	}
	return sync.OnceFunc(func() { a.lasting.remove(nil) }), true
}

// listener closes connections beyond what a node, and a household, may have. It takes a
// trusted proxy for as many households as it likes.
type listener struct {
	net.Listener
	api *API

	refusals, failures rate.Sometimes // bound the log lines
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
			names[clientnet.Of(at.Addr().Unmap())] = maxOthersHousehold + l.api.cfg.SocketsFrom
		}
		if l.api.conns.add(l.api.cfg.Capacity.Conns, names) {
			return &counted{Conn: conn, leave: sync.OnceFunc(func() { l.api.conns.remove(names) })}, nil
		}
		l.refuse(conn)
	}
}

// refuse closes a connection without an answer: writing one could block.
func (l *listener) refuse(conn net.Conn) {
	_ = conn.Close()
	l.api.stats.refused.Inc()
	l.refusals.Do(func() {
		l.api.log.Warn("connections are refused: too many are open", slog.String("from", conn.RemoteAddr().String()))
	})
}

// failed counts and logs an error of Accept, such as that the process has no file left. net/http tries again.
func (l *listener) failed(err error) {
	if errors.Is(err, net.ErrClosed) {
		return
	}
	l.api.stats.unaccepted.Inc()
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

// CloseWrite ends what is sent, so that net/http can let a refused client read the
// answer before it closes.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
