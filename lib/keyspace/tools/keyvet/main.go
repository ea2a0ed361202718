package keyvet

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis/multichecker"
)

// Main is the command, for go vet and on its own. It does not return.
func Main() {
	if slices.Contains(os.Args[1:], "-V=full") {
		id, err := version()
		if err != nil {
			fmt.Fprintln(os.Stderr, "keyvet:", err)
			os.Exit(1)
		}
		// The go command defines this format. It uses the text after buildID as the identity of the tool, which is a
		// part of its cache key.
		fmt.Printf("keyvet version devel buildID=%x\n", id)
		os.Exit(0)
	}
	multichecker.Main(Analyzer)
}

// version returns a checksum of everything that a result depends on, except the sources: the program, and the lock
// files of the current module.
func version() ([]byte, error) {
	sum := sha256.New()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	locks, err := locksAround(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range append([]string{self}, locks...) {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		n, err := io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "\n%s %d\n", name, n)
	}
	return sum.Sum(nil), nil
}

// locksAround returns the lock files that may apply to files of dir's module: all under the root of the module or
// workspace, and those in the folders above it.
func locksAround(dir string) (locks []string, err error) {
	root := dir
	for up := dir; ; up = filepath.Dir(up) {
		for _, name := range []string{"go.mod", "go.work"} {
			if _, err := os.Stat(filepath.Join(up, name)); err == nil {
				root = up // the topmost, because a workspace contains its modules
			}
		}
		if name := filepath.Join(up, lockName); exists(name) {
			locks = append(locks, name)
		}
		if up == filepath.Dir(up) {
			break
		}
	}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && name != root:
			return nil // an unreadable folder has no sources either
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "vendor"):
			return filepath.SkipDir
		case d.Name() == lockName && d.Type().IsRegular() && !slices.Contains(locks, name):
			locks = append(locks, name)
		}
		return nil
	})
	slices.Sort(locks)
	return locks, err
}

func exists(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
