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

var errNotAlone = errors.New("another server with a Redis of its own runs on this database, and neither would hear of what the other " +
	"does: stop that one, or name the same Redis server in redis for both")

// CheckThere returns an error if the node is a gateway alone and its database file is missing. Such a node uses the
// database of other nodes, and with a misspelled folder it would create an empty one.
func (c Config) CheckThere() error {
	path, isFile := sqldb.SQLitePath(sqldb.Config{URL: c.SQL, Dir: c.Data})
	if !isFile || c.does(roleAPI) || c.does(roleWorker) {
		return nil
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // opening reports other faults
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return &config.Fault{Key: "data", Text: fmt.Sprintf("there is no database at %s: a node with the role gateway alone uses the one of "+
		"the other nodes. Name their folder in data, or their database in sql", path)}
}

// Alone locks the SQLite database of a server that has its own Redis, so that no second server uses it. The caller
// calls release to unlock it. Alone does nothing on a file system without locks, with another database, or if nodes
// share the Redis.
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
