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

// Main is the command, for go vet and by itself. It does not return.
func Main() {
	if slices.Contains(os.Args[1:], "-V=full") {
		id, err := version()
		if err != nil {
			fmt.Fprintln(os.Stderr, "keyvet:", err)
			os.Exit(1)
		}
		// The form is the go command's; it takes what follows buildID for the tool's
		// identity, by which it keeps results.
		fmt.Printf("keyvet version devel buildID=%x\n", id)
		os.Exit(0)
	}
	multichecker.Main(Analyzer)
}

// version is a sum over all on which a result depends but the sources: the program and
// the lock files of the module that it is run in.
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

// locksAround returns the lock files that files of dir's module may be held against: all
// under its root, or under that of its workspace, and those in the folders above.
func locksAround(dir string) (locks []string, err error) {
	root := dir
	for up := dir; ; up = filepath.Dir(up) {
		for _, name := range []string{"go.mod", "go.work"} {
			if _, err := os.Stat(filepath.Join(up, name)); err == nil {
				root = up // the topmost: a workspace stands above its modules
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
			return nil // what cannot be read has no sources either
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
