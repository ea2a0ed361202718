package redis

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/internal/engine"
)

// A DB is a connection pool to one Redis: embedded, spawned, standalone, behind
// sentinels, or a cluster; or it sits on a client that the program has already, see [Wrap]. It is safe for concurrent use; commands of
// concurrent callers share round trips. It implements [keyspace.Executor].
type DB struct {
	mode   string
	prefix string // with its colon; empty for none
	log    *slog.Logger

	client   atomic.Pointer[rueidis.Client] // for commands; nil until first connected
	listener atomic.Pointer[rueidis.Client] // for subscriptions; likewise
	nodes    *nodes
	via      Conn          // of Wrap, in place of both
	timeout  time.Duration // WrapConfig.Timeout
	server   engine.Server // mode embedded
	child    engine.Child  // mode spawn

	mu     sync.Mutex         // one Close at a time
	closed chan struct{}      // by Close
	stop   context.CancelFunc // ends the background work
	done   sync.WaitGroup     // that work

	topics topics
	stats  stats
	hot    *hot // nil: not wanted
}

var _ keyspace.Executor = (*DB)(nil)

// Mode returns "embedded", "spawn", "standalone", "sentinel" or "cluster".
func (db *DB) Mode() string { return db.mode }

// Physical returns the name a key has in Redis: the prefix, a colon and the
// logical name, or that alone without a prefix.
func (db *DB) Physical(k keyspace.Key) string { return db.prefix + k.String() }

// Do sends one command and returns its reply. It returns when ctx ends at the
// latest, and at once while Redis is away. Nothing is sent twice: a command
// whose connection broke fails with [ErrUnavailable] and may have been carried
// out. Do not send blocking commands: they would block all other commands. A command that
// writes another type than that of its first key's family is refused: [keyspace.ErrType].
func (db *DB) Do(ctx context.Context, cmd keyspace.Cmd) keyspace.Reply {
	if err := cmd.Check(); err != nil {
		return keyspace.Fail(err)
	}
	if len(cmd.More) > 0 && !sameTag(&cmd) {
		return keyspace.Fail(ErrCrossSlot)
	}
	luck := rand.Uint32()
	timed := luck%sampled == 0
	if db.hot != nil {
		db.hot.lone(&cmd, luck/sampled)
	}
	var began time.Duration
	if timed {
		began = clock()
	}
	reply := db.do(ctx, &cmd)
	if reply.Kind == keyspace.ErrorReply && !db.stats.fault(reply.Err) || !timed {
		return reply
	}
	kind := &db.stats.lone
	if scripted(&cmd) {
		kind = &db.stats.script
	}
	kind.add(clock()-began, sampled, 1)
	return reply
}

func (db *DB) do(ctx context.Context, cmd *keyspace.Cmd) keyspace.Reply {
	if db.via != nil {
		var reply [1]keyspace.Reply
		db.sendMulti(ctx, []keyspace.Cmd{*cmd}, reply[:])
		return reply[0]
	}
	c, err := db.conn()
	if err != nil {
		return keyspace.Fail(err)
	}
	send := func(_ string, c rueidis.Client) rueidis.RedisResult {
		r := c.Do(ctx, db.build(c, cmd, false, nil))
		if scripted(cmd) && noScript(r) {
			r = c.Do(ctx, db.build(c, cmd, true, nil))
		}
		return r
	}
	for try := 0; ; try++ {
		var r rueidis.RedisResult
		if db.anywhere(cmd) {
			r = db.toAny(c, send)
		} else {
			r = send("", c)
		}
		if try == connectTries || !unsent(ctx, r.NonRedisError()) {
			return db.reply(r)
		}
	}
}

// anywhere reports that a command has no key, so that any server of the cluster
// will do.
func (db *DB) anywhere(cmd *keyspace.Cmd) bool {
	return db.mode == "cluster" && cmd.Key.IsZero() && len(cmd.More) == 0 && !published(cmd)
}

// toAny sends to a server of the cluster that is there. The client library would
// take one by chance, be it dead.
func (db *DB) toAny(c rueidis.Client, send func(addr string, c rueidis.Client) rueidis.RedisResult) rueidis.RedisResult {
	for addr, node := range c.Nodes() { // in no order
		if db.nodes.isAway(addr) {
			continue
		}
		if r := send(addr, node); !undialled(r.NonRedisError()) {
			return r
		}
	}
	return send("", c) // it says why there is none
}

// connectTries is how often a command is sent again whose connection was begun
// by callers that went away.
const connectTries = 5

// unsent reports that a command was not sent, because the caller who was making
// the connection for all, in whose context the client library does so, has given
// up: this one has not.
func unsent(ctx context.Context, err error) bool {
	return err != nil && errors.Is(err, context.Canceled) && ctx.Err() == nil
}

// DoMulti sends commands at once, in one round trip for each owner of their
// slots, and returns one reply for each, in order. Commands of one slot are
// carried out in their order, with the exception that [Script.Cmd] names. A
// command that fails does not keep the others from running. See [DB.Do] for
// contexts and failures.
func (db *DB) DoMulti(ctx context.Context, cmds []keyspace.Cmd) []keyspace.Reply {
	replies := make([]keyspace.Reply, len(cmds))
	if len(cmds) == 0 {
		return replies
	}
	if db.hot != nil {
		db.hot.batch(cmds)
	}
	began := clock()
	db.doMulti(ctx, cmds, replies)
	kind, sent, timed := &db.stats.batch, len(cmds), true
	for i := range cmds {
		if scripted(&cmds[i]) {
			kind = &db.stats.script
		}
		if replies[i].Kind != keyspace.ErrorReply {
			continue
		}
		if replies[i].Err == ErrCrossSlot || cmds[i].Check() != nil {
			sent--
		} else if !db.stats.fault(replies[i].Err) {
			timed = false
		}
	}
	if timed && sent > 0 {
		kind.add(clock()-began, 1, sent)
	}
	return replies
}

// doMulti fills in one reply for each command.
func (db *DB) doMulti(ctx context.Context, cmds []keyspace.Cmd, replies []keyspace.Reply) {
	if db.via != nil {
		db.sendMulti(ctx, cmds, replies)
		return
	}
	c, err := db.conn()
	if err != nil {
		for i := range replies {
			replies[i] = keyspace.Fail(err)
		}
		return
	}
	b := batches.Get().(*batch)
	b.fill(db, cmds)
	for i := range cmds {
		cmd := &cmds[i]
		switch err := cmd.Check(); {
		case err != nil:
			replies[i] = keyspace.Fail(err)
			b.skip(cmd)
		case len(cmd.More) > 0 && !sameTag(cmd):
			replies[i] = keyspace.Fail(ErrCrossSlot)
			b.skip(cmd)
		case db.anywhere(cmd): // which a pipeline over several cannot express
			replies[i] = db.do(ctx, cmd)
		default:
			b.cmds = append(b.cmds, db.build(c, cmd, false, b))
			b.at = append(b.at, i)
		}
	}
	if len(b.cmds) == 0 {
		b.release()
		return
	}
	clean := true
	var again, apart []int
	for j, r := range c.DoMulti(ctx, b.cmds...) {
		i := b.at[j]
		clean = clean && r.NonRedisError() == nil
		switch {
		case scripted(&cmds[i]) && noScript(r):
			again = append(again, i)
		case unsent(ctx, r.NonRedisError()):
			replies[i] = db.do(ctx, &cmds[i])
		case errors.Is(r.NonRedisError(), rueidis.ErrNoSlot):
			apart = append(apart, i)
		default:
			replies[i] = db.reply(r)
		}
	}
	db.apart(ctx, c, cmds, apart, replies)
	if clean { // else the client's writer may still be reading them
		b.release()
	}
	if len(again) > 0 {
		full := make([]rueidis.Completed, len(again))
		for j, i := range again {
			full[j] = db.build(c, &cmds[i], true, nil)
		}
		for j, r := range c.DoMulti(ctx, full...) {
			if i := again[j]; unsent(ctx, r.NonRedisError()) {
				replies[i] = db.do(ctx, &cmds[i])
			} else {
				replies[i] = db.reply(r)
			}
		}
	}
}

// apart sends the commands at those places slot by slot. A batch with a slot that has
// no owner, since the cluster has given it up, the client library does not send at all.
func (db *DB) apart(ctx context.Context, c rueidis.Client, cmds []keyspace.Cmd, places []int, replies []keyspace.Reply) {
	slots := map[uint16][]int{}
	for _, i := range places {
		built := db.build(c, &cmds[i], false, nil)
		slots[built.Slot()] = append(slots[built.Slot()], i)
	}
	var all sync.WaitGroup
	for _, places := range slots {
		all.Go(func() {
			for _, i := range places { // in their order
				replies[i] = db.do(ctx, &cmds[i])
			}
		})
	}
	all.Wait()
}

// conn returns the client, or why there is none.
func (db *DB) conn() (rueidis.Client, error) {
	if c := db.client.Load(); c != nil {
		return *c, nil
	}
	select {
	case <-db.closed:
		return nil, &unavailable{ErrClosed}
	default:
		return nil, &unavailable{errConnecting}
	}
}

// build makes the wire command. full sends a script's source in place of its
// hash. The physical keys come out of b, in its order, if there is one.
func (db *DB) build(c rueidis.Client, cmd *keyspace.Cmd, full bool, b *batch) rueidis.Completed {
	a := c.B().Arbitrary()
	if verb, of := verb(cmd, full); of != "" {
		n := len(cmd.More)
		if !cmd.Key.IsZero() {
			n++
		}
		a = a.Args(verb, of, strconv.Itoa(n))
	} else {
		a = a.Args(verb)
	}
	args := cmd.Args
	if !cmd.Key.IsZero() {
		a = a.Keys(db.physical(cmd.Key, b))
	} else if published(cmd) { // routed by its channel
		a, args = a.Keys(args[0]), args[1:]
	}
	for _, k := range cmd.More {
		a = a.Keys(db.physical(k, b))
	}
	return a.Args(args...).Build()
}

func (db *DB) physical(k keyspace.Key, b *batch) string {
	if b == nil {
		return db.prefix + k.String()
	}
	return b.take(k)
}

func noScript(r rueidis.RedisResult) bool {
	if r.NonRedisError() != nil {
		return false
	}
	re, ok := r.Error().(*rueidis.RedisError)
	return ok && re.IsNoScript()
}

// sameTag reports whether all keys of cmd hash by the same text.
func sameTag(cmd *keyspace.Cmd) bool {
	tag := hashed(cmd.Key.String())
	for _, k := range cmd.More {
		if hashed(k.String()) != tag {
			return false
		}
	}
	return true
}

// hashed returns the part of a key that decides its slot.
func hashed(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// A batch holds what one DoMulti needs while it runs.
type batch struct {
	cmds []rueidis.Completed
	at   []int  // the caller's index of each of cmds
	keys []byte // all physical keys of the batch in one piece
	next int    // where the next one begins
	head int    // length of the prefix
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// fill writes all physical keys into one allocation. That one is not reused: an
// abandoned command may be read long after its caller went on.
func (b *batch) fill(db *DB, cmds []keyspace.Cmd) {
	n := 0
	for i := range cmds {
		cmd := &cmds[i]
		if !cmd.Key.IsZero() {
			n += len(db.prefix) + len(cmd.Key.String())
		}
		for _, k := range cmd.More {
			n += len(db.prefix) + len(k.String())
		}
	}
	b.keys, b.next, b.head = make([]byte, 0, n), 0, len(db.prefix)
	for i := range cmds {
		cmd := &cmds[i]
		if !cmd.Key.IsZero() {
			b.keys = append(append(b.keys, db.prefix...), cmd.Key.String()...)
		}
		for _, k := range cmd.More {
			b.keys = append(append(b.keys, db.prefix...), k.String()...)
		}
	}
}

// take returns the physical name of the batch's next key, which is k.
func (b *batch) take(k keyspace.Key) string {
	at := b.next
	b.next += b.head + len(k.String())
	return unsafe.String(&b.keys[at], b.next-at)
}

// skip passes over the keys of a command that is not sent.
func (b *batch) skip(cmd *keyspace.Cmd) {
	if !cmd.Key.IsZero() {
		b.take(cmd.Key)
	}
	for _, k := range cmd.More {
		b.take(k)
	}
}

func (b *batch) release() {
	clear(b.cmds)
	b.cmds, b.at, b.keys = b.cmds[:0], b.at[:0], nil
	batches.Put(b)
}
