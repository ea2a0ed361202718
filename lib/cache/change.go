package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// A Target is something that a change drops: a cached key, a collection or a tag.
type Target struct {
	key      keyspace.Key
	timeout  time.Duration
	unfenced Unfenced
	edit     *edit // of a collection; nil: it is dropped
}

// Target returns all values of the tag, for [Runtime.Change] and [Runtime.Drop]. If Redis cannot be fenced, nothing is
// changed.
func (t Tag) Target() Target {
	return Target{key: t.key(), timeout: Policy{}.withDefaults().ChangeTimeout, unfenced: Refuse}
}

// maxKeysPerMessage limits the keys in one message on the bus.
const maxKeysPerMessage = 500

// Change calls change, which commits something to the source. Once Change has returned, no read of the targets on any
// node is older than MaxStale. Change fences the targets, so that no node can store a value that was read before,
// broadcasts the drop to every node, calls change, and removes the fences. After a crash at any point no old value is
// left: the fences expire, and until then reads ask the source. A commit that the source executes later than that, more
// than a second after ChangeTimeout, is not covered.
//
// Change returns the result of change, even if Redis does not accept the drop: the change is already made, and an error
// would make callers repeat it. The drop is then retried until it succeeds, this node reads the targets from their
// source until then, and [Hooks.Queued] is called. Change returns [ErrUnfenced] without calling change if Redis did not
// accept the fences within [Config.ChangeBudget], or ctx ended before.
//
// If change panics or returns an error that is [ErrUndecided] or the end of a context, the commit may have happened, or
// may happen in a moment: the fences then stay until they expire. Any other error means that nothing was committed.
// After either, the targets are dropped again half a minute later, because the source may have committed in that time.
func (rt *Runtime) Change(ctx context.Context, change func(ctx context.Context) error, targets ...Target) error {
	_, err := rt.change(ctx, change, targets, func(context.Context) (string, time.Duration) { return "", 0 })
	return err
}

// change is Change. It stores the result of after as the value of a sole target if no other change was concurrent, and
// reports whether it did.
func (rt *Runtime) change(ctx context.Context, change func(context.Context) error, targets []Target,
	after func(context.Context) (string, time.Duration)) (stored bool, err error) {
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
	fault := rt.fence(ctx, keys, f, timeout)
	if fault != nil && (unfenced == Refuse || ctx.Err() != nil) {
		unfence := func() { rt.finish(context.WithoutCancel(ctx), targets, true, f, false, "", 0) }
		if ctx.Err() != nil {
			rt.begin(unfence)
		} else {
			unfence()
		}
		return false, fmt.Errorf("%w: %w", ErrUnfenced, fault)
	}
	inner, cancel := context.WithTimeout(ctx, timeout)
	if fault != nil {
		inner = context.WithValue(inner, fenceFailed{}, keys)
	}
	decided := false
	defer func() {
		cancel()
		if !decided {
			rt.endUndecided(ctx, keys, fault == nil)
		}
	}()
	err = change(inner)
	if err != nil && (inner.Err() != nil || errors.Is(err, ErrUndecided) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)) {
		return false, err
	}
	decided = true
	// From here on no read of this process may join a flight that began before the commit.
	rt.dropLocal(keys)
	value, life := "", time.Duration(0)
	if err == nil {
		value, life = after(ctx)
	} else {
		rt.late.add(keys)
	}
	return rt.finish(ctx, targets, fault == nil, f, err == nil, value, life), err
}

// endUndecided ends a change that may have committed, or has panicked: its fences stay. Without fences, the keys are
// dropped as soon as Redis accepts that.
func (rt *Runtime) endUndecided(ctx context.Context, keys []keyspace.Key, fenced bool) {
	rt.dropLocal(keys)
	rt.late.add(keys)
	if !fenced {
		rt.enqueueDrops(ctx, keys)
	}
}

type fenceFailed struct{}

// FenceFailed reports whether ctx belongs to a change that runs without fences, because Redis did not accept them. If
// this process dies after the commit, no other process drops the old values, unless the commit itself has recorded the
// drop.
func FenceFailed(ctx context.Context) bool { return ctx.Value(fenceFailed{}) != nil }

// UnfencedKeys returns the keys of the change's targets, which the commit has to record if [FenceFailed] reports true.
// It returns nil if the fences are set.
func UnfencedKeys(ctx context.Context) []keyspace.Key {
	keys, _ := ctx.Value(fenceFailed{}).([]keyspace.Key)
	return keys
}

// distinct returns one target for each key. A collection with two targets is dropped instead of edited.
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

// fencing is the state of one change's fences.
type fencing struct {
	token string
	era   uint64
	began bus.Moment
	left  []int64 // remaining life in ms of each collection that was kept
}

// fence fences keys in Redis and then drops all copies, within ChangeBudget. A fence lives as long as the change may
// take, and the round trips before and after it.
func (rt *Runtime) fence(ctx context.Context, keys []keyspace.Key, f *fencing, timeout time.Duration) error {
	life := timeout + 2*rt.cfg.ChangeBudget + time.Second
	now, until := int64(0), int64(9999999999999)
	if rt.bus.Era() != 0 { // otherwise the servers' clock is not known yet
		now = rt.clock()
		until = now + life.Milliseconds()
	}
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		if s := shapes.Of(k.Family()); s != nil {
			cmds[i] = s.Fence(k, f.token, slots.EraOf(k.Family(), f.era), life)
		} else {
			cmds[i] = fenceScript.Cmd([]keyspace.Key{k}, f.token, strconv.FormatInt(now, 10), fmt.Sprintf("%013d", until), keyspace.Millis(life))
		}
	}
	for i, r := range rt.changes.doWithin(ctx, rt.cfg.ChangeBudget, cmds...) {
		var err error
		if f.left[i], err = r.Int(); err != nil {
			return err
		}
	}
	return keyspace.FirstErr(rt.changes.doWithin(ctx, rt.cfg.ChangeBudget-time.Duration(bus.Now()-f.began), rt.dropCopies(keys)...))
}

// dropLocal drops the copies of keys in this process.
func (rt *Runtime) dropLocal(keys []keyspace.Key) {
	for _, k := range keys {
		rt.invalidate(k.String())
	}
}

// broadcastDrop drops the copies of keys in every process.
func (rt *Runtime) broadcastDrop(keys []keyspace.Key) error {
	return keyspace.FirstErr(rt.changes.do(rt.dropCopies(keys)...))
}

// dropCopies drops the copies of keys in this process, and returns the commands that drop them in every other process.
func (rt *Runtime) dropCopies(keys []keyspace.Key) []keyspace.Cmd {
	rt.dropLocal(keys)
	var cmds []keyspace.Cmd
	for part := range slices.Chunk(keys, maxKeysPerMessage) {
		var b strings.Builder
		for _, k := range part {
			b.WriteString(inLine(k.String()))
			b.WriteByte('\n')
		}
		cmds = append(cmds, rt.bus.PublishCmd(topic, dropped, b.String()))
	}
	rt.countDropped(len(keys))
	return cmds
}

func (rt *Runtime) countDropped(keys int) {
	if rt.cfg.Hooks.Dropped != nil {
		rt.cfg.Hooks.Dropped(keys)
	}
}

// finish removes the fences, and reports whether the value was stored. If a fence was lost, or Redis does not reply,
// the key is dropped. broadcast reports whether every node has received the drop of this change.
func (rt *Runtime) finish(ctx context.Context, targets []Target, broadcast bool, f *fencing, changed bool, value string,
	life time.Duration) (stored bool) {
	cmds := make([]keyspace.Cmd, len(targets))
	for i, t := range targets {
		if s := shapes.Of(t.key.Family()); s != nil {
			cmds[i] = finishCollection(s, t, f, f.left[i], changed)
		} else {
			cmds[i] = finishScript.Cmd([]keyspace.Key{t.key}, f.token, value, keyspace.Millis(life))
		}
	}
	var lost, unanswered []keyspace.Key
	for i, r := range rt.changes.do(cmds...) {
		t := targets[i]
		if n, err := r.Int(); err != nil {
			unanswered = append(unanswered, t.key)
		} else {
			if n == 0 || !broadcast {
				lost = append(lost, t.key)
			}
			if stored = n == 2; stored && t.edit != nil {
				t.edit.applied.add(1)
			}
		}
	}
	if len(lost) > 0 && rt.broadcastDrop(lost) != nil {
		unanswered = append(unanswered, lost...)
	}
	if len(unanswered) > 0 {
		rt.enqueueDrops(ctx, unanswered)
	}
	return stored
}

// Drop removes targets from every level and node after their source has changed. It is for changes that are made
// elsewhere. Between the change and the drop, readers get old values, and a crash in between leaves them until they
// expire: prefer [Runtime.Change]. It returns an error that is [ErrQueued] if the drop will be retried.
func (rt *Runtime) Drop(ctx context.Context, targets ...Target) error {
	if len(targets) == 0 {
		return nil
	}
	keys := make([]keyspace.Key, len(targets))
	for i, t := range targets {
		keys[i] = t.key
	}
	if err := rt.Redo(keys); err != nil {
		rt.enqueueDrops(ctx, keys)
		return fmt.Errorf("%w: %w", ErrQueued, err)
	}
	return nil
}

// mutate is [Cache.Mutate].
func (c *core) mutate(ctx context.Context, k any, change func(ctx context.Context) error) (*localCopy, error) {
	var e *localCopy
	var loadErr error
	var env slots.Envelope
	r := c.read(k, c.key(k), bus.Now())
	stored, err := c.rt.change(ctx, change, []Target{c.target(k)}, func(ctx context.Context) (string, time.Duration) {
		// The load runs under this change's fence and after its commit.
		r.generation, r.era = c.rt.generationOf(r.key.String()), c.era()
		tagErr := resolveTags(c.rt, &r)
		began := bus.Now()
		loading, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
		defer cancel()
		e, loadErr = c.ask(loading, k)
		if loadErr != nil && !e.missing || tagErr != nil || r.era == 0 {
			return "", 0
		}
		sealed, life, err := c.seal(e, time.Duration(bus.Now()-began), &r)
		if err != nil {
			return "", 0
		}
		env = sealed
		return textOr(&env, life), life
	})
	if err != nil {
		return nil, err
	}
	if stored && loadErr == nil {
		c.storeLoaded(e, &env, &r)
	}
	return e, loadErr
}

// set is [Cache.Set].
func (c *core) set(ctx context.Context, k any, e *localCopy) error {
	r := c.read(k, c.key(k), bus.Now())
	r.era = c.era()
	text, life, until := "", time.Duration(0), int64(0)
	if resolveTags(c.rt, &r) == nil && r.era != 0 {
		env, l, err := c.seal(e, 0, &r)
		if err != nil {
			return err
		}
		text, life, until = textOr(&env, l), l, c.rt.clock()+c.rt.cfg.ChangeBudget.Milliseconds()
	}
	err := c.rt.changes.one(putScript.Cmd([]keyspace.Key{r.key}, text, keyspace.Millis(life), strconv.FormatInt(until, 10))).Err
	if err == nil {
		err = c.rt.broadcastDrop([]keyspace.Key{r.key})
	}
	if err != nil {
		c.rt.dropLocal([]keyspace.Key{r.key}) // on this node, the change counts as made
		c.rt.enqueueDrops(ctx, []keyspace.Key{r.key})
		return fmt.Errorf("%w: %w", ErrQueued, err)
	}
	return nil
}
