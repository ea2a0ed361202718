// Package engine registers the servers inside a program for package redis: packages embedded and spawn register theirs
// when they are imported.
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
	// ID identifies this run of the server, like the run_id of a redis-server.
	ID() string
	// Connections returns the number of open connections, and of all connections so far.
	Connections() (open, made int)
	// Close cuts all connections, and returns when none is served any longer.
	Close()
}

// Page is the number of keys that one SCAN of a Server should return, because it sorts all keys for each.
const Page = 100_000

// Start starts a Server. It is nil in a program that does not import package embedded; only the init of that package
// sets it.
var Start func() (Server, error)

// A Child is a redis-server that this process has started.
type Child interface {
	// Socket returns the path where it listens.
	Socket() string
	// Run starts another child whenever one ends, until ctx ends, and then ends the last one.
	Run(ctx context.Context)
	// Close removes its files. Run has already returned.
	Close() error
}

// Spawn starts a Child whose socket is in dir, which may be empty. It is nil in a program that does not import package
// spawn; only the init of that package sets it.
var Spawn func(ctx context.Context, dir string, log *slog.Logger) (Child, error)
