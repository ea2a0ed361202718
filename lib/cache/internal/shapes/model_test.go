package shapes

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// twin is a collection as seen by its scripts; its methods are the scripts, in Go.
type twin struct {
	typ  string
	in   map[string]string // nil: the key does not exist
	life int64             // ms

	broken string // the rule to break, so that tests can see its absence detected
}

func (t *twin) has(mark string) bool { _, ok := t.in[markByte+mark]; return ok }
func (t *twin) unlink()              { t.in, t.life = nil, 0 }
func (t *twin) unmark(mark string)   { delete(t.in, markByte+mark) }

func (t *twin) put(m, v string) {
	if t.in == nil {
		t.in = map[string]string{}
	}
	t.in[m] = v
}

func (t *twin) mark(mark string) {
	v := ""
	if t.typ == "zset" {
		v = "-inf"
	}
	t.put(markByte+mark, v)
}

func (t *twin) changes() (n int) {
	for t.has(fmt.Sprint("F", n+1)) {
		n++
	}
	return n
}

func (t *twin) acquire(token, era string, life int64, replace bool) (left int64) {
	switch {
	case t.has("F1"):
		return IsFenced
	case t.has("L"):
		return IsLent
	case t.has("V" + era):
		if !replace {
			return IsLoaded
		}
		left = t.life
	default:
		t.unlink()
	}
	t.mark("L")
	t.mark("T" + token)
	t.life = life
	return left
}

func (t *twin) fill(token, era string, life int64, first bool, total int, part map[string]string) int64 {
	if (!t.has("L") || !t.has("T"+token)) && t.broken != "a fill needs its lease" {
		return 0
	}
	if first {
		t.unlink()
		t.mark("L")
		t.mark("T" + token)
	}
	for m, v := range part {
		t.put(m, v)
	}
	if total >= 0 {
		if len(t.in) != total+2 && t.broken != "all parts have to be there" {
			t.unlink()
			return 0
		}
		t.mark("V" + era)
		t.unmark("L")
		t.unmark("T" + token)
	}
	t.life = life
	return 1
}

func (t *twin) release(token, era string, left int64) int64 {
	if !t.has("L") || !t.has("T"+token) {
		return 0
	}
	if t.has("V"+era) && left > 0 {
		t.unmark("L")
		t.unmark("T" + token)
		t.life = left
	} else {
		t.unlink()
	}
	return 1
}

func (t *twin) fence(token, era string, life int64) (left int64) {
	n := t.changes()
	switch {
	case n > 0:
		t.mark("S")
		life = max(life, t.life)
	case t.has("V"+era) && !t.has("L"):
		left = t.life
		if t.broken != "a fence hides what is there" {
			t.unmark("V" + era)
		}
	case t.broken == "a fence ends a load":
	default:
		t.unlink()
	}
	t.mark(fmt.Sprint("F", n+1))
	t.mark("T" + token)
	t.life = life
	return left
}

func (t *twin) finish(token, era string, left int64, puts map[string]string, removes []string) int64 {
	n := t.changes()
	if !t.has("T" + token) {
		switch {
		case t.broken == "a lost fence drops":
		case n > 0:
			t.mark("S")
		default:
			t.unlink()
		}
		return 0
	}
	if n > 1 {
		t.unmark(fmt.Sprint("F", n))
		t.unmark("T" + token)
		return 1
	}
	if left == 0 || t.has("S") && t.broken != "shared fences drop" {
		t.unlink()
		return 1
	}
	for m, v := range puts {
		t.put(m, v)
	}
	for _, m := range removes {
		delete(t.in, m)
	}
	t.mark("V" + era)
	t.unmark("F1")
	t.unmark("T" + token)
	t.life = left
	return 2
}

func (t *twin) drop() int64 {
	if t.has("F1") {
		t.mark("S")
		return 0
	}
	t.unlink()
	return 1
}

// size returns -1 if nothing is loaded.
func (t *twin) size(era string) int64 {
	switch {
	case !t.has("V" + era):
		return -1
	case t.has("L"):
		return int64(len(t.in) - 3)
	}
	return int64(len(t.in) - 1)
}

// pair is a member and its value.
type pair struct{ member, value string }

func scoreOf(text string) float64 {
	score, _ := strconv.ParseFloat(text, 64)
	return score
}

// page returns nil if nothing is loaded.
func (t *twin) page(era string, n int, score, after string) []string {
	if !t.has("V" + era) {
		return nil
	}
	out := []string{}
	var pairs []pair
	for m, v := range t.in {
		if _, isMark := Unescape(m); !isMark {
			pairs = append(pairs, pair{m, v})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		if x, y := scoreOf(a.value), scoreOf(b.value); x != y {
			return int(y - x)
		}
		return strings.Compare(b.member, a.member)
	})
	for _, p := range pairs {
		behind := score == "" || scoreOf(p.value) < scoreOf(score) || scoreOf(p.value) == scoreOf(score) && p.member < after
		if behind && len(out) < 2*n {
			out = append(out, p.member, p.value)
		}
	}
	return out
}

var historySchema = keyspace.New("cachehistory")

var historyKeys = map[string]keyspace.Key{
	"hash": keyspace.Def0(historySchema, "history:hash", keyspace.CachedHashOf[string, int](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "of the tests"}).At().Key,
	"set": keyspace.Def0(historySchema, "history:set", keyspace.CachedSetOf[string](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "of the tests"}).At().Key,
	"zset": keyspace.Def0(historySchema, "history:zset", keyspace.CachedZSetOf[string](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "of the tests"}).At().Key,
}

// grain is the distance between lives in the histories, so that the duration of a run does not matter.
const grain = int64(10_000_000)

func grains(ms int64) int64 {
	if ms < 0 {
		return ms
	}
	return (ms + grain/2) / grain * grain
}

func TestScripts_AgreeWithTwins(t *testing.T) {
	for _, engine := range redistest.SharedEngines(t) {
		if engine.Name == "spawn" || engine.Name == "sentinel" {
			continue // the same server as standalone
		}
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			db := engine.Open(t)
			for typ := range byType {
				t.Run(typ, func(t *testing.T) { history(t, db, typ, rand.New(rand.NewPCG(1, uint64(len(typ)))), 1500) })
			}
		})
	}
}

func history(t *testing.T, db *redis.DB, typ string, r *rand.Rand, steps int) {
	s, key := byType[typ], historyKeys[typ]
	tw := &twin{typ: typ}
	pick := func(xs ...string) string { return xs[r.IntN(len(xs))] }
	value := func() string {
		if typ == "set" {
			return ""
		}
		return strconv.Itoa(r.IntN(4))
	}
	seen := map[string]int{}
	tokens, token := 0, ""
	for step := range steps {
		if r.IntN(20) == 0 { // the lease, fence or collection expires
			tw.unlink()
			if err := db.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: key}).Err; err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(8) == 0 || token == "" {
			tokens++
			token = fmt.Sprintf("%08d", tokens)
		} else if r.IntN(8) == 0 {
			token = fmt.Sprintf("%08d", max(1, tokens-r.IntN(3)))
		}
		token, mine := "l"+token[1:], "c"+token[1:] // of leases and of changes
		eraN, life := uint64(1+r.IntN(16)/15), (1+r.Int64N(9))*grain
		era := EraText(eraN)
		chosen := map[string]string{}
		for range r.IntN(4) {
			chosen[pick("a", "b", "ba", "\x01c", "", "é")] = value()
		}
		var texts []string
		for m, v := range chosen {
			texts = s.Put(texts, m, v)
		}
		ms := time.Duration(life) * time.Millisecond
		var cmd keyspace.Cmd
		var want int64
		var name string
		switch r.IntN(12) {
		case 0, 1:
			replace := r.IntN(2) == 0
			name, cmd, want = "acquire", s.Acquire(key, token, eraN, ms, replace), tw.acquire(token, era, life, replace)
		case 2, 3, 4, 5:
			first, total := r.IntN(2) == 0, -1
			if r.IntN(2) == 0 {
				total = max(0, len(tw.in)-2)
				if first {
					total = len(chosen)
				}
				total += r.IntN(8) / 7
			}
			name, cmd, want = "fill", s.Fill(key, token, eraN, ms, first, total, texts), tw.fill(token, era, life, first, total, chosen)
		case 6:
			left := r.Int64N(2) * life
			name, cmd, want = "release", s.Release(key, token, eraN, left), tw.release(token, era, left)
		case 7:
			name, cmd, want = "fence", s.Fence(key, mine, eraN, ms), tw.fence(mine, era, life)
		case 8, 9:
			left := r.Int64N(4) / 3
			left = (1 - left) * life
			removes := []string{pick("a", "b"), "none"}
			for _, m := range removes {
				delete(chosen, m)
			}
			texts = nil
			for m, v := range chosen {
				texts = s.Put(texts, m, v)
			}
			name, cmd, want = "finish", s.Finish(key, mine, eraN, left, texts, removes), tw.finish(mine, era, left, chosen, removes)
		case 10:
			if r.IntN(3) > 0 {
				continue
			}
			name, cmd, want = "drop", s.Drop(key), tw.drop()
		case 11:
			name, cmd, want = "size", s.Size(key, eraN, ""), max(0, tw.size(era))
			if typ == "zset" && r.IntN(2) == 0 {
				n, score, after := 1+r.IntN(3), "", ""
				if r.IntN(3) > 0 {
					score, after = value(), pick("a", "b", "bb", "zz")
				}
				got := []string(nil)
				reply := db.Do(t.Context(), Page(key, eraN, n, score, after))
				if items, err := reply.Items(); err != nil {
					t.Fatal(err)
				} else if !reply.Nil() {
					got = []string{}
					for _, it := range items {
						got = append(got, it.Str)
					}
				}
				if page := tw.page(era, n, score, after); !slices.Equal(got, page) || (got == nil) != (page == nil) {
					t.Fatalf("step %d: page of %d after %q %q = %q, want %q", step, n, score, after, got, page)
				}
			}
		}
		got, err := db.Do(t.Context(), cmd).Int()
		if err != nil {
			t.Fatalf("step %d: %s: %v", step, name, err)
		}
		if grains(got) != grains(want) && (got > 10 || got != want) {
			t.Fatalf("step %d: %s = %d, want %d", step, name, got, want)
		}
		seen[fmt.Sprint(name, " ", min(got, 3))]++
		held, life := dump(t, db, key, s)
		if !maps.Equal(held, tw.in) || grains(life) != grains(tw.life) {
			t.Fatalf("step %d: after %s the collection is %q for %d ms, want %q for %d", step, name, held, life, tw.in, tw.life)
		}
	}
	for _, each := range []string{"acquire 0", "acquire 3", "acquire -1", "acquire -2", "acquire -3", "fill 0", "fill 1", "release 0",
		"release 1",
		"fence 0", "fence 3", "finish 0", "finish 1", "finish 2", "drop 0", "drop 1"} {
		if seen[each] == 0 {
			t.Errorf("the history has no %s: %v", each, seen)
		}
	}
	if err := db.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: key}).Err; err != nil {
		t.Error(err)
	}
}

// dump reads a collection with its marks.
func dump(t *testing.T, db *redis.DB, key keyspace.Key, s *Shape) (map[string]string, int64) {
	t.Helper()
	cmd := keyspace.Cmd{Name: s.Whole, Key: key}
	if s.Type == "zset" {
		cmd = keyspace.Cmd{Name: "ZRANGE", Key: key, Args: []string{"0", "-1", "WITHSCORES"}}
	}
	replies := db.DoMulti(t.Context(), []keyspace.Cmd{cmd, {Name: "PTTL", Key: key}})
	items, err := replies[0].Items()
	if err != nil {
		t.Fatal(err)
	}
	life, _ := replies[1].Int()
	var held map[string]string
	for i := 0; i < len(items); i += s.Valued {
		if held == nil {
			held = map[string]string{}
		}
		held[items[i].Str] = ""
		if s.Valued == 2 {
			held[items[i].Str] = items[i+1].Str
		}
	}
	return held, max(0, life)
}

var histories = flag.Int("histories", 3000, "random histories of the collections' model")

// The model: readers, changes, failovers, lost keys and crashes in any order. A value is the number of the commit that
// wrote it. An acknowledged commit must be visible forever after, and an unacknowledged one may be.
func TestModel_NoReadIsOlderThanAcknowledgedChange(t *testing.T) {
	for seed := range uint64(*histories) {
		if fault := play(seed, ""); fault != "" {
			t.Fatalf("history %d: %s", seed, fault)
		}
	}
}

func TestModel_DetectsBrokenRules(t *testing.T) {
	for _, rule := range []string{"a fill needs its lease", "all parts have to be there", "a fence hides what is there", "a fence ends a load",
		"a lost fence drops", "shared fences drop", "an era ends what was before"} {
		t.Run(rule, func(t *testing.T) {
			for seed := range uint64(20_000) {
				if fault := play(seed, rule); fault != "" {
					t.Logf("history %d: %s", seed, fault)
					return
				}
			}
			t.Error("20,000 histories passed without it")
		})
	}
}

// world is one collection with its source.
type world struct {
	r       *rand.Rand
	key     twin
	era     int
	before  []map[string]string // the possible states of a replica
	now     map[string]string   // the source
	log     []map[string]string // the source after each commit
	floor   map[string]int      // last acknowledged commit to each member
	actors  []func() bool       // each call makes a step and reports whether the actor is done
	tokens  int
	names   []string
	faults  string
	history []string
}

func (w *world) token() string { w.tokens++; return fmt.Sprintf("%08d", w.tokens) }

func (w *world) eraText() string {
	if w.key.broken == "an era ends what was before" {
		return "1"
	}
	return strconv.Itoa(w.era)
}

func (w *world) logEvent(what string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(what, args...))
}

// play returns the fault of a history, if any.
func play(seed uint64, broken string) string {
	w := &world{r: rand.New(rand.NewPCG(seed, 7)), key: twin{typ: "hash", broken: broken}, era: 1, now: map[string]string{},
		floor: map[string]int{}, names: []string{"a", "b", "c"}}
	for _, m := range w.names[:2] {
		w.now[m] = "0"
	}
	w.log = []map[string]string{maps.Clone(w.now)}
	for range 80 {
		w.before = append(w.before, maps.Clone(w.key.in))
		switch n := w.r.IntN(40); {
		case n == 0:
			w.logEvent("flush")
			w.key.unlink()
		case n == 1: // the life of a lease, a fence or a collection ends
			w.logEvent("lapse")
			w.key.unlink()
		case n == 2: // a replica without the newest writes takes over
			w.logEvent("failover")
			w.era++
			w.key.in = maps.Clone(w.before[max(0, len(w.before)-1-w.r.IntN(6))])
		case n == 3 && len(w.actors) > 0:
			i := w.r.IntN(len(w.actors))
			w.logEvent("crash")
			w.actors = slices.Delete(w.actors, i, i+1)
		case n < 10 && len(w.actors) < 4:
			w.actors = append(w.actors, w.reader())
		case n < 16 && len(w.actors) < 4:
			w.actors = append(w.actors, w.changer())
		case len(w.actors) > 0:
			i := w.r.IntN(len(w.actors))
			if w.actors[i]() {
				w.actors = slices.Delete(w.actors, i, i+1)
			}
		}
		w.check()
		if w.faults != "" {
			return w.faults + "\n" + strings.Join(w.history, "\n")
		}
	}
	return ""
}

// check reads every member, as a reader of the present era does.
func (w *world) check() {
	if !w.key.has("V" + w.eraText()) {
		return
	}
	n := 0
	for _, m := range w.names {
		got, exists := w.key.in[m]
		if exists {
			n++
		}
		fine := false
		for _, s := range w.log[w.floor[m]:] {
			want, ok := s[m]
			fine = fine || ok == exists && want == got
		}
		if !fine {
			w.faults = fmt.Sprintf("%s is %q (%v), which is outdated since commit %d: %v", m, got, exists, w.floor[m], w.log)
		}
	}
	if size := w.key.size(w.eraText()); size != int64(n) && w.faults == "" {
		w.faults = fmt.Sprintf("got size %[2]d, want %[1]d members", n, size)
	}
}

// reader loads the collection if it is not loaded, in parts that may be lost or late.
func (w *world) reader() func() bool {
	token, era, step := w.token(), w.eraText(), 0
	var parts []map[string]string
	total, sent := 0, 0
	return func() bool {
		step++
		switch step {
		case 1:
			n := w.key.acquire(token, era, 1, w.r.IntN(2) == 0)
			w.logEvent("%s acquires: %d", token, n)
			return n < 0
		case 2:
			w.logEvent("%s loads %v", token, w.now)
			if w.r.IntN(8) == 0 {
				w.key.release(token, era, w.r.Int64N(2))
				return true
			}
			total = len(w.now)
			parts = []map[string]string{{}, {}}
			for m, v := range w.now {
				parts[w.r.IntN(2)][m] = v
			}
			return false
		}
		last := sent == len(parts)-1
		count := -1
		if last {
			count = total
		}
		n := int64(1)
		if last || w.r.IntN(6) > 0 { // otherwise it arrives too late to count
			n = w.key.fill(token, era, 1, sent == 0, count, parts[sent])
		}
		w.logEvent("%s fills %v, last %v: %d", token, parts[sent], last, n)
		sent++
		return last || n == 0
	}
}

// changer changes one member, edits the collection, and is acknowledged.
func (w *world) changer() func() bool {
	token, era, step := w.token(), w.eraText(), 0
	m := w.names[w.r.IntN(len(w.names))]
	left := int64(0)
	puts, removes := map[string]string{}, []string(nil)
	commit := 0
	return func() bool {
		step++
		switch step {
		case 1:
			left = w.key.fence(token, era, 1)
			w.logEvent("%s fences: %d", token, left)
		case 2:
			commit = len(w.log)
			if w.r.IntN(2) == 0 {
				w.now[m], puts[m] = strconv.Itoa(commit), strconv.Itoa(commit)
			} else {
				delete(w.now, m)
				removes = []string{m}
			}
			w.log = append(w.log, maps.Clone(w.now))
			w.logEvent("%s commits %d: %v", token, commit, w.now)
		case 3:
			if w.r.IntN(8) == 0 {
				left = 0
			}
			n := w.key.finish(token, era, left, puts, removes)
			w.logEvent("%s finishes: %d", token, n)
			w.floor[m] = max(w.floor[m], commit)
			return true
		}
		return false
	}
}
