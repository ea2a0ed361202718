// Package inspect takes apart what stands in Redis under a cached key: whether it is a value, since
// when and for how long, or that somebody loads or changes it. It is for the tools of operators;
// a program that uses caches does not need it.
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

// Kind is what stands in Redis under a cached key.
type Kind string

// The kinds of slots.
const (
	Empty   Kind = "nothing"
	Value   Kind = "value"
	Lease   Kind = "lease"   // its holder loads the value; a stale one may be kept behind it
	Fence   Kind = "fence"   // changes are under way
	Tag     Kind = "tag"     // the version of a tag
	Unknown Kind = "unknown" // not this version's
)

// Slot is what stands in Redis under a cached key, taken apart.
type Slot struct {
	Kind Kind

	// Of a value, and of one kept behind a lease, which Kept tells.
	Kept    bool
	Missing bool          // it says that there is no such thing
	Stored  time.Time     // by the servers' clock, like the next two
	Soft    time.Time     // when it should be loaded again
	Hard    time.Time     // from when on it must not be used
	Took    time.Duration // to load
	Era     uint64        // it counts only while this is [EraOf] its family in the era of the bus
	Version uint64        // of the load; of a tag, the tag's
	Tags    []uint64      // versions of its tags when it was loaded
	Payload string        // the value, decompressed: JSON, or what Codec says
	Codec   string        // the [cache.Codec]'s name; empty means JSON

	Until   time.Time // of a lease: when it expires
	Changes int       // of a fence: how many are under way
}

// Parse takes apart what GET returned for a cached key, "" if there was nothing.
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

// EraOf is what stored values of a family carry in an era that Bus.Era of package bus tells: it is another
// one for each Doc.Version, so that a program does not read what it or another one has
// stored in another layout.
func EraOf(f *keyspace.Family, era uint64) uint64 { return slots.EraOf(f, era) }

// ParseTag reads a tag as "kind:id", the arguments of [cache.TagOf].
func ParseTag(s string) (t cache.Tag, ok bool) {
	kind, id, ok := strings.Cut(s, ":")
	if !ok || kind == "" || id == "" || len(s) > keyspace.MaxText {
		return cache.Tag{}, false
	}
	return cache.TagOf(kind, id), true
}
