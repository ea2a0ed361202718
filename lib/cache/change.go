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

// Target is all that belongs to the tag, for [Runtime.Change] and [Runtime.Drop].
// If Redis cannot be told, nothing is changed.
func (t Tag) Target() Target {
	return Target{key: t.key(), timeout: Policy{}.withDefaults().ChangeTimeout, unfenced: Refuse}
}

// messageKeys is how many keys one message on the bus names.
const messageKeys = 500

// Change calls change, which commits something to the source, in such a way that
// no read of the targets on any node is older than MaxStale once it has returned:
// it fences the targets, so that no node can store a value read before, tells
// every node to drop its copies, calls change, and removes the fences. After a
// crash at any point no old value is left: the fences expire, and reads meanwhile
// ask the source. A commit that the source carries out later than that, more than a
// second after ChangeTimeout, is not covered.
//
// It returns what change returns, also where Redis does not take the drop: the change
// is made then, and an error would have callers make it twice. The drop is retried until
// it is done, this node reads its targets from their source until then, and
// [Hooks.Queued] is told. [ErrUnfenced] says that change was not called: Redis did not take
// the fences within [Config.ChangeBudget], or ctx ended before.
// An error that is [ErrUndecided] or the end of a context, or a panic, leaves open
// whether anything was committed, now or in a moment: the fences then stand until they
// expire. Any other error says that nothing was. After either the targets are dropped
// once more when half a minute has passed, in which the source may have carried the
// commit out all the same.
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
			rt.leave(ctx, keys, fault == nil)
		}
	}()
	err = change(inner)
	if err != nil && (inner.Err() != nil || errors.Is(err, ErrUndecided) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return false, err
	}
	decided = true
	// From here on no read of this process may share a flight that began before the
	// commit.
	rt.forget(keys)
	value, life := "", time.Duration(0)
	if err == nil {
		value, life = after(ctx)
	} else {
		rt.late.add(keys)
	}
	return rt.finish(ctx, targets, fault == nil, f, err == nil, value, life), err
}

// leave ends a change that may have committed, or has panicked: its fences stand. Where
// there are none, the keys are dropped as soon as Redis takes that.
func (rt *Runtime) leave(ctx context.Context, keys []keyspace.Key, fenced bool) {
	rt.forget(keys)
	rt.late.add(keys)
	if !fenced {
		rt.later(ctx, keys)
	}
}

type fenceFailed struct{}

// FenceFailed reports, of the context that a change was called with, that Redis
// could not be told of the change beforehand. If this process dies after the commit,
// no other one drops the old values, unless the commit itself has recorded them.
func FenceFailed(ctx context.Context) bool { return ctx.Value(fenceFailed{}) != nil }

// UnfencedKeys returns what the commit has to record then: the keys of the change's targets. There
// are none where Redis was told.
func UnfencedKeys(ctx context.Context) []keyspace.Key {
	keys, _ := ctx.Value(fenceFailed{}).([]keyspace.Key)
	return keys
}

// distinct keeps one target of each key. A collection with two targets is dropped
// instead of edited.
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
	left  []int64 // ms that each collection had to live, if it was kept
}

// fence fences keys in Redis and then drops all copies, within ChangeBudget. A fence lives for
// as long as the change may take, and the round trips before and after it.
func (rt *Runtime) fence(ctx context.Context, keys []keyspace.Key, f *fencing, timeout time.Duration) error {
	life := timeout + 2*rt.cfg.ChangeBudget + time.Second
	now, until := int64(0), int64(9999999999999)
	if rt.bus.Era() != 0 { // else the servers' clock is not known yet
		now = rt.clock()
		until = now + life.Milliseconds()
	}
	cmds := make([]keyspace.Cmd, len(keys))
	for i, k := range keys {
		if s := shapes.Of(k.Family()); s != nil {
			cmds[i] = s.Fence(k, f.token, slots.EraOf(k.Family(), f.era), life)
		} else {
			cmds[i] = fenceScript.Cmd([]keyspace.Key{k}, f.token, strconv.FormatInt(now, 10), fmt.Sprintf("%013d", until), millis(life))
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

// forget drops the copies of keys in this process.
func (rt *Runtime) forget(keys []keyspace.Key) {
	for _, k := range keys {
		rt.invalidate(k.String())
	}
}

// tell drops the copies of keys in every process.
func (rt *Runtime) tell(keys []keyspace.Key) error {
	return keyspace.FirstErr(rt.changes.do(rt.dropCopies(keys)...))
}

// dropCopies drops the copies of keys in this process, and returns the commands that drop them in
// every other one.
func (rt *Runtime) dropCopies(keys []keyspace.Key) []keyspace.Cmd {
	rt.forget(keys)
	var cmds []keyspace.Cmd
	for part := range slices.Chunk(keys, messageKeys) {
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

// finish removes the fences, and reports whether the value was stored. Where a fence
// was lost, or Redis does not answer, the key is dropped. told says that every node
// was told of the change.
func (rt *Runtime) finish(ctx context.Context, targets []Target, told bool, f *fencing, changed bool, value string, life time.Duration) (stored bool) {
	cmds := make([]keyspace.Cmd, len(targets))
	for i, t := range targets {
		if s := shapes.Of(t.key.Family()); s != nil {
			cmds[i] = finishCollection(s, t, f, f.left[i], changed)
		} else {
			cmds[i] = finishScript.Cmd([]keyspace.Key{t.key}, f.token, value, millis(life))
		}
	}
	var lost, unanswered []keyspace.Key
	for i, r := range rt.changes.do(cmds...) {
		t := targets[i]
		if n, err := r.Int(); err != nil {
			unanswered = append(unanswered, t.key)
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
		unanswered = append(unanswered, lost...)
	}
	if len(unanswered) > 0 {
		rt.later(ctx, unanswered)
	}
	return stored
}

// Drop removes targets from every level and node, after their source has
// changed. It is for changes that are made elsewhere: between the change and the
// drop old values are read, and a crash between the two leaves them until they
// expire, so prefer [Runtime.Change]. An error that is [ErrQueued] says that the drop
// will be retried.
func (rt *Runtime) Drop(ctx context.Context, targets ...Target) error {
	if len(targets) == 0 {
		return nil
	}
	keys := make([]keyspace.Key, len(targets))
	for i, t := range targets {
		keys[i] = t.key
	}
	if err := rt.Redo(keys); err != nil {
		rt.later(ctx, keys)
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
		// Read under our own fence, after our own commit.
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
		c.keepLoaded(e, &env, &r)
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
	err := c.rt.changes.one(putScript.Cmd([]keyspace.Key{r.key}, text, millis(life), strconv.FormatInt(until, 10))).Err
	if err == nil {
		err = c.rt.tell([]keyspace.Key{r.key})
	}
	if err != nil {
		c.rt.forget([]keyspace.Key{r.key}) // for this node, the change has happened
		c.rt.later(ctx, []keyspace.Key{r.key})
		return fmt.Errorf("%w: %w", ErrQueued, err)
	}
	return nil
}
