package streak

import (
	"fmt"
	"strings"

	"github.com/stoa-dev/stoa/internal/base/civil"
)

// Flaw is one difference between a record and the rows of the log.
type Flaw struct {
	What, Was, Becomes string
	Missing            bool // the record lacks something but has nothing wrong: a merge repairs it
}

// Flaws compares the text under a record's key with the least and the most that the record may have. A day that is
// being signed at this moment is in only one of the two.
func Flaws(text string, year int, least, most *Record) (out []Flaw) {
	add := func(what, was, becomes string, missing bool) {
		out = append(out, Flaw{what, was, becomes, missing})
	}
	r := Parse(text)
	loaded := r.Loaded()
	if r[0] != 0 && (r[0] != recordVersion || len(text) != RecordSize) {
		add("version", fmt.Sprintf("version %d, %d bytes", r[0], len(text)), fmt.Sprintf("version %d, %d bytes", recordVersion, RecordSize),
			false)
		return out
	}
	var missing, surplus []string
	for n := signedAt; n < 8*RecordSize; n++ {
		switch bit := r.bit(n); {
		case bit && !most.bit(n):
			surplus = append(surplus, bitName(year, n))
		case !bit && least.bit(n) && loaded:
			missing = append(missing, bitName(year, n))
		}
	}
	if len(surplus) > 0 {
		add("surplus days", strings.Join(surplus, ", "), "without them", false)
	}
	if !loaded {
		return out // the next read merges the rest
	}
	if len(missing) > 0 {
		add("missing days", "without them", strings.Join(missing, ", "), true)
	}
	low, high := least[1]&^r[1] != 0, r[1]&^most[1] != 0
	is, from, to := header(r), header(least), header(most)
	for i := range is {
		low, high = low || is[i] < from[i], high || is[i] > to[i]
	}
	if low || high {
		add("what came before", r.beforeString(), most.beforeString(), !high)
	}
	return out
}

// header returns a record's growing numbers: the newest day before the year with the streak that ends on it, longest,
// total, freezes granted and used.
func header(r *Record) [5]int {
	return [5]int{int(r.lastBefore())<<16 | r.runBefore(), r.longestBefore(), r.totalBefore(), r.FreezesGranted(), r.FreezesUsed()}
}

func (r *Record) beforeString() string {
	return fmt.Sprintf("streak %d on %s, longest %d, total %d, freezes %d and %d used, flags %d",
		r.runBefore(), r.lastBefore(), r.longestBefore(), r.totalBefore(), r.FreezesGranted(), r.FreezesUsed(), r[1])
}

// bitName returns the name of a bit of a record.
func bitName(year, n int) string {
	kind, day := "signed", n-signedAt
	if n >= coveredAt {
		kind, day = "covered", n-coveredAt
	}
	return (civil.DayOf(year, 1, 1) + civil.Day(day)).String() + " " + kind
}
