package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

var errNotAlone = errors.New("another server with a Redis of its own runs on this database, and neither would hear of what the other does: stop that one, or name the same Redis server in redis for both")

// CheckThere refuses a gateway alone if its database file is missing: such a node uses the database of other nodes, and a
// misspelled folder would get an empty one.
func (c Config) CheckThere() error {
	path, isFile := sqldb.SQLitePath(sqldb.Config{URL: c.SQL, Dir: c.Data})
	if !isFile || c.does(roleAPI) || c.does(roleWorker) {
		return nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // what else is wrong with it, opening says
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return &config.Fault{Key: "data", Text: fmt.Sprintf("there is no database at %s: a node with the role gateway alone uses the one of the other nodes. Name their folder in data, or their database in sql", path)}
}

// Alone keeps a second server off the SQLite database of one that has its own Redis, until release is called. On a file
// system without locks, and for a server that has another database or shares its Redis, it does nothing.
func (c Config) Alone() (release func() error, err error) {
	path, isFile := sqldb.SQLitePath(sqldb.Config{URL: c.SQL, Dir: c.Data})
	if !isFile || strings.Contains(c.Redis, "://") {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("the folder of the database cannot be made: %w; correct data or sql", err)
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
