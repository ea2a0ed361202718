//go:build unix

package web

import (
	"math"
	"syscall"
)

// openFiles returns the limit of open files, or 0 if there is none. The Go runtime has raised it to the hard limit.
func openFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
