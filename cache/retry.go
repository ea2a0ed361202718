package cache

import (
	"context"
	"errors"
	"sync"

	"github.com/stoa-dev/stoa/keyspace"
)

// A RetryQueue keeps drops that Redis did not take, until [Runtime.Redo] succeeds
// with them. Only drops wait there, never values: done late or twice they cost a load,
// and cannot put an old value over a newer one.
type RetryQueue interface {
	Add(ctx context.Context, keys []keyspace.Key) error
}

// later adds drops to the queue. Until they are done this process reads the keys from
// their source; a copy that a read has made of the old value meanwhile is forgotten.
func (rt *Runtime) later(ctx context.Context, keys []keyspace.Key) error {
	rt.undropped.add(keys)
	rt.forget(keys)
	return rt.retries.Add(context.WithoutCancel(ctx), keys)
}

// Redo retries drops of a [RetryQueue]: it removes the keys from Redis and then from
// every process.
func (rt *Runtime) Redo(keys []keyspace.Key) error {
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		if s := shapeOf(k); s != nil {
			cmds[i] = s.drop(k)
		} else {
			cmds[i] = putScript.Cmd([]keyspace.Key{k}, "", "0")
		}
	}
	before := rt.undropped.before()
	err := keyspace.FirstErr(rt.do(cmds...))
	if err == nil {
		rt.undropped.done(keys, before)
	}
	return errors.Join(err, rt.tell(keys))
}

// errFull says that drops were discarded.
var errFull = errors.New("cache: too many drops wait for Redis")

const memoryKeys = 10_000

// memoryQueue is the queue of a program that configures none.
type memoryQueue struct {
	mu   sync.Mutex
	keys map[string]keyspace.Key
}

// Add implements [RetryQueue].
func (q *memoryQueue) Add(_ context.Context, keys []keyspace.Key) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.keys == nil {
		q.keys = map[string]keyspace.Key{}
	}
	for _, k := range keys {
		if len(q.keys) >= memoryKeys {
			return errFull
		}
		q.keys[k.String()] = k
	}
	return nil
}

// run retries the drops that wait, as far as Redis takes them.
func (q *memoryQueue) run(ctx context.Context, rt *Runtime) {
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
	if len(keys) > 0 && rt.Redo(keys) != nil {
		_ = q.Add(ctx, keys)
	}
}
