// Package inspect parses what Redis holds under a cached key: whether it is a value, its times, or a load or change
// under way. It is for operators' tools; programs that use caches do not need it.
//
//	text, _, err := db.Do(ctx, keyspace.Cmd{Name: "GET", Key: key}).Text()
//	s := inspect.Parse(text)
//	counts := s.Kind == inspect.Value && s.Era == inspect.EraOf(key.Family(), events.Era()) // events is the bus
package inspect

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Kind is what Redis holds under a cached key.
type Kind string

// The kinds of slots.
const (
	Empty   Kind = "nothing"
	Value   Kind = "value"
	Lease   Kind = "lease"   // its holder loads the value; the lease may keep a stale value
	Fence   Kind = "fence"   // changes are under way
	Tag     Kind = "tag"     // the version of a tag
	Unknown Kind = "unknown" // not readable by this version
)

// Slot is the parsed content of Redis under a cached key.
type Slot struct {
	Kind Kind

	// Of a value, and of a value kept in a lease, for which Kept is set.
	Kept    bool
	Missing bool          // a negative entry: the value does not exist
	Stored  time.Time     // by the servers' clock, like the next two
	Soft    time.Time     // when it should be loaded again
	Hard    time.Time     // after this it must not be used
	Took    time.Duration // duration of its load
	Era     uint64        // the value only counts while this is [EraOf] its family in the era of the bus
	Version uint64        // of the load; of a tag, the tag's
	Tags    []uint64      // versions of its tags when it was loaded
	Payload string        // the value, decompressed, in the format of Codec
	Codec   string        // the [cache.Codec]'s name; empty means JSON

	Until   time.Time // of a lease: when it expires
	Changes int       // of a fence: number of changes under way
}

// Parse parses what GET returned for a cached key, "" if there was none.
func Parse(slot string) (s Slot) {
	s.Kind = Unknown
	switch slots.Kind(slot) {
	case 0:
		s.Kind = Empty
	case slots.IsFence:
		if rest := len(slot) - 2; rest > 0 && rest%slots.FenceLen == 0 {
			s.Kind, s.Changes = Fence, rest/slots.FenceLen
		}
		return s
	case slots.IsTag:
		if len(slot) == 1+slots.TokenLen {
			s.Kind, s.Version = Tag, binary.BigEndian.Uint64([]byte(slot[1:]))
		}
		return s
	case slots.IsLease:
		if len(slot) < slots.KeptAt {
			return s
		}
		until, err := strconv.ParseInt(slot[1+slots.TokenLen:slots.KeptAt], 10, 64)
		if err != nil {
			return s
		}
		s.Kind, s.Until, s.Kept = Lease, time.UnixMilli(until).UTC(), true
	}
	env, ok := slots.Parse(slot)
	codec, body, whole := slots.Unpack(env.Payload)
	if !ok || !whole {
		s.Kept = false
		return s
	}
	if !s.Kept {
		s.Kind = Value
	}
	moment := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	s.Missing, s.Era, s.Version, s.Tags, s.Payload = env.Missing, env.Era, env.ID, env.Tags, string(body)
	s.Codec = codec
	s.Stored, s.Soft, s.Hard, s.Took = moment(env.Stored), moment(env.Soft), moment(env.Hard), time.Duration(env.Took)*time.Microsecond
	return s
}

// EraOf returns the era that stored values of a family carry, for an era from Bus.Era of package bus. It differs for
// each Doc.Version, so that a program does not read values that were stored in another layout.
func EraOf(f *keyspace.Family, era uint64) uint64 { return slots.EraOf(f, era) }

// ParseTag reads a tag as "kind:id", the arguments of [cache.TagOf].
func ParseTag(s string) (t cache.Tag, ok bool) {
	kind, id, ok := strings.Cut(s, ":")
	if !ok || kind == "" || id == "" || len(s) > keyspace.MaxText {
		return cache.Tag{}, false
	}
	return cache.TagOf(kind, id), true
}
