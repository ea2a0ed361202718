package sqldbtest

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Vanish stops acknowledging data on the existing connections, as if the host of the server had lost power.
func (l *Line) Vanish(t testing.TB) {
	t.Helper()
	l.Mute()
	l.mu.Lock()
	defer l.mu.Unlock()
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K} // it accepts 0 bytes of each packet
	for _, c := range l.links {
		raw, err := c.near.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		failed := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
		})
		if failed != nil {
			t.Fatal(failed)
		}
		if err != nil { // the connection may already be closed
			t.Logf("a connection does not vanish: %v", err)
		}
	}
}
