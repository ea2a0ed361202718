package bubble

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Network is the listener of a server in a bubble, and the only connection to it. It has no socket, because a goroutine
// that waits for a socket would stop virtual time.
type Network struct {
	addr   net.TCPAddr
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

// ports gives each server of the process its own port.
var ports atomic.Int32

// NewNetwork returns the network of one server, whose listener has its own address.
func NewNetwork() *Network {
	n := &Network{addr: loopback(), conns: make(chan net.Conn), closed: make(chan struct{})}
	n.close = sync.OnceFunc(func() { close(n.closed) })
	return n
}

// loopback returns a new address on this machine.
func loopback() net.TCPAddr {
	return net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1 + int(ports.Add(1)%60_000)}
}

// Accept implements [net.Listener].
func (n *Network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (n *Network) Close() error { n.close(); return nil }

// Addr implements [net.Listener].
func (n *Network) Addr() net.Addr { return &n.addr }

// Dial connects to the server. It ignores the address.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	here := loopback()
	select {
	case n.conns <- &conn{server, &n.addr, &here}:
		return &conn{client, &here, &n.addr}, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Client returns a client that sends its requests over the network. It does not request compression, which is useless
// in memory.
func (n *Network) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: n.Dial, MaxIdleConnsPerHost: 64, DisableCompression: true}}
}

// conn is a pipe with addresses.
type conn struct {
	net.Conn
	local, remote net.Addr
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }
