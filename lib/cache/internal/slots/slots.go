// Package slots writes and reads what stands in Redis under a cached key, which is called a slot
// here. Package cache does both for each read of Redis, package inspect takes slots apart for
// operators.
//
// A slot holds one of
//
//	V  a value
//	L  a lease: its holder loads the value; one that is to be replaced is kept behind it
//	F  a fence: one or more changes are under way, and no node may store a value;
//	   's' behind the F says that there was more than one change
//	T  the version of a tag
//
// and every step from one to the next is one of the scripts of package cache.
package slots

import (
	"encoding/binary"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// The first byte of a slot says what it holds.
const (
	IsValue = 'V'
	IsLease = 'L'
	IsFence = 'F'
	IsTag   = 'T'
)

// Lengths in a slot and places in it.
const (
	TokenLen = 8
	FenceLen = TokenLen + 13     // of one change in a fence
	HeadLen  = 47                // of a value, before its tags
	KeptAt   = 1 + TokenLen + 13 // where a lease keeps a value
	IDAt     = 10                // of a value's id
)

// Envelope is a value as it stands in a slot.
type Envelope struct {
	Missing bool   // a negative entry: the source has no such thing
	Era     uint64 // of the servers at which it was loaded; see [EraOf]
	ID      uint64 // of this load
	Stored  int64  // Unix ms, of the servers' clock, like the next two
	Soft    int64  // from when on it is stale
	Hard    int64  // from when on it must not be used
	Took    int64  // µs to load it
	Tags    []uint64
	Payload string // see Pack
}

// Text is 'V', flags, era, id, stored, soft, hard, took, the tags' versions and
// the payload; numbers are big-endian.
func (e *Envelope) Text() string {
	b := make([]byte, 0, HeadLen+8*len(e.Tags)+len(e.Payload))
	flags := byte('0')
	if e.Missing {
		flags = '1'
	}
	b = append(b, IsValue, flags)
	b = binary.BigEndian.AppendUint64(b, e.Era)
	b = binary.BigEndian.AppendUint64(b, e.ID)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Stored))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Soft))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Hard))
	b = binary.BigEndian.AppendUint32(b, uint32(min(e.Took, 1<<32-1)))
	b = append(b, byte(len(e.Tags)))
	for _, v := range e.Tags {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return string(append(b, e.Payload...))
}

// Parse reads the value in a slot, be it kept behind a lease; ok is false when
// there is none that this version of the program can read.
func Parse(slot string) (e Envelope, ok bool) {
	if len(slot) > KeptAt && slot[0] == IsLease {
		slot = slot[KeptAt:]
	}
	if len(slot) < HeadLen || slot[0] != IsValue {
		return e, false
	}
	n := func(at int) uint64 {
		var x uint64
		for _, c := range []byte(slot[at : at+8]) {
			x = x<<8 | uint64(c)
		}
		return x
	}
	e = Envelope{Missing: slot[1] == '1', Era: n(2), ID: n(IDAt), Stored: int64(n(18)), Soft: int64(n(26)), Hard: int64(n(34)), Took: int64(n(38) & (1<<32 - 1))}
	rest, tags := slot[HeadLen:], int(slot[HeadLen-1])
	if len(rest) < 8*tags {
		return Envelope{}, false
	}
	for i := range tags {
		e.Tags = append(e.Tags, n(HeadLen+8*i))
	}
	e.Payload = rest[8*tags:]
	return e, true
}

// Kind is what a slot holds; 0 for nothing.
func Kind(slot string) byte {
	if slot == "" {
		return 0
	}
	return slot[0]
}

// EraOf is what stored values of a family carry in an era that Bus.Era of package bus tells: it is another
// one for each Doc.Version, so that a program does not read what it or another one has
// stored in another layout.
func EraOf(f *keyspace.Family, era uint64) uint64 {
	if era == 0 || f.Doc.Version <= 1 {
		return era
	}
	return era ^ uint64(f.Doc.Version-1)*0x9E3779B97F4A7C15<<1 // never 0: eras are odd
}
