package move

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Progress is the progress of a pass over the old keys.
type Progress struct {
	What     string // "fill", "compare" or "clean"
	Keys     int64  // the number so far
	Differ   int64  // the number with a difference, in Compare
	Examples []string
}

// workers is the number of entities that a pass processes in parallel.
const workers = 16

// reportEvery is the number of keys between two reports.
const reportEvery = 1000

// Advance changes to the next phase and returns when every node acts on it, which takes ten Polls. It leaves Both only
// after a Compare without a difference; only Clean leaves New. If an earlier call started a phase but did not finish,
// Advance finishes that phase.
func (m *Mover[K, V]) Advance(ctx context.Context) (Phase, error) {
	v, err := m.loadPhase(ctx)
	if err != nil {
		return "", err
	}
	settling, _, err := m.db.Do(ctx, keyspace.Cmd{Name: "HGET", Key: m.plan.State.Key, Args: []string{settlingField}}).Text()
	if err != nil {
		return "", fmt.Errorf("move: phase of %s: %w", m.plan.State, err)
	}
	if settling == string(v.phase) {
		return v.phase, m.settle(ctx, v.phase)
	}
	to, ok := next[v.phase]
	if !ok {
		return v.phase, fmt.Errorf("%w: nothing to advance to from %s", ErrPhase, v.phase)
	}
	if v.phase == Old {
		if err := m.checkNewEmpty(ctx); err != nil {
			return v.phase, err
		}
	}
	return m.change(ctx, v.phase, to)
}

// checkNewEmpty refuses new keys that are older than the move, because nothing would ever correct them.
func (m *Mover[K, V]) checkNewEmpty(ctx context.Context) error {
	return m.scan(ctx, m.plan.New.Family, func(p keyspace.Parsed) error {
		return fmt.Errorf("%w: %s, for example", ErrNotEmpty, p.Key())
	})
}

// scan calls fn for every key of a family.
func (m *Mover[K, V]) scan(ctx context.Context, f *keyspace.Family, fn func(keyspace.Parsed) error) error {
	prefix, parser := m.db.Physical(keyspace.Key{}), keyspace.ParserOf(f)
	return m.db.Scan(ctx, func(physical string) error {
		if found, ok := parser.Key(physical[len(prefix):]); ok {
			return fn(found)
		}
		return nil
	})
}

// Back returns from Switched to Both, so that the old keys are read again.
func (m *Mover[K, V]) Back(ctx context.Context) (Phase, error) {
	return m.change(ctx, Switched, Both)
}

// change first waits until every node acts on the current phase, because the process that started it may have been
// killed before.
func (m *Mover[K, V]) change(ctx context.Context, from, to Phase) (Phase, error) {
	if err := m.settle(ctx, from); err != nil {
		return "", err
	}
	done, err := phaseScript.Run(ctx, m.db, []keyspace.Key{m.plan.State.Key}, string(from), string(to)).Int()
	if err != nil {
		return "", fmt.Errorf("move: to %s: %w", to, err)
	}
	switch done {
	case 0:
		return "", fmt.Errorf("%w: it is no longer %s", ErrPhase, from)
	case -1:
		return from, fmt.Errorf("%w, or were not compared since the last fill: run Fill and Compare", ErrDiffers)
	}
	return to, m.settle(ctx, to)
}

// settle returns when every node acts on the phase. It returns an error if the phase changes meanwhile.
func (m *Mover[K, V]) settle(ctx context.Context, phase Phase) error {
	end := time.Now().Add(settlePolls * m.plan.Poll)
	for {
		v, err := m.loadPhase(ctx)
		if err != nil {
			return err
		}
		if v.phase != phase {
			return fmt.Errorf("%w: it is %s instead of %s", ErrPhase, v.phase, phase)
		}
		left := time.Until(end)
		if left <= 0 {
			return m.settled(ctx)
		}
		if err := sleep(ctx, min(left, m.plan.Poll)); err != nil {
			return err
		}
	}
}

// settlingField is the field of the state that stores a phase until every node acts on it.
const settlingField = "settling"

func (m *Mover[K, V]) settled(ctx context.Context) error {
	if err := m.db.Do(ctx, keyspace.Cmd{Name: "HDEL", Key: m.plan.State.Key, Args: []string{settlingField}}).Err; err != nil {
		return fmt.Errorf("move: phase of %s: %w", m.plan.State, err)
	}
	return nil
}

// Fill copies the value of every old key to its new key. It runs in phase Both, in parallel to reads and writes, as
// often as necessary.
func (m *Mover[K, V]) Fill(ctx context.Context) (Progress, error) {
	return m.pass(ctx, "fill", Both, func(ctx context.Context, k K, _ *Progress, _ *sync.Mutex) error {
		_, err := m.fill(ctx, k)
		return err
	})
}

// Compare reads both sides of every old key. It counts the differences that remain, and returns ErrDiffers after the
// pass if there is one. If there is none, Advance can leave Both.
func (m *Mover[K, V]) Compare(ctx context.Context) (Progress, error) {
	p, err := m.pass(ctx, "compare", Both, m.compare)
	if err == nil && p.Differ > 0 {
		err = fmt.Errorf("%w: %d of %d", ErrDiffers, p.Differ, p.Keys)
	}
	equal := "0"
	if err == nil {
		equal = "1"
	}
	if setErr := m.db.Do(ctx, m.plan.State.SetCmd("equal", equal)).Err; setErr != nil && err == nil {
		err = fmt.Errorf("move: compare: %w", setErr)
	}
	return p, err
}

// compare retries, so that a write between its two reads can finish.
func (m *Mover[K, V]) compare(ctx context.Context, k K, p *Progress, mu *sync.Mutex) error {
	const chances = 10
	for chance := range chances {
		old, had, err := m.plan.Old.Get(ctx, m.db, k)
		if err != nil {
			return err
		}
		now, has, err := m.plan.New.Get(ctx, m.db, k)
		if err != nil {
			return err
		}
		if had == has && (!had || m.plan.Equal(old, now)) {
			return nil
		}
		if err := sleep(ctx, time.Duration(chance)*time.Millisecond); err != nil {
			return err
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if p.Differ++; len(p.Examples) < 10 {
		p.Examples = append(p.Examples, m.plan.Old.Key(k).String())
	}
	return nil
}

// Clean removes the old keys, in phase New, and ends the move. An old key without a new one was written by a node that
// missed every phase. It is filled first, and it is also removed if its value needs no new key.
func (m *Mover[K, V]) Clean(ctx context.Context) (Progress, error) {
	v, err := m.loadPhase(ctx)
	if err != nil || v.phase == Done { // an earlier call did not finish
		return Progress{What: "clean"}, err
	}
	p, err := m.pass(ctx, "clean", New, func(ctx context.Context, k K, _ *Progress, _ *sync.Mutex) error {
		filled := ""
		for range maxTries {
			gone, err := dropScript.Run(ctx, m.db, []keyspace.Key{m.plan.Old.Key(k), m.plan.New.Key(k)}, filled).Int()
			if err != nil || gone == 1 {
				return err
			}
			if filled, err = m.fill(ctx, k); err != nil {
				return err
			}
		}
		return fmt.Errorf("%w: %s", ErrBusy, m.plan.Old.Key(k))
	})
	if err != nil {
		return p, err
	}
	_, err = m.change(ctx, New, Done)
	return p, err
}

// pass waits until every node is in the phase. Then it calls fn for every old key, several in parallel.
func (m *Mover[K, V]) pass(ctx context.Context, what string, phase Phase,
	fn func(context.Context, K, *Progress, *sync.Mutex) error) (Progress, error) {
	p := Progress{What: what}
	if err := m.settle(ctx, phase); err != nil {
		return p, err
	}
	if err := m.db.Do(ctx, m.plan.State.SetCmd("equal", "0")).Err; phase == Both && err != nil {
		return p, fmt.Errorf("move: %s: %w", what, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu   sync.Mutex
		all  sync.WaitGroup
		free = make(chan struct{}, workers)
	)
	err := m.scan(ctx, m.plan.Old.Family, func(found keyspace.Parsed) error {
		k, err := m.plan.Parse(found.Args[:len(found.Family.Args)])
		if err != nil {
			return fmt.Errorf("move: %s: %w", found.Key(), err)
		}
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		all.Go(func() {
			defer func() { <-free }()
			if err := fn(ctx, k, &p, &mu); err != nil {
				cancel(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if p.Keys++; p.Keys%reportEvery == 0 {
				m.report(ctx, p)
			}
		})
		return nil
	})
	all.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	m.report(ctx, p)
	return p, err
}

// report calls the plan's Progress and stores the progress in Redis for other tools.
func (m *Mover[K, V]) report(ctx context.Context, p Progress) {
	_ = m.db.Do(ctx, m.plan.State.SetCmd(p.What, strconv.FormatInt(p.Keys, 10))) // informational only; the pass continues after an error
	if m.plan.Progress != nil {
		m.plan.Progress(p)
	}
}
