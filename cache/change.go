package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/keyspace"
)

// A Target is something that a change drops: a cached key, a collection or a tag.
type Target struct {
	key      keyspace.Key
	timeout  time.Duration
	unfenced Unfenced
	edit     *edit // of a collection; nil: it is dropped
}

// Target is k of this cache, for [Runtime.Change] and [Runtime.Drop].
func (c *Cache[K, V]) Target(k K) Target {
	return Target{key: c.key(k), timeout: c.policy.ChangeTimeout, unfenced: c.policy.Unfenced}
}

// Target is all that belongs to the tag, for [Runtime.Change] and [Runtime.Drop].
// If Redis cannot be told, nothing is changed.
func (t Tag) Target() Target {
	return Target{key: t.key(), timeout: Policy{}.withDefaults().ChangeTimeout, unfenced: Refuse}
}

// messageKeys is how many keys one message on the bus names.
const messageKeys = 500

// Change calls change, which commits something to the source, in such a way that
// no read of the targets on any node is older than MaxStale once it has returned:
// it fences the targets, so that nobody can store a value read before, tells
// every node to forget its copies, calls change, and takes the fences away. After
// a crash at any point no old value is left: the fences lapse, and who reads
// meanwhile asks the source.
//
// It returns what change returns. [ErrUnfenced] says that change was not called.
// An error that is the end of a context leaves open whether anything was
// committed, now or in a moment: the fences then stand until they lapse. So they
// do when change panics.
func (rt *Runtime) Change(ctx context.Context, change func(ctx context.Context) error, targets ...Target) error {
	_, err := rt.change(ctx, change, targets, func(context.Context) (string, time.Duration) { return "", 0 })
	return err
}

// change is Change, and stores what after returns as the value of a sole target,
// if no other change was under way beside; it reports whether it did.
func (rt *Runtime) change(ctx context.Context, change func(context.Context) error, targets []Target, after func(context.Context) (string, time.Duration)) (kept bool, err error) {
	if len(targets) == 0 {
		return false, change(ctx)
	}
	timeout, unfenced := time.Duration(0), Proceed
	for _, t := range targets {
		timeout = max(timeout, t.timeout)
		if t.unfenced == Refuse {
			unfenced = Refuse
		}
	}
	targets, keys := distinct(targets)
	f := &fencing{token: token(), era: rt.bus.Era(), began: bus.Now(), left: make([]int64, len(targets))}
	fault := rt.fence(keys, f, timeout)
	if fault != nil && unfenced == Refuse {
		rt.finish(ctx, targets, true, f, false, "", 0)
		return false, fmt.Errorf("%w: %w", ErrUnfenced, fault)
	}
	inner, cancel := context.WithTimeout(ctx, timeout)
	if fault != nil {
		inner = context.WithValue(inner, fenceFailed{}, true)
	}
	err = change(inner)
	late := inner.Err()
	cancel()
	// Nobody here may wait for a read that began before the commit.
	rt.forget(keys)
	value, life := "", time.Duration(0)
	switch {
	case err == nil:
		value, life = after(ctx)
	case late != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		if fault != nil {
			_ = rt.later(ctx, keys)
		}
		return false, err
	}
	return rt.finish(ctx, targets, fault == nil, f, err == nil, value, life), err
}

type fenceFailed struct{}

// FenceFailed reports, of the context that a change was called with, that Redis
// could not be told of the change beforehand. If this process dies after the commit,
// nobody drops the old values, unless the commit itself has left word of them.
func FenceFailed(ctx context.Context) bool { return ctx.Value(fenceFailed{}) != nil }

// distinct names each key once. A collection that a change has two targets of is
// dropped.
func distinct(targets []Target) ([]Target, []keyspace.Key) {
	once, keys := make([]Target, 0, len(targets)), make([]keyspace.Key, 0, len(targets))
	at := make(map[string]int, len(targets))
	for _, t := range targets {
		if i, twice := at[t.key.String()]; twice {
			once[i].edit = nil
			continue
		}
		at[t.key.String()] = len(once)
		once, keys = append(once, t), append(keys, t.key)
	}
	return once, keys
}

// fencing is what is known of one change's fences.
type fencing struct {
	token string
	era   uint64
	began bus.Moment
	left  []int64 // ms that each collection had to live, if it was kept
}

// fence fences keys in Redis and then drops all copies. A fence outlives the
// change by the time that it takes to begin it and to say that it is over.
func (rt *Runtime) fence(keys []keyspace.Key, f *fencing, timeout time.Duration) error {
	life := timeout + 3*rt.cfg.Budget + time.Second
	now, until := int64(0), int64(9999999999999)
	if rt.bus.Era() != 0 { // else the servers' clock is not known yet
		now = rt.clock()
		until = now + life.Milliseconds()
	}
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		if s := shapeOf(k); s != nil {
			cmds[i] = s.fence(k, f, life)
		} else {
			cmds[i] = fenceScript.Cmd([]keyspace.Key{k}, f.token, strconv.FormatInt(now, 10), fmt.Sprintf("%013d", until), millis(life))
		}
	}
	for i, r := range rt.do(cmds...) {
		var err error
		if f.left[i], err = r.Int(); err != nil {
			return err
		}
	}
	return rt.tell(keys)
}

// forget drops the copies of keys in this process.
func (rt *Runtime) forget(keys []keyspace.Key) {
	for _, k := range keys {
		rt.markOf(k.String()).Add(1)
	}
}

// tell drops the copies of keys in every process.
func (rt *Runtime) tell(keys []keyspace.Key) error {
	rt.forget(keys)
	var cmds []keyspace.Cmd
	for part := range slices.Chunk(keys, messageKeys) {
		var b strings.Builder
		for _, k := range part {
			b.WriteString(k.String())
			b.WriteByte('\n')
		}
		cmds = append(cmds, rt.bus.PublishCmd(topic, dropped, b.String()))
	}
	if rt.cfg.Hooks.Dropped != nil {
		rt.cfg.Hooks.Dropped(len(keys))
	}
	return keyspace.FirstErr(rt.do(cmds...))
}

// finish takes fences away, and reports whether the value was stored. Where they
// had not held, or Redis does not say, what is there is dropped. told says that
// every node knows of the change.
func (rt *Runtime) finish(ctx context.Context, targets []Target, told bool, f *fencing, changed bool, value string, life time.Duration) (stored bool) {
	cmds := make([]keyspace.Cmd, len(targets))
	for i, t := range targets {
		if s := shapeOf(t.key); s != nil {
			cmds[i] = s.finish(t, f, f.left[i], changed)
		} else {
			cmds[i] = finishScript.Cmd([]keyspace.Key{t.key}, f.token, value, millis(life))
		}
	}
	var lost, unsaid []keyspace.Key
	for i, r := range rt.do(cmds...) {
		t := targets[i]
		if n, err := r.Int(); err != nil {
			unsaid = append(unsaid, t.key)
		} else {
			if n == 0 || !told {
				lost = append(lost, t.key)
			}
			if stored = n == 2; stored && t.edit != nil {
				t.edit.applied.add(1)
			}
		}
	}
	if len(lost) > 0 && rt.tell(lost) != nil {
		unsaid = append(unsaid, lost...)
	}
	if len(unsaid) > 0 {
		_ = rt.later(ctx, unsaid)
	}
	return stored
}

// Drop removes targets from every level and node, after their source has
// changed. It is for changes that happen elsewhere: between the change and the
// drop old values are read, and a crash between the two leaves them until they
// expire, so prefer [Runtime.Change]. An error that is [ErrQueued] says that it
// will be tried again.
func (rt *Runtime) Drop(ctx context.Context, targets ...Target) error {
	if len(targets) == 0 {
		return nil
	}
	keys := make([]keyspace.Key, len(targets))
	for i, t := range targets {
		keys[i] = t.key
	}
	if err := rt.Redo(keys); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrQueued, err), rt.later(ctx, keys))
	}
	return nil
}

// Mutate calls change, which commits a new value of k to the source, and returns
// that value, loaded anew and stored on the way. See [Runtime.Change]. When change
// has succeeded and the load has not, the error is the load's.
func (c *Cache[K, V]) Mutate(ctx context.Context, k K, change func(ctx context.Context) error) (V, error) {
	var v V
	var loadErr error
	var env envelope
	m := mark{}
	era := uint64(0)
	r := c.read(k, c.key(k), m, bus.Now())
	kept, err := c.rt.change(ctx, change, []Target{c.Target(k)}, func(ctx context.Context) (string, time.Duration) {
		// Read under our own fence, after our own commit.
		r.mark, era = c.rt.watch(r.key.String()), c.rt.bus.Era()
		tagged := resolveTags(c.rt, &r)
		began := bus.Now()
		loading, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
		defer cancel()
		v, loadErr = c.ask(loading, k)
		missing := errors.Is(loadErr, ErrNotFound)
		if loadErr != nil && !missing || tagged != nil || era == 0 {
			return "", 0
		}
		sealed, life, err := c.seal(v, missing, time.Duration(bus.Now()-began), era, r.under)
		if err != nil {
			return "", 0
		}
		env = sealed
		return env.textOr(life), life
	})
	if err != nil {
		return *new(V), err
	}
	if kept && loadErr == nil {
		c.keepLoaded(k, v, env, r.mark, r.tags)
	}
	return v, loadErr
}

// Set stores v as the value of k on every level and drops the copies of all
// other nodes: write-through, for what the caller has just committed. Who sets
// last wins; where changes of one key can meet, [Cache.Mutate] stores what the
// source has. While a change is under way v is not stored.
func (c *Cache[K, V]) Set(ctx context.Context, k K, v V) error {
	r := c.read(k, c.key(k), c.rt.watch(c.key(k).String()), bus.Now())
	r.era = c.rt.bus.Era()
	text, life := "", time.Duration(0)
	if resolveTags(c.rt, &r) == nil && r.era != 0 {
		env, l, err := c.seal(v, false, 0, r.era, r.under)
		if err != nil {
			return err
		}
		text, life = env.text(), l
	}
	err := c.rt.one(putScript.Cmd([]keyspace.Key{r.key}, text, millis(life))).Err
	if err == nil {
		err = c.rt.tell([]keyspace.Key{r.key})
	}
	if err != nil {
		c.rt.forget([]keyspace.Key{r.key}) // the caller knows better already
		return errors.Join(fmt.Errorf("%w: %w", ErrQueued, err), c.rt.later(ctx, []keyspace.Key{r.key}))
	}
	return nil
}

// Invalidate drops keys after their source has changed. See [Runtime.Drop].
func (c *Cache[K, V]) Invalidate(ctx context.Context, ks ...K) error {
	targets := make([]Target, len(ks))
	for i, k := range ks {
		targets[i] = c.Target(k)
	}
	return c.rt.Drop(ctx, targets...)
}
