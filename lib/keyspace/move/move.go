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

// Phase is how far a move is.
type Phase string

// The phases, in their order.
const (
	Old      Phase = "old"      // write old, read old
	Both     Phase = "both"     // write both, read old
	Switched Phase = "switched" // write both, read new
	New      Phase = "new"      // write new, read new
	Done     Phase = "done"     // as New, and there are no old keys
)

// next is the phase that follows.
var next = map[Phase]Phase{Old: Both, Both: Switched, Switched: New}

// readsNew reports whether the new side is read.
func (p Phase) readsNew() bool { return p == Switched || p == New || p == Done }

// Errors of a move.
var (
	// ErrPhase says that what was asked for belongs in another phase.
	ErrPhase = errors.New("move: not in this phase")
	// ErrDiffers says that the sides are not, or not known to be, equal.
	ErrDiffers = errors.New("move: the sides differ")
	// ErrNotEmpty says that there are keys of the new family before the move.
	ErrNotEmpty = errors.New("move: the new family has keys")
	// ErrCommand reports a command that is not for the key of its side alone.
	ErrCommand = errors.New("move: a command for another key")
	// ErrBusy says that an entity was written so often that it could not be read
	// in peace.
	ErrBusy = errors.New("move: written all the time")
)

// A Side is one of the two families of a move.
type Side[K, V any] struct {
	Family *keyspace.Family
	// Key returns the key of one entity.
	Key func(k K) keyspace.Key
	// Get reads one entity whole; ok is false when there is none.
	Get func(ctx context.Context, db keyspace.Executor, k K) (v V, ok bool, err error)
	// Set returns the commands that make an absent key hold v, its life
	// included. No command has more than some thousand arguments.
	Set func(k K, v V) ([]keyspace.Cmd, error)
}

// Plan says what moves where.
type Plan[K, V any] struct {
	// State keeps the phase: a hash of its own, which lives for ever and is
	// removed by hand when the move has left the code.
	State keyspace.Hash
	// Old and New are the sides. Their families have one hash tag.
	Old, New Side[K, V]
	// Parse makes an entity out of the arguments of an old key.
	Parse func(args []string) (K, error)
	// Equal compares what the sides hold; nil is reflect.DeepEqual.
	Equal func(a, b V) bool
	// Poll is how old a node's knowledge of the phase may be; zero is a second.
	// A change of phase takes ten of them, and all nodes must have the same.
	Poll time.Duration
	// Progress is told now and then how far Fill, Compare and Clean are. Nil is
	// told nothing.
	Progress func(Progress)
}

// grace is how many polls a phase stands before it may change: one until a node
// asks again, one for what the node began before, the others for slow machines.
const grace = 5

// Mover is one node's part in a move. It is safe for concurrent use.
type Mover[K, V any] struct {
	plan Plan[K, V]
	db   *redis.DB
	seen atomic.Pointer[view]
}

// view is what a node knows of the phase.
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

// Start returns a node's part of the move that plan describes. Every node that
// reads or writes the families has one before the first change of phase.
func Start[K, V any](db *redis.DB, plan Plan[K, V]) *Mover[K, V] {
	if plan.Poll == 0 {
		plan.Poll = time.Second
	}
	if plan.Equal == nil {
		plan.Equal = func(a, b V) bool { return reflect.DeepEqual(a, b) }
	}
	return &Mover[K, V]{plan: plan, db: db}
}

// Phase asks Redis for the phase.
func (m *Mover[K, V]) Phase(ctx context.Context) (Phase, error) {
	v, err := m.ask(ctx)
	return v.phase, err
}

func (m *Mover[K, V]) ask(ctx context.Context) (view, error) {
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

// known returns the phase, asked for a Poll ago at the most, and a context that
// ends before the knowledge is too old to act on.
func (m *Mover[K, V]) known(ctx context.Context) (context.Context, context.CancelFunc, Phase, error) {
	v := m.seen.Load()
	if v == nil || time.Since(v.asked) > m.plan.Poll {
		fresh, err := m.ask(ctx)
		if err != nil {
			return ctx, func() {}, "", err
		}
		v = &fresh
	}
	ctx, cancel := context.WithDeadline(ctx, v.asked.Add(2*m.plan.Poll))
	return ctx, cancel, v.phase, nil
}

// Get reads an entity from the side whose turn it is.
func (m *Mover[K, V]) Get(ctx context.Context, k K) (v V, ok bool, err error) {
	ctx, cancel, phase, err := m.known(ctx)
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

// Set makes an entity hold v, whatever it held.
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
	_, err := m.Write(ctx, k, []keyspace.Cmd{{Name: "UNLINK", Key: m.plan.Old.Key(k)}}, []keyspace.Cmd{{Name: "UNLINK", Key: m.plan.New.Key(k)}})
	return err
}

// tries is how often a write or a fill begins anew before it gives up.
const tries = 50

// The first element of what write.lua answers.
const (
	written = iota
	unfilled
	stale
)

// Write carries out the commands for the old key, those for the new key, or
// both, all at once, and returns the replies of the side that is read. The two
// lists must do the same. As with any command, it may have been done when there is
// no answer. What a server refuses, because of its arguments, say, may leave the
// commands before it done.
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
	for try := range tries {
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
			if _, err := m.ask(ctx); err != nil {
				return nil, err
			}
		}
		// Filled, and asked again: what the script finds now is as it should be,
		// such as a value that leaves nothing to hold in the new key.
		if try > 0 {
			trust = "yes"
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrBusy, keys[0])
}

// write sends what the phase asks for.
func (m *Mover[K, V]) write(ctx context.Context, keys []keyspace.Key, trust string, old, new []keyspace.Cmd) ([]keyspace.Reply, Phase, error) {
	ctx, cancel, phase, err := m.known(ctx)
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

// appendCmds writes commands as the scripts read them: which key, how many
// arguments, the name, the arguments.
func appendCmds(to []string, key string, cmds []keyspace.Cmd) []string {
	for _, c := range cmds {
		to = append(append(to, key, strconv.Itoa(len(c.Args)), c.Name), c.Args...)
	}
	return to
}

// fill makes the new key hold what the old one holds, of which it returns what stamp.lua says.
func (m *Mover[K, V]) fill(ctx context.Context, k K) (string, error) {
	keys := []keyspace.Key{m.plan.Old.Key(k), m.plan.New.Key(k)}
	for try := range tries {
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
