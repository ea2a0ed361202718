package keyspace

import (
	"fmt"
	"strings"
)

// Slots is the number of slots of a Redis cluster.
const Slots = 16384

// Slot returns the cluster slot of a physical key: CRC16 of its hash tag, or of the whole key if it has none.
func Slot(physical string) uint16 {
	crc := uint16(0)
	for _, c := range []byte(hashed(physical)) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^c]
	}
	return crc % Slots
}

// hashed returns the part of a key that determines its slot. It is the text between the first '{' and the next '}', or
// the whole key if there is no such text.
func hashed(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// crc16 is CRC-16/XMODEM, as in the cluster specification.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// SameSlot reports whether keys share a slot under any prefix: either all have the same hash tag, or all are the same
// key. Two keys that share a slot by chance do not count.
func SameSlot(keys ...Key) bool {
	for _, k := range keys {
		if k != keys[0] && (k.untagged() || keys[0].untagged() || hashed(k.s) != hashed(keys[0].s)) {
			return false
		}
	}
	return true
}

func (k Key) untagged() bool { return k.fam == nil || k.fam.tag < 0 }

// Tx restricts keys to one hash tag. Every key that In makes with it is in the slot of its tag, so that one command or
// script may use all of them.
type Tx[A Segment] struct{ tag A }

// Atomic returns the Tx of tag.
func Atomic[A Segment](tag A) Tx[A] { return Tx[A]{tag} }

// In returns the key for tx's tag. It panics if the family's argument is not its hash tag. The panic does not depend on
// the value, so the first test that calls In finds the mistake.
func (f F1[A, H]) In(tx Tx[A]) H {
	f.mustTagFirst()
	return f.At(tx.tag)
}

// In returns the key for tx's tag and b. It panics if the family's first argument is not its hash tag.
func (f F2[A, B, H]) In(tx Tx[A], b B) H {
	f.mustTagFirst()
	return f.At(tx.tag, b)
}

// In returns the key for tx's tag, b and c. It panics if the family's first argument is not its hash tag.
func (f F3[A, B, C, H]) In(tx Tx[A], b B, c C) H {
	f.mustTagFirst()
	return f.At(tx.tag, b, c)
}

func (f *Family) mustTagFirst() {
	if f.tag != 0 {
		panic(fmt.Sprintf("keyspace: the first argument of %s is not its hash tag", f.Pattern))
	}
}
