package leaderboard_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/leaderboard"
)

// past is the history of one member, in order, and which of its entries were applied.
type past struct {
	es      []leaderboard.Entry
	applied []bool
	run     int  // index of the newest run's first entry
	begun   bool // the stored entry belongs to that run
}

// last reports whether es[i] is the newest of its second.
func (p *past) last(i int) bool {
	return i+1 == len(p.es) || !p.es[i+1].At.Equal(p.es[i].At)
}

// live makes the next entry of a member: a greater value, a later death, or a new run.
func (p *past) live(t *rapid.T, member string, now time.Time) {
	e := leaderboard.Entry{Member: member, At: now}
	var prev leaderboard.Entry
	kind := "restart"
	if len(p.es) > 0 {
		prev = p.es[len(p.es)-1]
		kind = rapid.SampledFrom([]string{"greater", "greater", "longer", "restart"}).Draw(t, "kind")
	}
	switch kind {
	case "greater":
		e.Value = prev.Value + rapid.Int64Range(1, 3).Draw(t, "more")
	case "longer":
		e.Value, e.At = prev.Value, prev.At
	case "restart":
		e.Value, e.Restart = rapid.Int64Range(0, 5).Draw(t, "value"), true
		p.run, p.begun = len(p.es), false
	}
	immortal := rapid.IntRange(0, 9).Draw(t, "immortal") == 0 || len(p.es) > 0 && prev.Dies.IsZero()
	if !immortal {
		e.Dies = now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "life")) * time.Second)
		if e.Dies.Before(prev.Dies) {
			e.Dies = prev.Dies
		}
	}
	p.es, p.applied = append(p.es, e), append(p.applied, false)
}

// testHistories draws histories that meet the conditions of the package documentation. It applies them out of order, in
// batches and more than once, with sweeps and loads of old snapshots in between, and compares the result with the
// newest entries alive.
func testHistories(t *testing.T, s suite) {
	rapid.Check(t, func(rt *rapid.T) {
		b := s.ready(t)
		now := noon
		members := []string{"ada", "bob", "eve"}
		pasts := map[string]*past{"ada": {}, "bob": {}, "eve": {}}
		var log []string

		// batch applies entries, each as an update or as a replay.
		batch := func(refs [][2]int) {
			var es []leaderboard.Entry
			replayed, updated := map[string]bool{}, map[string]bool{}
			for _, r := range refs {
				m, i := members[r[0]], r[1]
				p := pasts[m]
				mayUpdate := i > p.run && p.begun && !replayed[m]
				mayReplay := p.last(i) && !updated[m]
				e := p.es[i]
				switch {
				case mayReplay && (!mayUpdate || rapid.Bool().Draw(rt, "replay")):
					e.Restart = true
					replayed[m] = true
					// If a sweep has removed the present run's entry, the stored entry is now of an earlier run, and
					// the third condition is not met.
					p.begun = i >= p.run
				case mayUpdate:
					e.Restart = false
					updated[m] = true
				default:
					continue
				}
				p.applied[i] = true
				es = append(es, e)
			}
			log = append(log, fmt.Sprintf("apply %+v", es))
			apply(t, s.db, b, es...)
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 10).Draw(rt, "pause")) * time.Second)
			switch rapid.SampledFrom([]string{"live", "live", "live", "batch", "batch", "sweep", "load"}).Draw(rt, "step") {
			case "live":
				m := rapid.IntRange(0, len(members)-1).Draw(rt, "member")
				pasts[members[m]].live(rt, members[m], now)
				if rapid.Bool().Draw(rt, "at once") {
					batch([][2]int{{m, len(pasts[members[m]].es) - 1}})
				}
			case "batch":
				var refs [][2]int
				for range rapid.IntRange(1, 5).Draw(rt, "size") {
					m := rapid.IntRange(0, len(members)-1).Draw(rt, "member")
					if n := len(pasts[members[m]].es); n > 0 {
						refs = append(refs, [2]int{m, rapid.IntRange(0, n-1).Draw(rt, "entry")})
					}
				}
				batch(refs)
			case "sweep":
				log = append(log, "sweep "+now.String())
				_, err := b.Sweep(t.Context(), now)
				must(t, err)
			case "load": // as old as possible
				var es []leaderboard.Entry
				for _, m := range members {
					p := pasts[m]
					if len(p.es) == 0 {
						continue
					}
					i := rapid.IntRange(0, len(p.es)-1).Draw(rt, "snapshot")
					es = append(es, p.es[i])
					p.begun = i >= p.run // as after a replay
				}
				log = append(log, fmt.Sprintf("load %+v", es))
				must(t, b.Load(t.Context(), now, all(es...)))
			}
		}
		// Entries that were never applied are applied at the end.
		var refs [][2]int
		for m, name := range members {
			for i, done := range pasts[name].applied {
				if !done {
					refs = append(refs, [2]int{m, i})
				}
			}
		}
		if len(refs) > 0 {
			for _, r := range rapid.Permutation(refs).Draw(rt, "rest") {
				batch([][2]int{r})
			}
		}
		if got, want := top(t, b, now), model(pasts, now); got != want {
			rt.Errorf("the board is %q, want %q after\n%s", got, want, strings.Join(log, "\n"))
		}
	})
}

// model returns the expected board: the newest entry of each member, if alive.
func model(pasts map[string]*past, now time.Time) string {
	var es []leaderboard.Entry
	for _, p := range pasts {
		if n := len(p.es); n > 0 && (p.es[n-1].Dies.IsZero() || p.es[n-1].Dies.After(now)) {
			es = append(es, p.es[n-1])
		}
	}
	slices.SortFunc(es, func(a, b leaderboard.Entry) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), a.At.Compare(b.At), cmp.Compare(b.Member, a.Member))
	})
	var out []string
	for _, e := range es {
		out = append(out, fmt.Sprint(e.Member, " ", e.Value))
	}
	return strings.Join(out, ", ")
}
