package checkin

import (
	"encoding/binary"
	"math/bits"

	"github.com/stoa-dev/stoa/internal/foundation/civil"
)

// Record is one user's year as it lies in Redis, 100 bytes:
//
//	0       version; 0 means that some day was set and nothing was loaded yet
//	1       bit 0: 31 December of the year before was signed
//	2–3     streak that reached 31 December of the year before
//	4–5     longest streak up to then
//	6–7     days signed up to then
//	8–53    signed days, 1 January first
//	54–99   covered days: not signed, and yet no break in the streak
//
// Numbers are big-endian. Bits are numbered as SETBIT does, the first is the
// most significant. Everything a user sees follows from the record and today's
// date. Days are only ever added, so two copies merge by OR and the numbers by
// maximum, in any order and any number of times.
type Record [recordSize]byte

const (
	recordSize    = 100
	recordVersion = 1

	signedAt  = 8 * 8 // as bit numbers
	coveredAt = 54 * 8
	yearBytes = 46
)

func (r *Record) loaded() bool { return r[0] != 0 }

func (r *Record) bit(n int) bool { return r[n/8]&(0x80>>(n%8)) != 0 }

func (r *Record) setBit(n int) { r[n/8] |= 0x80 >> (n % 8) }

// signed and covered take days of the record's year; -1 is 31 December before.
func (r *Record) signed(ofYear int) bool {
	if ofYear < 0 {
		return r[1]&1 != 0
	}
	return r.bit(signedAt + ofYear)
}

func (r *Record) covered(ofYear int) bool { return ofYear >= 0 && r.bit(coveredAt+ofYear) }

func (r *Record) before() (run, longest, total int) {
	return int(binary.BigEndian.Uint16(r[2:])), int(binary.BigEndian.Uint16(r[4:])), int(binary.BigEndian.Uint16(r[6:]))
}

// bitOf returns the bit that a mark of kind k sets on day d.
func bitOf(d civil.Day, k Kind) int {
	if k.Signs() {
		return signedAt + d.OfYear()
	}
	return coveredAt + d.OfYear()
}

// Streak returns the number of signed days in the run that ends on today or on
// the day before; 0 when both are neither signed nor covered.
func (r *Record) Streak(today civil.Day) int {
	day, n := today.OfYear(), 0
	if !r.signed(day) && !r.covered(day) {
		day--
	}
	for ; day >= 0; day-- {
		switch {
		case r.signed(day):
			n++
		case !r.covered(day):
			return n
		}
	}
	run, _, _ := r.before()
	return n + run
}

// Longest returns the longest streak up to the record's last day.
func (r *Record) Longest() int {
	run, longest, _ := r.before()
	for i := range yearBytes {
		signed, covered := r[signedAt/8+i], r[coveredAt/8+i]
		switch {
		case signed == 0xff: // whole weeks at a time; most bytes are full or empty
			run += 8
			longest = max(longest, run)
			continue
		case signed|covered == 0:
			run = 0
			continue
		}
		for bit := byte(0x80); bit != 0; bit >>= 1 {
			switch {
			case signed&bit != 0:
				run++
				longest = max(longest, run)
			case covered&bit == 0:
				run = 0
			}
		}
	}
	return longest
}

// Total returns the number of days signed up to the record's last day.
func (r *Record) Total() int {
	_, _, total := r.before()
	for _, b := range r[signedAt/8 : coveredAt/8] {
		total += bits.OnesCount8(b)
	}
	return total
}

// Status returns where the user stands on today, a day of the record's year.
func (r *Record) Status(today civil.Day) Status {
	day := today.OfYear()
	return Status{
		Day:       today,
		Today:     r.signed(day),
		Yesterday: r.signed(day - 1),
		Streak:    r.Streak(today),
		Longest:   r.Longest(),
		Total:     r.Total(),
	}
}

// Days returns the signed and the covered days of the record's year that lie
// between first and last, in order.
func (r *Record) Days(first, last civil.Day) (signed, covered []civil.Day) {
	for d := first; d <= last; d++ {
		switch day := d.OfYear(); {
		case r.signed(day):
			signed = append(signed, d)
		case r.covered(day):
			covered = append(covered, d)
		}
	}
	return signed, covered
}

// newest returns the last signed or covered day of the record's year; ok is
// false when the year is empty.
func (r *Record) newest(year int) (d civil.Day, ok bool) {
	for i := yearBytes - 1; i >= 0; i-- {
		if b := r[signedAt/8+i] | r[coveredAt/8+i]; b != 0 {
			return civil.DayOf(year, 1, 1) + civil.Day(8*i+7-bits.TrailingZeros8(b)), true
		}
	}
	return 0, false
}

// recordOf builds a year's record from a user's whole history in order of days.
func recordOf(year int, history []Mark) *Record {
	r := &Record{recordVersion}
	newYear := civil.DayOf(year, 1, 1)
	var t Tally
	for _, m := range history {
		switch {
		case m.Day < newYear:
			t.Add(m)
		case m.Day.Year() == year:
			r.setBit(bitOf(m.Day, m.Kind))
		}
	}
	if t.Last != newYear-1 {
		t.Run = 0
	} else if t.signed {
		r[1] |= 1
	}
	for i, n := range []int{t.Run, t.Longest, t.Total} {
		binary.BigEndian.PutUint16(r[2+2*i:], uint16(min(n, 0xffff)))
	}
	return r
}
