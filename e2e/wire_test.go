package e2e

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// wire is a TCP proxy that can swallow everything, so that a node's data never reaches Redis. It closes a connection
// with swallowed data when more data comes afterwards, because no network loses a part of a stream and delivers the
// rest.
type wire struct {
	ln     net.Listener
	to     string
	cut    atomic.Bool
	closed sync.WaitGroup
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{ln: ln, to: to}
	w.closed.Go(w.accept)
	t.Cleanup(func() { _ = ln.Close(); w.closed.Wait() })
	return w
}

func (w *wire) accept() {
	for {
		near, err := w.ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.closed.Go(func() { w.copy(far, near) })
		w.closed.Go(func() { w.copy(near, far) })
	}
}

func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf, swallowed := make([]byte, 32<<10), false
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if w.cut.Load() {
			swallowed = true
			continue
		}
		if swallowed {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
