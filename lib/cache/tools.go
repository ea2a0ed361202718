package cache

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// The rest of this file is for the tools of operators, not for programs that use caches.

// SlotKind is what stands in Redis under a cached key.
type SlotKind string

// The kinds of slots.
const (
	SlotEmpty   SlotKind = "nothing"
	SlotValue   SlotKind = "value"
	SlotLease   SlotKind = "lease"   // its holder loads the value; a stale one may be kept behind it
	SlotFence   SlotKind = "fence"   // changes are under way
	SlotTag     SlotKind = "tag"     // the version of a tag
	SlotUnknown SlotKind = "unknown" // not this version's
)

// Slot is what stands in Redis under a cached key, taken apart.
type Slot struct {
	Kind SlotKind

	// Of a value, and of one kept behind a lease, which Kept tells.
	Kept    bool
	Missing bool          // it says that there is no such thing
	Stored  time.Time     // by the servers' clock, like the next two
	Soft    time.Time     // when it should be loaded again
	Hard    time.Time     // from when on it must not be used
	Took    time.Duration // to load
	Era     uint64        // it counts only while this is [EraOf] its family and [bus.Bus.Era]
	Version uint64        // of the load; of a tag, the tag's
	Tags    []uint64      // versions of its tags when it was loaded
	Payload string        // the value, decompressed: JSON, or what Codec says
	Codec   string        // the [Codec]'s name; empty means JSON

	Until   time.Time // of a lease: when it expires
	Changes int       // of a fence: how many are under way
}

// Inspect takes apart what GET returned for a cached key, "" if there was nothing.
func Inspect(slot string) (s Slot) {
	s.Kind = SlotUnknown
	switch kind(slot) {
	case 0:
		s.Kind = SlotEmpty
	case isFence:
		if rest := len(slot) - 2; rest > 0 && rest%fenceLen == 0 {
			s.Kind, s.Changes = SlotFence, rest/fenceLen
		}
		return s
	case isTag:
		if len(slot) == 1+tokenLen {
			s.Kind, s.Version = SlotTag, binary.BigEndian.Uint64([]byte(slot[1:]))
		}
		return s
	case isLease:
		if len(slot) < keptAt {
			return s
		}
		until, err := strconv.ParseInt(slot[1+tokenLen:keptAt], 10, 64)
		if err != nil {
			return s
		}
		s.Kind, s.Until, s.Kept = SlotLease, time.UnixMilli(until).UTC(), true
	}
	env, ok := parse(slot)
	codec, body, whole := unpack(env.payload)
	if !ok || !whole {
		s.Kept = false
		return s
	}
	if !s.Kept {
		s.Kind = SlotValue
	}
	moment := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	s.Missing, s.Era, s.Version, s.Tags, s.Payload = env.missing, env.era, env.id, env.tags, string(body)
	s.Codec = codec
	s.Stored, s.Soft, s.Hard, s.Took = moment(env.stored), moment(env.soft), moment(env.hard), time.Duration(env.took)*time.Microsecond
	return s
}

// ParseTag reads a tag as "kind:id", the arguments of [TagOf].
func ParseTag(s string) (t Tag, ok bool) {
	kind, id, ok := strings.Cut(s, ":")
	if !ok || kind == "" || id == "" || len(s) > keyspace.MaxText {
		return Tag{}, false
	}
	return TagOf(kind, id), true
}

// Key is what the target is called in Redis, for [Runtime.Redo].
func (t Target) Key() keyspace.Key { return t.key }

// forgotten is the event at which every process drops all its copies.
const forgotten = "forget"

// Forget has every process drop all its copies. It is for tools that remove values
// from Redis by other means than [Runtime.Drop].
func (rt *Runtime) Forget() error {
	rt.forgetAll()
	return rt.do(rt.bus.PublishCmd(topic, forgotten, ""))[0].Err
}

// forgetAll invalidates all copies of this process.
func (rt *Runtime) forgetAll() {
	for i := range rt.invalidations {
		rt.invalidations[i].Add(1)
	}
}

// Health is the state of the runtime's connection with Redis.
type Health struct {
	Behind time.Duration // how long this node may have missed changes for; normally one beat of the bus
	Open   int           // open circuit breakers; there is one in all, or 16 for a cluster
	Queued int           // keys and whole families whose drop Redis has not taken yet: this node reads them from their source
}

// Health returns the present state of the runtime's connection with Redis.
func (rt *Runtime) Health() Health {
	h := Health{Behind: time.Duration(bus.Now() - rt.bus.Seen()), Queued: int(rt.undropped.n.Load())}
	for i := range rt.breakers {
		if rt.breakers[i].until.Load() != 0 {
			h.Open++
		}
	}
	return h
}
