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

// A RetryQueue keeps drops that Redis did not take, until [Runtime.Redo] succeeds
// with them. Only drops wait there, never values: done late or twice they cost a load,
// and cannot put an old value over a newer one.
type RetryQueue interface {
	Add(ctx context.Context, keys []keyspace.Key) error
}

// later adds drops to the queue, and keeps in memory what that does not take. Until they
// are done this process reads the keys from their source; a copy that a read has made of
// the old value meanwhile is forgotten.
func (rt *Runtime) later(ctx context.Context, keys []keyspace.Key) {
	kept := rt.undropped.add(keys)
	rt.forget(keys)
	if rt.cfg.Hooks.Queued != nil {
		rt.cfg.Hooks.Queued(len(keys))
	}
	if rt.cfg.Retries != nil {
		err := rt.cfg.Retries.Add(context.WithoutCancel(ctx), keys)
		if err == nil {
			return
		}
		rt.cfg.Log.Warn("drops wait in this process alone", "keys", len(keys), "err", err)
	}
	rt.memory.add(kept)
}

// Redo retries drops of a [RetryQueue]: it removes the keys from Redis and then from
// every process.
func (rt *Runtime) Redo(keys []keyspace.Key) error {
	_, err := rt.redo(keys)
	return err
}

// redo is Redo, and returns the keys that are not dropped.
func (rt *Runtime) redo(keys []keyspace.Key) (left []keyspace.Key, err error) {
	before := rt.undropped.before()
	replies := rt.changes.do(dropCmds(keys)...)
	if err = rt.tell(keys); err != nil {
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

// dropCmds are the commands that remove keys from Redis.
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

// memoryKeys bounds the keys whose drops wait in memory. Where there are more, all of
// their family is dropped once Redis is back.
const memoryKeys = 10_000

// memoryQueue is the queue of a program that configures none. It has no bound of its own:
// its keys are some of those in [undropped].
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

// run retries the drops that wait, as far as Redis takes them.
func (q *memoryQueue) run(rt *Runtime) {
	q.mu.Lock()
	var keys []keyspace.Key
	for name, k := range q.keys {
		if len(keys) == messageKeys {
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

// slowCommit is how long a source may go on with a commit after the change has ended: a database waits for its disk, or
// for a replica.
const slowCommit = 30 * time.Second

// lateDrops are those of changes that ended with an error or a panic. The source may carry such a change out when its fence
// has been removed or has expired, so that its keys are dropped once more when that must be over. They are in memory alone.
type lateDrops struct {
	mu   sync.Mutex
	list []lateDrop // the first one is due first
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

// due takes the keys whose drops are due.
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

// run does the drops that are due.
func (l *lateDrops) run(ctx context.Context, rt *Runtime) {
	for part := range slices.Chunk(l.due(), messageKeys) {
		if rt.Redo(part) != nil {
			rt.later(ctx, part)
		}
	}
}
