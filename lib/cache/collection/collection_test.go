package collection_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// friend is the remark about a friend.
type friend struct {
	Remark string `json:"remark"`
	Since  int64  `json:"since"`
}

var (
	related = keyspace.New("collectiontest")
	life    = keyspace.Expire(24 * time.Hour).Jitter(time.Hour).Negative(5 * time.Minute)
	friends = keyspace.Def1[keyspace.Int](related, "test:friends:{{id}}", keyspace.CachedHashOf[string, friend](), life,
		keyspace.Doc{Purpose: "friends", InvalidatedBy: []string{"account deleted"}})
	blocked = keyspace.Def1[keyspace.Int](related, "test:blocked:{id}", keyspace.CachedSetOf[int64](), life,
		keyspace.Doc{Purpose: "whom one blocks", InvalidatedBy: []string{"account deleted"}})
	pending = keyspace.Def1[keyspace.Int](related, "test:pending:{id}", keyspace.CachedZSetOf[string](), life,
		keyspace.Doc{Purpose: "who asks to be a friend", InvalidatedBy: []string{"account deleted"}})
	events = keyspace.DefChannel0(related, "test:events", keyspace.RawMessages("bus"), keyspace.Doc{Purpose: "the tests' bus"})
	log    = keyspace.Def0(related, "test:events", keyspace.StreamOf("bus"), keyspace.Forever("trimmed"),
		keyspace.Doc{Purpose: "the tests' bus"})
)

var nodes atomic.Int64

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tables is the source.
type tables struct {
	mu      sync.Mutex
	friends map[int64]map[string]friend
	blocked map[int64][]int64
	pending map[int64]map[string]float64
	err     error
	held    chan struct{}                // if set, loads wait for it after they have read
	takes   func(id int64) time.Duration // duration of a load of friends; nil: none

	loads, picks atomic.Int64
}

func newTables() *tables {
	return &tables{friends: map[int64]map[string]friend{}, blocked: map[int64][]int64{}, pending: map[int64]map[string]float64{}}
}

func (s *tables) do(change func()) func(context.Context) error {
	return func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		change()
		return nil
	}
}

func (s *tables) befriend(a int64, b string, f friend) {
	if s.friends[a] == nil {
		s.friends[a] = map[string]friend{}
	}
	s.friends[a][b] = f
}

// read counts a load and waits as configured.
func (s *tables) read(ctx context.Context, n *atomic.Int64, read func()) error {
	n.Add(1)
	s.mu.Lock()
	err, held := s.err, s.held
	read()
	s.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// relations is one process.
type relations struct {
	rt      *cache.Runtime
	bus     *bus.Bus
	friends *collection.Hash[keyspace.Int, string, friend]
	blocked *collection.Set[keyspace.Int, int64]
	pending *collection.ZSet[keyspace.Int, string]
}

func relate(t testing.TB, db *redis.DB, s *tables, p collection.Policy, change ...func(*cache.Config)) *relations {
	t.Helper()
	cfg := cache.Config{Budget: p.MaxStale / 10}
	for _, set := range change {
		set(&cfg)
	}
	b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: fmt.Sprint("n", nodes.Add(1))})
	n := &relations{rt: cache.NewRuntime(db, b, cfg), bus: b}
	n.friends = collection.NewHash(n.rt, friends, p, collection.HashSource[keyspace.Int, string, friend]{
		Load: func(ctx context.Context, k keyspace.Int) (out map[string]friend, err error) {
			err = s.read(ctx, &s.loads, func() { out = maps.Clone(s.friends[k.N]) })
			if s.takes != nil {
				<-time.After(s.takes(k.N))
			}
			return out, err
		},
		Pick: func(ctx context.Context, k keyspace.Int, fields []string) (map[string]friend, error) {
			out := map[string]friend{}
			err := s.read(ctx, &s.picks, func() {
				for _, f := range fields {
					if v, ok := s.friends[k.N][f]; ok {
						out[f] = v
					}
				}
			})
			return out, err
		}})
	n.blocked = collection.NewSet(n.rt, blocked, p, collection.SetSource[keyspace.Int, int64]{
		Load: func(ctx context.Context, k keyspace.Int) (out []int64, err error) {
			err = s.read(ctx, &s.loads, func() { out = slices.Clone(s.blocked[k.N]) })
			return out, err
		}})
	n.pending = collection.NewZSet(n.rt, pending, p, collection.ZSetSource[keyspace.Int, string]{
		Load: func(ctx context.Context, k keyspace.Int) (out map[string]float64, err error) {
			err = s.read(ctx, &s.loads, func() { out = maps.Clone(s.pending[k.N]) })
			return out, err
		}})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Run(ctx, func() {}) })
	wg.Go(func() { _ = n.rt.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	must(t, b.Wait(t.Context()))
	return n
}

func id(n int64) keyspace.Int { return keyspace.Int{N: n} }

// patient keeps trusting Redis on a busy machine.
var patient = collection.Policy{MaxStale: 2 * time.Minute, Renew: -1}

func TestCollections(t *testing.T) {
	for _, engine := range redistest.SharedEngines(t) {
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			db := engine.Open(t)
			s := newTables()
			a, b := relate(t, db, s, patient), relate(t, db, s, patient)
			t.Run("hash", func(t *testing.T) { hash(t, s, a, b) })
			t.Run("set", func(t *testing.T) { set(t, s, a, b) })
			t.Run("sorted set", func(t *testing.T) { zset(t, s, a, b) })
			t.Run("two at once", func(t *testing.T) { two(t, s, a, b) })
			a.rt.Wait()
			b.rt.Wait()
			redistest.KeysDeclared(t, db, related, cache.Keys)
		})
	}
}

// odd are texts that resemble marks or separators.
var odd = []string{"", "\x00V", "\x00", "\x01", "\x01\x00", "ada", "__EMPTY__", "Ünal", "{x}", "a:b"}

func hash(t *testing.T, s *tables, a, b *relations) {
	ctx, k := t.Context(), id(1)
	loads := s.loads.Load()
	for _, n := range []*relations{a, b} {
		if ok, err := n.friends.Has(ctx, k, "ada"); ok || err != nil {
			t.Errorf("a friend of a user without friends: %v, %v", ok, err)
		}
		if n, err := n.friends.Len(ctx, k); n != 0 || err != nil {
			t.Errorf("%d friends, %v", n, err)
		}
		if all, err := n.friends.All(ctx, k); len(all) != 0 || err != nil {
			t.Errorf("friends: %v, %v", all, err)
		}
		if page, next, err := n.friends.Page(ctx, k, "", 0); len(page) != 0 || next != "" || err != nil {
			t.Errorf("friends: %v, %q, %v", page, next, err)
		}
	}
	want := map[string]friend{}
	for i, name := range odd {
		f := friend{"of " + name, int64(i)}
		n := []*relations{a, b}[i%2]
		must(t, n.friends.Mutate(ctx, k, s.do(func() {
			s.befriend(1, name, f)
		}), func(e *collection.HashEdit[string, friend]) { e.Set(name, f) }))
		want[name] = f
		for _, n := range []*relations{a, b} {
			if got, ok, err := n.friends.Get(ctx, k, name); got != f || !ok || err != nil {
				t.Fatalf("Get(%q) = %+v, %v, %v", name, got, ok, err)
			}
		}
	}
	must(t, a.friends.Mutate(ctx, k, s.do(func() {
		delete(s.friends[1], "ada")
	}), func(e *collection.HashEdit[string, friend]) { e.Delete("ada") }))
	delete(want, "ada")
	if ok, err := b.friends.Has(ctx, k, "ada"); ok || err != nil {
		t.Errorf("after Delete: %v, %v", ok, err)
	}
	if all, err := b.friends.All(ctx, k); !maps.Equal(all, want) || err != nil {
		t.Errorf("All = %v, %v, want %v", all, err, want)
	}
	many, err := b.friends.GetMany(ctx, k, odd)
	if !maps.Equal(many, want) || err != nil {
		t.Errorf("GetMany = %v, %v", many, err)
	}
	if n, err := a.friends.Len(ctx, k); n != len(want) || err != nil {
		t.Errorf("Len = %d, %v, want %d", n, err, len(want))
	}
	if n := s.loads.Load() - loads; n != 1 {
		t.Errorf("%d loads, want one before the first change", n)
	}
	if n := a.friends.Stats().Applied + b.friends.Stats().Applied; n != uint64(len(odd)+1) {
		t.Errorf("%d changes applied, want %d", n, len(odd)+1)
	}

	must(t, s.do(func() {
		for i := range 3000 {
			s.befriend(2, fmt.Sprint("f", i), friend{Since: int64(i)})
		}
	})(ctx))
	seen := map[string]friend{}
	for cursor, pages := "", 0; ; pages++ {
		page, next, err := a.friends.Page(ctx, id(2), cursor, 500)
		must(t, err)
		maps.Copy(seen, page)
		if cursor = next; cursor == "" {
			break
		}
		if pages > 20 {
			t.Fatal("the pages do not end")
		}
	}
	if !maps.Equal(seen, s.friends[2]) {
		t.Errorf("the pages have %d friends, want 3000", len(seen))
	}
}

func set(t *testing.T, s *tables, a, b *relations) {
	ctx, k := t.Context(), id(1)
	if ok, err := a.blocked.Has(ctx, k, 7); ok || err != nil {
		t.Errorf("blocked by a user who blocks no one: %v, %v", ok, err)
	}
	loads := s.loads.Load()
	for i := range int64(120) {
		must(t, a.blocked.Mutate(ctx, k, s.do(func() {
			s.blocked[1] = append(s.blocked[1], i)
		}), func(e *collection.SetEdit[int64]) { e.Add(i) }))
	}
	must(t, b.blocked.Mutate(ctx, k, s.do(func() { s.blocked[1] = s.blocked[1][2:] }), func(e *collection.SetEdit[int64]) { e.Remove(0, 1) }))
	got, err := b.blocked.HasMany(ctx, k, []int64{0, 1, 2, 119, 120, -3})
	if !maps.Equal(got, map[int64]bool{2: true, 119: true}) || err != nil {
		t.Errorf("HasMany = %v, %v", got, err)
	}
	if n, err := a.blocked.Len(ctx, k); n != 118 || err != nil {
		t.Errorf("Len = %d, %v", n, err)
	}
	seen := map[int64]bool{}
	for cursor, first := "", true; first || cursor != ""; first = false {
		ms, next, err := b.blocked.Members(ctx, k, cursor, 25)
		must(t, err)
		for _, m := range ms {
			seen[m] = true
		}
		if cursor = next; cursor != "" && len(seen) < 60 { // members that come and go do not hide others
			gone := int64(len(seen) % 2)
			must(t, b.blocked.Mutate(ctx, k, s.do(func() {}), func(e *collection.SetEdit[int64]) { e.Remove(gone) }))
		}
	}
	if len(seen) != 118 || seen[0] || !seen[2] {
		t.Errorf("the pages have %d members", len(seen))
	}
	if n := s.loads.Load() - loads; n != 0 {
		t.Errorf("%d loads", n)
	}
	if _, _, err := a.blocked.Members(ctx, k, "nonsense", 0); !errors.Is(err, collection.ErrCursor) {
		t.Errorf("a page after nonsense: %v", err)
	}
}

func zset(t *testing.T, s *tables, a, b *relations) {
	ctx, k := t.Context(), id(1)
	if n, err := a.pending.CountAbove(ctx, k, math.Inf(-1)); n != 0 || err != nil {
		t.Errorf("Len of an empty set = %d, %v", n, err)
	}
	scores := map[string]float64{}
	for i := range 60 {
		name := odd[i%len(odd)] + strconv.Itoa(i)
		scores[name] = []float64{0, -1e300, 0.1, 1736344200123, math.Inf(1)}[i%5]
	}
	for name, score := range scores {
		must(t, a.pending.Mutate(ctx, k, s.do(func() {
			if s.pending[1] == nil {
				s.pending[1] = map[string]float64{}
			}
			s.pending[1][name] = score
		}), func(e *collection.ZSetEdit[string]) { e.Set(name, score) }))
	}
	names := slices.Collect(maps.Keys(scores))
	if got, err := b.pending.Scores(ctx, k, append(names, "nobody")); !maps.Equal(got, scores) || err != nil {
		t.Errorf("Scores = %v, %v", got, err)
	}
	if got, ok, err := b.pending.Score(ctx, k, names[0]); got != scores[names[0]] || !ok || err != nil {
		t.Errorf("Score = %v, %v, %v", got, ok, err)
	}
	if n, err := a.pending.Len(ctx, k); n != 60 || err != nil {
		t.Errorf("Len = %d, %v", n, err)
	}
	for score, want := range map[float64]int{0: 36, 0.1: 24, math.Inf(1): 0, math.Inf(-1): 60, -1e300: 48} {
		if n, err := a.pending.CountAbove(ctx, k, score); n != want || err != nil {
			t.Errorf("CountAbove(%v) = %d, %v, want %d", score, n, err, want)
		}
	}
	// Members change between pages, including the last one of a page.
	want := slices.SortedFunc(maps.Keys(scores), func(x, y string) int {
		if scores[x] != scores[y] {
			if scores[x] > scores[y] {
				return -1
			}
			return 1
		}
		return strings.Compare(escaped(y), escaped(x))
	})
	for _, n := range []int{1, 7, 60, 0} {
		var got []string
		for cursor, first := "", true; first || cursor != ""; first = false {
			page, next, err := b.pending.Page(ctx, k, cursor, n)
			must(t, err)
			for _, p := range page {
				got = append(got, p.Member)
				if p.Score != scores[p.Member] {
					t.Errorf("%q has %v, want %v", p.Member, p.Score, scores[p.Member])
				}
			}
			if len(page) > 0 && n == 7 {
				last := page[len(page)-1]
				must(t, b.pending.Mutate(ctx, k, s.do(func() {}), func(e *collection.ZSetEdit[string]) {
					e.Remove(last.Member)
					e.Set("new"+last.Member, math.Inf(1)) // before all others
				}))
				defer func() { must(t, b.pending.Invalidate(ctx, k)) }()
			}
			cursor = next
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d:\n%q\nwant\n%q", n, got, want)
		}
		if n == 7 {
			must(t, b.pending.Invalidate(ctx, k))
		}
	}
	if _, _, err := a.pending.Page(ctx, k, "bm9uc2Vuc2U", 0); !errors.Is(err, collection.ErrCursor) {
		t.Errorf("a page after nonsense: %v", err)
	}
	// A score that cannot be stored is not: the change is made, the set is dropped.
	must(t, a.pending.Mutate(ctx, k, s.do(func() {}), func(e *collection.ZSetEdit[string]) { e.Set("x", math.Inf(-1)) }))
	if n, err := a.pending.Len(ctx, k); n != 60 || err != nil {
		t.Errorf("Len = %d, %v", n, err)
	}
	s.mu.Lock()
	s.pending[3] = map[string]float64{"x": math.NaN()}
	s.mu.Unlock()
	if _, err := a.pending.Len(ctx, id(3)); !errors.Is(err, collection.ErrScore) {
		t.Errorf("a source with NaN: %v", err)
	}
}

// escaped returns the stored form of a text that begins like a mark.
func escaped(s string) string {
	if s != "" && s[0] <= 1 {
		return "\x01" + s
	}
	return s
}

// two makes one change of two friends.
func two(t *testing.T, s *tables, a, b *relations) {
	ctx := t.Context()
	for _, k := range []int64{11, 12} {
		if _, err := a.friends.Len(ctx, id(k)); err != nil {
			t.Error(err)
		}
	}
	loads := s.loads.Load()
	var f friend
	must(t, a.rt.Change(ctx, s.do(func() {
		f.Since = 42 // known only to the commit
		s.befriend(11, "12", f)
		s.befriend(12, "11", f)
	}),
		a.friends.Edit(id(11), func(e *collection.HashEdit[string, friend]) { e.Set("12", f) }),
		a.friends.Edit(id(12), func(e *collection.HashEdit[string, friend]) { e.Set("11", f) })))
	for k, other := range map[int64]string{11: "12", 12: "11"} {
		if got, ok, err := b.friends.Get(ctx, id(k), other); got.Since != 42 || !ok || err != nil {
			t.Errorf("Get = %+v, %v, %v", got, ok, err)
		}
	}
	if n := s.loads.Load() - loads; n != 0 {
		t.Errorf("%d loads", n)
	}
	// After a failed change the collection is loaded, because its effect is unknown.
	boom := errors.New("boom")
	err := a.friends.Mutate(ctx, id(11), func(context.Context) error {
		return boom
	}, func(e *collection.HashEdit[string, friend]) { e.Delete("12") })
	if ok, err2 := b.friends.Has(ctx, id(11), "12"); !errors.Is(err, boom) || !ok || err2 != nil || s.loads.Load() != loads+1 {
		t.Errorf("after a failure: %v, %v, %v, %d loads", err, ok, err2, s.loads.Load()-loads)
	}
	// A collection with two targets is dropped.
	must(t, a.rt.Change(ctx, s.do(func() { delete(s.friends[11], "12") }), a.friends.Target(id(11)),
		a.friends.Edit(id(11), func(e *collection.HashEdit[string, friend]) { t.Error("edit called for a dropped collection") })))
	if ok, err := b.friends.Has(ctx, id(11), "12"); ok || err != nil || s.loads.Load() != loads+2 {
		t.Errorf("after a drop: %v, %v, %d loads", ok, err, s.loads.Load()-loads)
	}
}

// calls returns how often a server has executed each command.
func calls(t *testing.T, server *redistest.Instance) map[string]int {
	t.Helper()
	lines, err := server.Do("INFO", "commandstats")
	must(t, err)
	out := map[string]int{}
	for _, line := range strings.Split(strings.Join(lines, "\n"), "\n") {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		n, _, _ := strings.Cut(rest, ",")
		if ok {
			out[name], _ = strconv.Atoi(n)
		}
	}
	return out
}

func TestCollection_QuestionIsOneCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := newTables()
	must(t, s.do(func() {
		s.befriend(1, "bob", friend{"b", 1})
		s.blocked[1] = []int64{5}
		s.pending[1] = map[string]float64{"eve": 1}
	})(t.Context()))
	n := relate(t, redistest.Open(t, server.URL), s, collection.Policy{MaxStale: time.Minute, Renew: -1})
	ctx, k := t.Context(), id(1)
	var hundred []string
	var numbers []int64
	for i := range 100 {
		hundred, numbers = append(hundred, fmt.Sprint(i)), append(numbers, int64(i))
	}
	ask := map[string]func() error{
		"hmget": func() error {
			ok, err := n.friends.Has(ctx, k, "bob")
			ok2, err2 := n.friends.Has(ctx, k, "eve")
			_, err3 := n.friends.GetMany(ctx, k, hundred)
			if !ok || ok2 {
				t.Error("bob is the friend, eve is not")
			}
			return errors.Join(err, err2, err3)
		},
		"smismember": func() error {
			ok, err := n.blocked.Has(ctx, k, 5)
			ok2, err2 := n.blocked.Has(ctx, k, 6)
			_, err3 := n.blocked.HasMany(ctx, k, numbers)
			if !ok || ok2 {
				t.Error("5 is blocked, 6 is not")
			}
			return errors.Join(err, err2, err3)
		},
		"zmscore": func() error {
			_, ok, err := n.pending.Score(ctx, k, "eve")
			_, ok2, err2 := n.pending.Score(ctx, k, "bob")
			_, err3 := n.pending.Scores(ctx, k, hundred)
			if !ok || ok2 {
				t.Error("eve asks, bob does not")
			}
			return errors.Join(err, err2, err3)
		},
	}
	for _, cold := range []bool{true, false} {
		for name, ask := range ask {
			before := calls(t, server)
			must(t, ask())
			after := calls(t, server)
			want, scripts := 3, 0
			if cold { // the lease and the fill; each script is sent twice when the server sees it first
				scripts = 2
			}
			if got := after[name] - before[name]; got != want {
				t.Errorf("%d %s, want %d (cold: %v)", got, name, want, cold)
			}
			if got := after["evalsha"] + after["eval"] - before["evalsha"] - before["eval"]; got != scripts && (!cold || got > 2*scripts) {
				t.Errorf("%d scripts around %s, want %d (cold: %v)", got, name, scripts, cold)
			}
			for other, n := range after {
				if data := strings.HasPrefix(other, "h") || strings.HasPrefix(other, "s") || strings.HasPrefix(other, "z"); data && !cold &&
					other != name && n != before[other] && other != "hello" {
					t.Errorf("%s in addition to %s", other, name)
				}
			}
		}
	}
}

func TestAsk_SeveralQuestionsAreOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := newTables()
	s.befriend(1, "bob", friend{"b", 1})
	s.blocked[2] = []int64{5}
	n := relate(t, redistest.Open(t, server.URL), s, collection.Policy{MaxStale: time.Minute, Renew: -1})
	ctx := t.Context()
	ask := func(want ...bool) {
		t.Helper()
		questions := []*collection.Question{n.friends.Ask(id(1), "bob"), n.friends.Ask(id(1), "eve"), n.friends.Ask(id(3), "bob"),
			n.blocked.Ask(id(2), 5), n.blocked.Ask(id(1), 5)}
		if err := collection.Ask(ctx, questions...); err != nil {
			t.Fatal(err)
		}
		for i, q := range questions {
			if q.Yes() != want[i] {
				t.Errorf("answer %d is %v", i, q.Yes())
			}
		}
	}
	ask(true, false, false, true, false) // not loaded yet
	before, loads := calls(t, server), s.loads.Load()
	ask(true, false, false, true, false)
	after := calls(t, server)
	for name, want := range map[string]int{"hmget": 3, "smismember": 2, "evalsha": 0} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%d %s, want %d", got, name, want)
		}
	}
	if got := s.loads.Load() - loads; got != 0 {
		t.Errorf("%d loads of loaded collections", got)
	}
	must(t, n.friends.Mutate(ctx, id(1), s.do(func() {
		s.befriend(1, "eve", friend{})
	}), func(e *collection.HashEdit[string, friend]) { e.Set("eve", friend{}) }))
	must(t, n.blocked.Mutate(ctx, id(2), s.do(func() { s.blocked[2] = nil }), func(e *collection.SetEdit[int64]) { e.Remove(5) }))
	ask(true, true, false, false, false)
	if err := collection.Ask(ctx); err != nil {
		t.Errorf("no question: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := collection.Ask(over, n.friends.Ask(id(1), "bob")); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
	s.mu.Lock()
	s.err = errors.New("the source is unavailable")
	s.mu.Unlock()
	if err := collection.Ask(ctx, n.friends.Ask(id(1), "bob"), n.friends.Ask(id(9), "bob")); err == nil {
		t.Error("got an answer for a collection that cannot be loaded")
	}
}

func TestCollection_ConcurrentReadersLoadOnce(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := newTables()
		s.blocked[1] = []int64{5}
		a, b := relate(t, server.Open(t), s, patient), relate(t, server.Open(t), s, patient)
		s.held = make(chan struct{})
		time.AfterFunc(100*time.Millisecond, func() { close(s.held) })
		var wg sync.WaitGroup
		for i := range 400 {
			n := []*relations{a, b}[i%2]
			wg.Go(func() {
				if ok, err := n.blocked.Has(t.Context(), id(1), 5); !ok || err != nil {
					t.Errorf("Has = %v, %v", ok, err)
				}
			})
		}
		wg.Wait()
		if n := s.loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

// loading stops a load of k's friends after it has read its source.
func loading(t *testing.T, s *tables, n *relations, k int64) (release func(), done chan bool) {
	t.Helper()
	held := make(chan struct{})
	s.mu.Lock()
	s.held = held
	s.mu.Unlock()
	before := s.loads.Load()
	done = make(chan bool, 1)
	go func() {
		ok, err := n.friends.Has(t.Context(), id(k), "bob")
		if err != nil {
			t.Error(err)
		}
		done <- ok
	}()
	eventually.True(t, "the load begins", func() bool { return s.loads.Load() > before })
	s.mu.Lock()
	s.held = nil
	s.mu.Unlock()
	return func() { close(held) }, done
}

func TestCollection_LoadDoesNotOverwriteChange(t *testing.T) {
	for _, engine := range redistest.SharedEngines(t)[:3] {
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			db := engine.Open(t)
			s := newTables()
			a, b := relate(t, db, s, patient), relate(t, db, s, patient)
			release, done := loading(t, s, a, 1)
			must(t, b.friends.Mutate(t.Context(), id(1), s.do(func() { s.befriend(1, "bob", friend{}) }),
				func(e *collection.HashEdit[string, friend]) { e.Set("bob", friend{}) }))
			for _, n := range []*relations{b, a} {
				if ok, err := n.friends.Has(t.Context(), id(1), "bob"); n == b && !ok || err != nil {
					t.Errorf("after the change: %v, %v", ok, err)
				}
			}
			release()
			if <-done {
				t.Error("the load read a member before it was added")
			}
			for _, n := range []*relations{a, b} {
				if ok, err := n.friends.Has(t.Context(), id(1), "bob"); !ok || err != nil {
					t.Errorf("after the old load: %v, %v", ok, err)
				}
			}
			if a.friends.Stats().Refused != 1 {
				t.Errorf("%d loads refused, want 1", a.friends.Stats().Refused)
			}
		})
	}
}

// The fence hides the collection from all readers while a change is under way, and members that were read then are not
// for later readers.
func TestCollection_ReadDuringChangeAsksSource(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.OpenConfig(t, redis.Config{})
		s := newTables()
		n := relate(t, db, s, patient)
		s.blocked[1] = []int64{1}
		if ok, err := n.blocked.Has(t.Context(), id(1), 1); !ok || err != nil {
			t.Fatal(ok, err)
		}
		held := make(chan struct{})
		done := make(chan bool, 1)
		must(t, n.blocked.Mutate(t.Context(), id(1), func(ctx context.Context) error {
			s.mu.Lock()
			s.held = held
			s.mu.Unlock()
			loads := s.loads.Load()
			go func() { // reads the old members, slowly
				ok, err := n.blocked.Has(t.Context(), id(1), 1)
				if err != nil {
					t.Error(err)
				}
				done <- ok
			}()
			for s.loads.Load() == loads {
				time.Sleep(time.Millisecond)
			}
			s.mu.Lock()
			s.held = nil
			s.mu.Unlock()
			return s.do(func() { s.blocked[1] = nil })(ctx)
		}, func(e *collection.SetEdit[int64]) { e.Remove(1) }))
		if ok, err := n.blocked.Has(t.Context(), id(1), 1); ok || err != nil {
			t.Errorf("after the change: %v, %v", ok, err)
		}
		close(held)
		if !<-done {
			t.Error("the read before the change found nothing")
		}
		if n := n.blocked.Stats().Fenced; n != 1 {
			t.Errorf("%d loads met a fence, want 1", n)
		}
	})
}

func TestCollection_OverlappingChangesDropIt(t *testing.T) {
	for _, engine := range redistest.SharedEngines(t)[:3] {
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			s := newTables()
			db := engine.Open(t)
			a, b := relate(t, db, s, patient), relate(t, db, s, patient)
			if n, err := a.friends.Len(t.Context(), id(1)); n != 0 || err != nil {
				t.Fatal(n, err)
			}
			// The inner change commits last and is finished first.
			must(t, a.friends.Mutate(t.Context(), id(1), func(ctx context.Context) error {
				must(t, s.do(func() { s.befriend(1, "bob", friend{"old", 1}) })(ctx))
				return b.friends.Mutate(ctx, id(1), s.do(func() { s.befriend(1, "bob", friend{"new", 2}) }),
					func(e *collection.HashEdit[string, friend]) { e.Set("bob", friend{"new", 2}) })
			}, func(e *collection.HashEdit[string, friend]) { e.Set("bob", friend{"old", 1}) }))
			if f, ok, err := b.friends.Get(t.Context(), id(1), "bob"); f.Remark != "new" || !ok || err != nil {
				t.Errorf("Get = %+v, %v, %v", f, ok, err)
			}
			if a.friends.Stats().Applied+b.friends.Stats().Applied != 0 {
				t.Error("one of them was applied")
			}
		})
	}
}

func TestEvent_DropsCollections(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := newTables()
		s.befriend(1, "bob", friend{})
		n := relate(t, redistest.OpenConfig(t, redis.Config{}), s, patient)
		deleted := cache.NewEvent[keyspace.Int]("account deleted")
		cache.Drops(n.rt, deleted, cache.Dropper[keyspace.Int](n.friends), n.blocked, n.pending)
		must(t, n.rt.Check())
		if ok, err := n.friends.Has(t.Context(), id(1), "bob"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		must(t, n.rt.Change(t.Context(), s.do(func() { delete(s.friends, 1) }), deleted.Of(n.rt, id(1))...))
		if ok, err := n.friends.Has(t.Context(), id(1), "bob"); ok || err != nil {
			t.Errorf("after the event: %v, %v", ok, err)
		}
		if got := n.rt.Stats()["test:friends:{{id}}"].Loads; got != 2 {
			t.Errorf("%d loads, want 2", got)
		}
	})
}

// A hundred thousand members are stored by hundreds of scripts and appear at once.
func TestCollection_BigOneAppearsWhole(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := newTables()
	const many = 100_000
	scores := map[string]float64{}
	for i := range many {
		scores[fmt.Sprint("m", i)] = float64(i)
	}
	s.pending[1] = scores
	policy := patient
	policy.LoadTimeout = time.Minute
	a, b := relate(t, redistest.Open(t, server.URL), s, policy), relate(t, redistest.Open(t, server.URL), s, policy)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, err := b.pending.Len(t.Context(), id(1))
			if n != many || err != nil {
				t.Errorf("Len = %d, %v", n, err)
				return
			}
			if got, ok, err := b.pending.Score(t.Context(), id(1), "m99999"); got != many-1 || !ok || err != nil {
				t.Errorf("Score = %v, %v, %v", got, ok, err)
				return
			}
		}
	})
	began := time.Now()
	if n, err := a.pending.Len(t.Context(), id(1)); n != many || err != nil {
		t.Fatalf("Len = %d, %v", n, err)
	}
	t.Log("loaded, or seen loaded, in ", time.Since(began))
	page, _, err := a.pending.Page(t.Context(), id(1), "", 3)
	if len(page) != 3 || page[2].Score != many-3 || err != nil {
		t.Fatalf("Page = %v, %v", page, err)
	}
	if refused := a.pending.Stats().Refused + b.pending.Stats().Refused; refused == a.pending.Stats().Loads+b.pending.Stats().Loads {
		t.Error("no load was stored")
	}
}

func TestCollection_WithoutRedisAsksSource(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := newTables()
		s.befriend(1, "bob", friend{})
		s.blocked[1] = []int64{5}
		wires := []*redistest.Wire{server.Wire(), server.Wire()}
		strict := relate(t, redistest.OpenConfig(t, wires[0].Config()), s, collection.Policy{})
		loose := relate(t, redistest.OpenConfig(t, wires[1].Config()), s, collection.Policy{Unfenced: cache.Proceed})
		ctx := t.Context()
		for _, n := range []*relations{strict, loose} {
			if ok, err := n.friends.Has(ctx, id(1), "bob"); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		for _, w := range wires {
			w.BlackHole()
		}
		loads := s.loads.Load()
		for range 5 {
			if ok, err := strict.friends.Has(ctx, id(1), "bob"); !ok || err != nil {
				t.Errorf("without Redis: %v, %v", ok, err)
			}
		}
		if got := s.loads.Load() - loads; got != 0 || s.picks.Load() != 5 {
			t.Errorf("%d loads and %d questions, want 5 questions", got, s.picks.Load())
		}
		if ok, err := strict.blocked.Has(ctx, id(1), 5); !ok || err != nil {
			t.Errorf("without a Pick: %v, %v", ok, err)
		}
		bob, eve, five := strict.friends.Ask(id(1), "bob"), strict.friends.Ask(id(1), "eve"), strict.blocked.Ask(id(1), 5)
		if err := collection.Ask(ctx, bob, eve, five); err != nil || !bob.Yes() || eve.Yes() || !five.Yes() {
			t.Errorf("asked at once: %v", err)
		}
		if ms, next, err := strict.blocked.Members(ctx, id(1), "", 0); !slices.Equal(ms, []int64{5}) || next != "" || err != nil {
			t.Errorf("Members = %v, %q, %v", ms, next, err)
		}
		err := strict.friends.Mutate(ctx, id(1), func(context.Context) error {
			t.Error("changed")
			return nil
		}, func(*collection.HashEdit[string, friend]) {})
		if !errors.Is(err, cache.ErrUnfenced) {
			t.Errorf("a change without Redis: %v", err)
		}
		must(t, loose.friends.Mutate(ctx, id(1), s.do(func() {
			delete(s.friends[1], "bob")
		}), func(e *collection.HashEdit[string, friend]) { e.Delete("bob") }))
		if ok, err := loose.friends.Has(ctx, id(1), "bob"); ok || err != nil {
			t.Errorf("after the change: %v, %v", ok, err)
		}
		if q := loose.friends.Ask(id(1), "bob"); collection.Ask(ctx, q) != nil || q.Yes() {
			t.Error("after the change Ask still returns the removed friend")
		}
		for _, w := range wires {
			w.Heal()
		}
		// The node that made the change does not read its own old value, although Redis has it.
		if q := loose.friends.Ask(id(1), "bob"); collection.Ask(ctx, q) != nil || q.Yes() {
			t.Error("before the drop is done Ask returns the removed friend")
		}
		// The drop waits in the queue; then the collection is loaded again.
		eventually.True(t, "the drop is done", func() bool {
			ok, err := strict.friends.Has(ctx, id(1), "bob")
			must(t, err)
			return !ok && strict.friends.Stats().RedisHits > 5
		})
	})
}

func TestCollection_RestartInvalidatesContent(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := newTables()
		s.befriend(1, "bob", friend{})
		db := server.Open(t)
		n := relate(t, db, s, collection.Policy{})
		if ok, err := n.friends.Has(t.Context(), id(1), "bob"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		server.Kill()
		// Without notifying the cache, like a server that lost its newest writes.
		must(t, s.do(func() { delete(s.friends[1], "bob") })(t.Context()))
		era := n.bus.Era()
		server.Restart()
		eventually.True(t, "the restart is detected", func() bool { return n.bus.Era() != era })
		if exists, err := db.Do(t.Context(), keyspace.Cmd{Name: "EXISTS", Key: friends.At(id(1)).Key}).Int(); err != nil || exists != 1 {
			t.Fatalf("the collection did not outlive the restart: %v, %v", exists, err)
		}
		if ok, err := n.friends.Has(t.Context(), id(1), "bob"); ok || err != nil {
			t.Errorf("after the restart: %v, %v", ok, err)
		}
	})
}

func TestCollection_ReadsRenewItBeforeExpiry(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := newTables()
	s.befriend(1, "bob", friend{})
	n := relate(t, redistest.Open(t, server.URL), s, collection.Policy{MaxStale: time.Minute, Renew: 1})
	ctx := t.Context()
	ask := func() {
		t.Helper()
		if ok, err := n.friends.Has(ctx, id(1), "bob"); !ok || err != nil {
			t.Fatal(ok, err)
		}
		n.rt.Wait()
	}
	ask()
	ask()
	if s.loads.Load() != 1 {
		t.Fatalf("%d loads of a new collection", s.loads.Load())
	}
	key := "stoa:test:friends:{1}"
	age := func() {
		_, err := server.Do("PEXPIRE", key, "3600000") // of a day
		must(t, err)
	}
	age()
	// A failing source leaves the collection unchanged, with the same life.
	s.err = errors.New("boom")
	ask()
	s.err = nil
	if ttl, err := server.Do("PTTL", key); err != nil || len(ttl[0]) != 7 {
		t.Errorf("after a failure it lives %v ms, %v", ttl, err)
	}
	ask()
	if s.loads.Load() != 3 || n.friends.Stats().Refreshed != 2 {
		t.Errorf("%d loads, %d for renewal", s.loads.Load(), n.friends.Stats().Refreshed)
	}
	if ttl, err := server.Do("PTTL", key); err != nil || len(ttl[0]) != 8 {
		t.Errorf("it lives %v ms, %v", ttl, err)
	}
	// Empty collections are meant to expire.
	if n, err := n.friends.Len(ctx, id(2)); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	loads := s.loads.Load()
	if ok, err := n.friends.Has(ctx, id(2), "bob"); ok || err != nil {
		t.Fatal(ok, err)
	}
	n.rt.Wait()
	if s.loads.Load() != loads {
		t.Error("an empty collection was loaded again")
	}
}

// Another version of the program may have written values that cannot be read.
func TestCollection_UnreadableContentIsLoadedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s := newTables()
	s.befriend(1, "bob", friend{"b", 1})
	n := relate(t, redistest.Open(t, server.URL), s, collection.Policy{MaxStale: time.Minute})
	reads := []func() error{
		func() error { _, _, err := n.friends.Get(t.Context(), id(1), "bob"); return err },
		func() error { _, err := n.friends.All(t.Context(), id(1)); return err },
		func() error { _, _, err := n.friends.Page(t.Context(), id(1), "", 0); return err },
	}
	must(t, reads[0]())
	for i, read := range reads {
		_, err := server.Do("HSET", "stoa:test:friends:{1}", "bob", "<xml/>")
		must(t, err)
		must(t, read())
		if s.loads.Load() != int64(i+2) {
			t.Errorf("%d loads, want %d", s.loads.Load(), i+2)
		}
	}
}

func TestCollection_HangingSourceDoesNotBlock(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.OpenConfig(t, redis.Config{})
		b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: "silent"})
		hangs := make(chan struct{})
		defer close(hangs)
		h := collection.NewSet(cache.NewRuntime(db, b, cache.Config{}), blocked, collection.Policy{LoadTimeout: 20 * time.Millisecond},
			collection.SetSource[keyspace.Int, int64]{Load: func(context.Context, keyspace.Int) ([]int64, error) { <-hangs; return nil, nil }})
		if _, err := h.Has(t.Context(), id(1), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Has = %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := h.Len(ctx, id(2)); err == nil {
			t.Error("a caller that left got an answer")
		}
	})
}

// A commit that was interrupted may still happen: its fence stays until it expires.
func TestCollection_UnknownOutcomeKeepsFence(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		s := newTables()
		n := relate(t, redistest.OpenConfig(t, redis.Config{}), s,
			collection.Policy{MaxStale: 10 * time.Second, ChangeTimeout: 10 * time.Millisecond})
		if n, err := n.friends.Len(t.Context(), id(1)); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		err := n.friends.Mutate(t.Context(), id(1), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			func(e *collection.HashEdit[string, friend]) { t.Error("applied") })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Mutate = %v", err)
		}
		must(t, s.do(func() { s.befriend(1, "bob", friend{}) })(t.Context())) // the commit happens after all
		if ok, err := n.friends.Has(t.Context(), id(1), "bob"); !ok || err != nil {
			t.Errorf("Has = %v, %v", ok, err)
		}
		if n := n.friends.Stats().Fenced; n != 1 {
			t.Errorf("%d reads met a fence, want 1", n)
		}
	})
}

func TestCollection_CutOffFollowsPolicy(t *testing.T) {
	t.Parallel()
	s := newTables()
	s.befriend(1, "bob", friend{})
	db := redistest.OpenConfig(t, redis.Config{})
	for policy, want := range map[cache.CutOff]error{cache.Bypass: nil, cache.Fail: cache.ErrCutOff, cache.ServeStale: nil} {
		never := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: "silent", Beat: time.Nanosecond}) // runs
		h := collection.NewHash(cache.NewRuntime(db, never, cache.Config{}), friends,
			collection.Policy{CutOff: policy, MaxStale: 2 * time.Nanosecond}, collection.HashSource[keyspace.Int, string, friend]{
				Load: func(context.Context, keyspace.Int) (map[string]friend, error) { return s.friends[1], nil }})
		if ok, err := h.Has(t.Context(), id(1), "bob"); !errors.Is(err, want) || ok != (want == nil) {
			t.Errorf("%v: %v, %v", policy, ok, err)
		}
	}
}

func TestCollection_InvalidDeclarationsPanic(t *testing.T) {
	db := redistest.OpenConfig(t, redis.Config{})
	rt := cache.NewRuntime(db, bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: "n"}), cache.Config{})
	wrong := keyspace.New("wrong")
	doc := keyspace.Doc{Purpose: "wrong"}
	load := collection.SetSource[keyspace.Int, int]{Load: func(context.Context, keyspace.Int) ([]int, error) { return nil, nil }}
	for name, make := range map[string]func(){
		"no life": func() {
			collection.NewSet(rt, keyspace.Def1[keyspace.Int](wrong, "a:{x}", keyspace.CachedSetOf[int](), keyspace.Forever("why"), doc),
				collection.Policy{}, load)
		},
		"a life after its life": func() {
			collection.NewSet(rt, keyspace.Def1[keyspace.Int](wrong, "b:{x}", keyspace.CachedSetOf[int](),
				keyspace.Expire(time.Hour).StaleIfError(time.Hour), doc), collection.Policy{}, load)
		},
		"no source": func() {
			collection.NewSet(rt, keyspace.Def1[keyspace.Int](wrong, "c:{x}", keyspace.CachedSetOf[int](), keyspace.Expire(time.Hour), doc),
				collection.Policy{}, collection.SetSource[keyspace.Int, int]{})
		},
		"no text": func() {
			collection.NewSet(rt, keyspace.Def1[keyspace.Int](wrong, "d:{x}", keyspace.CachedSetOf[struct{ a int }](), keyspace.Expire(time.Hour),
				doc), collection.Policy{},
				collection.SetSource[keyspace.Int, struct{ a int }]{Load: func(context.Context, keyspace.Int) ([]struct{ a int }, error) {
					return nil, nil
				}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("got no panic")
				}
			}()
			make()
		})
	}
}

// Two nodes, with readers and changes of the same few collections, and a Redis that is emptied at times: no read that
// began after an acknowledged change sees older members.
func TestCollection_RandomTrafficReadsNoOldValue(t *testing.T) {
	for _, engine := range redistest.SharedEngines(t) {
		if engine.Name == "spawn" || engine.Name == "sentinel" {
			continue // the same server as standalone
		}
		t.Run(engine.Name, func(t *testing.T) {
			if engine.Name == "embedded" {
				redistest.Bubble(t, func(t *testing.T) { randomTraffic(t, engine.Open(t), 4*time.Second) })
				return
			}
			t.Parallel()
			randomTraffic(t, engine.Open(t), 1500*time.Millisecond)
		})
	}
}

func randomTraffic(t *testing.T, db *redis.DB, long time.Duration) {
	s := newTables()
	const maxStale = 2 * time.Second // the machine may be busy
	ns := []*relations{relate(t, db, s, collection.Policy{MaxStale: maxStale}), relate(t, db, s, collection.Policy{MaxStale: maxStale})}
	type fact struct {
		version atomic.Int64 // acknowledged
		turn    chan bool    // the source orders its changes
	}
	const collections = 4
	names := []string{"a", "b", "c"}
	facts := [collections]map[string]*fact{}
	for k := range facts {
		facts[k] = map[string]*fact{}
		for _, m := range names {
			facts[k][m] = &fact{turn: make(chan bool, 1)}
		}
	}
	var version, reads, stale atomic.Int64
	until := time.Now().Add(long)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() { // changes
			r := rand.New(rand.NewPCG(3, uint64(w)))
			for time.Now().Before(until) {
				k, m := r.IntN(collections), names[r.IntN(3)]
				f := facts[k][m]
				var v int64
				gone := r.IntN(3) == 0
				n := ns[w%2]
				f.turn <- true
				err := n.friends.Mutate(t.Context(), id(int64(k)), s.do(func() {
					v = version.Add(1)
					s.befriend(int64(k), m, friend{Since: v})
					if gone { // and is added again with a later version
						s.befriend(int64(k), m, friend{Since: v, Remark: "gone"})
					}
				}), func(e *collection.HashEdit[string, friend]) {
					if e.Set(m, friend{Since: v}); gone {
						e.Set(m, friend{Since: v, Remark: "gone"})
					}
				})
				if err == nil {
					f.version.Store(v)
				} else if !errors.Is(err, cache.ErrUnfenced) {
					t.Error(err)
				}
				<-f.turn
				<-time.After(time.Duration(r.IntN(20)) * time.Millisecond) // leaves time for changes that are applied and for loads
			}
		})
	}
	for w := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(4, uint64(w)))
			for time.Now().Before(until) {
				k, m := r.IntN(collections), names[r.IntN(3)]
				least := facts[k][m].version.Load()
				got, _, err := ns[w%2].friends.Get(t.Context(), id(int64(k)), m)
				if err != nil {
					t.Error(err)
					return
				}
				reads.Add(1)
				<-time.After(time.Duration(r.IntN(4)) * time.Millisecond)
				if got.Since < least {
					stale.Add(1)
					t.Errorf("%s of %d is %d, and %d was acknowledged before", m, k, got.Since, least)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for time.Now().Before(until) {
			<-time.After(100 * time.Millisecond)
			for k := range int64(collections) {
				if err := db.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: friends.At(id(k)).Key}).Err; err != nil {
					t.Error(err)
				}
			}
		}
	})
	wg.Wait()
	a, b := ns[0].friends.Stats(), ns[1].friends.Stats()
	t.Logf("%d reads, %d stale; %d changes, %d of them applied; %d from Redis, %d loads refused", reads.Load(), stale.Load(), version.Load(),
		a.Applied+b.Applied, a.RedisHits+b.RedisHits, a.Refused+b.Refused)
	if a.Applied+b.Applied == 0 || a.RedisHits+b.RedisHits == 0 {
		t.Error("no change was applied, or no read came from Redis")
	}

}
