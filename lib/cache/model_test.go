package cache

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

var interleavings = flag.Int("cache.interleavings", 200_000, "steps of the model test; docs/cache-hazards.md has a million")

// The model is one slot, a source with a version, and readers and changers that are between two of their steps, in
// random order. Any of them can be overtaken, or never continue. Its clock advances at random, too, and lives, leases
// and fences end with it. The steps on the slot are the twins of the scripts, which tests may replace by wrong ones.
type model struct {
	r        *rand.Rand
	s        slotSteps
	now      int64
	slot     string
	gone     int64 // when the slot expires
	commits  int64 // the source's version
	acked    int64 // newest version that was acknowledged, or committed before a crash
	mark     int64 // changes known to the one process that keeps a copy
	copy     modelCopy
	actors   []modelActor
	crashes  int
	flushes  int
	stored   int
	faults   []string
	tokens   uint64
	messages []int64 // when marks move: they reach the process a little later
}

type modelCopy struct {
	version, mark, until int64
	exists               bool
}

// modelActor is the next step of an actor, with what the actor has read so far. It returns the step after this one, or
// nil at the end.
type modelActor func() modelActor

// slotSteps contains the twins.
type slotSteps struct {
	acquire func(slot, token string, now, until int64, unwanted string) (string, bool)
	fill    func(slot, token, value string, life int64) (string, bool)
	fence   func(slot, token string, now, until int64) (string, bool)
	finish  func(slot, token, value string) (string, int)
	put     func(slot, value string, late bool) (string, bool)
	// The program's steps around them:
	noFence, finishFirst bool
}

func rightSteps() slotSteps {
	return slotSteps{acquire: acquireSlot, fill: fillSlot, fence: fenceSlot, finish: finishSlot, put: putSlot}
}

const (
	modelLoad   = 50  // longest load in ms, from its lease
	modelChange = 100 // longest change in ms
	modelFence  = 150 // life of its fence in ms
	modelLife   = 400
	modelLate   = 30 // bound in ms until the process gets a change, or asks the source
)

func (m *model) token() string {
	m.tokens++
	return string(binary.BigEndian.AppendUint64(nil, m.tokens))
}

func (m *model) set(slot string, life int64) {
	m.slot = slot
	if slot == "" {
		return
	}
	if life > 0 {
		m.gone = m.now + life
	}
}

// value returns an envelope of a version, which is also its id.
func value(version int64) string {
	e := slots.Envelope{Era: 1, ID: uint64(version), Payload: strconv.FormatInt(version, 10)}
	return e.Text()
}

func versionOf(slot string) (int64, bool) {
	e, ok := slots.Parse(slot)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(e.Payload, 10, 64)
	return n, err == nil
}

// check compares what can be read now with what was acknowledged. The source and the slot may never be older; the
// process' copy may be until the process gets the message.
func (m *model) check(step string) {
	if v, ok := versionOf(m.slot); ok && v < m.acked {
		m.faults = append(m.faults, fmt.Sprintf("after %s the slot has version %d, %d is acknowledged", step, v, m.acked))
	}
	if c := m.copy; c.exists && c.mark == m.mark && m.now < c.until && c.version < m.acked && len(m.messages) == 0 {
		m.faults = append(m.faults, fmt.Sprintf("after %s the process keeps version %d, %d is acknowledged and delivered", step, c.version,
			m.acked))
	}
}

// reader reads, and loads if there is no value.
func (m *model) reader() modelActor {
	return func() modelActor {
		mark := m.mark
		found := m.slot // the reply is on its way
		return func() modelActor {
			if v, ok := versionOf(found); ok && slots.Kind(found) == slots.IsValue && m.r.IntN(8) > 0 {
				m.copy = modelCopy{v, mark, m.now + modelLife, true}
				return nil
			}
			unwanted := ""
			if slots.Kind(found) == slots.IsValue { // it is to be loaded again
				unwanted = found[slots.IDAt : slots.IDAt+8]
			}
			return m.loader(mark, unwanted)
		}
	}
}

func (m *model) loader(mark int64, unwanted string) modelActor {
	return func() modelActor {
		mine := m.token()
		next, taken := m.s.acquire(m.slot, mine, m.now, m.now+modelLoad, unwanted)
		if !taken {
			return nil
		}
		m.set(next, max(modelLoad, m.gone-m.now))
		return func() modelActor {
			version := m.commits // the source was read
			return func() modelActor {
				if m.r.IntN(10) == 0 { // the load failed, or its result must not be stored
					next, _ := m.s.fill(m.slot, mine, "", -m.r.Int64N(2))
					m.set(next, 0)
					return nil
				}
				next, ok := m.s.fill(m.slot, mine, value(version), modelLife)
				if ok {
					m.set(next, modelLife)
					m.stored++
					m.copy = modelCopy{version, mark, m.now + modelLife, true}
				}
				return nil
			}
		}
	}
}

// announce moves the mark after a delay.
func (m *model) announce() { m.messages = append(m.messages, m.now+m.r.Int64N(modelLate)) }

// changer fences, commits and finishes; it commits in time or not at all.
func (m *model) changer() modelActor {
	return func() modelActor {
		mine, began, flushes := m.token(), m.now, m.flushes
		if !m.s.noFence {
			next, shared := m.s.fence(m.slot, mine, m.now, m.now+modelFence)
			life := int64(modelFence)
			if shared {
				life = max(life, m.gone-m.now)
			}
			m.set(next, life)
		}
		return func() modelActor {
			m.announce()
			return func() modelActor {
				if m.now > began+modelChange {
					return m.finisher(mine, "", 0) // its context has ended
				}
				m.commits++
				version := m.commits
				if m.r.IntN(20) == 0 {
					m.crashes++
					if flushes == m.flushes { // otherwise there were two faults at once
						m.acked = max(m.acked, version)
					}
					return nil
				}
				return func() modelActor {
					if m.s.finishFirst {
						m.acked = max(m.acked, version)
					}
					if m.r.IntN(2) == 0 {
						return m.finisher(mine, "", version)
					}
					loaded := m.commits // the value is read under the fence
					return m.finisher(mine, value(loaded), version)
				}
			}
		}
	}
}

func (m *model) finisher(mine, text string, version int64) modelActor {
	return func() modelActor {
		next, result := m.s.finish(m.slot, mine, text)
		life := int64(0)
		if result == 2 {
			life = modelLife
			m.stored++
		}
		m.set(next, life)
		if result == 0 {
			m.announce()
		}
		return func() modelActor {
			m.acked = max(m.acked, version)
			return nil
		}
	}
}

// dropper commits without a fence and drops.
func (m *model) dropper() modelActor {
	return func() modelActor {
		m.commits++
		version := m.commits
		return func() modelActor {
			next, _ := m.s.put(m.slot, "", false)
			m.set(next, 0)
			return func() modelActor {
				m.announce()
				m.acked = max(m.acked, version)
				return nil
			}
		}
	}
}

func (m *model) step() {
	name := "a step"
	switch n := m.r.IntN(100); {
	case n < 6:
		m.actors = append(m.actors, m.reader())
	case n < 9:
		m.actors = append(m.actors, m.changer())
	case n < 10:
		m.actors = append(m.actors, m.dropper())
	case n < 11 && m.r.IntN(10) == 0:
		m.slot, name = "", "FLUSHALL"
		m.flushes++
	case n < 14:
		m.now += m.r.Int64N(modelFence)
		name = "time"
	case n < 30:
		m.now++
	default:
		if len(m.actors) > 0 {
			i := m.r.IntN(len(m.actors))
			if next := m.actors[i](); next != nil {
				m.actors[i] = next
			} else {
				m.actors[i] = m.actors[len(m.actors)-1]
				m.actors = m.actors[:len(m.actors)-1]
			}
		}
	}
	if m.slot != "" && m.now >= m.gone {
		m.slot = ""
	}
	waiting := m.messages[:0]
	for _, at := range m.messages {
		if at <= m.now {
			m.mark++
		} else {
			waiting = append(waiting, at)
		}
	}
	m.messages = waiting
	if len(m.actors) > 12 { // one of them never continues
		m.actors = m.actors[1:]
	}
	m.check(name)
}

func runModel(seed uint64, steps int, s slotSteps) *model {
	m := &model{r: rand.New(rand.NewPCG(seed, 1)), s: s}
	for range steps {
		m.step()
		if len(m.faults) > 0 {
			break
		}
	}
	return m
}

func TestModel_NoInterleavingLeavesOldValue(t *testing.T) {
	const each = 2_000
	var stored, crashes, acked int64
	for n := range max(1, *interleavings/each) {
		seed := rand.Uint64()
		if n < 10 {
			seed = uint64(n)
		}
		m := runModel(seed, each, rightSteps())
		for _, f := range m.faults {
			t.Fatalf("seed %d: %s", seed, f)
		}
		stored, crashes, acked = stored+int64(m.stored), crashes+int64(m.crashes), acked+m.acked
	}
	t.Logf("%d steps: %d values stored, %d changes acknowledged, %d crashed", *interleavings, stored, acked, crashes)
	if stored < 100 || acked < 100 || crashes < 10 {
		t.Error("too few values, changes or crashes")
	}
}

// TestModel_DetectsWrongRules removes one rule at a time.
func TestModel_DetectsWrongRules(t *testing.T) {
	for name, spoil := range map[string]func(*slotSteps){
		"a fill that does not check its lease": func(s *slotSteps) {
			s.fill = func(slot, _, value string, _ int64) (string, bool) { return value, value != "" }
		},
		"a fill that takes any lease for its own": func(s *slotSteps) {
			s.fill = func(slot, token, value string, life int64) (string, bool) {
				if slots.Kind(slot) != slots.IsLease {
					return slot, false
				}
				return fillSlot(slot, slot[1:1+slots.TokenLen], value, life)
			}
		},
		"a lease that is taken from a fence": func(s *slotSteps) {
			s.acquire = func(slot, token string, now, until int64, unwanted string) (string, bool) {
				if slots.Kind(slot) == slots.IsFence {
					slot = ""
				}
				return acquireSlot(slot, token, now, until, unwanted)
			}
		},
		"a change without a fence":             func(s *slotSteps) { s.noFence = true },
		"an acknowledgement before the finish": func(s *slotSteps) { s.finishFirst, s.noFence = true, true },
		"a finish that lifts the others' fence": func(s *slotSteps) {
			s.finish = func(slot, token, value string) (string, int) {
				next, result := finishSlot(slot, token, value)
				if slots.Kind(next) == slots.IsFence {
					next = ""
				}
				return next, result
			}
		},
		"a finish that stores beside another change": func(s *slotSteps) {
			s.finish = func(slot, token, value string) (string, int) {
				if slots.Kind(slot) == slots.IsFence {
					slot = "F0" + slot[2:]
				}
				return finishSlot(slot, token, value)
			}
		},
		"a finish that leaves what came when the fence was lost": func(s *slotSteps) {
			s.finish = func(slot, token, value string) (string, int) {
				if slots.Kind(slot) != slots.IsFence {
					return slot, 1
				}
				return finishSlot(slot, token, value)
			}
		},
		"a fence that forgets the others": func(s *slotSteps) {
			s.fence = func(_, token string, now, until int64) (string, bool) { return fenceSlot("", token, now, until) }
		},
		"a drop that leaves a lease": func(s *slotSteps) {
			s.put = func(slot, value string, late bool) (string, bool) {
				if slots.Kind(slot) == slots.IsLease {
					return slot, true
				}
				return putSlot(slot, value, late)
			}
		},
		"a drop that a change under way does not notice": func(s *slotSteps) {
			s.put = func(slot, value string, late bool) (string, bool) {
				if slots.Kind(slot) == slots.IsFence {
					return slot, false
				}
				return putSlot(slot, value, late)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := rightSteps()
			spoil(&s)
			for seed := range uint64(500) {
				if m := runModel(seed, 2_000, s); len(m.faults) > 0 {
					t.Logf("seed %d: %s", seed, m.faults[0])
					return
				}
			}
			t.Error("the model does not detect it")
		})
	}
}

var slotKey = keyspace.Def1[keyspace.Int](keyspace.New("slots"), "test:slot:{{n}}", keyspace.CachedOf[int](),
	keyspace.Expire(time.Hour), keyspace.Doc{})

// TestScripts_AgreeWithTwins applies random histories to both.
func TestScripts_AgreeWithTwins(t *testing.T) {
	for _, engine := range redistest.Engines(t) {
		if engine.Name == "spawn" || engine.Name == "sentinel" {
			continue // the same server as standalone
		}
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			db := engine.Open(t)
			for n := range 20 {
				agree(t, db, uint64(n), 50)
			}
		})
	}
}

func agree(t *testing.T, db *redis.DB, seed uint64, steps int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	key := []keyspace.Key{slotKey.At(keyspace.Int{N: int64(seed)}).Key}
	slot, life := "", int64(0)
	tokens := []string{"tokenaaa", "tokenbbb", "tokenccc"}
	run := func(s *redis.Script, args ...string) keyspace.Reply {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return s.Run(ctx, db, key, args...)
	}
	for range steps {
		token, version := tokens[r.IntN(3)], int64(r.IntN(3))
		now := int64(1_700_000_000_000 + r.IntN(1000))
		until := now + int64(r.IntN(1000)) - 200
		text, textLife := value(version), int64(100_000+r.IntN(100_000))
		if r.IntN(3) == 0 {
			text, textLife = "", 0
		}
		var next, script string
		var reply keyspace.Reply
		var got, want any
		lived := life
		switch r.IntN(6) {
		case 0:
			unwanted := ""
			if slots.Kind(slot) == slots.IsValue && r.IntN(2) == 0 {
				unwanted = slot[slots.IDAt : slots.IDAt+8]
			}
			leased := int64(50_000)
			script, reply = "acquire", run(acquireScript, token, strconv.FormatInt(now, 10), fmt.Sprintf("%013d", until),
				strconv.FormatInt(leased, 10), unwanted)
			var taken bool
			next, taken = acquireSlot(slot, token, now, until, unwanted)
			if got, _, _ = reply.Text(); taken {
				want, lived = "", max(leased, life)
				if slot == "" {
					lived = leased
				}
			} else {
				want = slot
			}
		case 1:
			if text == "" {
				textLife = -int64(r.IntN(2))
			}
			script, reply = "fill", run(fillScript, token, text, strconv.FormatInt(textLife, 10))
			var ok bool
			if next, ok = fillSlot(slot, token, text, textLife); ok && text != "" {
				lived = textLife
			}
			got, want = number(reply), toInt(ok)
		case 2:
			id := string(binary.BigEndian.AppendUint64(nil, uint64(r.IntN(3))))
			renewed := value(int64(binary.BigEndian.Uint64([]byte(id))))
			script, reply = "renew", run(renewScript, id, renewed)
			var ok bool
			next, ok = renewSlot(slot, id, renewed)
			got, want = number(reply), toInt(ok)
		case 3:
			script, reply = "fence", run(fenceScript, token, strconv.FormatInt(now, 10), fmt.Sprintf("%013d", until), "70000")
			var shared bool
			next, shared = fenceSlot(slot, token, now, until)
			if lived = 70_000; shared {
				lived = max(lived, life)
			}
			got, want = number(reply), int64(1)
		case 4:
			script, reply = "finish", run(finishScript, token, text, strconv.FormatInt(textLife, 10))
			var result int
			if next, result = finishSlot(slot, token, text); result == 2 {
				lived = textLife
			}
			got, want = number(reply), int64(result)
		case 5:
			late := r.IntN(3) == 0
			until := map[bool]string{true: "1700000000000", false: "9999999999999"}[late]
			script, reply = "put", run(putScript, text, strconv.FormatInt(textLife, 10), until)
			var ok bool
			if next, ok = putSlot(slot, text, late); ok {
				lived = textLife
			}
			got, want = number(reply), toInt(ok)
		}
		if reply.Err != nil || got != want {
			t.Fatalf("seed %d: %s of %q: %v (%v), its twin %v", seed, script, slot, got, reply.Err, want)
		}
		stored, _, err := db.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: key[0]}).Text()
		if err != nil || stored != next {
			t.Fatalf("seed %d: %s of %q leaves %q (%v), its twin %q", seed, script, slot, stored, err, next)
		}
		if next != "" {
			left, err := db.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: key[0]}).Int()
			// Time passes in this test, too.
			if err != nil || left > lived || left < lived-20_000 {
				t.Fatalf("seed %d: %s of %q lets it live %d ms (%v), want %d", seed, script, slot, left, err, lived)
			}
			life = left
		} else {
			life = 0
		}
		slot = next
	}
}

func number(r keyspace.Reply) int64 { n, _ := r.Int(); return n }

func toInt(ok bool) int64 {
	if ok {
		return 1
	}
	return 0
}
