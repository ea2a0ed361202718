package cache

import (
	_ "embed"
	"encoding/binary"

	"github.com/stoa-dev/stoa/lib/redis"
)

// A key in Redis, here called a slot, holds one of
//
//	V  a value
//	L  a lease: its holder loads the value; one that is to be replaced is kept behind it
//	F  a fence: one or more changes are under way, and no node may store a value;
//	   's' behind the F says that there was more than one change
//
// and every step from one to the next is one of these scripts. Each has a pure twin
// in the tests, on which the model runs.
var (
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/fill.lua
	fillLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/fence.lua
	fenceLua string
	//go:embed lua/finish.lua
	finishLua string
	//go:embed lua/put.lua
	putLua string

	acquireScript = redis.NewScript(acquireLua)
	fillScript    = redis.NewScript(fillLua)
	renewScript   = redis.NewScript(renewLua)
	fenceScript   = redis.NewScript(fenceLua)
	finishScript  = redis.NewScript(finishLua)
	putScript     = redis.NewScript(putLua)
)

const (
	isValue = 'V'
	isLease = 'L'
	isFence = 'F'

	tokenLen = 8
	fenceLen = tokenLen + 13     // of one change in a fence
	headLen  = 47                // of a value, before its tags
	keptAt   = 1 + tokenLen + 13 // where a lease keeps a value
	idAt     = 10                // of a value's id
)

// envelope is a value as it stands in a slot.
type envelope struct {
	missing bool   // a negative entry: the source has no such thing
	era     uint64 // of the servers at which it was loaded; see bus.Bus.Era
	id      uint64 // of this load
	stored  int64  // Unix ms, of the servers' clock, like the next two
	soft    int64  // from when on it is stale
	hard    int64  // from when on it must not be used
	took    int64  // µs to load it
	tags    []uint64
	payload string // see pack
}

// text is 'V', flags, era, id, stored, soft, hard, took, the tags' versions and
// the payload; numbers are big-endian.
func (e *envelope) text() string {
	b := make([]byte, 0, headLen+8*len(e.tags)+len(e.payload))
	flags := byte('0')
	if e.missing {
		flags = '1'
	}
	b = append(b, isValue, flags)
	b = binary.BigEndian.AppendUint64(b, e.era)
	b = binary.BigEndian.AppendUint64(b, e.id)
	b = binary.BigEndian.AppendUint64(b, uint64(e.stored))
	b = binary.BigEndian.AppendUint64(b, uint64(e.soft))
	b = binary.BigEndian.AppendUint64(b, uint64(e.hard))
	b = binary.BigEndian.AppendUint32(b, uint32(min(e.took, 1<<32-1)))
	b = append(b, byte(len(e.tags)))
	for _, v := range e.tags {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return string(append(b, e.payload...))
}

// parse reads the value in a slot, be it kept behind a lease; ok is false when
// there is none that this version of the program can read.
func parse(slot string) (e envelope, ok bool) {
	if len(slot) > keptAt && slot[0] == isLease {
		slot = slot[keptAt:]
	}
	if len(slot) < headLen || slot[0] != isValue {
		return e, false
	}
	n := func(at int) uint64 {
		var x uint64
		for _, c := range []byte(slot[at : at+8]) {
			x = x<<8 | uint64(c)
		}
		return x
	}
	e = envelope{missing: slot[1] == '1', era: n(2), id: n(idAt), stored: int64(n(18)), soft: int64(n(26)), hard: int64(n(34)), took: int64(n(38) & (1<<32 - 1))}
	rest, tags := slot[headLen:], int(slot[headLen-1])
	if len(rest) < 8*tags {
		return envelope{}, false
	}
	for i := range tags {
		e.tags = append(e.tags, n(headLen+8*i))
	}
	e.payload = rest[8*tags:]
	return e, true
}

// kind is what a slot holds; 0 for nothing.
func kind(slot string) byte {
	if slot == "" {
		return 0
	}
	return slot[0]
}
