package sqldb

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unacknowledgedLimit returns a [net.Dialer.Control] that sets TCP_USER_TIMEOUT: the kernel closes a connection when the host has
// not acknowledged sent data for that time. The default of Linux is about 15 minutes.
func unacknowledgedLimit(limit time.Duration) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
		})
		if failed != nil {
			return failed
		}
		return err
	}
}
