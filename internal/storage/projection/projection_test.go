package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

var (
	keys    = keyspace.New("projection")
	applied = keyspace.Def0(keys, "projection:applied", keyspace.HashOf("node → mark"), keyspace.Forever("of a test"),
		keyspace.Doc{Purpose: "marks"})
	state = keyspace.Def0(keys, "projection:state", keyspace.HashOf("row → 1"), keyspace.Forever("of a test"),
		keyspace.Doc{Purpose: "what is derived"})
)

// domain is a minimal domain: a log of numbers, and a hash that has them.
type domain struct {
	*Projection[int, int]
	db *redis.DB

	mu       sync.Mutex
	log      map[int]time.Time
	replayed []time.Time
	failing  bool
	late     []int         // changes passed to Late
	unheard  bool          // Late fails
	hold     chan error    // if set, a replay waits for its outcome from here
	took     time.Duration // of each replay, in a bubble
}

func newDomain(t *testing.T, db *redis.DB, node string) *domain {
	t.Helper()
	return newDomainOn(t, db, sqldbtest.SQLite(t), node)
}

func newDomainOn(t *testing.T, db *redis.DB, sql *sqldb.DB, node string) *domain {
	t.Helper()
	d := &domain{db: db, log: map[int]time.Time{}}
	d.Projection = New(Config[int, int]{
		Redis: db, DB: sql, Name: "numbers", Applied: applied.At(), Node: node, Every: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Changed: d.changed, State: d.state, Write: d.write, Late: d.tell,
	})
	return d
}

func (d *domain) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); _ = d.Run(ctx, sync.OnceFunc(func() { close(ready) })) }()
	<-ready
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

func (d *domain) changed(_ context.Context, since time.Time, fn func([]int) error) error {
	d.mu.Lock()
	hold, took := d.hold, d.took
	d.mu.Unlock()
	if took > 0 {
		<-time.After(took)
	}
	if hold != nil {
		if err := <-hold; err != nil {
			return err
		}
	}
	d.mu.Lock()
	d.replayed = append(d.replayed, since)
	var rows []int
	for row, at := range d.log {
		if !at.Before(since) {
			rows = append(rows, row)
		}
	}
	d.mu.Unlock()
	return fn(rows)
}

func (d *domain) state(_ context.Context, rows []int) ([]int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failing {
		return nil, errors.New("sql is away")
	}
	return rows, nil
}

func (d *domain) write(ctx context.Context, rows []int) error {
	cmds := make([]keyspace.Cmd, 0, len(rows))
	for _, row := range rows {
		cmds = append(cmds, state.At().SetCmd(strconv.Itoa(row), "1"))
	}
	return keyspace.FirstErr(d.db.DoMulti(ctx, cmds))
}

func (d *domain) tell(ctx context.Context, rows []int) error {
	held, err := state.At().All(ctx, d.db)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil || d.unheard || slices.ContainsFunc(rows, func(row int) bool { return held[strconv.Itoa(row)] == "" }) {
		return errors.New("nobody is told")
	}
	d.late = append(d.late, rows...)
	return nil
}

func (d *domain) told() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.late)
}

func (d *domain) commit(row int, at time.Time) { d.mu.Lock(); d.log[row] = at; d.mu.Unlock() }

func (d *domain) has(t *testing.T, rows ...int) {
	t.Helper()
	held, err := state.At().All(t.Context(), d.db)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if held[strconv.Itoa(row)] == "" {
			t.Errorf("redis lacks row %d; it has %v", row, held)
		}
	}
}

// holdReplays makes each further replay wait for its outcome, until the channel is closed.
func (d *domain) holdReplays() chan error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = make(chan error)
	return d.hold
}

func (d *domain) replays() []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.replayed)
}

func TestMissedRowsAreAppliedBeforeReadsTrustRedisAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "n1")
		d.run(t)
		at := time.Now()
		d.commit(7, at)
		d.mu.Lock()
		d.failing = true
		d.mu.Unlock()
		d.Begin(at)
		d.Missed(at, 7)
		if d.Up() || !d.Behind() {
			t.Error("up or not behind although a row is missing")
		}
		time.Sleep(50 * time.Millisecond) // a few rounds that all fail: the row must stay missing
		if d.Up() || !d.Behind() {
			t.Error("up or not behind although the row could not be applied")
		}
		d.mu.Lock()
		d.failing = false
		d.mu.Unlock()
		eventually.True(t, "the row to be applied", d.Up)
		d.has(t, 7)
		if d.Behind() {
			t.Error("behind although nothing is missing")
		}
		if n := len(d.replays()); n != 0 {
			t.Errorf("the log was read %d times for one row that was in memory", n)
		}
	})
}

func TestWhatRedisIsGivenLateIsToldOnceItIsThere(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "n1")
		d.commit(1, time.Now())
		d.run(t)
		if err := d.db.Do(t.Context(), keyspace.Cmd{Name: "DEL", Key: applied.At().Key}).Err; err != nil {
			t.Fatal(err)
		}
		eventually.Equal(t, "what a replay tells", "[1]", func() string { return fmt.Sprint(d.told()) })
		eventually.True(t, "the end of the replay", d.Up)

		at := time.Now()
		d.Begin(at)
		if !d.Bring(t.Context(), time.Second, 2) {
			t.Fatal("Redis is there")
		}
		d.Done(at) // in time: its own event publishes it

		d.mu.Lock()
		d.unheard = true
		d.mu.Unlock()
		d.Begin(at)
		d.Missed(at, 3)
		bubble.Sleep(time.Second)
		if d.has(t, 3); d.Up() || !d.Behind() {
			t.Error("up or not behind although nobody was told")
		}
		d.mu.Lock()
		d.unheard = false
		d.mu.Unlock()
		eventually.Equal(t, "what was missed", "[1 3]", func() string { return fmt.Sprint(d.told()) })

		d.Begin(at)
		d.Unsure(at, 4)
		eventually.Equal(t, "what was unsure", "[1 3 4]", func() string { return fmt.Sprint(d.told()) })
	})
}

func TestTooManyMissedRowsAreReadFromTheLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "n1")
		at := time.Now()
		for row := range remembered + 1 {
			d.Begin(at)
			d.Missed(at, row)
		}
		d.commit(remembered, at) // one more than the limit
		d.run(t)
		eventually.True(t, "the log to be replayed", d.Up)
		d.has(t, remembered)
	})
}

func TestTheMarkWaitsForRowsUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "n1")
		old := time.Now().Add(-time.Hour).Truncate(time.Second)
		d.Begin(old)
		d.run(t)
		mark := func() time.Time {
			marks, err := applied.At().All(t.Context(), d.db)
			if err != nil {
				t.Fatal(err)
			}
			return time.UnixMilli(markTime(marks["n1"]))
		}
		eventually.True(t, "a mark", func() bool { return !mark().IsZero() && mark().UnixMilli() != 0 })
		if got := mark(); !got.Equal(old) {
			t.Errorf("the mark is at %s while a row of %s is under way", got, old)
		}
		d.Done(old)
		eventually.True(t, "the mark to move", func() bool { return time.Since(mark()) < time.Minute })
	})
}

func TestALostOrOldMarkReplaysFromWhereItStood(t *testing.T) {
	for what, harm := range map[string]func(t *testing.T, d *domain){
		"emptied": func(t *testing.T, d *domain) {
			for _, key := range []keyspace.Key{applied.At().Key, state.At().Key} {
				if err := d.db.Do(t.Context(), keyspace.Cmd{Name: "DEL", Key: key}).Err; err != nil {
					t.Fatal(err)
				}
			}
		},
		"set back": func(t *testing.T, d *domain) {
			back := fmt.Sprintf("%d %d", time.Now().Add(-time.Second).UnixMilli(), time.Now().UnixMilli())
			if err := d.db.Do(t.Context(), applied.At().SetCmd("n1", back)).Err; err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			d := newDomain(t, redistest.Open(t, "embedded"), "n1")
			d.commit(1, time.Now())
			d.run(t)
			eventually.True(t, "the first round", d.Up)
			before := time.Now()
			harm(t, d)
			eventually.True(t, "a replay", func() bool { return len(d.replays()) > 0 })
			eventually.True(t, "redis to be complete", d.Up)
			d.has(t, 1)
			if since := d.replays()[0]; before.Sub(since) < margin-time.Second {
				t.Errorf("replayed from %s, less than the margin before %s", since, before)
			}
		})
	}
}

// Redis is set back to a moment without running nodes. The mark of the node that stopped last states since when rows
// are missing.
func TestARedisOfAMomentWithoutNodesIsReplayedInto(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rdb, sql := redistest.Open(t, "embedded"), sqldbtest.SQLite(t)
		n1, n2 := newDomainOn(t, rdb, sql, "n1"), newDomainOn(t, rdb, sql, "n2")
		stop1, stop2 := n1.run(t), n2.run(t)
		bubble.Sleep(time.Second)
		stop2()
		stop1()
		if n1.markOf(t, "n1") == "" || n1.markOf(t, "n2") != "" {
			t.Errorf("n1 stopped last: its mark is %q, and that of n2 %q", n1.markOf(t, "n1"), n1.markOf(t, "n2"))
		}
		bubble.Sleep(5 * time.Minute)
		n3 := newDomainOn(t, rdb, sql, "n3")
		n3.commit(3, time.Now().Add(-3*time.Minute)) // by a node that is unknown to this Redis
		n3.run(t)
		eventually.True(t, "redis to be complete", n3.Up)
		n3.has(t, 3)
		if n := len(n3.replays()); n != 1 || n3.markOf(t, "n1") != "" || n3.markOf(t, "n3") == "" {
			t.Errorf("%d replays, the mark of n1 is %q, and that of n3 %q", n, n3.markOf(t, "n1"), n3.markOf(t, "n3"))
		}
	})
}

func TestARestartedServerIsReplayedInto(t *testing.T) {
	server := redistest.Server(t)
	d := newDomain(t, redistest.Open(t, server.URL), "n1")
	d.commit(1, time.Now())
	d.run(t)
	eventually.True(t, "the first round", d.Up)
	server.Kill()
	eventually.True(t, "the loss to be noticed", func() bool { return !d.Up() })
	server.RestartEmpty()
	eventually.True(t, "redis to be complete", d.Up)
	d.has(t, 1)
}

func TestAnotherNodeReplaysForADeadOneAndLeavesTheLivingAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		d := newDomain(t, db, "n1")
		longAgo, now := time.Now().Add(-time.Hour), time.Now()
		d.commit(1, longAgo)
		for node, mark := range map[string]string{
			"dead":  fmt.Sprintf("%d %d", longAgo.UnixMilli(), longAgo.UnixMilli()),
			"alive": fmt.Sprintf("%d %d", now.UnixMilli(), now.Add(time.Minute).UnixMilli()),
		} {
			if err := db.Do(t.Context(), applied.At().SetCmd(node, mark)).Err; err != nil {
				t.Fatal(err)
			}
		}
		stop := d.run(t)
		eventually.True(t, "redis to be complete", d.Up)
		d.has(t, 1)
		marks, err := applied.At().All(t.Context(), db)
		if err != nil || marks["dead"] != "" || marks["alive"] == "" || marks["n1"] == "" {
			t.Errorf("marks are %v, %v; want those of n1 and alive", marks, err)
		}
		stop()
		if marks, err = applied.At().All(t.Context(), db); err != nil || marks["n1"] != "" {
			t.Errorf("a node that stopped in good order left its mark: %v, %v", marks, err)
		}
	})
}

// The node's clock is a quarter of a minute behind.
func TestANodeWhoseClockIsBehindLivesWhileItsMarkMoves(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "n1")
		d.cfg.Every = 100 * time.Millisecond
		d.run(t)
		move := func(times int) {
			t.Helper()
			for range times {
				behind := time.Now().Add(-15 * time.Second).UnixMilli()
				if err := d.db.Do(t.Context(), applied.At().SetCmd("behind", fmt.Sprintf("%d %d", behind, behind))).Err; err != nil {
					t.Fatal(err)
				}
				bubble.Sleep(time.Second)
			}
		}
		move(3) // at first sight it is considered dead
		before := len(d.replays())
		move(20)
		if n := len(d.replays()) - before; n != 0 || d.markOf(t, "behind") == "" || !d.Up() {
			t.Errorf("%d replays for a node that lives, its mark is %q, and Redis is trusted: %v", n, d.markOf(t, "behind"), d.Up())
		}
		bubble.Sleep(deadAfter + time.Second)
		if n := len(d.replays()) - before; n != 1 || d.markOf(t, "behind") != "" || !d.Up() {
			t.Errorf("%d replays for a node that is dead, its mark is %q, and Redis is trusted: %v", n, d.markOf(t, "behind"), d.Up())
		}
	})
}

// A supervisor gives up on a part that is not ready within a minute, and the next start would replay as much.
func TestANodeIsReadyWhileItsFirstReplayTakesLong(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rdb := redistest.Open(t, "embedded")
		old := makeMark(time.Now().Add(-24*time.Hour).UnixMilli(), signNone) // from a Redis that was restored
		if err := rdb.Do(t.Context(), applied.At().SetCmd("n0", old)).Err; err != nil {
			t.Fatal(err)
		}
		bubble.Sleep(time.Minute)
		d := newDomain(t, rdb, "n1")
		d.hold = make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		ready, ended := make(chan struct{}), make(chan struct{})
		go func() { defer close(ended); _ = d.Run(ctx, sync.OnceFunc(func() { close(ready) })) }()
		defer func() { cancel(); <-ended }()
		bubble.Sleep(30 * time.Second)
		select {
		case <-ready:
		default:
			t.Error("the node is not ready after half a minute")
		}
		if d.Up() {
			t.Error("it trusts a Redis that is not complete")
		}
		close(d.hold)
		bubble.Sleep(time.Second)
		if !d.Up() || len(d.replays()) != 1 {
			t.Errorf("after its replay it is not up, or did it %d times", len(d.replays()))
		}
	})
}

// Redis moves the mark and responds only after the replay has ended.
func TestAReplayThatEndsDuringABeatIsDoneOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		rdb := redistest.OpenConfig(t, wire.Config())
		old := makeMark(time.Now().Add(-24*time.Hour).UnixMilli(), signNone)
		if err := rdb.Do(t.Context(), applied.At().SetCmd("n0", old)).Err; err != nil {
			t.Fatal(err)
		}
		bubble.Sleep(time.Minute)
		d := newDomain(t, rdb, "n1")
		d.cfg.Every, d.hold = time.Second, make(chan error)
		d.run(t) // until it is ready, although it replays
		bubble.Sleep(d.cfg.Every / 2)
		wire.Hold(redistest.ToNode)
		bubble.Sleep(d.cfg.Every * 3 / 4)
		close(d.hold)
		bubble.Sleep(d.cfg.Every / 8)
		wire.Heal()
		bubble.Sleep(5 * d.cfg.Every)
		if n := len(d.replays()); n != 1 || !d.Up() {
			t.Errorf("it replays %d times, and Redis is trusted: %v", n, d.Up())
		}
	})
}

func TestARowWithoutAnAnswerIsAppliedLaterAndDistrustsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "n1")
		d.cfg.Every = 100 * time.Millisecond
		d.run(t)
		eventually.True(t, "the first round", d.Up)
		d.mu.Lock()
		d.failing = true // SQL became unavailable during the commit
		d.mu.Unlock()
		at := time.Now().Add(-time.Hour).Truncate(time.Second)
		d.Begin(at)
		d.Unsure(at, 9)
		mark := func() int64 {
			marks, err := applied.At().All(t.Context(), d.db)
			if err != nil {
				t.Fatal(err)
			}
			return markTime(marks["n1"])
		}
		eventually.True(t, "the mark to wait for the row", func() bool { return mark() == at.UnixMilli() })
		if !d.Up() {
			t.Error("reads stopped trusting Redis for a row that nobody was promised")
		}
		d.mu.Lock()
		d.failing = false
		d.mu.Unlock()
		eventually.True(t, "the mark to move on", func() bool { return mark() > at.UnixMilli() })
		d.has(t, 9)
	})
}

// The connection ends during a commit. The server completes the commit later, because it waits for a disk or a replica.
func TestACommitThatGoesOnWithoutItsConnectionIsApplied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "n1")
		d.cfg.Every, d.cfg.Late = time.Second, nil
		d.cfg.State = func(_ context.Context, rows []int) (states []int, err error) { // the rows that SQL returns
			d.mu.Lock()
			defer d.mu.Unlock()
			for _, row := range rows {
				if !d.log[row].IsZero() {
					states = append(states, row)
				}
			}
			return states, nil
		}
		stop := d.run(t)
		at := time.Now()
		d.Begin(at)
		d.Unsure(at, 1)
		bubble.Sleep(15 * time.Second)
		d.commit(1, at)
		if mark := markTime(d.markOf(t, "n1")); mark > at.UnixMilli() {
			t.Errorf("the mark has moved to %d, and a commit of %d may be under way", mark, at.UnixMilli())
		}
		bubble.Sleep(slowCommit)
		d.has(t, 1)
		if mark := markTime(d.markOf(t, "n1")); mark <= at.UnixMilli() {
			t.Errorf("the mark stands at %d, and no commit can be under way", mark)
		}

		d.mark(t, "n2")
		d.Begin(at)
		d.Unsure(at, 2)
		bubble.Sleep(2 * time.Second) // until its first check
		if stop(); d.markOf(t, "n1") == "" {
			t.Error("the node took its mark away, and a commit may be under way")
		}
	})
}

func TestAChangeIsBroughtWhileItsCallerWaits(t *testing.T) {
	d := newDomain(t, redistest.Open(t, "embedded"), "n1")
	if d.Bring(t.Context(), time.Minute, 1) {
		t.Error("a change was brought to a Redis that nobody has looked at yet")
	}
	d.run(t)
	eventually.True(t, "the first round", d.Up)
	if !d.Bring(t.Context(), time.Minute, 2) {
		t.Error("a change was not brought to a Redis that answers")
	}
	d.has(t, 2)
	d.mu.Lock()
	d.failing = true
	d.mu.Unlock()
	if d.Bring(t.Context(), time.Minute, 3) || d.Up() {
		t.Error("a change whose state is not known counts as brought, or Redis as complete")
	}
}

func (d *domain) markOf(t *testing.T, node string) string {
	t.Helper()
	mark, _, err := applied.At().Get(t.Context(), d.db, node)
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// mark stores the mark of another live node in Redis.
func (d *domain) mark(t *testing.T, node string) {
	t.Helper()
	beat := time.Now().Add(time.Hour).UnixMilli() // in the future, so that a stall of the machine does not make the node dead
	if err := d.db.Do(t.Context(), applied.At().SetCmd(node, fmt.Sprintf("%d %d", beat, beat))).Err; err != nil {
		t.Fatal(err)
	}
}

// During an outage of Redis, another node has also committed rows. It may notice later that Redis is available again.
func TestAfterAnOutageRedisIsNotTrustedUntilTheOthersHaveToldItWhatItMissed(t *testing.T) {
	for what, restart := range map[string]func(s *redistest.Instance){
		"with its data": (*redistest.Instance).Restart, "emptied": (*redistest.Instance).RestartEmpty,
	} {
		t.Run(what, func(t *testing.T) {
			server := redistest.Server(t)
			d := newDomain(t, redistest.Open(t, server.URL), "n1")
			d.run(t)
			eventually.True(t, "the first round", d.Up)
			d.mark(t, "n2")
			var own string
			rounds := func(n int) { // follows d's own mark
				t.Helper()
				for range n {
					eventually.True(t, "another round", func() bool {
						marks, err := applied.At().All(t.Context(), d.db)
						was := own
						own = marks["n1"]
						return err == nil && own != was
					})
				}
			}
			rounds(3) // n2 is known
			restart(server)
			eventually.True(t, "a replay", func() bool { return len(d.replays()) > 0 })
			rounds(5)
			if d.Up() {
				t.Error("up, and n2 has not told Redis what it missed")
			}
			if !d.Writable() {
				t.Error("not writable: what comes now would have to be applied once more")
			}
			d.mark(t, "n2")
			eventually.True(t, "redis to be trusted again", d.Up)
		})
	}
}

// The mark of a node that replays shows only that the node lives. If the replay fails, Redis lacks the commits of the
// node until the next round.
func TestANodeThatReplaysIsAwaitedUntilItIsDone(t *testing.T) {
	for what, restart := range map[string]func(*redistest.Memory){"with its data": (*redistest.Memory).Restart,
		"emptied": (*redistest.Memory).RestartEmpty} {
		t.Run(what, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				memory, sql := redistest.InMemory(t), sqldbtest.SQLite(t)
				n1, n2 := newDomainOn(t, memory.Open(t), sql, "n1"), newDomainOn(t, memory.Open(t), sql, "n2")
				n1.cfg.Every, n2.cfg.Every = 100*time.Millisecond, 100*time.Millisecond
				n1.run(t)
				n2.run(t)
				bubble.Sleep(time.Second)
				if !n1.Up() || !n2.Up() {
					t.Fatal("redis is not trusted at the beginning")
				}
				outcome := make(chan error)
				n2.mu.Lock()
				n2.hold = outcome
				n2.mu.Unlock()
				memory.Kill()
				bubble.Sleep(time.Second)
				restart(memory)
				for range 4 {
					bubble.Sleep(deadAfter / 3)
					if n1.Up() {
						t.Error("n1 trusts redis, and n2 is behind")
					}
					if !hasSign(n1.markOf(t, "n2"), signBehind) {
						t.Errorf("n2 replays, and its mark is %q", n1.markOf(t, "n2"))
					}
					outcome <- errors.New("sql is away")
				}
				outcome <- nil
				bubble.Sleep(time.Second)
				if !n1.Up() || !n2.Up() || hasSign(n1.markOf(t, "n2"), signBehind) {
					t.Errorf("n2 is done, its mark is %q; redis is trusted: %v, %v", n1.markOf(t, "n2"), n1.Up(), n2.Up())
				}
			})
		})
	}
}

// n2 dies during an outage of Redis. After the outage, Redis has no marks.
func TestANodeThatDiedInAnOutageIsReplayedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "n1")
		round := func() (complete bool) {
			if err := d.round(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			d.sound = true
			return d.updateState(true)
		}
		if err := d.db.Do(t.Context(), applied.At().SetCmd("n2", makeMark(time.Now().UnixMilli(), signNone))).Err; err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if !round() {
				t.Fatal("redis is not trusted")
			}
		}
		if err := d.db.Do(t.Context(), keyspace.Cmd{Name: "DEL", Key: applied.At().Key}).Err; err != nil {
			t.Fatal(err)
		}
		for _, sound := range []bool{false, false, true} { // as after a round without a response, and after one that failed later
			if d.sound = sound; round() {
				t.Error("redis is trusted, and n2 has said nothing")
			}
		}
		d.commit(2, time.Now()) // by n2, and not applied to Redis
		bubble.Sleep(deadAfter + time.Second)
		if !round() {
			t.Error("redis is not trusted, and n2 is dead")
		}
		d.has(t, 2)
	})
}

// n1 is cut off from Redis for longer than deadAfter, continues to commit, and dies. n2 replays for it when the other nodes
// first consider it dead, and again after its death.
func TestANodeThatDiesLongAfterItWasCutOffIsReplayedFor(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server, sql := redistest.InMemory(t), sqldbtest.SQLite(t)
		wire := server.Wire()
		n1, n2 := newDomainOn(t, redistest.OpenConfig(t, wire.Config()), sql, "n1"),
			newDomainOn(t, redistest.OpenConfig(t, server.Wire().Config()), sql, "n2")
		n1.cfg.Every, n2.cfg.Every = time.Second, time.Second
		kill := n1.run(t)
		n2.run(t)
		replays := func() int { return len(n2.replays()) - 1 } // without the replay of its start
		notes := func() map[string]string {
			t.Helper()
			all, err := n2.sql.all(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		commit := func(row int) {
			at := time.Now()
			n1.Begin(at)
			n1.commit(row, at)
			n2.commit(row, at) // both nodes share one log
			n1.Missed(at, row)
		}
		wantAgreed := func(what string, from, to time.Time) {
			t.Helper()
			if at := time.UnixMilli(n2.Agreed()); at.Before(from) || at.After(to) {
				t.Errorf("%s: what is before %s is agreed on, want between %s and %s", what, at, from, to)
			}
		}
		bubble.Sleep(30 * time.Second)
		wantAgreed("both nodes reach Redis", time.Now().Add(-3*time.Second), time.Now())
		cut := time.Now()
		wire.BlackHole()
		for row := range 30 {
			commit(row)
			bubble.Sleep(3 * time.Second)
		}
		if notes()["n1"] == "" {
			t.Fatal("nothing says that n1 goes on without Redis")
		}
		if replays() != 1 {
			t.Errorf("n2 has replayed %d times for a node that lives", replays())
		}

		wantAgreed("n1 is cut off", cut.Add(-3*time.Second), cut)

		// The node is connected again: no other node needs to replay for it.
		wire.Heal()
		eventually.True(t, "n1 to be complete", n1.Up)
		bubble.Sleep(30 * time.Second)
		n2.has(t, 0, 5, 17, 29)
		wantAgreed("n1 is back", time.Now().Add(-3*time.Second), time.Now())
		if left := notes(); len(left) != 0 || replays() != 1 {
			t.Errorf("n1 is back: %d replays, marks in SQL: %v", replays(), left)
		}

		wire.BlackHole()
		for row := range 30 {
			commit(100 + row)
			bubble.Sleep(3 * time.Second)
		}
		kill()
		bubble.Sleep(30 * time.Second)
		n2.has(t, 100, 103, 105, 107, 110, 129)
		if left := notes(); len(left) != 0 {
			t.Errorf("marks in SQL of what is replayed: %v", left)
		}
		if got := replays(); got != 3 {
			t.Errorf("%d replays, want one for each time that n1 fell silent, and one for its end", got)
		}
	})
}

func TestMarksInSQLAreThoseOfOneProjection(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db, ctx := e.Open(t), t.Context()
			numbers, others := newSQLStore(db, "numbers"), newSQLStore(db, "others")
			for _, put := range []struct {
				s          *sqlStore
				node, mark string
			}{{numbers, "n1", "1 1"}, {numbers, "n1", "1 2"}, {numbers, "n2", "3 3"}, {others, "n1", "4 4"}} {
				if err := put.s.write(ctx, put.node, put.mark); err != nil {
					t.Fatal(err)
				}
			}
			is := func(s *sqlStore, want map[string]string) {
				t.Helper()
				if got, err := s.all(ctx); err != nil || !maps.Equal(got, want) {
					t.Errorf("got %v, %v, want %v", got, err, want)
				}
			}
			is(numbers, map[string]string{"n1": "1 2", "n2": "3 3"})
			for _, mark := range []string{"1 1", "1 2"} { // the first one is no longer the mark
				if removed, err := numbers.swap(ctx, "n1", mark, ""); err != nil || removed != (mark == "1 2") {
					t.Fatalf("mark %q: removed %v, %v", mark, removed, err)
				}
				if mark == "1 1" {
					is(numbers, map[string]string{"n1": "1 2", "n2": "3 3"})
				}
			}
			is(numbers, map[string]string{"n2": "3 3"})
			is(others, map[string]string{"n1": "4 4"})
		})
	}
}

// A check of the database finds whether there are marks. Only then they are read.
func TestMarksInSQL_AreReadIfACheckFindsSome(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		sql := sqldbtest.SQLite(t)
		d := newDomainOn(t, redistest.InMemory(t).Open(t), sql, "n1")
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() { _ = sql.Watch(ctx, func(context.Context) error { return nil }) })
		bubble.Sleep(sqldb.WatchWithin)
		asked := d.noSQLMarks.Load()
		if asked == nil {
			t.Fatal("the check without marks is unknown")
		}
		if d.deadSQLMarks(ctx); !d.sqlMarksRead.Equal(*asked) || len(d.sqlMarks) != 0 {
			t.Errorf("marks %v as of %s, want none as of the check at %s", d.sqlMarks, d.sqlMarksRead, *asked)
		}
		if err := d.sql.write(ctx, "n2", "1 1"); err != nil {
			t.Fatal(err)
		}
		bubble.Sleep(deadAfter / 2)
		if d.deadSQLMarks(ctx); !maps.Equal(d.sqlMarks, map[string]string{"n2": "1 1"}) {
			t.Errorf("marks %v, want that of n2", d.sqlMarks)
		}
	})
}

// A moved mark states that no row is missing.
func TestTheMarkStandsUntilWhatWasMissedIsThere(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "n1")
		if err := d.round(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		mark := d.Projection.mark
		at := time.Now()
		d.commit(7, at)
		d.Begin(at)
		d.Missed(at, 7)
		d.failing, d.identity = true, "of a server before"
		bubble.Sleep(time.Second)
		if err := d.round(t.Context(), 0); err == nil || d.Projection.mark != mark {
			t.Errorf("got %v, and the mark %q, want an error and %q", err, d.Projection.mark, mark)
		}
		d.failing = false
		if err := d.round(t.Context(), 0); err != nil || d.Projection.mark == mark {
			t.Errorf("got %v, and the mark %q", err, d.Projection.mark)
		}
		d.has(t, 7)
	})
}

// Between two rounds no command is sent to Redis, and its connections end.
func TestRedisIsNotTrustedAfterItsConnectionsHaveEnded(t *testing.T) {
	server := redistest.Server(t)
	d := newDomain(t, redistest.Open(t, server.URL), "n1")
	d.cfg.Every = 5 * time.Minute
	d.run(t)
	eventually.True(t, "the first round", d.Up)
	server.Restart()
	eventually.True(t, "the connections to end", func() bool { return !d.Up() })
	eventually.True(t, "redis to be trusted again", d.Up)
}
