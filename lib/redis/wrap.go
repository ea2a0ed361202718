package redis

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// A Conn is a Redis client that the program already has, in the form that [Wrap] needs. Packages redis/onrueidis and
// redis/ongoredis, which are modules of their own, provide one for the usual clients. Its methods may be called
// concurrently.
//
// A reply is what the server sent: a nil reply, a text, an integer, a list, or an error reply as a [ServerError].
// Doubles are texts, booleans are 0 and 1, maps and sets are flat lists. If there is no reply, the reply contains
// another error, which the DB returns as [ErrUnavailable]: the command may have been executed.
type Conn interface {
	// Mode returns "standalone", "sentinel" or "cluster".
	Mode() string
	// Do sends commands in one round trip to each owner of their slots, and returns a reply for each, in order.
	// Commands of one slot are executed in their order. No command is sent twice, except after a redirection of a
	// cluster to another node. Do should return when ctx ends; the DB waits no longer, and ignores later replies.
	Do(ctx context.Context, cmds []Command) []keyspace.Reply
	// Subscribe subscribes once to a channel, to a sharded one in a cluster, and calls the functions of on, which are
	// not nil: Subscribed when the subscription took effect, before any message. It returns the reason when ctx or the
	// subscription ends; the DB then subscribes again. A slow function must not delay commands.
	Subscribe(ctx context.Context, channel string, on Handler) error
	// Owners returns the servers that own keys: one, or all masters of a cluster.
	Owners(ctx context.Context) ([]Server, error)
}

// A Command is a command as it is sent over the wire.
type Command struct {
	Args []string // the name first
	// Key is the index in Args of the first key, or of the channel of an SPUBLISH. It determines the server of a
	// cluster that gets the command. 0 means any server.
	Key int
}

// A Server is a server that owns keys.
type Server struct {
	Addr string // host:port, or the path of a socket
	// Do sends commands to this server, in one round trip. Otherwise it behaves like Conn.Do.
	Do func(ctx context.Context, cmds []Command) []keyspace.Reply
}

// WrapConfig configures [Wrap].
type WrapConfig struct {
	// Prefix and NoPrefix have the same meaning as in [Config].
	Prefix   string
	NoPrefix bool
	// Timeout bounds each round trip, in addition to the caller's context. Zero leaves that to the client.
	Timeout time.Duration
	// Log gets a line for each subscription that breaks; nil discards it.
	Log *slog.Logger
}

// Wrap returns a DB that sends its commands by conn, so that the packages of this module share the connections of an
// existing client. It returns an error if cfg is invalid.
//
// The client itself detects whether its servers are available. A command may therefore take as long as its context
// allows, or the client's own timeouts, before it fails with [ErrUnavailable]. Callers with an alternative source set a
// deadline, as package cache does. The DB does not know the client's connections: [DB.Stats] counts none, and
// [DB.Ended] never returns the same number twice, so that a caller that compares it calls [DB.Fingerprint]. The
// [Owner]s of such a DB have no connections of their own.
//
// [DB.Close] ends subscriptions, and running and later commands fail. The client stays open: the caller closes it after
// Close.
func Wrap(conn Conn, cfg WrapConfig) (*DB, error) {
	prefix, err := physicalPrefix(cfg.Prefix, cfg.NoPrefix)
	if err != nil {
		return nil, err
	}
	if cfg.Timeout < 0 {
		return nil, errors.New("redis: WrapConfig.Timeout is negative")
	}
	switch conn.Mode() {
	case "standalone", "sentinel", "cluster":
	default:
		return nil, errors.New("redis: the client's mode must be standalone, sentinel or cluster, not " + strconv.Quote(conn.Mode()))
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	log := cfg.Log.With("redis", conn.Mode())
	return &DB{
		mode: conn.Mode(), prefix: prefix, log: log, closed: make(chan struct{}), stop: func() {},
		nodes: newNodes(Config{}, log), // without servers
		via:   conn, timeout: cfg.Timeout,
	}, nil
}

// command makes the wire command, as build does. full sends a script's source instead of its hash.
func (db *DB) command(cmd *keyspace.Cmd, full bool) Command {
	args := make([]string, 0, 4+len(cmd.More)+len(cmd.Args))
	keys := len(cmd.More)
	if !cmd.Key.IsZero() {
		keys++
	}
	verb, of := verb(cmd, full)
	if args = append(args, verb); of != "" {
		args = append(args, of, strconv.Itoa(keys))
	}
	c := Command{}
	if keys > 0 || published(cmd) && db.mode == "cluster" {
		c.Key = len(args)
	}
	if !cmd.Key.IsZero() {
		args = append(args, db.prefix+cmd.Key.String())
	}
	for _, k := range cmd.More {
		args = append(args, db.prefix+k.String())
	}
	c.Args = append(args, cmd.Args...)
	return c
}

// within returns the result of fn, or an error if ctx ends or the DB is closed before. A client may dial on the path of
// a command, or ignore contexts while it reads. The abandoned call ends with the client's own timeouts.
func within[T any](ctx context.Context, db *DB, fn func() T) (result T, err error) {
	select {
	case <-db.closed:
		return result, &unavailable{ErrClosed}
	default:
	}
	if err := ctx.Err(); err != nil {
		return result, classify(err)
	}
	done := make(chan T, 1)
	go func() { done <- fn() }()
	select {
	case result = <-done:
		return result, nil
	case <-ctx.Done():
		return result, classify(ctx.Err())
	case <-db.closed:
		return result, &unavailable{ErrClosed}
	}
}

// send sends commands by the client, and classifies the errors.
func (db *DB) send(ctx context.Context, do func(context.Context, []Command) []keyspace.Reply, cmds []Command) []keyspace.Reply {
	if db.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, db.timeout)
		defer cancel()
	}
	replies, err := within(ctx, db, func() []keyspace.Reply { return do(ctx, cmds) })
	if err == nil && len(replies) != len(cmds) {
		err = keyspace.ErrReply
	}
	if err != nil {
		return slices.Repeat([]keyspace.Reply{keyspace.Fail(err)}, len(cmds))
	}
	normalize(ctx, cmds, replies)
	return replies
}

// normalize converts replies to one shape that does not depend on the client's protocol version.
func normalize(ctx context.Context, cmds []Command, replies []keyspace.Reply) {
	for i := range replies {
		r := &replies[i]
		switch {
		case r.Kind == keyspace.ErrorReply:
			r.Err = classifyForeign(ctx, r.Err)
		case r.Kind == keyspace.ListReply && pairCommands[cmds[i].Args[0]]:
			flatten(r)
		}
	}
}

// classifyForeign classifies an error of a wrapped client.
func classifyForeign(ctx context.Context, err error) error {
	if server, ok := errors.AsType[ServerError](err); ok {
		if unavailableCodes[server.Code()] {
			return &unavailable{server}
		}
		return server
	}
	// A connection may end with the context of another caller that used it or was making it.
	if (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && !deadlinePassed(ctx) {
		return &unavailable{errors.New(err.Error())}
	}
	return unanswered(err)
}

// deadlinePassed reports whether a context has ended, or is about to: a connection with the same deadline may be faster.
func deadlinePassed(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// pairCommands are the commands whose reply is one flat list in RESP2, and a list of pairs in RESP3.
var pairCommands = map[string]bool{
	"ZRANGE": true, "ZREVRANGE": true, "ZRANGEBYSCORE": true, "ZREVRANGEBYSCORE": true,
	"ZUNION": true, "ZINTER": true, "ZDIFF": true, "ZPOPMIN": true, "ZPOPMAX": true,
	"ZRANDMEMBER": true, "HRANDFIELD": true,
}

func flatten(r *keyspace.Reply) {
	if len(r.List) == 0 || r.List[0].Kind != keyspace.ListReply {
		return
	}
	flat := make([]keyspace.Reply, 0, 2*len(r.List))
	for _, pair := range r.List {
		flat = append(flat, pair.List...)
	}
	r.List = flat
}

func unknownScript(r *keyspace.Reply) bool {
	server, ok := errors.AsType[ServerError](r.Err)
	return ok && server.Code() == "NOSCRIPT"
}

// sendMulti sends commands by the client and sets one reply for each.
func (db *DB) sendMulti(ctx context.Context, cmds []keyspace.Cmd, replies []keyspace.Reply) {
	wire, at := make([]Command, 0, len(cmds)), make([]int, 0, len(cmds))
	for i := range cmds {
		switch err := cmds[i].Check(); {
		case err != nil:
			replies[i] = keyspace.Fail(err)
		case len(cmds[i].More) > 0 && !sameTag(&cmds[i]):
			replies[i] = keyspace.Fail(ErrCrossSlot)
		default:
			wire, at = append(wire, db.command(&cmds[i], false)), append(at, i)
		}
	}
	if len(wire) == 0 {
		return
	}
	var again []Command
	var places []int
	for j, r := range db.send(ctx, db.via.Do, wire) {
		i := at[j]
		if replies[i] = r; scripted(&cmds[i]) && unknownScript(&r) {
			again, places = append(again, db.command(&cmds[i], true)), append(places, i)
		}
	}
	if len(again) > 0 {
		for j, r := range db.send(ctx, db.via.Do, again) {
			replies[places[j]] = r
		}
	}
}

// subscribeOnce is [DB.receive] by the client.
func (db *DB) subscribeOnce(session context.Context, t *topic) (subscribed bool) {
	var mu sync.Mutex
	err := db.via.Subscribe(session, t.name, Handler{
		Subscribed: func() {
			mu.Lock()
			subscribed = true
			mu.Unlock()
			db.deliver(t, event{up: true})
		},
		Message: func(payload string) { db.deliver(t, event{payload: payload}) },
	})
	if session.Err() == nil {
		db.log.Warn("redis: subscription broken", "err", err)
	}
	mu.Lock()
	defer mu.Unlock()
	return subscribed
}
