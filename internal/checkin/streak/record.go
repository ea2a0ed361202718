package streak

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/stoa-dev/stoa/internal/base/civil"
)

// Record is one user's year as Redis stores it, 108 bytes:
//
//	0       version; 0 means that some day was set and nothing was loaded yet
//	1       of the year before: bit 0: 31 December was signed; bit 1: or covered;
//	        bits 2–6: 30 to 26 December were signed, for a week over New Year
//	2–5     newest day before 1 January, signed or covered; 0 when there is none
//	6–7     streak that ends on it
//	8–9     longest streak up to then
//	10–11   days signed up to then
//	12–13   freezes granted, ever
//	14–15   freezes used, ever
//	16–61   signed days, 1 January first
//	62–107  covered days: not signed, and yet no break in the streak
//
// Numbers are big-endian. Bits are numbered as SETBIT does: the first is the most significant. All figures that a user
// sees follow from the record, the rules and today's date. Days are only ever added, so two copies merge in any order
// and any number of times: the bits by OR, and the numbers by maximum, with bytes 2 to 7 as one number. A record of
// another version counts as not loaded and is replaced.
type Record [RecordSize]byte

const (
	RecordSize    = 108
	recordVersion = 2

	signedAt  = 16 * 8 // as bit numbers
	coveredAt = 62 * 8
	yearBytes = 46

	eveSigned  = 1 // in byte 1
	eveReached = 2
	lastDays   = 6 // of December
)

// Loaded reports whether the record was computed from the log. Otherwise it has only the days that were set since it
// was lost.
func (r *Record) Loaded() bool { return r[0] == recordVersion }

// CheckRecord returns an error for a value that no version of the record has. An audit uses it.
func CheckRecord(v []byte) error {
	switch {
	case len(v) == 0 || v[0] > recordVersion:
		return errors.New("unknown version of a record")
	case len(v) > RecordSize || v[0] == recordVersion && len(v) != RecordSize:
		return fmt.Errorf("record of version %d has %d bytes", v[0], len(v))
	}
	return nil
}

// Has reports whether the record has day d as one of kind k.
func (r *Record) Has(d civil.Day, k Kind) bool { return r.bit(BitOf(d, k)) }

// Set adds day d of kind k.
func (r *Record) Set(d civil.Day, k Kind) { r.setBit(BitOf(d, k)) }

// Clear removes day d of kind k, to get the record as it was before.
func (r *Record) Clear(d civil.Day, k Kind) { r.clearBit(BitOf(d, k)) }

func (r *Record) bit(n int) bool { return r[n/8]&(0x80>>(n%8)) != 0 }

func (r *Record) setBit(n int) { r[n/8] |= 0x80 >> (n % 8) }

func (r *Record) clearBit(n int) { r[n/8] &^= 0x80 >> (n % 8) }

// Signed reports whether a day of the record's year was signed; the first day is 0. Of the days before, the record has
// only the last lastDays, from -1 down, if they were signed.
func (r *Record) Signed(ofYear int) bool {
	if ofYear < 0 {
		return r[1]&eveBit(ofYear) != 0
	}
	return r.bit(signedAt + ofYear)
}

// eveBit returns the flag of a day before the year: 1 for -1, and 4 to 64 for -2 to -6.
func eveBit(ofYear int) byte {
	switch {
	case ofYear == -1:
		return eveSigned
	case ofYear >= -lastDays:
		return 1 << -ofYear
	}
	return 0
}

// Covered reports whether a day was covered, with the day as in Signed.
func (r *Record) Covered(ofYear int) bool { return ofYear >= 0 && r.bit(coveredAt+ofYear) }

// Reaches reports whether a streak may continue from a day of the record's year, or from the day before the year, -1.
func (r *Record) Reaches(ofYear int) bool {
	if ofYear < 0 {
		return r[1]&eveReached != 0
	}
	return r.Signed(ofYear) || r.Covered(ofYear)
}

func (r *Record) number(at int) int { return int(binary.BigEndian.Uint16(r[at:])) }

func (r *Record) put(at, n int) {
	binary.BigEndian.PutUint16(r[at:], uint16(min(n, math.MaxUint16))) //nolint:gosec // never negative
}

// lastBefore returns the newest day before 1 January, 0 when there is none.
func (r *Record) lastBefore() civil.Day { return civil.Day(binary.BigEndian.Uint32(r[2:])) }

func (r *Record) runBefore() int     { return r.number(6) }
func (r *Record) longestBefore() int { return r.number(8) }
func (r *Record) totalBefore() int   { return r.number(10) }

// FreezesGranted returns how many freezes operators ever gave.
func (r *Record) FreezesGranted() int { return r.number(12) }

// FreezesUsed returns how many days freezes ever covered.
func (r *Record) FreezesUsed() int { return r.number(14) }

// runIn returns the streak at the start of the year.
func (r *Record) runIn() int {
	if r[1]&eveReached == 0 {
		return 0
	}
	return r.runBefore()
}

// BitOf returns the bit that a mark of kind k sets on day d.
func BitOf(d civil.Day, k Kind) int {
	if k.Signs() {
		return signedAt + d.OfYear()
	}
	return coveredAt + d.OfYear()
}

// Streak returns the number of signed days in the run that ends on today or on the day before. It returns 0 if both are
// neither signed nor covered.
func (r *Record) Streak(today civil.Day) int {
	day, n := today.OfYear(), 0
	if !r.Reaches(day) {
		day--
	}
	for ; day >= 0; day-- {
		switch {
		case day%8 == 7 && r[(signedAt+day)/8] == 0xff: // whole weeks at a time; most bytes are full or empty
			n += 8
			day -= 7
		case r.Signed(day):
			n++
		case !r.Covered(day):
			return n
		}
	}
	return n + r.runIn()
}

// Longest returns the longest streak up to the record's last day.
func (r *Record) Longest() int {
	run, longest := r.runIn(), r.longestBefore()
	for i := range yearBytes {
		signed, covered := r[signedAt/8+i], r[coveredAt/8+i]
		switch {
		case signed == 0xff:
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
	total := r.totalBefore()
	days := r[signedAt/8 : coveredAt/8]
	for ; len(days) >= 8; days = days[8:] {
		total += bits.OnesCount64(binary.BigEndian.Uint64(days))
	}
	for _, b := range days {
		total += bits.OnesCount8(b)
	}
	return total
}

// Status returns the user's status on today, a day of the record's year.
func (r *Record) Status(today civil.Day) Status {
	day := today.OfYear()
	return Status{
		Day:       today,
		Today:     r.Signed(day),
		Yesterday: r.Signed(day - 1),
		Streak:    r.Streak(today),
		Longest:   r.Longest(),
		Total:     r.Total(),
	}
}

// Days returns the signed and the covered days of the record's year from first to last, in order.
func (r *Record) Days(first, last civil.Day) (signed, covered []civil.Day) {
	from := first.OfYear()
	newYear := first - civil.Day(from)
	return r.between(signedAt, newYear, from, int(last-newYear)), r.between(coveredAt, newYear, from, int(last-newYear))
}

// between returns the days of the year from from to to whose bits are set, counted from bit at.
func (r *Record) between(at int, newYear civil.Day, from, to int) []civil.Day {
	weeks, n := r[at/8+from/8:at/8+to/8+1], 0 // of eight days
	for _, w := range weeks {
		n += bits.OnesCount8(w)
	}
	if n == 0 {
		return nil
	}
	days := make([]civil.Day, 0, n)
	for i, w := range weeks {
		for w != 0 {
			bit := bits.LeadingZeros8(w)
			w &^= 0x80 >> bit
			if day := from&^7 + 8*i + bit; from <= day && day <= to {
				days = append(days, newYear+civil.Day(day))
			}
		}
	}
	return days
}

// SignedIn returns how many days were signed from first to last, in a record of that year. first is no earlier than 26
// December of the year before.
func (r *Record) SignedIn(year int, first, last civil.Day) (n int) {
	newYear := civil.DayOf(year, 1, 1)
	for day := int(first - newYear); day <= min(int(last-newYear), 8*yearBytes-1); day++ {
		if r.Signed(day) {
			n++
		}
	}
	return n
}

// Newest returns the last signed or covered day of the record's year. ok is false when the year is empty.
func (r *Record) Newest(year int) (d civil.Day, ok bool) {
	last := yearBytes - 1
	for last >= 8 && binary.BigEndian.Uint64(r[signedAt/8+last-7:])|binary.BigEndian.Uint64(r[coveredAt/8+last-7:]) == 0 {
		last -= 8 // most of a year is in the future, or long past
	}
	for i := last; i >= 0; i-- {
		if b := r[signedAt/8+i] | r[coveredAt/8+i]; b != 0 {
			return civil.DayOf(year, 1, 1) + civil.Day(8*i+7-bits.TrailingZeros8(b)), true
		}
	}
	return 0, false
}

// latest returns the newest day that the record has, of its year or before, and the streak that ends on it. ok is false
// when there is none.
func (r *Record) latest(year int) (d civil.Day, run int, ok bool) {
	if d, ok := r.Newest(year); ok {
		return d, r.Streak(d), true
	}
	return r.lastBefore(), r.runBefore(), r.lastBefore() != 0
}

// Cover adds a covered day that has no row yet. The day is in the record's year, or follows its newest day before.
func (r *Record) Cover(d civil.Day, year int) {
	switch {
	case d.Year() == year:
		r.setBit(coveredAt + d.OfYear())
	case d == r.lastBefore()+1:
		binary.BigEndian.PutUint32(r[2:], uint32(d)) //nolint:gosec // never negative
		if (d + 1).Year() == year {
			r[1] |= eveReached
		}
	}
}

// Open returns the user's newest day, the last day before today that is covered without a row since then, and how many
// freezes that takes. The two days are equal if the user has missed no day.
func (z Freezes) Open(r *Record, c civil.Clock, today civil.Day) (newest, last civil.Day, spent int) {
	if day := today.OfYear(); r.Reaches(day) || r.Reaches(day-1) {
		return today, today, 0
	}
	newest, run, ok := r.latest(today.Year())
	if !ok {
		return 0, 0, 0
	}
	last, spent = z.bridge(c, newest, run, z.left(r), today-1)
	return newest, last, spent
}

// left returns how many freezes the rows leave.
func (z Freezes) left(r *Record) int { return z.owned(r.Total(), r.FreezesGranted(), r.FreezesUsed()) }

// Status returns the user's status on today, a day of the record's year. It adds to the record the covered days that
// follow from the rules and the user's clock and that have no row yet.
func (z Freezes) Status(r *Record, c civil.Clock, today civil.Day) Status {
	newest, last, spent := z.Open(r, c, today)
	for d := newest; d < last; d++ {
		r.Cover(d+1, today.Year())
	}
	if skipped, ok := c.Skipped(); ok && skipped < today {
		r.Cover(skipped, today.Year())
	}
	st := r.Status(today)
	st.Freezes, st.Used = z.left(r)-spent, r.FreezesUsed()+spent
	return st
}

// Owes reports whether a check-in on day may close a gap that freezes cover. r must have the day already. The log
// decides which days are due.
func (z Freezes) Owes(r *Record, day civil.Day) bool {
	if z.Max == 0 || z.left(r) == 0 {
		return false
	}
	return !r.Reaches(day.OfYear() - 1)
}

// PutFreezes replaces the numbers of freezes granted and used.
func (r *Record) PutFreezes(granted, used int) {
	r.put(12, granted)
	r.put(14, used)
}

// RecordOf builds a year's record from a user's whole history.
func RecordOf(year int, h History) *Record {
	r := &Record{recordVersion}
	newYear := civil.DayOf(year, 1, 1)
	var t Tally
	used := 0
	for _, m := range h.Marks {
		switch {
		case m.Day < newYear:
			if t.Add(m); t.signed {
				r[1] |= eveBit(int(m.Day - newYear))
			}
		case m.Day.Year() == year:
			r.Set(m.Day, m.Kind)
		}
		if m.Kind == Frozen {
			used++
		}
	}
	if t.Last == newYear-1 {
		r[1] |= eveReached
	}
	binary.BigEndian.PutUint32(r[2:], uint32(max(t.Last, 0))) //nolint:gosec // not negative
	for i, n := range []int{t.Run, t.Longest, t.Total} {
		r.put(6+2*i, n)
	}
	r.PutFreezes(h.FreezesGranted(), used)
	return r
}

// Parse reads a stored record; SETBIT on a missing key leaves a short one.
func Parse(s string) *Record {
	var r Record
	copy(r[:], s)
	return &r
}
