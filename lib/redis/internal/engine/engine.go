// Package engine is where package redis finds the servers that a program brings itself, if it
// does: packages embedded and spawn put theirs here when they are imported.
package engine

import (
	"context"
	"log/slog"
	"net"
)

// A Server is a Redis in this process, empty at first.
type Server interface {
	// Dial returns a new connection to it, and net.ErrClosed after Close.
	Dial() (net.Conn, error)
	// ID names this run of it, as run_id does of a redis-server.
	ID() string
	// Connections returns how many are open, and how many were ever made.
	Connections() (open, made int)
	// Close cuts all connections, and returns once none is served any longer.
	Close()
}

// Page is how many keys one SCAN of a Server should yield: it sorts all keys for each.
const Page = 100_000

// Start starts a Server. It is nil in a program that does not import package embedded, and
// is set by nothing but that package's init.
var Start func() (Server, error)

// A Child is a redis-server that this process has started.
type Child interface {
	// Socket is the path where it listens.
	Socket() string
	// Run starts another one whenever it ends, until ctx ends, and then ends the last.
	Run(ctx context.Context)
	// Close removes its files. Run has returned by then.
	Close() error
}

// Spawn starts a Child whose socket is in dir, which may be empty. It is nil in a program that
// does not import package spawn, and is set by nothing but that package's init.
var Spawn func(ctx context.Context, dir string, log *slog.Logger) (Child, error)
