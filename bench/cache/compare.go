package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/bench/turns"
)

const (
	crowd    = 64 // concurrent callers
	batchOf  = 32 // keys read at once
	herdOf   = 1_000
	slow     = 20 * time.Millisecond  // time of a load in a herd
	weighed  = 20_000                 // number of entries
	patience = 250 * time.Millisecond // for another node to receive a drop
)

// A row is a line of the table: a cell for each library, the aim, and whether package cache reaches it.
type row struct {
	name, aim string
	cells     []string
}

// figure9 prints the table of all libraries.
func figure9(ctx context.Context) {
	fmt.Println("9. Package cache beside other libraries, each as its documentation uses it")
	var rows []row
	for _, figure := range []func(context.Context, string) []row{nearHits, farHits, herds, drops, memory} {
		rows = append(rows, alone(ctx, figure)...)
	}
	fmt.Println()
	line := func(cells ...string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }
	header := []string{"", "package cache is"}
	for _, l := range libraries {
		header = append(header, l.name)
	}
	line(header...)
	line(slices.Repeat([]string{"---"}, len(header))...)
	for _, r := range rows {
		line(append([]string{r.name, r.aim}, r.cells...)...)
	}
	fmt.Println(`
Values are structs with 150 bytes of text, in Redis as JSON (go-redis/cache: as MessagePack). Names of keys are made
beforehand, except where memory counts. "–": the library does not offer it. rueidis has no loader: its callers load and
SET. What it has in Redis is read by GET or MGET and decoded, without client-side caching. sturdyc reads Redis only
once its copy in process is deleted, which is counted in. Where a library cannot read many keys, a batch is read one by one.
In otter, go-redis/cache and sturdyc no node hears of another's drop: they serve the old value until its life ends.
Not compared, because the module proxy of the machine does not have them: jetcache-go, and rueidisaside, whose reads
are those of rueidis with client-side caching.`)
	fmt.Println()
}

// alone runs a figure with its own Redis.
func alone(ctx context.Context, figure func(context.Context, string) []row) []row {
	dir, err := os.MkdirTemp("", "bench-cache")
	must(err)
	defer os.RemoveAll(dir)
	url, end, err := servers.Redis(ctx, dir)
	must(err)
	defer end()
	return figure(ctx, strings.TrimPrefix(url, "redis://"))
}

// openAll opens a side of each suitable library; the others are nil. Each has the keys below its own prefix. The given
// number of their names is created beforehand.
func openAll(ctx context.Context, can func(library) bool, o opening, names int) []*side {
	sides := make([]*side, len(libraries))
	for i, l := range libraries {
		if can(l) {
			sides[i] = openOne(ctx, l, i, o, names)
		}
	}
	return sides
}

func openOne(ctx context.Context, l library, i int, o opening, names int) *side {
	o.prefix = fmt.Sprintf("library-%d:", i)
	made := make([]string, names)
	for id := range made {
		made[id] = o.name(int64(id))
	}
	o.names = made
	return l.open(ctx, &o)
}

func closeAll(sides []*side) {
	for _, s := range sides {
		if s != nil {
			s.close()
		}
	}
}

// fill reads every key once.
func fill(s *side, n int) {
	turns.Crowd(crowd, func(id int) {
		_, err := s.get(int64(id))
		must(err)
	})(n)
}

// measure lets the sides take turns with do. It returns a cell and the time of each side, and the results of more.
func measure(sides []*side, do func(*side) func(n int), more ...turns.Side) (cells []string, nanos []float64, others []turns.Result) {
	var all []turns.Side
	for i, s := range sides {
		if s != nil {
			all = append(all, turns.Side{Name: libraries[i].name, Do: do(s)})
		}
	}
	results := turns.Compare(*rounds, *round/2, append(all, more...)...)
	next := 0
	for _, s := range sides {
		if s == nil {
			cells, nanos = append(cells, "–"), append(nanos, 0)
			continue
		}
		r := results[next]
		next++
		cells, nanos = append(cells, fmt.Sprintf("%s, %.0f allocs", took(time.Duration(r.Nanos)), r.Allocs)), append(nanos, r.Nanos)
	}
	return cells, nanos, results[next:]
}

// getBy reads the keys in another order than they were stored in, with so many callers.
func getBy(callers int) func(*side) func(n int) {
	return func(s *side) func(n int) {
		return turns.Crowd(callers, func(i int) {
			if _, err := s.get(int64(i * 7919 % known)); err != nil {
				log.Fatal(err)
			}
		})
	}
}

// getBatch reads batches with one caller.
func getBatch(s *side) func(n int) {
	ids := make([]int64, batchOf)
	return func(n int) {
		for i := range n {
			for j := range ids {
				ids[j] = int64((i*batchOf + j) * 7919 % known)
			}
			if found, err := s.batch(ids); err != nil || found != batchOf {
				log.Fatal(found, err)
			}
		}
	}
}

// aimed compares package cache with another library.
func aimed(mine, other float64, whose string, most float64) string {
	verdict := ""
	if most > 0 {
		verdict = fmt.Sprintf(" (aim ≤ %g)", most)
	}
	return fmt.Sprintf("**%.2f ×** %s%s", mine/other, whose, verdict)
}

func nearHits(ctx context.Context, addr string) (rows []row) {
	o := opening{addr: addr, near: true, steady: true, load: of}
	sides := openAll(ctx, func(library) bool { return true }, o, known)
	defer closeAll(sides)
	counting := openOne(ctx, library{open: openOtter(true)}, len(libraries), o, known)
	defer counting.close()
	for _, s := range append(slices.Clone(sides), counting) {
		fill(s, known)
	}
	for _, w := range []struct {
		name string
		do   func(*side) func(int)
		most float64
	}{
		{"a hit in process, one caller", getBy(1), 1.3},
		{fmt.Sprintf("a hit in process, %d callers, each", crowd), getBy(crowd), 1.3},
		{fmt.Sprintf("a batch of %d in process", batchOf), getBatch, 0},
	} {
		fmt.Printf(" %s:\n", w.name)
		cells, nanos, others := measure(sides, w.do, turns.Side{Name: "otter with statistics and an end of life", Do: w.do(counting)})
		aim := aimed(nanos[ours], nanos[otterAt], "otter", w.most) + fmt.Sprintf(", %.2f × otter with statistics and an end of life",
			nanos[ours]/others[0].Nanos)
		if w.most == 0 {
			aim = aimed(nanos[ours], nanos[rueidisAt], "MGetCache", 0)
		}
		rows = append(rows, row{w.name, aim, cells})
	}
	return rows
}

func farHits(ctx context.Context, addr string) (rows []row) {
	sides := openAll(ctx, func(l library) bool { return l.far }, opening{addr: addr, steady: true, load: of}, known)
	defer closeAll(sides)
	for _, s := range sides {
		if s != nil {
			fill(s, known)
		}
	}
	for _, w := range []struct {
		name string
		do   func(*side) func(int)
		with string
	}{
		{"a hit in Redis, one caller", getBy(1), "GET with decoding"},
		{fmt.Sprintf("a hit in Redis, %d callers, each", crowd), getBy(crowd), "GET with decoding"},
		{fmt.Sprintf("a batch of %d in Redis", batchOf), getBatch, "MGET with decoding"},
	} {
		fmt.Printf(" %s:\n", w.name)
		cells, nanos, _ := measure(sides, w.do)
		rows = append(rows, row{w.name, aimed(nanos[ours], nanos[rueidisAt], w.with, 1.2), cells})
	}
	return rows
}

// herds lets callers request cold keys at once, on one node or spread over two.
func herds(ctx context.Context, addr string) (rows []row) {
	for _, nodes := range []int{1, 2} {
		name := fmt.Sprintf("%d callers of one cold key on %d nodes; the source takes %s", herdOf, nodes, slow)
		name = strings.Replace(name, "1 nodes", "one node", 1)
		fmt.Printf(" %s:\n", name)
		loads := make([]atomic.Int64, len(libraries))
		asked, times := make([][]int64, len(libraries)), make([][]time.Duration, len(libraries))
		var sides [][]*side // of each node
		for range nodes {
			on := make([]*side, len(libraries))
			for i, l := range libraries {
				on[i] = openOne(ctx, l, i, opening{addr: addr, near: true, steady: true, load: func(id int64) profile {
					loads[i].Add(1)
					time.Sleep(slow)
					return of(id)
				}}, 0)
			}
			defer closeAll(on)
			sides = append(sides, on)
		}
		for round := range *rounds {
			for i := range libraries {
				loads[i].Store(0)
				id := int64(nodes*1_000_000 + round)
				began := time.Now()
				var all sync.WaitGroup
				for caller := range herdOf {
					all.Go(func() {
						_, err := sides[caller%nodes][i].get(id)
						must(err)
					})
				}
				all.Wait()
				times[i], asked[i] = append(times[i], time.Since(began)), append(asked[i], loads[i].Load())
			}
		}
		r := row{name: name}
		for i := range libraries {
			slices.Sort(asked[i])
			cell := fmt.Sprintf("%s, all after %s", plural(asked[i][len(asked[i])/2], "load"), took(p(times[i], 50)))
			fmt.Printf("  %-44s %s\n", libraries[i].name, cell)
			r.cells = append(r.cells, cell)
		}
		r.aim = "**" + plural(asked[ours][len(asked[ours])/2], "load") + "** (aim 1)"
		rows = append(rows, r)
	}
	return rows
}

func plural(n int64, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// drops changes the source and drops the key on one node. It counts the reads on another node that began after the
// acknowledgement of the drop and returned the old value.
func drops(ctx context.Context, addr string) []row {
	const most, long = 300, 2 * time.Second
	name := "a drop on another node: old answers to reads that begin after it"
	fmt.Printf(" %s:\n", name)
	r := row{name: name}
	for i, l := range libraries {
		var source atomic.Int64
		o := opening{addr: addr, near: true, load: func(id int64) profile {
			v := of(id)
			v.Year = int(source.Load())
			return v
		}}
		here, there := openOne(ctx, l, i, o, 0), openOne(ctx, l, i, o, 0)
		var late []time.Duration
		var changes, unheard int
		var stale int64
		for began := time.Now(); changes < most && time.Since(began) < long; changes++ {
			id, before := int64(3_000_000+changes), int(source.Load())
			for range 3 { // so that the other node caches it
				v, err := there.get(id)
				must(err)
				if v.Year != before {
					log.Fatalf("%s: a key that nobody has read is %d, not %d", l.name, v.Year, before)
				}
			}
			source.Add(1)
			must(here.drop(id))
			acknowledged := time.Now()
			last := time.Duration(0)
			for {
				at := time.Since(acknowledged)
				v, err := there.get(id)
				must(err)
				if v.Year != before {
					late = append(late, last)
					break
				}
				stale, last = stale+1, at
				if at > patience {
					unheard++
					break
				}
				time.Sleep(20 * time.Microsecond)
			}
		}
		here.close()
		there.close()
		cell := ""
		if unheard == changes {
			cell = fmt.Sprintf("all, in %s after each of %d drops", patience, changes)
		} else {
			slices.Sort(late)
			cell = fmt.Sprintf("%d after %d drops, the last after %s (p99 %s)", stale, changes, took(late[len(late)-1]),
				took(late[len(late)*99/100]))
			if unheard > 0 {
				cell += fmt.Sprintf("; %d not within %s", unheard, patience)
			}
		}
		fmt.Printf("  %-44s %s\n", l.name, cell)
		r.cells = append(r.cells, cell)
		if i == ours {
			r.aim = "**p99 " + took(late[len(late)*99/100]) + "** (aim < 5 ms)"
		}
	}
	return []row{r}
}

// memory measures the growth of the live heap for each entry, including its key and value.
func memory(ctx context.Context, addr string) []row {
	name := fmt.Sprintf("memory of an entry in process, of %d, with key and value", weighed)
	fmt.Printf(" %s:\n", name)
	r := row{name: name}
	each := make([][]float64, len(libraries))
	for range 3 { // garbage of another side may be collected late: the median counts
		for i, l := range libraries {
			s := openOne(ctx, l, i, opening{addr: addr, near: true, steady: true, load: of}, 0)
			fill(s, crowd) // creates connections and tables
			before := heap()
			for range 2 { // rueidis caches values that it reads, not those that it writes
				fill(s, weighed)
			}
			each[i] = append(each[i], (heap()-before)/(weighed-crowd))
			s.close()
		}
	}
	median := func(i int) float64 {
		slices.Sort(each[i])
		return each[i][1]
	}
	for i, l := range libraries {
		cell := fmt.Sprintf("%.0f bytes", median(i))
		fmt.Printf("  %-44s %s\n", l.name, cell)
		r.cells = append(r.cells, cell)
	}
	r.aim = aimed(median(ours), median(otterAt), "otter", 1.25)
	return []row{r}
}

// heap returns the number of bytes in use after a collection.
func heap() float64 {
	for range 3 { // for finalizers and the memory that they release
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// took formats a duration with three digits.
func took(d time.Duration) string {
	for _, u := range []struct {
		below, in time.Duration
		name      string
	}{{time.Microsecond, time.Nanosecond, "ns"}, {time.Millisecond, time.Microsecond, "µs"}, {time.Second, time.Millisecond, "ms"}} {
		if d < u.below {
			return fmt.Sprintf("%.3g %s", float64(d)/float64(u.in), u.name)
		}
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}
