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

// A table is a decoded compact board in memory. Its rules are pure; compact.go reads it from Redis and writes it.
type table struct {
	sizes
	rows  map[int64]row  // number of members by death and value
	top   []place        // the best first
	index map[string]int // index in top; nil until it is needed
	floor place          // better places are in top
	doubt bool           // a change may be counted twice, or not at all
}

// row counts members by their value. A count may be negative for a while, because a member's changes need not arrive in
// order.
type row map[int64]int64

// place is one of the best.
type place struct {
	member string
	score  int64
	dies   int64
}

// noFloor is below every place: no place was ever cut off.
var noFloor = place{score: -1}

// sizes are the limits of the best.
type sizes struct {
	head int // places in the head field
	want int // places that a read may request; with fewer the board is not complete
	keep int // places that remain after a cut
	max  int
}

// The entries between want and keep may expire before the board is loaded again; those between keep and max make cuts
// rare.
var defaultSizes = sizes{head: 128, want: MaxTop, keep: MaxTop + MaxTop/4, max: MaxTop + MaxTop/2}

var errFormat = errors.New("a compact board has an invalid format")

func newTable(n sizes) *table { return &table{sizes: n, rows: map[int64]row{}, floor: noFloor} }

// known reports whether p belongs to the best.
func (t *table) known(p place) bool { return before(p, t.floor) < 0 }

// change is an entry as encoded in the log.
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

// count moves n members to s. Members that are not on the board have value 0, which is not counted.
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

// moves calls fn with the standings that a change subtracts from the counts and adds to them.
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

// apply applies one change to the table.
func (t *table) apply(c change) {
	if c.flags&flagReplay != 0 {
		t.doubt = true
	} else {
		c.moves(t.count)
	}
	t.rank(c)
}

// rank applies one change to the best, by the rules of an exact board: an update raises score and death, a restart
// replaces both unless the stored entry is later.
func (t *table) rank(c change) {
	if t.index == nil {
		t.reindex()
	}
	i, found := t.index[c.member]
	switch {
	case c.gone():
		t.put(place{c.member, noFloor.score - 1, 0})
	case found:
		t.put(over(t.top[i], c))
	default:
		t.put(c.place)
	}
}

// put sets a member's place among the best, or removes it if others are better.
func (t *table) put(p place) {
	if t.index == nil {
		t.reindex()
	}
	i, found := t.index[p.member]
	switch {
	case found && t.known(p):
		t.top[i] = p
	case found:
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

// over returns the result of a change to an existing place.
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

// settle sorts the best, drops entries that are expired at now and cuts the rest to size. It returns the number of
// expired members.
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
			died++ // members with value 0 are not in the counts
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

// before orders like a sorted set that is read backwards.
func before(a, b place) int {
	if c := cmp.Compare(b.score, a.score); c != 0 {
		return c
	}
	return strings.Compare(b.member, a.member)
}

// above returns the number of members that count at now with a greater value. The table must have its rows.
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

// The encoding. A place is: length and bytes of the member, 8 bytes of score and 8 of death, because it is read most
// often. A row is: death, number of pairs, and for each pair, greatest value first, its difference from the previous
// value and its count. These numbers are varints, as is the length.

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

// sum returns the counts of all members as one row, and the first death. From then on the sum is no longer valid.
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

// A reader decodes numbers and texts; bad is set if the bytes end early.
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

// counts calls fn for each pair of a row, the greatest value first, until it returns false; the rest of the row is then
// not read.
func (r *reader) counts(fn func(value, n int64) bool) {
	v := int64(MaxValue)
	for left := r.uvarint(); left > 0 && !r.bad; left-- {
		v -= int64(r.uvarint())
		if n := r.varint(); !fn(v, n) {
			return
		}
	}
}

// readPlaces appends the places of s to places.
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

// sumAbove returns the number of members in an encoded sum with a greater value.
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

// A state is the result of a fold or a load, under the version that was drawn for it. It never changes, neither in
// Redis nor here.
type state struct {
	version string // empty: there is none, and all else is empty, too
	fields  fields
	floor   place
	until   int64 // until when the sum is valid
	doubt   bool
	top     []place
	index   func() map[string]int // index in top
}

// fields are the encoded fields of a state, in the order of stateFields.
type fields [5]string

const (
	metaField = iota // set when the board is loaded
	headField        // the best
	tailField        // the rest of the best
	sumField         // counts of all members alive at the last fold
	rowsField        // the same counts by death
)

var stateFields = fields{"meta", "head", "tail", "sum", "rows"}

func (s *state) loaded() bool { return s.fields[metaField] != "" }

// readState decodes the fields that are read most often; see table for the rest.
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

// stateOf returns the state of a settled table. It retains nothing of t, whose members are parts of longer strings.
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

// changed returns the fields of next that differ from s, with their names.
func (s *state) changed(next *state) (changed []string) {
	for i, name := range stateFields {
		if s.fields[i] != next.fields[i] {
			changed = append(changed, name, next.fields[i])
		}
	}
	return changed
}

// meta returns the metadata of a board as text: until when its sum is valid, doubt, and the floor.
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
