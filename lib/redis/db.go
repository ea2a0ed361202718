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

// A DB is a connection pool to one Redis: embedded, spawned, standalone, behind sentinels, or a cluster. It can also
// use a client that the program already has, see [Wrap]. It is safe for concurrent use; commands of concurrent callers
// share round trips. It implements [keyspace.Executor].
type DB struct {
	mode   string
	prefix string // with its colon; empty for none
	log    *slog.Logger

	client   atomic.Pointer[rueidis.Client] // for commands; nil until first connected
	listener atomic.Pointer[rueidis.Client] // for subscriptions; nil until first connected
	nodes    *nodes
	via      Conn          // set by Wrap, instead of both clients
	timeout  time.Duration // WrapConfig.Timeout
	server   engine.Server // mode embedded
	child    engine.Child  // mode spawn

	mu     sync.Mutex         // serializes Close
	closed chan struct{}      // closed by Close
	stop   context.CancelFunc // ends the background work
	done   sync.WaitGroup     // the background work

	known  knownPrint
	asking chan struct{} // has an entry while a caller uses known
	topics topics
	stats  stats
	hot    *hot // nil: not enabled
}

var _ keyspace.Executor = (*DB)(nil)

// Mode returns "embedded", "spawn", "standalone", "sentinel" or "cluster".
func (db *DB) Mode() string { return db.mode }

// Physical returns the name of a key in Redis: the prefix, a colon and the logical name, or the logical name alone
// without a prefix.
func (db *DB) Physical(k keyspace.Key) string { return db.prefix + k.String() }

// Do sends one command and returns its reply. It returns when ctx ends at the latest, and at once while Redis is
// unavailable. No command is sent twice: a command whose connection broke fails with [ErrUnavailable] and may have been
// executed. Do not send blocking commands, because they would block all other commands. A command that writes another
// type than that of its first key's family fails with [keyspace.ErrType].
func (db *DB) Do(ctx context.Context, cmd keyspace.Cmd) keyspace.Reply {
	if err := cmd.Check(); err != nil {
		return keyspace.Fail(err)
	}
	if len(cmd.More) > 0 && !sameTag(&cmd) {
		return keyspace.Fail(ErrCrossSlot)
	}
	luck := rand.Uint32()
	timed := luck%sampleRate == 0
	if db.hot != nil {
		db.hot.lone(&cmd, luck/sampleRate)
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
	kind.add(clock()-began, sampleRate, 1)
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
		if db.anyServer(cmd) {
			r = db.sendToAny(c, send)
		} else {
			r = send("", c)
		}
		if try == connectTries || !unsent(ctx, r.NonRedisError()) {
			return db.reply(r)
		}
	}
}

// anyServer reports whether a command has no key, so that any server of the cluster can execute it.
func (db *DB) anyServer(cmd *keyspace.Cmd) bool {
	return db.mode == "cluster" && cmd.Key.IsZero() && len(cmd.More) == 0 && !published(cmd)
}

// sendToAny sends to an available server of the cluster. The client library would select one at random, even if it is
// dead.
func (db *DB) sendToAny(c rueidis.Client, send func(addr string, c rueidis.Client) rueidis.RedisResult) rueidis.RedisResult {
	for addr, node := range c.Nodes() { // in any order
		if db.nodes.isAway(addr) {
			continue
		}
		if r := send(addr, node); !isDialError(r.NonRedisError()) {
			return r
		}
	}
	return send("", c) // for the error of the client library
}

// connectTries limits how often a command is sent again after the caller that was making its connection has left.
const connectTries = 5

// unsent reports whether a command was not sent because another caller gave up while it made the shared connection: the
// client library connects in the context of that caller. The caller with ctx has not given up.
func unsent(ctx context.Context, err error) bool {
	return err != nil && errors.Is(err, context.Canceled) && ctx.Err() == nil
}

// DoMulti sends commands at once, in one round trip for each owner of their slots, and returns one reply for each, in
// order. Commands of one slot are executed in their order, except for the case described at [Script.Cmd]. If one
// command fails, the others still run. See [DB.Do] for contexts and failures.
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

// doMulti sets one reply for each command.
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
		case db.anyServer(cmd): // a pipeline over several servers cannot contain it
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
	if clean { // otherwise the client's writer may still be reading them
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

// apart sends the commands at these indexes slot by slot. If a batch has a slot without an owner, the client library
// sends none of its commands.
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

// conn returns the client, or an error if there is none.
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

// build makes the wire command. full sends a script's source instead of its hash. The physical keys come from b, in its
// order, if b is not nil.
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

// sameTag reports whether all keys of cmd have the same hash tag.
func sameTag(cmd *keyspace.Cmd) bool {
	tag := hashed(cmd.Key.String())
	for _, k := range cmd.More {
		if hashed(k.String()) != tag {
			return false
		}
	}
	return true
}

// hashed returns the part of a key that determines its slot.
func hashed(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// A batch contains the buffers of one DoMulti call.
type batch struct {
	cmds []rueidis.Completed
	at   []int  // the caller's index of each of cmds
	keys []byte // physical names of all keys, concatenated
	next int    // offset of the next key
	head int    // length of the prefix
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// fill writes all physical keys into one allocation. It is not reused, because an abandoned command may be read long
// after its caller has continued.
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

// skip skips the keys of a command that is not sent.
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
