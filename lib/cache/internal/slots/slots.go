// Package slots encodes and parses what Redis holds under a cached key, called a slot. Package cache does both for each
// read of Redis; package inspect parses slots for operators.
//
// A slot holds one of
//
//	V  a value
//	L  a lease: its holder loads the value; a value to be replaced is kept behind the lease
//	F  a fence: one or more changes are under way, and no node may store a value;
//	   's' after the F means that there was more than one change
//	T  the version of a tag
//
// and every transition is one of the scripts of package cache.
package slots

import (
	"encoding/binary"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// The first byte of a slot identifies its content.
const (
	IsValue = 'V'
	IsLease = 'L'
	IsFence = 'F'
	IsTag   = 'T'
)

// Lengths and offsets in a slot.
const (
	TokenLen = 8
	FenceLen = TokenLen + 13     // of one change in a fence
	HeadLen  = 47                // of a value, before its tags
	KeptAt   = 1 + TokenLen + 13 // offset of the value kept behind a lease
	IDAt     = 10                // offset of a value's id
)

// Envelope is a value as stored in a slot.
type Envelope struct {
	Missing bool   // a negative entry: the source has no such thing
	Era     uint64 // of the servers when it was loaded; see [EraOf]
	ID      uint64 // of this load
	Stored  int64  // Unix ms, of the servers' clock, like the next two
	Soft    int64  // when it becomes stale
	Hard    int64  // after this it must not be used
	Took    int64  // duration of its load in µs
	Tags    []uint64
	Payload string // see Pack
}

// Text returns 'V', flags, era, id, stored, soft, hard, took, the tags' versions and the payload; numbers are
// big-endian.
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

// Parse parses the value in a slot, even if it is kept behind a lease; ok is false if there is none that this version
// of the program can read.
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
	e = Envelope{Missing: slot[1] == '1', Era: n(2), ID: n(IDAt), Stored: int64(n(18)), Soft: int64(n(26)), Hard: int64(n(34)),
		Took: int64(n(38) & (1<<32 - 1))}
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

// Kind returns the first byte of a slot, or 0 if it is empty.
func Kind(slot string) byte {
	if slot == "" {
		return 0
	}
	return slot[0]
}

// EraOf returns the era that stored values of a family carry, for an era from Bus.Era of package bus. It differs for
// each Doc.Version, so that a program does not read values that were stored in another layout.
func EraOf(f *keyspace.Family, era uint64) uint64 {
	if era == 0 || f.Doc.Version <= 1 {
		return era
	}
	return era ^ uint64(f.Doc.Version-1)*0x9E3779B97F4A7C15<<1 // never 0: eras are odd
}
