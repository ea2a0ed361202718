//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
)

// give makes f belong to those to whom the file belongs that was looked at.
func give(f *os.File, was fs.FileInfo) error {
	owner, ok := was.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
