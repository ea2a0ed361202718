//go:build !linux

package sqldb

import (
	"syscall"
	"time"
)

// unacknowledgedLimit does nothing: the operating system decides how often it retransmits unacknowledged data.
func unacknowledgedLimit(time.Duration) func(network, address string, c syscall.RawConn) error {
	return nil
}
