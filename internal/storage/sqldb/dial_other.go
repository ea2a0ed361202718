//go:build !linux

package sqldb

import (
	"syscall"
	"time"
)

// unheard leaves it to the system how often it sends again what a host does not acknowledge.
func unheard(time.Duration) func(network, address string, c syscall.RawConn) error { return nil }
