//go:build !unix

package cli

import (
	"io/fs"
	"os"
)

// give leaves it to the system to whom a file belongs.
func give(*os.File, fs.FileInfo) error { return nil }
