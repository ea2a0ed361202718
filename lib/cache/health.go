package cache

import (
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// The rest of this file is for operators' tools, not for programs that use caches. Package inspect shows what Redis
// holds under a cached key.

// Key returns the target's key in Redis, for [Runtime.Redo].
func (t Target) Key() keyspace.Key { return t.key }

// forgotten is the event that makes every process drop all its copies.
const forgotten = "forget"

// Forget makes every process drop all its copies. It is for tools that remove values from Redis without [Runtime.Drop].
func (rt *Runtime) Forget() error {
	rt.forgetAll()
	return rt.changes.do(rt.bus.PublishCmd(topic, forgotten, ""))[0].Err
}

// forgetAll invalidates all copies of this process.
func (rt *Runtime) forgetAll() {
	for i := range rt.invalidations {
		rt.invalidations[i].Add(1)
	}
}

// Health is the state of the runtime's connection to Redis.
type Health struct {
	Behind time.Duration // how long this node may have missed changes; normally one beat of the bus
	Open   int           // slot ranges with an open circuit breaker, for reads or for changes; a cluster has 16, other modes have one
	Queued int           // keys and whole families whose drop Redis has not accepted yet: this node reads them from their source
}

// Health returns the present state of the runtime's connection to Redis.
func (rt *Runtime) Health() Health {
	h := Health{Behind: time.Duration(bus.Now() - rt.bus.Seen()), Queued: int(rt.undropped.n.Load())}
	for i := range rt.reads.breakers {
		if rt.reads.breakers[i].until.Load() != 0 || rt.changes.breakers[i].until.Load() != 0 {
			h.Open++
		}
	}
	return h
}
