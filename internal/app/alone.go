package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

var errNotAlone = errors.New("another server with a Redis of its own runs on this database, and neither would hear of what the other does: stop that one, or name the same Redis server in redis for both")

// Alone keeps a second server off the SQLite database of one that has its own Redis, until release is called. On a file
// system without locks, and for a server that has another database or shares its Redis, it does nothing.
func (c Config) Alone() (release func() error, err error) {
	path, isFile := sqldb.SQLitePath(sqldb.Config{URL: c.SQL, Dir: c.Data})
	if !isFile || strings.Contains(c.Redis, "://") {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, errNotAlone), file.Close())
	}
	return file.Close, nil
}
