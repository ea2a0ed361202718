package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func TestKeys_AreValid(t *testing.T) {
	if err := keyspace.Lint(Keys); err != nil {
		t.Error(err)
	}
}

// twin models a store in a few lines of Go. Its keys are unique.
type twin map[string]*twinMessage

type twinMessage struct {
	state    State
	attempts int
	due      bool
	err      string
	claims   int
}

func (w twin) due() (keys []string) {
	for key, m := range w {
		if m.state == Waiting && m.due {
			keys = append(keys, key)
		}
	}
	return keys
}

func (w twin) claim(key string) {
	m := w[key]
	m.state = Claimed
	m.attempts++
	m.claims++
}

// settle models settle.lua; claims is the claim number of the outcome.
func (w twin) settle(o outcome, claims int) {
	m := w[o.Key]
	if m == nil || m.state != Claimed || m.claims != claims {
		return
	}
	switch o.kind {
	case "done":
		delete(w, o.Key)
	case "dead":
		m.state, m.err = Dead, o.err
	default:
		m.state, m.due = Waiting, o.wait == 0
		if o.kind != "released" {
			m.err = o.err
		}
		if o.kind != "retry" {
			m.attempts--
		}
	}
}

func (w twin) replay(key string) {
	if m := w[key]; m != nil && m.state == Dead {
		*m = twinMessage{state: Waiting, due: true, claims: m.claims}
	}
}

func (w twin) String() (s string) {
	for _, key := range slices.Sorted(maps.Keys(w)) {
		m := w[key]
		s += fmt.Sprintf("%s %s %d %q\n", key, m.state, m.attempts, m.err)
	}
	return s
}

// The stores agree with the twin on random histories of publishes, claims, outcomes, repeated and late outcomes,
// replays and drops. With the fixed seed a message becomes free again at a place before the cursor of the next claim.
func TestStores_AgreeWithAModelOnRandomHistories(t *testing.T) {
	stores := map[string]Store{"sql": NewSQL(sqldbtest.SQLite(t))}
	for _, e := range redistest.Engines(t)[:2] { // the embedded server and a real one
		stores["redis/"+e.Name] = NewRedis(e.Open(t))
	}
	for name, s := range stores {
		t.Run(name, func(t *testing.T) {
			for _, seed := range []uint64{rand.Uint64(), 5852903995993165731} {
				t.Logf("seed %d", seed)
				rng := rand.New(rand.NewPCG(seed, 0))
				for round := range 3 {
					history(t, s, rng, fmt.Sprintf("t%d/%d", round, seed))
				}
			}
		})
	}
}

func history(t *testing.T, s Store, rng *rand.Rand, topic string) {
	t.Helper()
	const life = time.Hour
	ctx := t.Context()
	w := twin{}
	type held struct {
		Delivery
		claims int
	}
	var holds []held // including settled ones, whose outcomes are repeated
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	look := func() (es []Entry) {
		t.Helper()
		for _, dead := range []bool{false, true} {
			page, err := s.List(ctx, Filter{Topic: topic, Dead: dead, Limit: MaxList})
			check(err)
			es = append(es, page...)
		}
		return es
	}
	for step := range 60 {
		what := ""
		switch rng.IntN(6) {
		case 0, 1:
			key := fmt.Sprint(step)
			check(s.Publish(ctx, Message{Topic: topic, Key: key, Payload: []byte(key)}))
			w[key] = &twinMessage{state: Waiting, due: true}
			what = "publish " + key
		case 2:
			n := 1 + rng.IntN(5)
			due := w.due()
			ds, _, err := s.claim(ctx, []string{topic}, n, life, time.Second, time.Hour, 0)
			check(err)
			if len(ds) != min(n, len(due)) {
				t.Fatalf("step %d: claimed %d of %d due, want %d", step, len(ds), len(due), min(n, len(due)))
			}
			for _, d := range ds {
				if !slices.Contains(due, d.Key) || string(d.Payload) != d.Key {
					t.Fatalf("step %d: claimed %+v, due are %v", step, d, due)
				}
				w.claim(d.Key)
				if d.Attempt != w[d.Key].attempts {
					t.Fatalf("step %d: attempt %d of %s, want %d", step, d.Attempt, d.Key, w[d.Key].attempts)
				}
				holds = append(holds, held{d, w[d.Key].claims})
			}
			what = fmt.Sprintf("claim %d", n)
		case 3, 4:
			if len(holds) == 0 {
				continue
			}
			h := holds[rng.IntN(len(holds))]
			o := outcome{Delivery: h.Delivery, kind: []string{"done", "retry", "retry", "dead", "released", "postponed"}[rng.IntN(6)]}
			if o.kind != "done" {
				o.err = fmt.Sprintf("error %d", step)
			}
			if o.kind == "retry" && rng.IntN(3) == 0 {
				o.wait = life / 2
			}
			check(s.settle(ctx, life, []outcome{o}))
			w.settle(o, h.claims)
			what = fmt.Sprintf("%s of %s, claim %d", o.kind, o.Key, h.claims)
		case 5:
			es := look()
			if len(es) == 0 {
				continue
			}
			e := es[rng.IntN(len(es))]
			if rng.IntN(2) == 0 {
				n, err := s.Replay(ctx, e.ID)
				check(err)
				if was := e.State == Dead; was != (n == 1) {
					t.Fatalf("step %d: replayed %d of one %s", step, n, e.State)
				}
				w.replay(e.Key)
				what = "replay " + e.Key
			} else {
				n, err := s.Drop(ctx, e.ID)
				check(err)
				if n != 1 {
					t.Fatalf("step %d: dropped %d, want 1", step, n)
				}
				delete(w, e.Key)
				what = "drop " + e.Key
			}
		}
		got := twin{}
		for _, e := range look() {
			got[e.Key] = &twinMessage{state: e.State, attempts: e.Attempts, err: e.Error}
		}
		if got.String() != w.String() {
			t.Fatalf("after step %d, %s:\n%swant\n%s", step, what, got, w)
		}
	}
}
