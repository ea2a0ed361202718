package sqldb

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unheard returns a [net.Dialer.Control] that has the kernel end a connection when the host has acknowledged nothing of
// what it was sent for that long. Linux would try for a quarter of an hour.
func unheard(most time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(most.Milliseconds()))
		})
		if failed != nil {
			return failed
		}
		return err
	}
}
