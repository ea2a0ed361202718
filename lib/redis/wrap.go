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

// A Conn is a Redis client that the program has already, as [Wrap] needs it. Packages
// redis/onrueidis and redis/ongoredis, which are modules of their own, have one for the usual
// clients. Its methods may be called concurrently.
//
// A reply is what the server answered: a nil reply, a text, a whole number, a list, or an error
// reply as a [ServerError]. Doubles come as texts, booleans as 0 and 1, maps and sets as flat
// lists. Whatever else keeps a command from being answered is another error, which the DB gives
// as [ErrUnavailable]: the command may have been carried out.
type Conn interface {
	// Mode returns "standalone", "sentinel" or "cluster".
	Mode() string
	// Do sends commands in one round trip to each owner of their slots, and returns a reply
	// for each, in order. Those of one slot are carried out in their order. It sends nothing
	// twice, but for what a cluster answered by naming another node. Where ctx ends it
	// should return; the DB waits no longer, and ignores what comes then.
	Do(ctx context.Context, cmds []Command) []keyspace.Reply
	// Subscribe subscribes once to a channel, to a sharded one in a cluster, and calls on's
	// functions, neither of which is nil: Subscribed when the subscription took effect,
	// before any message. It returns when ctx ends or the subscription does, and why; the
	// DB subscribes again then. A slow function must hold up no command.
	Subscribe(ctx context.Context, channel string, on Handler) error
	// Owners returns the servers that own keys: one, or all masters of a cluster.
	Owners(ctx context.Context) ([]Server, error)
}

// A Command is one as it goes over the wire.
type Command struct {
	Args []string // the name first
	// Key is the place among Args of the first key, or of the channel of an SPUBLISH: it says
	// which server of a cluster gets the command. 0 means that any will do.
	Key int
}

// A Server is one that owns keys.
type Server struct {
	Addr string // host:port, or the path of a socket
	// Do sends commands to this server, in one round trip. It is Conn.Do otherwise.
	Do func(ctx context.Context, cmds []Command) []keyspace.Reply
}

// WrapConfig says how [Wrap] uses a client.
type WrapConfig struct {
	// Prefix is that of [Config], and NoPrefix too.
	Prefix   string
	NoPrefix bool
	// Timeout ends each round trip at the latest, where the caller's context does not. Zero
	// leaves that to the client.
	Timeout time.Duration
	// Log gets a line for each subscription that breaks; nil discards.
	Log *slog.Logger
}

// Wrap returns a DB that sends its commands by conn, so that the packages of this module share
// the connections of a program that has a client already. The error is one of cfg.
//
// The client finds out by itself whether its servers are there, so a command may take as long
// as its context allows, or the client's own timeouts, before it fails with [ErrUnavailable];
// callers that have something else to answer from give it a deadline, as package cache does.
// What the DB cannot know of another's connections: [DB.Stats] counts none, and [DB.Ended]
// never returns the same number twice, so that whoever compares asks [DB.Fingerprint]. The
// [Owner]s of such a DB have no connections of their own.
//
// [DB.Close] ends subscriptions, and commands fail from then on, those under way too. The client stays open: closing
// it is up to the caller, after Close.
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
		return nil, errors.New("redis: a client's mode is standalone, sentinel or cluster, not " + strconv.Quote(conn.Mode()))
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	log := cfg.Log.With("redis", conn.Mode())
	return &DB{
		mode: conn.Mode(), prefix: prefix, log: log, closed: make(chan struct{}), stop: func() {},
		nodes: newNodes(Config{}, log), // of none
		via:   conn, timeout: cfg.Timeout,
	}, nil
}

// command makes the wire command, as build does. full sends a script's source in place of its
// hash.
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

// within returns what fn does, or an error when ctx ends or the DB is closed before: a client may
// dial on the path of a command, or read on without regard to contexts. What is then left ends
// with the client's own timeouts.
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

// send has the client send commands, and classifies the errors.
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
	settle(ctx, cmds, replies)
	return replies
}

// settle brings replies into the one shape, in which nothing depends on the protocol that the
// client speaks.
func settle(ctx context.Context, cmds []Command, replies []keyspace.Reply) {
	for i := range replies {
		r := &replies[i]
		switch {
		case r.Kind == keyspace.ErrorReply:
			r.Err = foreign(ctx, r.Err)
		case r.Kind == keyspace.ListReply && pairs[cmds[i].Args[0]]:
			flatten(r)
		}
	}
}

// foreign classifies an error of a client that is not ours.
func foreign(ctx context.Context, err error) error {
	if server, ok := errors.AsType[ServerError](err); ok {
		if away[server.Code()] {
			return &unavailable{server}
		}
		return server
	}
	// A connection may end with the patience of another caller, who used it or was making it.
	if (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && !ended(ctx) {
		return &unavailable{errors.New(err.Error())}
	}
	return unanswered(err)
}

// ended reports that a context has ended, or is just about to: a connection with the same
// deadline may be faster.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// pairs are the commands that answer with one flat list by RESP2, and with a list of pairs by
// RESP3.
var pairs = map[string]bool{
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

// sendMulti fills in one reply for each command, by the client.
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
		db.log.Warn("a subscription to redis broke", "err", err)
	}
	mu.Lock()
	defer mu.Unlock()
	return subscribed
}
