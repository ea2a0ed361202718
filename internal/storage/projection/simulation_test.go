package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// simRow is a row of the shared log.
type simRow struct {
	id        int
	at        time.Time
	node      *simNode
	committed time.Time // zero: SQL does not show it
	acked     time.Time // zero: no client has a response
	direct    bool      // Bring has succeeded
	settled   bool      // can no longer commit, or is committed
}

type simNode struct {
	*Projection[int, int]
	w        *world
	name     string
	wire     *redistest.Wire
	stop     func()
	requests sync.WaitGroup

	ready, leaving, dead, gone, cut bool
	started                         time.Time
	fail                            bool
	slow, slowState                 time.Duration
	early                           bool
	agreed                          int64
}

func (n *simNode) live() bool { return !n.dead && !n.gone && !n.leaving }

type world struct {
	t     *testing.T
	mem   *redistest.Memory
	admin *redis.DB
	sql   *sqldb.DB
	r     *rand.Rand
	began time.Time

	mu      sync.Mutex
	rows    []*simRow
	nodes   []*simNode
	loss    time.Time
	down    bool // redis
	sqlDown bool
	calm    chan struct{}
	replays []time.Time
	told    map[int]bool
	trace   []string
	shot    *snapshot
	failed  bool
}

type snapshot struct {
	marks, state map[string]string
	loss         time.Time
}

func (w *world) logf(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%8.3f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.failed = true
	w.logf("FAIL "+format, args...)
	w.t.Errorf(format, args...)
}

// wait returns after d, or when the world is calm.
func (w *world) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-w.calm:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (w *world) start() *simNode {
	w.mu.Lock()
	n := &simNode{w: w, name: fmt.Sprint("n", len(w.nodes)+1), wire: w.mem.Wire(), started: time.Now()}
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
	cfg := n.wire.Config()
	cfg.Log = slog.New(slog.DiscardHandler)
	db, err := redis.Open(w.t.Context(), cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { db.Close() })
	n.Projection = New(Config[int, int]{
		Redis: db, DB: w.sql, Name: "numbers", Applied: applied.At(), Node: n.name, Log: cfg.Log,
		Changed: func(ctx context.Context, since time.Time, fn func([]int) error) error {
			w.mu.Lock()
			slow, fail, early := n.slow, n.fail, n.early
			w.replays = append(w.replays, time.Now())
			read := func() (ids []int) {
				for _, r := range w.rows {
					if !r.committed.IsZero() && !r.at.Before(since) {
						ids = append(ids, r.id)
					}
				}
				return ids
			}
			ids := read()
			w.logf("%s replays since %.3f (slow %s, fail %v)", n.name, since.Sub(w.began).Seconds(), slow, fail)
			w.mu.Unlock()
			if slow > 0 {
				if err := w.wait(ctx, slow); err != nil {
					return err
				}
			}
			w.mu.Lock()
			if !early {
				ids = read()
			}
			bad := fail || w.sqlDown || n.dead
			w.mu.Unlock()
			if bad {
				return errors.New("sql is away")
			}
			for ids := range slices.Chunk(ids, 7) {
				if err := fn(ids); err != nil {
					return err
				}
			}
			return nil
		},
		State: func(ctx context.Context, ids []int) (out []int, err error) {
			w.mu.Lock()
			slow := n.slowState
			w.mu.Unlock()
			if slow > 0 {
				if err := w.wait(ctx, slow); err != nil {
					return nil, err
				}
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.sqlDown || n.dead {
				return nil, errors.New("sql is away")
			}
			for _, id := range ids {
				if !w.rows[id].committed.IsZero() {
					out = append(out, id)
				}
			}
			return out, nil
		},
		Write: func(ctx context.Context, ids []int) error {
			var cmds []keyspace.Cmd
			for _, id := range ids {
				cmds = append(cmds, state.At().SetCmd(strconv.Itoa(id), "1"))
			}
			return keyspace.FirstErr(db.DoMulti(ctx, cmds))
		},
		Late: func(_ context.Context, ids []int) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, id := range ids {
				w.told[id] = true
			}
			return nil
		},
	})
	n.repeatAfter = slowCommit
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.Run(ctx, sync.OnceFunc(func() { w.mu.Lock(); n.ready = true; w.mu.Unlock() }))
	}()
	n.stop = sync.OnceFunc(func() { cancel(); <-ended })
	w.t.Cleanup(n.stop)
	return n
}

// commit is a request of a client.
func (w *world) commit(n *simNode, latency, late time.Duration, unsure, lateHappens bool) {
	w.mu.Lock()
	row := &simRow{id: len(w.rows), at: time.Now(), node: n}
	w.rows = append(w.rows, row)
	w.logf("%s begins row %d (latency %s, unsure %v, late %v %s)", n.name, row.id, latency, unsure, lateHappens, late)
	n.Begin(row.at)
	w.mu.Unlock()
	commitLate := func() {
		if !lateHappens {
			w.mu.Lock()
			row.settled = true
			w.mu.Unlock()
			return
		}
		<-time.After(late)
		w.mu.Lock()
		row.committed, row.settled = time.Now(), true
		w.logf("row %d commits late", row.id)
		w.mu.Unlock()
	}
	n.requests.Go(func() {
		<-time.After(latency)
		w.mu.Lock()
		switch {
		case n.dead:
			w.mu.Unlock()
			go commitLate() // at most 29 s after this moment, which is at most a second after the death
			return
		case w.sqlDown:
			row.settled = true
			n.Done(row.at)
			w.mu.Unlock()
			return
		case unsure:
			n.Unsure(row.at, row.id)
			w.mu.Unlock()
			go commitLate()
			return
		}
		row.committed, row.settled = time.Now(), true
		w.mu.Unlock()
		ok := n.Bring(w.t.Context(), 300*time.Millisecond, row.id)
		w.mu.Lock()
		defer w.mu.Unlock()
		if n.dead {
			return
		}
		if row.direct = ok; ok {
			n.Done(row.at)
		} else {
			n.Missed(row.at, row.id)
		}
		row.acked = time.Now()
		w.logf("%s acks row %d (in Redis: %v)", n.name, row.id, ok)
	})
}

func (w *world) kill(n *simNode, hole bool) {
	w.mu.Lock()
	n.dead, n.cut = true, true
	w.logf("kill %s", n.name)
	w.mu.Unlock()
	if hole {
		n.wire.BlackHole()
	} else {
		n.wire.Refuse()
	}
	go n.stop()
}

func (w *world) leave(n *simNode) {
	w.mu.Lock()
	n.leaving = true
	w.logf("%s stops", n.name)
	w.mu.Unlock()
	go func() {
		n.requests.Wait()
		n.stop()
		w.mu.Lock()
		n.gone = true
		w.logf("%s has stopped", n.name)
		w.mu.Unlock()
	}()
}

func (w *world) setCut(n *simNode, cut, hole bool) {
	w.mu.Lock()
	n.cut = cut
	w.logf("cut %s: %v (hole %v)", n.name, cut, hole)
	w.mu.Unlock()
	switch {
	case !cut:
		n.wire.Heal()
	case hole:
		n.wire.BlackHole()
	default:
		n.wire.Refuse()
	}
}

func (w *world) setSQL(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sqlDown == down {
		return
	}
	w.sqlDown = down
	w.logf("sql down: %v", down)
	from, to := "hidden", "projection_marks"
	if down {
		from, to = to, from
	}
	if _, err := w.sql.Writer().ExecContext(w.t.Context(), "ALTER TABLE "+from+" RENAME TO "+to); err != nil {
		w.t.Fatal(err)
	}
}

// lose records a loss of all data.
func (w *world) lose() { w.loss = time.Now() }

func (w *world) snapshot() {
	marks, err := applied.At().All(w.t.Context(), w.admin)
	if err != nil {
		return
	}
	st, err := state.At().All(w.t.Context(), w.admin)
	if err != nil {
		return
	}
	w.mu.Lock()
	w.shot = &snapshot{marks, st, w.loss}
	w.logf("snapshot")
	w.mu.Unlock()
}

// rollBack is a failover to a replica that lags.
func (w *world) rollBack() {
	w.mu.Lock()
	shot := w.shot
	if shot == nil || w.down {
		w.mu.Unlock()
		return
	}
	w.logf("failover to the snapshot")
	w.loss, w.down = shot.loss, true
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	w.mem.Kill()
	for _, n := range nodes {
		n.wire.BlackHole()
	}
	w.mem.RestartEmpty()
	for w.admin.Ping(w.t.Context()) != nil {
		bubble.Sleep(10 * time.Millisecond)
	}
	for f, v := range shot.marks {
		_ = w.admin.Do(w.t.Context(), applied.At().SetCmd(f, v))
	}
	for f, v := range shot.state {
		_ = w.admin.Do(w.t.Context(), state.At().SetCmd(f, v))
	}
	w.mem.Kill() // what the nodes sent meanwhile
	w.mem.Restart()
	w.mu.Lock()
	w.down = false
	w.mu.Unlock()
	for _, n := range nodes {
		if !n.cut {
			n.wire.Heal()
		}
	}
}

func (w *world) required(r *simRow) bool { return !r.committed.IsZero() && r.committed.After(w.loss) }

// observe checks the promises of this moment.
func (w *world) observe() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return
	}
	type seen struct {
		n      *simNode
		agreed int64
		up     bool
	}
	var nodes []seen
	anyLive := false
	for _, n := range w.nodes {
		if !n.dead && !n.gone && !n.cut {
			anyLive = true
			if n.ready {
				nodes = append(nodes, seen{n, n.Agreed(), n.Up()})
			}
		}
	}
	if !anyLive && w.emptyState() {
		w.lose() // no node can have loaded anything
	}
	rows := slices.Clone(w.rows)
	w.mu.Unlock()
	held, err := state.At().All(w.t.Context(), w.admin)
	w.mu.Lock()
	if err != nil {
		return
	}
	for _, s := range nodes {
		up := s.up && s.n.Up()
		advanced := s.agreed > s.n.agreed
		s.n.agreed = max(s.n.agreed, s.agreed)
		for _, r := range rows {
			lacks := w.required(r) && held[strconv.Itoa(r.id)] == ""
			switch {
			case up && lacks && !r.acked.IsZero() && (r.direct || r.node == s.n):
				w.fail("%s is up, and Redis lacks row %d (direct %v) of %s", s.n.name, r.id, r.direct, r.node.name)
			case advanced && r.at.UnixMilli() < s.agreed && r.at.Sub(r.node.started) > 10*time.Second && (!r.settled || lacks):
				w.fail("%s: Agreed is %.3f, and row %d of %s (at %.3f) is settled: %v, lacking: %v", s.n.name,
					time.UnixMilli(s.agreed).Sub(w.began).Seconds(), r.id, r.node.name, r.at.Sub(w.began).Seconds(), r.settled, lacks)
			}
		}
	}
}

func (w *world) emptyState() bool {
	w.mu.Unlock()
	defer w.mu.Lock()
	held, err := state.At().All(w.t.Context(), w.admin)
	return err == nil && len(held) == 0
}

func (w *world) sleep(d time.Duration) {
	for d > 0 && !w.failed {
		step := min(d, 237*time.Millisecond)
		bubble.Sleep(step)
		d -= step
		w.observe()
	}
}

func simulate(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 17))
	w := &world{t: t, mem: redistest.InMemory(t), sql: sqldbtest.SQLite(t), r: r, began: time.Now(), calm: make(chan struct{}),
		told: map[int]bool{}}
	w.admin = w.mem.Open(t)
	w.loss = time.Now()
	defer func() {
		bubble.Sleep(31 * time.Second) // the commits that are still running
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, strings.Join(w.trace, "\n"))
		}
	}()
	size := 2 + r.IntN(3)
	for range size {
		w.start()
		w.sleep(time.Duration(r.IntN(800)) * time.Millisecond)
	}
	w.sleep(3 * time.Second)
	pick := func(ok func(*simNode) bool) *simNode {
		w.mu.Lock()
		defer w.mu.Unlock()
		var of []*simNode
		for _, n := range w.nodes {
			if ok(n) {
				of = append(of, n)
			}
		}
		if len(of) == 0 {
			return nil
		}
		return of[r.IntN(len(of))]
	}
	live := func() (c int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.nodes {
			if n.live() {
				c++
			}
		}
		return c
	}
	ms := func(most int) time.Duration { return time.Duration(r.IntN(most)) * time.Millisecond }
	for end := time.Now().Add(200 * time.Second); time.Now().Before(end) && !w.failed; {
		n := pick(func(n *simNode) bool { return n.live() && n.ready })
		hole := r.IntN(2) == 0
		latency, late := ms(150), ms(28500)
		if r.IntN(8) == 0 {
			latency = ms(1000)
		}
		unsure, lateHappens := r.IntN(6) == 0, r.IntN(3) > 0
		d := ms(15000)
		switch e := r.IntN(100); {
		case e < 50:
			if n != nil {
				w.commit(n, latency, late, unsure, lateHappens)
			}
		case e < 54:
			if n != nil {
				if r.IntN(2) == 0 {
					w.commit(n, latency+300*time.Millisecond, late, unsure, lateHappens)
				}
				w.kill(n, hole)
			}
		case e < 57:
			if n != nil {
				w.leave(n)
			}
		case e < 65 || live() == 0:
			if live() < size {
				w.mu.Lock()
				w.logf("start")
				w.mu.Unlock()
				s := w.start()
				if r.IntN(4) == 0 {
					w.setCut(s, true, hole)
				}
			}
		case e < 70:
			if n != nil && !n.cut {
				w.setCut(n, true, hole)
			}
		case e < 78:
			if n := pick(func(n *simNode) bool { return n.live() && n.cut }); n != nil {
				w.setCut(n, false, false)
			}
		case e < 80:
			w.mu.Lock()
			w.logf("redis kill")
			w.down = true
			w.mu.Unlock()
			w.mem.Kill()
		case e < 86:
			if w.down {
				w.mu.Lock()
				w.logf("redis restart (empty: %v)", hole)
				if hole {
					w.lose()
				}
				w.mu.Unlock()
				if hole {
					w.mem.RestartEmpty()
				} else {
					w.mem.Restart()
				}
				w.mu.Lock()
				w.down = false
				w.mu.Unlock()
			}
		case e < 88:
			w.mu.Lock()
			w.logf("flush")
			w.mem.FlushAll()
			w.lose()
			w.mu.Unlock()
		case e < 90:
			if n != nil {
				w.mu.Lock()
				n.fail = !n.fail
				w.logf("%s: replays fail: %v", n.name, n.fail)
				w.mu.Unlock()
			}
		case e < 92:
			if n != nil {
				w.mu.Lock()
				n.early = hole
				if n.slow = 0; r.IntN(2) == 0 {
					n.slow = ms(100000)
				}
				w.logf("%s: replays take %s", n.name, n.slow)
				w.mu.Unlock()
			}
		case e < 94:
			if n != nil {
				w.mu.Lock()
				if n.slowState = 0; r.IntN(2) == 0 {
					n.slowState = ms(120000)
				}
				w.logf("%s: repairs take %s", n.name, n.slowState)
				w.mu.Unlock()
			}
		case e < 96:
			w.setSQL(!w.sqlDown)
		case e < 98:
			if !w.down {
				w.snapshot()
			}
		default:
			w.rollBack()
		}
		if r.IntN(3) == 0 {
			w.sleep(d / 5)
		} else {
			w.sleep(d / 15)
		}
	}
	if w.failed {
		return
	}
	w.mu.Lock()
	w.logf("heal everything")
	for _, n := range w.nodes {
		n.fail, n.slow, n.slowState = false, 0, 0
		if n.live() && n.cut {
			n.wire.Heal()
			n.cut = false
		}
	}
	down := w.down
	w.mu.Unlock()
	close(w.calm)
	w.setSQL(false)
	if down {
		w.mem.Restart()
		w.mu.Lock()
		w.down = false
		w.mu.Unlock()
	}
	if live() == 0 {
		w.start()
	}
	for range 60 {
		w.sleep(5 * time.Second)
	}
	if w.failed {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logf("end")
	ctx := t.Context()
	held, err := state.At().All(ctx, w.admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range w.rows {
		if w.required(r) && held[strconv.Itoa(r.id)] == "" {
			w.fail("Redis lacks row %d of %s, committed at %.3f, acknowledged: %v, at %.3f; lost at %.3f", r.id, r.node.name,
				r.committed.Sub(w.began).Seconds(), !r.acked.IsZero(), r.at.Sub(w.began).Seconds(), w.loss.Sub(w.began).Seconds())
		}
		if w.required(r) && !r.direct && !w.told[r.id] {
			w.fail("Late did not get row %d", r.id)
		}
	}
	marks, err := applied.At().All(ctx, w.admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range w.nodes {
		if !n.live() {
			if marks[n.name] != "" {
				w.fail("%s has ended, and has the mark %q", n.name, marks[n.name])
			}
			continue
		}
		if !n.Up() {
			w.fail("%s is not up", n.name)
		}
		if agreed := time.UnixMilli(n.Agreed()); agreed.Before(time.Now().Add(-8 * time.Second)) {
			w.fail("%s: Agreed is %s, and it is %s", n.name, agreed, time.Now())
		}
	}
	notes, err := newSQLStore(w.sql, "numbers").all(ctx)
	if err != nil || len(notes) > 0 {
		w.fail("marks in SQL: %v, %v", notes, err)
	}
	for _, at := range w.replays {
		if at.After(time.Now().Add(-time.Minute)) {
			w.fail("a replay in the last minute")
		}
	}
}

// simulatedSeeds is the number of random schedules. Each takes about half a second.
const simulatedSeeds = 4

// A schedule has commits, commits without a response, and kills, clean stops and starts of nodes. Redis restarts, fails
// over, loses its data, or is away for a node. Replays and repairs are slow or fail, and SQL is away.
func TestSimulation_EachCommittedRowReachesRedis(t *testing.T) {
	for seed := range simulatedSeeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) { simulate(t, uint64(seed)) })
		})
	}
}
