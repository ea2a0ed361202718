package audit

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

const (
	// maxShapes bounds the memory for unknown keys. Above it, they are only distinguished by their first level; above
	// twice that number, they are not distinguished.
	maxShapes = 256
	maxSlots  = 10 // shown
	maxHot    = 20 // shown
)

// A tally accumulates the results of an audit.
type tally struct {
	opt    *Options
	mode   string
	began  time.Time
	prefix string
	parser *keyspace.Parser

	mu       sync.Mutex
	families map[*keyspace.Family]*group
	shapes   map[string]*group
	buf      []byte
	foreign  map[string]*foreignGroup
	slots    []slot
	owners   []Owner
	hot      []Hot
	r        Report // the counts
}

type slot struct{ keys, bytes int64 }

// A group is a family, or unknown keys of one shape.
type group struct {
	family   *keyspace.Family // nil for unknown keys
	name     string
	keys     int64
	perOwner []int64
	sample   []sampled
	examples []string

	looked     int64
	weighed    int64 // the number of inspected keys whose memory is known
	sum, sumSq float64
	largest    int64
	largestKey string
	types      map[string]int64
	lives      int64
	findings   map[string]*Finding
}

type sampled struct {
	key   string
	owner int
}

func newTally(mode, prefix string, schemas []*keyspace.Schema, opt *Options) *tally {
	return &tally{
		opt: opt, mode: mode, began: time.Now(), prefix: prefix, parser: keyspace.NewParser(schemas...),
		families: map[*keyspace.Family]*group{}, shapes: map[string]*group{}, foreign: map[string]*foreignGroup{},
		slots: make([]slot, keyspace.Slots),
	}
}

// addOwner adds an owner and returns its number.
func (t *tally) addOwner(addr string) int {
	t.owners = append(t.owners, Owner{Addr: addr})
	return len(t.owners) - 1
}

// countName counts a key by its name and returns its group, or nil if the key has another prefix. The caller holds mu.
func (t *tally) countName(physical string, owner int) (*group, error) {
	logical, ok := keyspace.Logical(t.prefix, physical)
	if !ok {
		t.countForeign(physical)
		return nil, nil
	}
	t.r.Keys++
	t.slots[keyspace.Slot(physical)].keys++
	t.owners[owner].Keys++
	found, known := t.parser.Key(logical)
	var g *group
	if known {
		if g = t.families[found.Family]; g == nil {
			g = &group{family: found.Family, name: found.Family.Pattern}
			t.families[found.Family] = g
		}
	} else {
		g = t.shape(logical)
	}
	g.keys++
	for len(g.perOwner) <= owner {
		g.perOwner = append(g.perOwner, 0)
	}
	g.perOwner[owner]++
	if t.mode == modeNames {
		if s := (sampled{physical, owner}); len(g.sample) < t.opt.Samples {
			g.sample = append(g.sample, s)
		} else if i := rand.Int64N(g.keys); i < int64(len(g.sample)) {
			g.sample[i] = s
		}
	}
	if !known {
		if len(g.examples) < t.opt.Examples {
			g.examples = append(g.examples, printable(physical))
		}
		if err := t.fault(g, UnknownKey, physical, ""); err != nil {
			return nil, err
		}
	}
	if len(physical) > keyspace.MaxKey {
		return g, t.fault(g, KeyTooLong, physical, "")
	}
	return g, nil
}

// shape returns the group of an unknown key.
func (t *tally) shape(logical string) *group {
	t.buf = appendShape(t.buf[:0], logical)
	if g := t.shapes[string(t.buf)]; g != nil {
		return g
	}
	name := string(t.buf)
	if len(t.shapes) >= maxShapes {
		first, _, _ := strings.Cut(name, ":")
		name = first + ":…"
	}
	if len(t.shapes) >= 2*maxShapes {
		name = "…"
	}
	g := t.shapes[name]
	if g == nil {
		g = &group{name: name, types: map[string]int64{}}
		t.shapes[name] = g
	}
	return g
}

// maxPrefixesPerShape is the largest number of prefixes of one shape that are counted separately. More prefixes are not
// deployments but keys of another program whose first level is an identifier.
const maxPrefixesPerShape = 10

// foreignGroup has the prefixes of one shape.
type foreignGroup struct {
	keys     int64
	prefixes map[string]int64 // nil once there are too many
}

// countForeign counts a key of another prefix.
func (t *tally) countForeign(physical string) {
	t.r.ForeignKeys++
	first, _, _ := strings.Cut(physical, ":")
	shape := string(appendShape(nil, first))
	if _, known := t.foreign[shape]; !known && len(t.foreign) >= maxShapes {
		shape, first = "…", "…"
	}
	s := t.foreign[shape]
	if s == nil {
		s = &foreignGroup{prefixes: map[string]int64{}}
		t.foreign[shape] = s
	}
	s.keys++
	if s.prefixes == nil {
		return
	}
	if s.prefixes[first]++; len(s.prefixes) > maxPrefixesPerShape {
		s.prefixes = nil
	}
}

// fault counts a fault. The caller holds mu.
func (t *tally) fault(g *group, what, physical, detail string) error {
	if len(t.opt.Ignore) > 0 {
		if logical, ok := keyspace.Logical(t.prefix, physical); ok && t.opt.ignored(logical) {
			t.r.Ignored++
			return nil
		}
	}
	t.r.Faults++
	f := g.findings[what]
	if f == nil {
		f = &Finding{Fault: what, Family: g.name, Examples: []Fault{}}
		if g.findings == nil {
			g.findings = map[string]*Finding{}
		}
		g.findings[what] = f
	}
	f.Count++
	if t.opt.Found == nil && len(f.Examples) >= t.opt.Examples {
		return nil
	}
	one := Fault{Fault: what, Family: g.name, Key: printable(physical), Detail: detail}
	if len(f.Examples) < t.opt.Examples {
		f.Examples = append(f.Examples, one)
	}
	if t.opt.Found != nil {
		return t.opt.Found(one)
	}
	return nil
}

// judgeAll judges inspected keys and adds them to the totals.
func (t *tally) judgeAll(batch []facts, slack time.Duration) error {
	type wrong struct {
		at           int
		what, detail string
	}
	var faults []wrong
	for i := range batch { // decoding values needs no lock
		if x := &batch[i]; x.group.family != nil && !x.gone && !x.moved && !x.denied {
			judge(x.group.family, x, slack, func(what, detail string) { faults = append(faults, wrong{i, what, detail}) })
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range batch {
		t.add(&batch[i])
	}
	for _, f := range faults {
		if err := t.fault(batch[f.at].group, f.what, batch[f.at].key, f.detail); err != nil {
			return err
		}
	}
	return nil
}

func (t *tally) add(x *facts) {
	switch {
	case x.gone:
		t.r.Gone++
		return
	case x.moved:
		t.r.Moved++
		return
	case x.denied:
		t.r.Denied++
		return
	}
	g := x.group
	t.r.Looked++
	g.looked++
	if g.family == nil {
		g.types[x.typ]++
		if x.life != 0 {
			g.lives++
		}
	} else if g.family.Check != nil && x.typ == "string" && !x.read && x.length <= maxValueBytes(g.family) {
		t.r.Unread++
	}
	if x.bytes >= 0 {
		g.weighed++
		g.sum += float64(x.bytes)
		g.sumSq += float64(x.bytes) * float64(x.bytes)
		t.slots[keyspace.Slot(x.key)].bytes += x.bytes
		if x.bytes > g.largest {
			g.largest, g.largestKey = x.bytes, x.key
		}
	}
	if x.freq > 0 && (len(t.hot) < maxHot || x.freq > t.hot[maxHot-1].Frequency) {
		t.hot = append(t.hot, Hot{Key: printable(x.key), Family: g.name, Frequency: x.freq})
		slices.SortStableFunc(t.hot, func(a, b Hot) int { return cmp.Compare(b.Frequency, a.Frequency) })
		t.hot = t.hot[:min(len(t.hot), maxHot)]
	}
}

// memory returns the memory of one key on average, of all keys of the group, and the margin of error of the total.
func (g *group) memory() (each, total, margin float64) {
	if g.weighed == 0 {
		return 0, 0, 0
	}
	n, all := float64(g.weighed), float64(g.keys)
	each = g.sum / n
	if n >= all { // all keys, or more, because SCAN may return a key twice
		return each, g.sum, 0
	}
	if n == 1 {
		return each, each * all, each * all
	}
	variance := max(g.sumSq-n*each*each, 0) / (n - 1)
	const likely = 1.96 // standard errors, for 95 % confidence
	return each, each * all, likely * math.Sqrt(variance/n*(all-n)/(all-1)) * all
}

// report builds the report.
func (t *tally) report(ping Ping) *Report {
	r := t.r
	r.Mode, r.Prefix, r.Began, r.Seconds = t.mode, t.prefix, t.began, time.Since(t.began).Seconds()
	r.Ping, r.Hot = ping, t.hot
	r.Findings, r.Families, r.Unknown = []Finding{}, []Group{}, []Group{}
	var owned []float64 // bytes
	for range t.owners {
		owned = append(owned, 0)
	}
	for _, g := range slices.Concat(slices.Collect(maps.Values(t.families)), slices.Collect(maps.Values(t.shapes))) {
		each, total, margin := g.memory()
		out := Group{
			Family: g.name, Keys: g.keys, Looked: g.looked,
			Bytes: int64(total), BytesError: int64(math.Ceil(margin)), Largest: g.largest, LargestKey: printable(g.largestKey),
		}
		if g.family != nil {
			out.Owner, out.Type = g.family.Doc.Owner, g.family.Type
			r.Families = append(r.Families, out)
		} else {
			out.Types, out.Lives, out.Examples = g.types, g.lives, g.examples
			r.Unknown = append(r.Unknown, out)
		}
		for i, n := range g.perOwner {
			owned[i] += each * float64(n)
		}
		for _, f := range g.findings {
			f.Of = g.looked
			if f.Fault == UnknownKey || f.Fault == KeyTooLong {
				f.Of = g.keys
			}
			r.Findings = append(r.Findings, *f)
		}
	}
	slices.SortFunc(r.Families, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Family, b.Family))
	})
	slices.SortFunc(r.Unknown, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Family, b.Family))
	})
	slices.SortFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(Faults, a.Fault), slices.Index(Faults, b.Fault)), cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.Family, b.Family))
	})
	for shape, s := range t.foreign {
		if s.prefixes == nil {
			r.Foreign = append(r.Foreign, Foreign{printable(shape), s.keys})
		}
		for first, n := range s.prefixes {
			r.Foreign = append(r.Foreign, Foreign{printable(first), n})
		}
	}
	slices.SortFunc(r.Foreign, func(a, b Foreign) int {
		return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Prefix, b.Prefix))
	})
	r.Owners = t.owners
	for i := range r.Owners {
		r.Owners[i].Bytes = int64(owned[i])
		if r.Keys > 0 {
			r.Owners[i].Ratio = rounded(float64(r.Owners[i].Keys) * float64(len(r.Owners)) / float64(r.Keys))
		}
	}
	r.Slots = t.slotReport()
	return &r
}

// slotReport returns how evenly keys are distributed over the slots.
func (t *tally) slotReport() Slots {
	s := Slots{Mean: rounded(float64(t.r.Keys) / keyspace.Slots), Largest: []Slot{}}
	all := make([]Slot, 0, keyspace.Slots)
	for i, n := range t.slots {
		if n.keys == 0 {
			continue
		}
		one := Slot{Slot: i, Keys: n.keys, Ratio: rounded(float64(n.keys) * keyspace.Slots / float64(t.r.Keys))}
		if t.mode != modeNames {
			one.Bytes = n.bytes
		}
		all = append(all, one)
	}
	s.Used = len(all)
	slices.SortFunc(all, func(a, b Slot) int { return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.Slot, b.Slot)) })
	s.Largest = append(s.Largest, all[:min(len(all), maxSlots)]...)
	if t.mode != modeNames {
		slices.SortFunc(all, func(a, b Slot) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Slot, b.Slot)) })
		s.Heaviest = append(s.Heaviest, all[:min(len(all), maxSlots)]...)
	}
	return s
}

func rounded(f float64) float64 { return math.Round(f*100) / 100 }
