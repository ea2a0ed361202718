package leaderboard

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A table is a compact board in memory: what Redis holds of one, decoded. Its
// rules are pure; compact.go carries it to and from Redis.
type table struct {
	sizes
	rows  map[int64]row  // by death; how many members stand where
	top   []place        // the best first
	index map[string]int // where in top; nil until somebody asks
	floor place          // whoever is better is in top
	doubt bool           // a change may be counted twice, or not at all
}

// row counts members by their value. A count may be negative for a while: a
// member's changes need not arrive in their order.
type row map[int64]int64

// place is one of the best.
type place struct {
	member string
	score  int64
	dies   int64
}

// noFloor is below everybody: nobody was ever refused.
var noFloor = place{score: -1}

// sizes say how many of the best there are.
type sizes struct {
	head int // lie in a field of their own
	want int // is what a read may ask for; with fewer the board is not complete
	keep int // remain when there are more than
	max  int
}

// The entries between want and keep may die before the board is loaded again, and
// those between keep and max make cutting back rare.
var usual = sizes{head: 128, want: MaxTop, keep: MaxTop + MaxTop/4, max: MaxTop + MaxTop/2}

var errFormat = errors.New("a compact board's bytes are not to be read")

func newTable(n sizes) *table { return &table{sizes: n, rows: map[int64]row{}, floor: noFloor} }

// known reports whether p belongs to the best.
func (t *table) known(p place) bool { return before(p, t.floor) < 0 }

// change is an entry as the log carries it.
type change struct {
	place
	flags byte
	from  standing
	told  [2]standing // from, to
}

const (
	flagRestart = 1 << iota
	flagReplay
	flagGone
	flagTold
)

// standing is a [Standing] in numbers.
type standing struct{ value, dies int64 }

func (p place) standing() standing { return standing{p.score >> 32, p.dies} }

func (s Standing) numbers() standing { return standing{cut(s.Value), death(s.Dies)} }

func (e Entry) place() place { return place{e.Member, e.score(), death(e.Dies)} }

func changeOf(e *Entry) change {
	c := change{place: e.place(), from: e.From.numbers()}
	if e.Restart {
		c.flags |= flagRestart
	}
	if e.Replay {
		c.flags |= flagReplay
	}
	if e.Told != nil {
		c.flags |= flagTold
		c.told = [2]standing{e.Told.From.numbers(), e.Told.place().standing()}
	}
	return c
}

func (c change) gone() bool { return c.flags&flagGone != 0 }

// count moves n members to s. Value 0 is where everybody is who is not on the
// board; nobody asks how many.
func (t *table) count(s standing, n int64) {
	if s.value == 0 {
		return
	}
	r := t.rows[s.dies]
	if r == nil {
		r = row{}
		t.rows[s.dies] = r
	}
	if r[s.value] += n; r[s.value] == 0 {
		delete(r, s.value)
	}
}

// moves calls fn with what a change takes from the counts and adds to them.
func (c change) moves(fn func(standing, int64)) {
	if c.flags&flagTold != 0 {
		fn(c.told[1], -1)
		fn(c.told[0], 1)
	}
	fn(c.from, -1)
	if !c.gone() {
		fn(c.standing(), 1)
	}
}

// apply takes one change into the table.
func (t *table) apply(c change) {
	if c.flags&flagReplay != 0 {
		t.doubt = true
	} else {
		c.moves(t.count)
	}
	t.rank(c)
}

// rank takes one change into the best, by the rules of an exact board: an update
// raises score and death, a restart replaces both unless what is there is later.
func (t *table) rank(c change) {
	if t.index == nil {
		t.reindex()
	}
	i, there := t.index[c.member]
	switch {
	case c.gone():
		t.put(place{c.member, noFloor.score - 1, 0})
	case there:
		t.put(over(t.top[i], c))
	default:
		t.put(c.place)
	}
}

// put sets a member's place among the best, or takes it away from there if
// others are better.
func (t *table) put(p place) {
	if t.index == nil {
		t.reindex()
	}
	i, there := t.index[p.member]
	switch {
	case there && t.known(p):
		t.top[i] = p
	case there:
		last := len(t.top) - 1
		t.top[i] = t.top[last]
		t.index[t.top[i].member] = i
		t.top = t.top[:last]
		delete(t.index, p.member)
	case t.known(p):
		t.index[p.member] = len(t.top)
		t.top = append(t.top, p)
	}
}

// over returns what a change makes of the place that is there.
func over(was place, c change) place {
	if c.flags&(flagRestart|flagReplay) == 0 {
		return place{was.member, max(was.score, c.score), max(was.dies, c.dies)}
	}
	if age(c.score) < age(was.score) {
		return was
	}
	return c.place
}

// age is greater the later a score was reached.
func age(score int64) int64 { return timeMax - score&timeMax }

func (t *table) reindex() {
	t.index = make(map[string]int, len(t.top))
	for i, p := range t.top {
		t.index[p.member] = i
	}
}

// settle puts the best in order, drops what is dead at now and cuts the rest
// back. It returns how many died.
func (t *table) settle(now int64) (died int) {
	for dies, r := range t.rows {
		if dies > now {
			continue
		}
		for _, n := range r {
			died += int(max(n, 0))
		}
		delete(t.rows, dies)
	}
	t.top = slices.DeleteFunc(t.top, func(p place) bool {
		if p.dies <= now && p.score>>32 == 0 {
			died++ // and was not counted
		}
		return p.dies <= now
	})
	t.order()
	if len(t.top) > t.max {
		t.floor = t.top[t.keep]
		t.top = t.top[:t.keep]
	}
	return died
}

func (t *table) order() {
	slices.SortFunc(t.top, before)
	t.index = nil
}

// before orders as a sorted set read backwards does.
func before(a, b place) int {
	if c := cmp.Compare(b.score, a.score); c != 0 {
		return c
	}
	return strings.Compare(b.member, a.member)
}

// above returns how many count at now with a greater value, of a table that has
// its rows.
func (t *table) above(value, now int64) (n int64) {
	for dies, r := range t.rows {
		if dies > now {
			for v, m := range r {
				if v > value {
					n += m
				}
			}
		}
	}
	return n
}

// The bytes. A place is: length and bytes of the member, 8 bytes of score and 8 of
// death, for it is read most. A row is: death, number of pairs, and for each,
// greatest value first, how far it lies below the one before and its count. These
// numbers are varints, as is the length.

func appendPlaces(b []byte, places []place) []byte {
	for _, p := range places {
		b = appendPlace(b, p)
	}
	return b
}

func appendPlace(b []byte, p place) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.member)))
	b = append(b, p.member...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.score))
	return binary.BigEndian.AppendUint64(b, uint64(p.dies))
}

func appendRow(b []byte, dies int64, r row) []byte {
	b = binary.AppendVarint(b, dies)
	b = binary.AppendUvarint(b, uint64(len(r)))
	values := make([]int64, 0, len(r))
	for v := range r {
		values = append(values, v)
	}
	slices.SortFunc(values, func(a, b int64) int { return cmp.Compare(b, a) })
	last := int64(MaxValue)
	for _, v := range values {
		b = binary.AppendUvarint(b, uint64(last-v))
		b = binary.AppendVarint(b, r[v])
		last = v
	}
	return b
}

func appendRows(b []byte, rows map[int64]row) []byte {
	deaths := make([]int64, 0, len(rows))
	for dies, r := range rows {
		if len(r) > 0 {
			deaths = append(deaths, dies)
		}
	}
	slices.Sort(deaths)
	for _, dies := range deaths {
		b = appendRow(b, dies, rows[dies])
	}
	return b
}

// sum returns everybody's counts as one row, and when that stops to be true:
// at the first death.
func (t *table) sum() (all row, until int64) {
	all, until = row{}, never
	for dies, r := range t.rows {
		if len(r) > 0 {
			until = min(until, dies)
		}
		for v, n := range r {
			all[v] += n
		}
	}
	return all, until
}

// A reader takes numbers and texts off bytes; bad is set when they end early.
type reader struct {
	s   string
	bad bool
}

func (r *reader) uvarint() uint64 {
	var n uint64
	for i := 0; i < len(r.s) && i < binary.MaxVarintLen64; i++ {
		n |= uint64(r.s[i]&0x7f) << (7 * i)
		if r.s[i] < 0x80 {
			r.s = r.s[i+1:]
			return n
		}
	}
	r.s, r.bad = "", true
	return 0
}

func (r *reader) varint() int64 {
	u := r.uvarint()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *reader) take(n uint64) string {
	if n > uint64(len(r.s)) {
		r.s, r.bad = "", true
		return ""
	}
	part := r.s[:n]
	r.s = r.s[n:]
	return part
}

func (r *reader) int64() int64 {
	s := r.take(8)
	if r.bad {
		return 0
	}
	return int64(s[0])<<56 | int64(s[1])<<48 | int64(s[2])<<40 | int64(s[3])<<32 |
		int64(s[4])<<24 | int64(s[5])<<16 | int64(s[6])<<8 | int64(s[7])
}

func (r *reader) place() place {
	return place{member: r.take(r.uvarint()), score: r.int64(), dies: r.int64()}
}

// counts calls fn for each pair of a row, the greatest value first, until it
// returns false; the rest of the row is not read then.
func (r *reader) counts(fn func(value, n int64) bool) {
	v := int64(MaxValue)
	for left := r.uvarint(); left > 0 && !r.bad; left-- {
		v -= int64(r.uvarint())
		if n := r.varint(); !fn(v, n) {
			return
		}
	}
}

// readPlaces appends the places of s to those that were read.
func readPlaces(places []place, s string) ([]place, error) {
	r := reader{s: s}
	places = slices.Grow(places, len(s)/24)
	for r.s != "" {
		places = append(places, r.place())
	}
	return places, r.err()
}

func readRows(s string) (map[int64]row, error) {
	r := reader{s: s}
	rows := map[int64]row{}
	for r.s != "" {
		dies, counts := r.varint(), row{}
		r.counts(func(v, n int64) bool { counts[v] = n; return true })
		rows[dies] = counts
	}
	return rows, r.err()
}

// sumAbove returns how many of a sum have a greater value.
func sumAbove(s string, value int64) (total int64, err error) {
	r := reader{s: s}
	r.counts(func(v, n int64) bool {
		if v > value {
			total += n
		}
		return v > value
	})
	if r.bad {
		return 0, errFormat
	}
	return total, nil
}

func (r *reader) err() error {
	if r.bad {
		return errFormat
	}
	return nil
}

func appendChange(b []byte, c *change) []byte {
	b = append(b, c.flags)
	b = appendPlace(b, c.place)
	b = appendStanding(b, c.from)
	if c.flags&flagTold != 0 {
		b = appendStanding(b, c.told[0])
		b = appendStanding(b, c.told[1])
	}
	return b
}

func appendStanding(b []byte, s standing) []byte {
	b = binary.AppendUvarint(b, uint64(s.value))
	if s.value != 0 {
		b = binary.AppendVarint(b, s.dies)
	}
	return b
}

func (r *reader) standing() (s standing) {
	if s.value = int64(r.uvarint()); s.value != 0 {
		s.dies = r.varint()
	}
	return s
}

func readChanges(cs []change, s string) ([]change, error) {
	r := reader{s: s}
	for r.s != "" {
		c := change{flags: r.take(1)[0]}
		c.place, c.from = r.place(), r.standing()
		if c.flags&flagTold != 0 {
			c.told = [2]standing{r.standing(), r.standing()}
		}
		cs = append(cs, c)
	}
	return cs, r.err()
}

// A state is a board as a fold or a load has left it, under the version that was
// drawn for it: nobody changes one, neither in Redis nor here.
type state struct {
	version string // empty: there is none, and all else is empty, too
	fields  fields
	floor   place
	until   int64 // the sum holds
	doubt   bool
	top     []place
	index   func() map[string]int // where in top
}

// fields are a state's bytes, in the order of stateFields.
type fields [5]string

const (
	metaField = iota // there once the board is loaded
	headField        // the best
	tailField        // those of the best that come after
	sumField         // counts of everybody alive at the last fold
	rowsField        // the same by death
)

var stateFields = fields{"meta", "head", "tail", "sum", "rows"}

func (s *state) loaded() bool { return s.fields[metaField] != "" }

// readState decodes what is read most; see table for the rest.
func readState(version string, f fields) (s *state, err error) {
	s = &state{version: version, fields: f}
	s.index = sync.OnceValue(func() map[string]int {
		t := table{top: s.top}
		t.reindex()
		return t.index
	})
	if !s.loaded() {
		return s, nil
	}
	if s.floor, s.until, s.doubt, err = readMeta(f[metaField]); err == nil {
		s.top, err = readPlaces(nil, f[headField])
	}
	if err == nil {
		s.top, err = readPlaces(s.top, f[tailField])
	}
	return s, err
}

// stateOf returns the state that a settled table is. It keeps nothing of t, whose
// members are parts of longer texts.
func stateOf(version string, t *table) (*state, error) {
	all, until := t.sum()
	head := min(t.head, len(t.top))
	return readState(version, fields{
		metaField: t.meta(until),
		headField: string(appendPlaces(nil, t.top[:head])),
		tailField: string(appendPlaces(nil, t.top[head:])),
		sumField:  string(appendRow(nil, 0, all)[1:]),
		rowsField: string(appendRows(nil, t.rows)),
	})
}

// table returns a copy that may be changed.
func (s *state) table(n sizes) (*table, error) {
	rows, err := readRows(s.fields[rowsField])
	return &table{sizes: n, rows: rows, top: slices.Clone(s.top), floor: s.floor, doubt: s.doubt}, err
}

// changed returns the fields in which next differs, with their names.
func (s *state) changed(next *state) (changed []string) {
	for i, name := range stateFields {
		if s.fields[i] != next.fields[i] {
			changed = append(changed, name, next.fields[i])
		}
	}
	return changed
}

// meta is what a board says of itself, as text: until when its sum holds, doubt,
// and the floor.
func (t *table) meta(until int64) string {
	doubt := 0
	if t.doubt {
		doubt = 1
	}
	return fmt.Sprintf("%d %d %d %s", until, doubt, t.floor.score, t.floor.member)
}

func readMeta(s string) (floor place, until int64, doubt bool, err error) {
	fields := strings.SplitN(s, " ", 4)
	if len(fields) != 4 {
		return noFloor, 0, false, errFormat
	}
	until, err = strconv.ParseInt(fields[0], 10, 64)
	if err == nil {
		floor.score, err = strconv.ParseInt(fields[2], 10, 64)
	}
	floor.member = fields[3]
	return floor, until, fields[1] == "1", err
}
