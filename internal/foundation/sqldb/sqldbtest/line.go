//go:build unix

package sqldbtest

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A Line carries connections to a server until it fails. Connections that are made afterwards get through, as to the
// server that has taken the place of one that is gone.
type Line struct {
	URL string // for sqldb.Config

	mu    sync.Mutex
	links []*link
}

// link is one connection over a line.
type link struct {
	near, far net.Conn
	mute      atomic.Bool
}

// NewLine returns a line to a server with Options.TCP, which ends with the test.
func NewLine(t testing.TB, to *Instance) *Line {
	t.Helper()
	quiet := net.ListenConfig{KeepAlive: -1} // of a line that has failed nobody hears anything
	listener, err := quiet.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Line{URL: strings.Replace(to.URL, to.Addr(), listener.Addr().String(), 1)}
	var accepting, carrying sync.WaitGroup
	accepting.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to.Addr())
			if err != nil {
				near.Close()
				continue
			}
			c := &link{near: near, far: far}
			l.mu.Lock()
			l.links = append(l.links, c)
			l.mu.Unlock()
			carrying.Go(func() { defer c.close(); _, _ = io.Copy(far, near) })
			carrying.Go(func() { defer c.close(); _, _ = io.Copy(c, far) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		accepting.Wait()
		for _, c := range l.links {
			c.close()
		}
		carrying.Wait()
	})
	return l
}

// Mute loses whatever the server says on the connections that there are, which stay open. The server goes on to hear
// what it is told, and does it.
func (l *Line) Mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.links {
		c.mute.Store(true)
	}
}

// Write is for what the server says.
func (c *link) Write(p []byte) (int, error) {
	if c.mute.Load() {
		return len(p), nil
	}
	return c.near.Write(p)
}

func (c *link) close() {
	c.near.Close()
	c.far.Close()
}
