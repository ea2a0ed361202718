package cache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// A RetryQueue stores drops that Redis did not accept, until [Runtime.Redo] succeeds for them. It only contains drops,
// never values: a late or repeated drop costs a load, and cannot replace a newer value with an old one.
type RetryQueue interface {
	Add(ctx context.Context, keys []keyspace.Key) error
}

// enqueueDrops adds drops to the retry queue, and keeps them in memory if the queue fails. Until they are done this
// process reads the keys from their source. It also drops the local copies, which a read may have made of the old value
// meanwhile.
func (rt *Runtime) enqueueDrops(ctx context.Context, keys []keyspace.Key) {
	kept := rt.undropped.add(keys)
	rt.dropLocal(keys)
	if rt.cfg.Hooks.Queued != nil {
		rt.cfg.Hooks.Queued(len(keys))
	}
	if rt.cfg.Retries != nil {
		err := rt.cfg.Retries.Add(context.WithoutCancel(ctx), keys)
		if err == nil {
			return
		}
		rt.cfg.Log.Warn("cache: drops held in memory only", "keys", len(keys), "err", err)
	}
	rt.memory.add(kept)
}

// Redo retries drops of a [RetryQueue]: it removes the keys from Redis and then from every process.
func (rt *Runtime) Redo(keys []keyspace.Key) error {
	_, err := rt.redo(keys)
	return err
}

// redo is Redo, and returns the keys that were not dropped.
func (rt *Runtime) redo(keys []keyspace.Key) (left []keyspace.Key, err error) {
	before := rt.undropped.before()
	replies := rt.changes.do(dropCmds(keys)...)
	if err = rt.broadcastDrop(keys); err != nil {
		return keys, errors.Join(keyspace.FirstErr(replies), err)
	}
	done := make([]keyspace.Key, 0, len(keys))
	for i, r := range replies {
		if r.Err == nil {
			done = append(done, keys[i])
		} else {
			left = append(left, keys[i])
		}
	}
	rt.undropped.done(done, before)
	return left, keyspace.FirstErr(replies)
}

// dropCmds returns the commands that remove keys from Redis.
func dropCmds(keys []keyspace.Key) []keyspace.Cmd {
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		if s := shapes.Of(k.Family()); s != nil {
			cmds[i] = s.Drop(k)
		} else {
			cmds[i] = putScript.Cmd([]keyspace.Key{k}, "", "0", "0")
		}
	}
	return cmds
}

// maxKeysInMemory limits the keys whose drops wait in memory. If there are more, all keys of their family are dropped
// once Redis is back.
const maxKeysInMemory = 10_000

// memoryQueue is the default queue. It has no limit of its own, because its keys are a subset of those in [undropped].
type memoryQueue struct {
	mu   sync.Mutex
	keys map[string]keyspace.Key
}

func (q *memoryQueue) add(keys []keyspace.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.keys == nil {
		q.keys = map[string]keyspace.Key{}
	}
	for _, k := range keys {
		q.keys[k.String()] = k
	}
}

// run retries the waiting drops.
func (q *memoryQueue) run(rt *Runtime) {
	q.mu.Lock()
	var keys []keyspace.Key
	for name, k := range q.keys {
		if len(keys) == maxKeysPerMessage {
			break
		}
		keys = append(keys, k)
		delete(q.keys, name) // a key that is added again meanwhile belongs to a later change
	}
	q.mu.Unlock()
	if len(keys) > 0 {
		left, _ := rt.redo(keys)
		q.add(left)
	}
}

// slowCommit is how long a source may continue a commit after the change has ended, for example because a database
// waits for its disk or for a replica.
const slowCommit = 30 * time.Second

// lateDrops are the drops of changes that ended with an error or a panic. The source may still commit such a change
// when its fence has been removed or has expired, so its keys are dropped again after slowCommit. They are only kept in
// memory.
type lateDrops struct {
	mu   sync.Mutex
	list []lateDrop // ordered by due
}

type lateDrop struct {
	keys []keyspace.Key
	due  bus.Moment
}

func (l *lateDrops) add(keys []keyspace.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, lateDrop{keys, bus.Now() + bus.Moment(slowCommit)})
}

// due removes and returns the keys whose drops are due.
func (l *lateDrops) due() (keys []keyspace.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for now := bus.Now(); n < len(l.list) && l.list[n].due <= now; n++ {
		keys = append(keys, l.list[n].keys...)
	}
	l.list = slices.Delete(l.list, 0, n)
	return keys
}

// run drops the keys that are due.
func (l *lateDrops) run(ctx context.Context, rt *Runtime) {
	for part := range slices.Chunk(l.due(), maxKeysPerMessage) {
		if rt.Redo(part) != nil {
			rt.enqueueDrops(ctx, part)
		}
	}
}
