package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/bits"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/redis/internal/engine"
)

// Open starts the Redis of cfg or connects to it. It returns an error for a configuration that cannot work, such as a
// malformed URL, or "spawn" without a redis-server in PATH or without its import. It never fails because a server is
// unavailable: commands then fail with [ErrUnavailable] at once while the DB keeps connecting in the background. Open
// waits for the first attempt, for at most a second. ctx bounds only that wait; the DB lives until Close.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	t, err := cfg.target()
	if err != nil {
		return nil, err
	}
	switch {
	case t.mode == "embedded" && engine.Start == nil:
		return nil, errors.New(`redis: the URL is "embedded" or empty, but this program has no embedded server: import _ "github.com/stoa-dev/stoa/lib/redis/embedded", or set the URL of a server`)
	case t.mode == "spawn" && engine.Spawn == nil:
		return nil, errors.New(`redis: "spawn" needs import _ "github.com/stoa-dev/stoa/lib/redis/spawn" in this program`)
	}
	prefix, err := physicalPrefix(cfg.Prefix, cfg.NoPrefix)
	if err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Patience == 0 {
		cfg.Patience = patience
	}
	db := &DB{mode: t.mode, prefix: prefix, log: cfg.Log.With("redis", t.mode), asking: make(chan struct{}, 1)}
	if cfg.HotKeys {
		db.hot = newHot()
	}
	opt := clientOptions(cfg, t)
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	db.closed, db.stop = make(chan struct{}), stop
	db.nodes = newNodes(cfg, db.log)
	db.nodes.sentinelOptions = t.opt.Sentinel
	opt.DialCtxFn = db.nodes.dial
	db.done.Go(func() { db.nodes.watch(life) })
	switch t.mode {
	case "embedded":
		if db.server, err = engine.Start(); err != nil {
			stop()
			db.done.Wait()
			return nil, err
		}
		opt.InitAddress = []string{"memory"}
		opt.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return db.server.Dial()
		}
		opt.PipelineMultiplex, opt.RingScaleEachConn = -1, 0 // the server works under one lock
	case "spawn":
		if db.child, err = engine.Spawn(ctx, cfg.Dir, db.log); err != nil {
			stop()
			db.done.Wait()
			return nil, err
		}
		opt.InitAddress = []string{db.child.Socket()}
		db.done.Go(func() { db.child.Run(life) })
	}

	// Subscriptions have a client of their own, so that a slow handler does not delay commands. It uses RESP3, because
	// with RESP2 the client library opens an extra connection for them, and never replaces it if the server cuts only
	// that one.
	listen := opt
	listen.AlwaysRESP2 = false
	listen.PipelineMultiplex, listen.RingScaleEachConn = -1, 0
	db.done.Go(func() { connect(life, listen, &db.listener, nil) })

	first := make(chan struct{})
	db.done.Go(func() { connect(life, opt, &db.client, first) })
	select {
	case <-first:
	case <-ctx.Done():
	case <-time.After(cfg.Patience):
	}
	return db, nil
}

// clientOptions returns the options of the client library for commands. [Open] adds the dialer and the address of an
// engine in this process.
func clientOptions(cfg Config, t target) rueidis.ClientOption {
	opt := t.opt
	if t.mode != "cluster" { // a cluster has one connection to each owner
		opt.PipelineMultiplex, opt.RingScaleEachConn = sharing(cmp.Or(cfg.Connections, connections(runtime.GOMAXPROCS(0))))
	}
	opt.ForceSingleClient = t.mode != "sentinel" && t.mode != "cluster"
	opt.AlwaysRESP2 = true // the same flat replies in every mode
	opt.DisableCache = true
	opt.AlwaysPipelining = true // otherwise a command that times out closes the connection
	opt.DisableRetry = true     // see DB.Do
	opt.ClientSetInfo = rueidis.DisableClientSetInfo
	opt.ConnWriteTimeout = 2 * cfg.Patience
	opt.Dialer = net.Dialer{Timeout: cfg.Patience, KeepAlive: pingEvery}
	opt.Sentinel.Dialer = opt.Dialer
	if cfg.Credentials != nil {
		authenticate(&opt)
		opt.Sentinel.Dialer.KeepAlive = sentinelKeepAlive
	}
	return opt
}

// connections returns the default number of connections to one server that commands share: 1 for two processors, 2 for
// four, 4 for eight. A second connection only helps if another processor can serve it. Otherwise it halves the data of
// each system call, and system calls are most of the cost of a command.
func connections(processors int) int { return 1 << min(max(bits.Len(uint(processors))-2, 0), 2) }

// sharing converts a number of connections to the options of the client library. multiplex is the binary logarithm of
// the number, or -1 for one connection. ring sets how many commands may wait on each connection: at least 4,096 in all,
// and at least 64 on each.
func sharing(connections int) (multiplex, ring int) {
	n := bits.Len(uint(connections)) - 1
	if ring = max(12-n, 6); n == 0 {
		return -1, ring
	}
	return n, ring
}

// connect retries until there is a client, and signals its first attempt. After that the client reconnects by itself
// whenever a command needs a connection.
func connect(ctx context.Context, opt rueidis.ClientOption, slot *atomic.Pointer[rueidis.Client], first chan<- struct{}) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, _ := rueidis.NewClient(opt)
		if c != nil { // a client of a single server exists even if the server is unavailable
			slot.Store(&c)
		}
		if first != nil {
			close(first)
			first = nil
		}
		if c != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// Close ends the connection: running and later commands fail with [ErrUnavailable], and subscriptions end. It waits for
// the background work and stops an embedded or spawned server, whose data is then lost. The client of [Wrap] stays
// open. Calling Close again does nothing.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	select {
	case <-db.closed:
		return nil
	default:
	}
	close(db.closed)
	db.topics.mu.Lock()
	db.topics.closed = true
	for _, t := range db.topics.byName {
		if t.stop != nil {
			t.stop()
		}
	}
	db.topics.mu.Unlock()
	db.stop()
	db.nodes.close() // otherwise the client would wait for replies that may never arrive
	db.done.Wait()
	for _, slot := range []*atomic.Pointer[rueidis.Client]{&db.client, &db.listener} {
		if c := slot.Swap(nil); c != nil {
			(*c).Close()
		}
	}
	if db.server != nil {
		db.server.Close()
	}
	if db.child != nil {
		return db.child.Close()
	}
	return nil
}
