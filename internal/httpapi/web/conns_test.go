package web

import (
	"errors"
	"io"
	"net"
	"testing"
)

// callers is a listener that accepts some connections of one client network.
type callers struct {
	net.Listener
	left int
}

func (c *callers) Accept() (net.Conn, error) {
	if c.left--; c.left < 0 {
		return nil, io.EOF
	}
	return caller{}, nil
}

// caller is a connection without a network.
type caller struct{ net.Conn }

func (caller) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1234} }
func (caller) Close() error         { return nil }

func TestConnections_OfANetworkIncludeItsSockets(t *testing.T) {
	for sockets, want := range map[int]int{0: 2000, 100: 1100, 5000: 6000} {
		a := New(Config{MaxSocketsPerNetwork: sockets})
		l := &listener{Listener: &callers{left: want + 10}, api: a}
		got := 0
		for {
			if _, err := l.Accept(); errors.Is(err, io.EOF) {
				break
			}
			got++
		}
		if got != want {
			t.Errorf("with %d sockets: %d connections, want %d", sockets, got, want)
		}
	}
}
