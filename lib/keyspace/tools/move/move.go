package move

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Phase is the phase of a move.
type Phase string

// The phases, in their order.
const (
	Old      Phase = "old"      // write old, read old
	Both     Phase = "both"     // write both, read old
	Switched Phase = "switched" // write both, read new
	New      Phase = "new"      // write new, read new
	Done     Phase = "done"     // as New, and no old keys exist
)

// next maps a phase to the phase that follows.
var next = map[Phase]Phase{Old: Both, Both: Switched, Switched: New}

// readsNew reports whether reads use the new side.
func (p Phase) readsNew() bool { return p == Switched || p == New || p == Done }

// Errors of a move.
var (
	// ErrPhase reports that the operation is not possible in the current phase.
	ErrPhase = errors.New("move: not in this phase")
	// ErrDiffers reports that the sides differ, or that they were not compared.
	ErrDiffers = errors.New("move: the sides differ")
	// ErrNotEmpty reports that keys of the new family existed before the move.
	ErrNotEmpty = errors.New("move: the new family has keys")
	// ErrCommand reports a command that is not only for the key of its side.
	ErrCommand = errors.New("move: a command for another key")
	// ErrBusy reports that an entity was written too often to read it consistently.
	ErrBusy = errors.New("move: written all the time")
)

// A Side is one of the two families of a move.
type Side[K, V any] struct {
	Family *keyspace.Family
	// Key returns the key of one entity.
	Key func(k K) keyspace.Key
	// Get reads a whole entity; ok is false if it does not exist.
	Get func(ctx context.Context, db keyspace.Executor, k K) (v V, ok bool, err error)
	// Set returns the commands that store v in a missing key, including its TTL. No command may have more than a few
	// thousand arguments.
	Set func(k K, v V) ([]keyspace.Cmd, error)
}

// Plan declares the two sides of a move.
type Plan[K, V any] struct {
	// State stores the phase. It is a separate hash that never expires. Delete it manually after the code of the move
	// was removed.
	State keyspace.Hash
	// Old and New are the sides. Their families share a hash tag.
	Old, New Side[K, V]
	// Parse returns the entity for the arguments of an old key.
	Parse func(args []string) (K, error)
	// Equal compares the values of both sides; nil means reflect.DeepEqual.
	Equal func(a, b V) bool
	// Poll is the largest age of a node's copy of the phase; 0 means one second. A change of phase takes ten Polls. All
	// nodes must have the same Poll.
	Poll time.Duration
	// Progress, if set, is called regularly with the progress of Fill, Compare and Clean.
	Progress func(Progress)
}

// settlePolls is the number of polls before a phase may change. One is for the nodes to read the phase, one for
// operations that a node has already started, and the others are for slow machines.
const settlePolls = 5

// Mover is the part of one node in a move. It is safe for concurrent use.
type Mover[K, V any] struct {
	plan Plan[K, V]
	db   *redis.DB
	seen atomic.Pointer[view]
}

// view is a node's copy of the phase.
type view struct {
	phase Phase
	asked time.Time
}

var (
	//go:embed lua/write.lua
	writeLua string
	//go:embed lua/stamp.lua
	stampLua string
	//go:embed lua/fill.lua
	fillLua string
	//go:embed lua/phase.lua
	phaseLua string
	//go:embed lua/drop.lua
	dropLua string

	writeScript = redis.NewScript(writeLua)
	stampScript = redis.NewScript(stampLua)
	fillScript  = redis.NewScript(fillLua)
	phaseScript = redis.NewScript(phaseLua)
	dropScript  = redis.NewScript(dropLua)
)

// Start returns a node's part of the move in plan. Every node that reads or writes the families needs one before the
// first change of phase.
func Start[K, V any](db *redis.DB, plan Plan[K, V]) *Mover[K, V] {
	if plan.Poll == 0 {
		plan.Poll = time.Second
	}
	if plan.Equal == nil {
		plan.Equal = func(a, b V) bool { return reflect.DeepEqual(a, b) }
	}
	return &Mover[K, V]{plan: plan, db: db}
}

// Phase reads the phase from Redis.
func (m *Mover[K, V]) Phase(ctx context.Context) (Phase, error) {
	v, err := m.loadPhase(ctx)
	return v.phase, err
}

func (m *Mover[K, V]) loadPhase(ctx context.Context) (view, error) {
	asked := time.Now()
	s, ok, err := m.db.Do(ctx, keyspace.Cmd{Name: "HGET", Key: m.plan.State.Key, Args: []string{"phase"}}).Text()
	if err != nil {
		return view{}, fmt.Errorf("move: phase of %s: %w", m.plan.State, err)
	}
	if !ok {
		s = string(Old)
	}
	v := view{Phase(s), asked}
	m.seen.Store(&v)
	return v, nil
}

// currentPhase returns the phase, which is at most one Poll old. The context that it returns ends before the phase is
// too old to act on.
func (m *Mover[K, V]) currentPhase(ctx context.Context) (context.Context, context.CancelFunc, Phase, error) {
	v := m.seen.Load()
	if v == nil || time.Since(v.asked) > m.plan.Poll {
		fresh, err := m.loadPhase(ctx)
		if err != nil {
			return ctx, func() {}, "", err
		}
		v = &fresh
	}
	ctx, cancel := context.WithDeadline(ctx, v.asked.Add(2*m.plan.Poll))
	return ctx, cancel, v.phase, nil
}

// Get reads an entity from the side that is read in the current phase.
func (m *Mover[K, V]) Get(ctx context.Context, k K) (v V, ok bool, err error) {
	ctx, cancel, phase, err := m.currentPhase(ctx)
	defer cancel()
	if err != nil {
		return v, false, err
	}
	return m.side(phase.readsNew()).Get(ctx, m.db, k)
}

func (m *Mover[K, V]) side(isNew bool) *Side[K, V] {
	if isNew {
		return &m.plan.New
	}
	return &m.plan.Old
}

// Set replaces the value of an entity with v.
func (m *Mover[K, V]) Set(ctx context.Context, k K, v V) error {
	both := [2][]keyspace.Cmd{}
	for i := range both {
		side := m.side(i == 1)
		set, err := side.Set(k, v)
		if err != nil {
			return err
		}
		both[i] = append([]keyspace.Cmd{{Name: "UNLINK", Key: side.Key(k)}}, set...)
	}
	_, err := m.Write(ctx, k, both[0], both[1])
	return err
}

// Delete removes an entity.
func (m *Mover[K, V]) Delete(ctx context.Context, k K) error {
	_, err := m.Write(ctx, k, []keyspace.Cmd{{Name: "UNLINK", Key: m.plan.Old.Key(k)}},
		[]keyspace.Cmd{{Name: "UNLINK", Key: m.plan.New.Key(k)}})
	return err
}

// maxTries is the number of attempts of a write or a fill.
const maxTries = 50

// The first element of the reply of write.lua.
const (
	written = iota
	unfilled
	stale
)

// Write runs the commands for the old key, for the new key, or for both, atomically, and returns the replies of the
// side that is read. Both lists must have the same effect. As with any command, a write without a reply may have
// succeeded. If the server refuses a command, for example because of its arguments, the commands before it may have
// taken effect.
func (m *Mover[K, V]) Write(ctx context.Context, k K, old, new []keyspace.Cmd) ([]keyspace.Reply, error) {
	keys := []keyspace.Key{m.plan.Old.Key(k), m.plan.New.Key(k)}
	for i, cmds := range [2][]keyspace.Cmd{old, new} {
		for _, c := range cmds {
			if c.Key != keys[i] || len(c.More) > 0 {
				return nil, fmt.Errorf("%w: %s %s instead of %s", ErrCommand, c.Name, c.Key, keys[i])
			}
		}
	}
	trust := "no"
	for try := range maxTries {
		answer, phase, err := m.write(ctx, keys, trust, old, new)
		if err != nil {
			return nil, fmt.Errorf("move: write %s: %w", keys[0], err)
		}
		switch answer[0].N {
		case written:
			switch phase {
			case Both:
				return answer[1 : 1+len(old)], nil
			case Switched:
				return answer[1+len(old):], nil
			}
			return answer[1:], nil
		case unfilled:
			if _, err := m.fill(ctx, k); err != nil {
				return nil, err
			}
		case stale:
			if _, err := m.loadPhase(ctx); err != nil {
				return nil, err
			}
		}
		// After a fill and a new read of the phase, the state of the keys is final. An example is an old value that
		// needs no new key.
		if try > 0 {
			trust = "yes"
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrBusy, keys[0])
}

// write sends the commands of the current phase.
func (m *Mover[K, V]) write(ctx context.Context, keys []keyspace.Key, trust string,
	old, new []keyspace.Cmd) ([]keyspace.Reply, Phase, error) {
	ctx, cancel, phase, err := m.currentPhase(ctx)
	defer cancel()
	if err != nil {
		return nil, "", err
	}
	if phase == Done {
		phase = New
	}
	args := []string{string(phase), trust, keys[0].Family().Type, keys[1].Family().Type}
	if phase != New {
		args = appendCmds(args, "1", old)
	}
	if phase != Old {
		args = appendCmds(args, "2", new)
	}
	answer, err := writeScript.Run(ctx, m.db, keys, args...).Items()
	return answer, phase, err
}

// appendCmds encodes commands for the scripts: the number of the key, the number of arguments, the name, the arguments.
func appendCmds(to []string, key string, cmds []keyspace.Cmd) []string {
	for _, c := range cmds {
		to = append(append(to, key, strconv.Itoa(len(c.Args)), c.Name), c.Args...)
	}
	return to
}

// fill copies the value of the old key to the new key. It returns the stamp of the old key, from stamp.lua.
func (m *Mover[K, V]) fill(ctx context.Context, k K) (string, error) {
	keys := []keyspace.Key{m.plan.Old.Key(k), m.plan.New.Key(k)}
	for try := range maxTries {
		stamp, _, err := stampScript.Run(ctx, m.db, keys[:1]).Text()
		if err != nil {
			return "", fmt.Errorf("move: fill %s: %w", keys[1], err)
		}
		v, ok, err := m.plan.Old.Get(ctx, m.db, k)
		if err != nil {
			return "", fmt.Errorf("move: fill %s: %w", keys[1], err)
		}
		var set []keyspace.Cmd
		if ok {
			if set, err = m.plan.New.Set(k, v); err != nil {
				return "", fmt.Errorf("move: fill %s: %w", keys[1], err)
			}
		}
		done, err := fillScript.Run(ctx, m.db, keys, appendCmds([]string{stamp}, "2", set)...).Int()
		if err != nil {
			return "", fmt.Errorf("move: fill %s: %w", keys[1], err)
		}
		if done == 1 {
			return stamp, nil
		}
		if err := sleep(ctx, time.Duration(try)*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: %s", ErrBusy, keys[0])
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
