//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
)

// copyOwner gives f the owner and the group of the file that was describes.
func copyOwner(f *os.File, was fs.FileInfo) error {
	owner, ok := was.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
