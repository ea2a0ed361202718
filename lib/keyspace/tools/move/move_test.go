package move_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/tools/move"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

type User struct{ keyspace.Int }

func user(n int) User { return User{keyspace.Int{N: int64(n)}} }

var (
	schema = keyspace.New("visits")

	oldKey = keyspace.Def1[User](schema, "visits:count:{{uid}}", keyspace.CounterKind(), keyspace.Forever("truth"),
		keyspace.Doc{Purpose: "visits of a user", Together: "visits"})
	newKey = keyspace.Def1[User](schema, "visits:stat:{{uid}}", keyspace.HashOf("n"), keyspace.Forever("truth"),
		keyspace.Doc{Purpose: "visits of a user", Together: "visits"})
	stateKey = keyspace.Def0(schema, "visits:move", keyspace.HashOf("see package move"), keyspace.Forever("removed after the move"),
		keyspace.Doc{Purpose: "how far the move of visits is"})
)

// full selects the long test under load (make hazards).
var full = os.Getenv("STOA_HAZARDS") == "full"

// poll is short enough for tests and long enough for a machine that stalls. A node that stalls for ten polls could be
// two phases behind.
var poll = map[bool]time.Duration{false: 30 * time.Millisecond, true: 100 * time.Millisecond}[full]

func plan() move.Plan[User, int64] {
	return move.Plan[User, int64]{
		State: stateKey.At(),
		Poll:  poll,
		Parse: func(args []string) (User, error) {
			n, err := strconv.Atoi(args[0])
			return user(n), err
		},
		Old: move.Side[User, int64]{
			Family: oldKey.Family,
			Key:    func(u User) keyspace.Key { return oldKey.At(u).Key },
			Get: func(ctx context.Context, db keyspace.Executor, u User) (int64, bool, error) {
				s, ok, err := db.Do(ctx, keyspace.Cmd{Name: "GET", Key: oldKey.At(u).Key}).Text()
				n, _ := strconv.ParseInt(s, 10, 64)
				return n, ok, err
			},
			Set: func(u User, n int64) ([]keyspace.Cmd, error) { return oldSet(u, n), nil },
		},
		New: move.Side[User, int64]{
			Family: newKey.Family,
			Key:    func(u User) keyspace.Key { return newKey.At(u).Key },
			Get: func(ctx context.Context, db keyspace.Executor, u User) (int64, bool, error) {
				m, err := newKey.At(u).All(ctx, db)
				n, _ := strconv.ParseInt(m["n"], 10, 64)
				return n, len(m) > 0, err
			},
			Set: func(u User, n int64) ([]keyspace.Cmd, error) {
				if n == 0 {
					return nil, nil
				}
				return newSet(u, n), nil
			},
		},
	}
}

func oldSet(u User, n int64) []keyspace.Cmd {
	return []keyspace.Cmd{{Name: "SET", Key: oldKey.At(u).Key, Args: []string{strconv.FormatInt(n, 10)}}}
}

func newSet(u User, n int64) []keyspace.Cmd {
	return []keyspace.Cmd{newKey.At(u).SetCmd("n", strconv.FormatInt(n, 10))}
}

// visit counts one visit and returns the count.
func visit(ctx context.Context, m *move.Mover[User, int64], u User) (int64, error) {
	replies, err := m.Write(ctx, u,
		[]keyspace.Cmd{{Name: "INCR", Key: oldKey.At(u).Key}},
		[]keyspace.Cmd{{Name: "HINCRBY", Key: newKey.At(u).Key, Args: []string{"n", "1"}}})
	if err != nil {
		return 0, err
	}
	if len(replies) != 1 {
		return 0, fmt.Errorf("%d replies, want one", len(replies))
	}
	return replies[0].N, nil
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMove_AllPhases(t *testing.T) {
	t.Run("in virtual time", func(t *testing.T) {
		redistest.Bubble(t, func(t *testing.T) {
			db := redistest.InMemory(t).Open(t)
			m := move.Start(db, plan())
			phases(t, db, m, m)
		})
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		db := redistest.Open(t, redistest.Cluster(t, 3, 0).URL)
		p := plan()
		p.Poll = 10 * time.Millisecond // for an operator that does not wait for other nodes
		phases(t, db, move.Start(db, toldOfPhases()), move.Start(db, p))
	})
}

// toldOfPhases is the plan of a node that reads the phase only when the test allows it.
func toldOfPhases() move.Plan[User, int64] {
	p := plan()
	p.Poll = time.Hour
	return p
}

// phases runs all phases with a node and an operator.
func phases(t *testing.T, db *redis.DB, m, op *move.Mover[User, int64]) {
	ctx := t.Context()
	advance := func(want move.Phase) {
		t.Helper()
		if got, err := op.Advance(ctx); err != nil || got != want {
			t.Fatalf("advanced to %q, %v, want %q", got, err, want)
		}
		_, err := m.Phase(ctx)
		ok(t, err)
	}
	exist := func(what string, old, new bool, u User) {
		t.Helper()
		_, hadOld, err := plan().Old.Get(ctx, db, u)
		ok(t, err)
		_, hadNew, err := plan().New.Get(ctx, db, u)
		ok(t, err)
		if hadOld != old || hadNew != new {
			t.Errorf("%s: old %v, new %v, want %v and %v", what, hadOld, hadNew, old, new)
		}
	}
	count := func(u User, want int64) {
		t.Helper()
		if got, err := visit(ctx, m, u); err != nil || got != want {
			t.Fatalf("visit %d, %v, want %d", got, err, want)
		}
		if got, _, err := m.Get(ctx, u); err != nil || got != want {
			t.Fatalf("read %d, %v, want %d", got, err, want)
		}
	}
	for n := range 40 {
		count(user(n), 1)
	}
	exist("in phase old", true, false, user(1))

	advance(move.Both)
	count(user(1), 2)
	exist("written in both", true, true, user(1))
	exist("not written in both", true, false, user(2))
	if _, err := op.Advance(ctx); !errors.Is(err, move.ErrDiffers) {
		t.Errorf("advanced without a comparison: %v", err)
	}
	if p, err := op.Compare(ctx); !errors.Is(err, move.ErrDiffers) || p.Differ != 39 || p.Keys != 40 || len(p.Examples) != 10 {
		t.Errorf("before the fill: %+v, %v", p, err)
	}
	if p, err := op.Fill(ctx); err != nil || p.Keys != 40 {
		t.Errorf("fill: %+v, %v", p, err)
	}
	if _, err := op.Advance(ctx); !errors.Is(err, move.ErrDiffers) {
		t.Errorf("advanced after a fill without a comparison: %v", err)
	}
	ok(t, db.Do(ctx, newSet(user(3), 77)[0]).Err)
	if p, err := op.Compare(ctx); !errors.Is(err, move.ErrDiffers) || p.Differ != 1 || p.Examples[0] != "visits:count:{3}" {
		t.Errorf("with one wrong: %+v, %v", p, err)
	}
	_, err := op.Fill(ctx)
	ok(t, err)
	if p, err := op.Compare(ctx); err != nil || p.Differ != 0 {
		t.Errorf("after the fill: %+v, %v", p, err)
	}
	if _, err := op.Clean(ctx); !errors.Is(err, move.ErrPhase) {
		t.Errorf("cleaned in phase both: %v", err)
	}

	advance(move.Switched)
	count(user(1), 3)
	count(user(50), 1)
	exist("new in switched", true, true, user(50))
	if got, err := op.Back(ctx); err != nil || got != move.Both {
		t.Errorf("back: %q, %v", got, err)
	}
	_, err = m.Phase(ctx)
	ok(t, err)
	count(user(1), 4)
	advance(move.Switched)
	if _, err := op.Fill(ctx); !errors.Is(err, move.ErrPhase) {
		t.Errorf("filled in phase switched: %v", err)
	}

	advance(move.New)
	count(user(1), 5)
	exist("written in new", false, true, user(1))
	exist("not written in new", true, true, user(2))
	ok(t, m.Delete(ctx, user(2)))
	exist("deleted", false, false, user(2))
	count(user(2), 1)
	ok(t, m.Set(ctx, user(4), 9))
	count(user(4), 10)
	if _, err := op.Advance(ctx); !errors.Is(err, move.ErrPhase) {
		t.Errorf("advanced beyond new: %v", err)
	}
	// One key was written by a node that missed all phases since Old, and one has a value that needs no new key.
	ok(t, db.Do(ctx, oldSet(user(60), 5)[0]).Err)
	ok(t, db.Do(ctx, oldSet(user(61), 0)[0]).Err)
	if p, err := op.Clean(ctx); err != nil || p.Keys != 40 {
		t.Errorf("clean: %+v, %v", p, err)
	}
	count(user(60), 6)
	for n := range 62 {
		exist("cleaned", false, n < 40 || n == 50 || n == 60, user(n))
	}
	if got, err := m.Phase(ctx); err != nil || got != move.Done {
		t.Errorf("it ended in %q, %v", got, err)
	}
	redistest.KeysDeclared(t, db, schema)
}

// A process that was killed, or lost its connection, after it started a phase does not know the result, and calls
// again.
func TestMove_KilledStepCanBeRepeated(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.InMemory(t).Open(t)
		ctx := t.Context()
		visited, err := visit(ctx, move.Start(db, plan()), user(1))
		if err != nil || visited != 1 {
			t.Fatalf("visit %d, %v", visited, err)
		}
		// killed ends the step while the new phase settles, after the given number of polls.
		killed := func(step func(ctx context.Context, op *move.Mover[User, int64]) error, polls time.Duration, want move.Phase) {
			t.Helper()
			short, cancel := context.WithTimeout(ctx, polls*poll+2*poll)
			defer cancel()
			op := move.Start(db, plan())
			if err := step(short, op); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("killed on the way to %s: %v", want, err)
			}
			if got, err := op.Phase(ctx); err != nil || got != want {
				t.Fatalf("killed in %q, %v, want %q", got, err, want)
			}
		}
		advance := func(ctx context.Context, op *move.Mover[User, int64]) error {
			_, err := op.Advance(ctx)
			return err
		}
		clean := func(ctx context.Context, op *move.Mover[User, int64]) error {
			_, err := op.Clean(ctx)
			return err
		}
		again := func(want move.Phase) {
			t.Helper()
			if got, err := move.Start(db, plan()).Advance(ctx); err != nil || got != want {
				t.Fatalf("called again it came to %q, %v, want %q", got, err, want)
			}
		}
		prove := func() {
			t.Helper()
			op := move.Start(db, plan())
			_, err := op.Fill(ctx)
			ok(t, err)
			_, err = op.Compare(ctx)
			ok(t, err)
		}

		killed(advance, 5, move.Both)
		again(move.Both)
		prove()
		killed(advance, 5, move.Switched)
		again(move.Switched)
		back, err := move.Start(db, plan()).Back(ctx)
		if err != nil || back != move.Both {
			t.Fatalf("Back returned %q, %v", back, err)
		}
		again(move.Switched)
		killed(func(ctx context.Context, op *move.Mover[User, int64]) error {
			_, err := op.Back(ctx)
			return err
		}, 5, move.Both)
		prove() // also waits for the nodes
		again(move.Switched)
		killed(advance, 5, move.New)
		again(move.New)
		killed(clean, 10, move.Done)
		ok(t, clean(ctx, move.Start(db, plan())))
		if got, _, err := move.Start(db, plan()).Get(ctx, user(1)); err != nil || got != 1 {
			t.Errorf("read %d, %v", got, err)
		}
		redistest.KeysDeclared(t, db, schema)
	})
}

func TestMove_RefusesInvalidCalls(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	m := move.Start(db, toldOfPhases())
	ctx := t.Context()
	other := []keyspace.Cmd{{Name: "INCR", Key: oldKey.At(user(2)).Key}}
	if _, err := m.Write(ctx, user(1), other, nil); !errors.Is(err, move.ErrCommand) {
		t.Errorf("another entity's key: %v", err)
	}
	more := []keyspace.Cmd{{Name: "DEL", Key: oldKey.At(user(1)).Key, More: []keyspace.Key{newKey.At(user(1)).Key}}}
	if _, err := m.Write(ctx, user(1), more, nil); !errors.Is(err, move.ErrCommand) {
		t.Errorf("a second key: %v", err)
	}
	ok(t, redis.NewScript("return redis.call('RPUSH', KEYS[1], 'x')").Run(ctx, db, []keyspace.Key{newKey.At(user(1)).Key}).Err)
	if _, err := visit(ctx, m, user(1)); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a new key of another type: %v", err)
	}
	if n, had, _ := plan().Old.Get(ctx, db, user(1)); had {
		t.Errorf("the old key was written: %d", n)
	}
	if got, err := m.Advance(ctx); !errors.Is(err, move.ErrNotEmpty) || got != move.Old {
		t.Errorf("with a key in the new family: %q, %v", got, err)
	}
	if _, err := m.Back(ctx); !errors.Is(err, move.ErrPhase) {
		t.Errorf("back from old: %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := m.Fill(ctx); err == nil {
		t.Error("filled after the context ended")
	}
}

// A node may act on the current phase or the one before. After all operations of two such nodes, both sides must equal a plain map,
// which is the model of the scripts.
func TestMove_NodesOnePhaseBehind(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		ctx := context.Background()
		p := toldOfPhases()
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		set := func(phase move.Phase) {
			must(db.Do(ctx, stateKey.At().SetCmd("phase", string(phase))).Err)
		}
		set(move.Old)
		nodes := []*move.Mover[User, int64]{move.Start(db, p), move.Start(db, p)}
		learn := func() {
			for _, n := range nodes {
				_, err := n.Phase(ctx)
				must(err)
			}
		}
		want := map[int]int64{}
		users := func() int { return round*10 + rapid.IntRange(0, 2).Draw(t, "user") }
		write := func(steps int) {
			for range steps {
				node, u := rapid.SampledFrom(nodes).Draw(t, "node"), users()
				switch rapid.IntRange(0, 5).Draw(t, "verb") {
				case 0:
					must(node.Delete(ctx, user(u)))
					delete(want, u)
				case 1:
					n := rapid.Int64Range(1, 99).Draw(t, "n")
					must(node.Set(ctx, user(u), n))
					want[u] = n
				default:
					_, err := visit(ctx, node, user(u))
					must(err)
					want[u]++
				}
			}
		}
		check := func(phase move.Phase, side move.Side[User, int64]) {
			for u := round * 10; u < round*10+3; u++ {
				got, has, err := side.Get(ctx, db, user(u))
				must(err)
				if n, had := want[u]; got != n || has != had {
					t.Fatalf("after %s user %d has %d, %v, want %d, %v", phase, u, got, has, n, had)
				}
			}
		}
		learn()
		write(4)
		for _, phase := range []move.Phase{move.Both, move.Switched, move.New} {
			set(phase)
			_, err := nodes[0].Phase(ctx) // the other node is behind
			must(err)
			write(rapid.IntRange(1, 8).Draw(t, "steps"))
			learn()
			if phase == move.Both {
				check(phase, p.Old)
				p.Poll = time.Millisecond
				filler := move.Start(db, p)
				_, err := filler.Fill(ctx)
				must(err)
				_, err = filler.Compare(ctx)
				must(err)
			}
			write(rapid.IntRange(0, 4).Draw(t, "steps"))
			if phase == move.Switched {
				check(phase, p.Old)
			}
			if phase != move.Both {
				check(phase, p.New)
			}
		}
		for u := round * 10; u < round*10+3; u++ {
			must(nodes[0].Delete(ctx, user(u)))
		}
	})
}

// TestMain is also the operator of the test below: a process that runs the move until it is done or killed.
func TestMain(m *testing.M) {
	if url := os.Getenv("MOVE_REDIS"); url != "" {
		if err := operate(context.Background(), url); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func operate(ctx context.Context, url string) error {
	db, err := redis.Open(ctx, redis.Config{URL: url, Patience: 20 * time.Second})
	if err != nil {
		return err
	}
	m := move.Start(db, plan())
	for differed := 0; ; {
		phase, err := m.Phase(ctx)
		if err != nil {
			return err
		}
		fmt.Println(phase)
		switch phase {
		case move.Both:
			if _, err = m.Fill(ctx); err == nil {
				if _, err = m.Compare(ctx); err == nil {
					_, err = m.Advance(ctx)
				}
			}
		case move.New:
			_, err = m.Clean(ctx)
		case move.Done:
			return nil
		default:
			_, err = m.Advance(ctx)
		}
		if errors.Is(err, move.ErrDiffers) && differed < 3 {
			differed++ // the writers may have changed a key during each comparison
		} else if err != nil {
			return err
		}
	}
}

func TestMove_LosesNothingWhenOperatorIsKilled(t *testing.T) {
	t.Parallel()
	const writers, nodes = 6, 3
	entities := 600
	if full {
		entities = 3000
	}
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	movers := make([]*move.Mover[User, int64], nodes)
	for i := range movers {
		movers[i] = move.Start(redistest.Open(t, server.URL), plan())
	}
	want, unsure := make([]atomic.Int64, entities), make([]atomic.Int64, entities)
	for n := range entities {
		if _, err := visit(t.Context(), movers[0], user(n)); errors.Is(err, redis.ErrUnavailable) {
			unsure[n].Add(1) // see below
		} else {
			ok(t, err)
			want[n].Store(1)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var visits atomic.Int64
	for w := range writers {
		all.Go(func() {
			m := movers[w%nodes]
			for ctx.Err() == nil {
				// Half of the visits are for a few users, whose keys are written all the time. Other visits are the
				// first of their users.
				n := rand.IntN(20)
				if rand.IntN(2) == 0 {
					n = rand.IntN(entities)
				}
				// The context of the test has no deadline, so a write only fails if the machine stalls for longer than
				// a phase is valid.
				switch _, err := visit(t.Context(), m, user(n)); {
				case errors.Is(err, redis.ErrUnavailable):
					unsure[n].Add(1)
				case err != nil:
					t.Errorf("visit: %v", err)
					return
				default:
					want[n].Add(1)
				}
				visits.Add(1)
			}
		})
	}

	kills, phases := 0, map[string]int{}
	for done := false; !done; {
		op := exec.CommandContext(t.Context(), os.Args[0])
		op.Env = append(os.Environ(), "MOVE_REDIS="+server.URL)
		out, err := op.StdoutPipe()
		ok(t, err)
		ok(t, op.Start())
		kill := time.AfterFunc(poll+rand.N(5*poll*time.Duration(kills+1)), func() { _ = op.Process.Kill() })
		lines := bufio.NewScanner(out)
		said := ""
		for lines.Scan() {
			said = lines.Text()
			phases[said]++
		}
		err = op.Wait()
		kill.Stop()
		exit, _ := errors.AsType[*exec.ExitError](err)
		switch {
		case err == nil:
			done = true
		case exit != nil && exit.Sys().(syscall.WaitStatus).Signaled():
			kills++
		default:
			t.Fatalf("the operator ended: %v, %s", err, said)
		}
		if kills > 200 {
			t.Fatalf("no end after %d kills; the phases seen: %v", kills, phases)
		}
	}
	stop()
	all.Wait()
	t.Logf("%d kills, %d visits meanwhile, phases seen %v", kills, visits.Load(), phases)
	if kills == 0 || visits.Load() < 1000 {
		t.Errorf("%d kills and %d visits are too few", kills, visits.Load())
	}
	for n := range entities {
		got, _, err := plan().New.Get(t.Context(), db, user(n))
		if least := want[n].Load(); err != nil || got < least || got > least+unsure[n].Load() {
			t.Errorf("user %d has %d visits, %v, want %d and perhaps %d more", n, got, err, least, unsure[n].Load())
		}
		if _, left, err := plan().Old.Get(t.Context(), db, user(n)); left || err != nil {
			t.Errorf("user %d has an old key, %v", n, err)
		}
	}
	redistest.KeysDeclared(t, db, schema)
}
