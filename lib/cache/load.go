package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

const (
	// Poll interval while another node holds the load lease. It doubles from firstPoll to longestPoll.
	firstPoll   = time.Millisecond
	longestPoll = 25 * time.Millisecond
	// failedPause is how long a stale value is served before a source that has just failed is asked again.
	failedPause = time.Second
)

// token returns 8 random bytes, which identify one lease, fence or version.
func token() string {
	var b [slots.TokenLen]byte
	_, _ = rand.Read(b[:]) // never fails
	return string(b[:])
}

// load gets the value from the source, or from another node that is loading it, and stores it unless a change happened
// in between. If there is a stale value and the load takes longer than [Policy.Wait], early gets that value. If the
// source continues after its context has ended, early gets the error.
func (r *reading) load(ctx context.Context, early func(Entry[*localCopy], error)) (Entry[*localCopy], error) {
	c := r.c
	if stale := r.best; stale != nil {
		tier := r.tier
		defer time.AfterFunc(c.policy.Wait, func() { early(c.serveStale(stale, tier), nil) }).Stop()
	}
	lease, found := "", false
	if r.era != 0 {
		if lease, found = r.acquire(ctx); found {
			return r.found(), nil
		}
	}
	if lease == "" && r.best != nil { // without a lease, this keeps callers that arrive after Wait from a load of their own
		name := r.key.String()
		if !c.beginRefresh(name) {
			return c.serveStale(r.best, r.tier), nil
		}
		defer c.endRefresh(name)
	}
	ctx, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
	defer cancel()
	late := context.AfterFunc(ctx, func() {
		early(Entry[*localCopy]{}, fmt.Errorf("cache: %s: %w", c.fam.Pattern, context.Cause(ctx)))
	})
	defer late()
	began := bus.Now()
	e, err := c.ask(ctx, r.k)
	late()
	took := time.Duration(bus.Now() - began)
	if err != nil && !e.missing {
		if lease != "" {
			r.release(lease)
		}
		if r.best == nil {
			return Entry[*localCopy]{}, err
		}
		again := *r.best // a copy, because others may be reading the original
		again.refreshAt = min(bus.Now()+bus.Moment(failedPause+mathrand.N(failedPause/4)), again.hardEnd())
		c.replaceLocal(r.hash, &again, r.best)
		return c.serveStale(r.best, r.tier), nil
	}
	entry := Entry[*localCopy]{Value: e, Missing: e.missing, Tier: Origin}
	if r.overdue != "" {
		c.rt.leases.suspect(r.overdue, c.rt.clock())
	}
	if lease == "" {
		return entry, nil
	}
	env, life, err := c.seal(e, took, r)
	if err != nil {
		r.release(lease)
		return entry, err
	}
	stored, err := c.rt.reads.one(fillCmd(r.key, lease, &env, life)).Int()
	if err != nil {
		c.rt.leases.disown(lease, releaseCmd(r.key, lease), c.leaseLife(), nil)
	}
	switch {
	case life <= 0:
		r.forgetReplaced()
	case stored == 1:
		c.storeLoaded(e, &env, r)
		entry.Version = env.ID
	default:
		c.stats.refused.add(1)
	}
	return entry, nil
}

// reload is load even if Redis has a value. A result that cannot be stored in Redis is dropped there. The other nodes
// drop their copies.
func (r *reading) reload(ctx context.Context, early func(Entry[*localCopy], error)) (Entry[*localCopy], error) {
	c := r.c
	r.forceLoad = true
	if c.trusted(r.began) && !c.rt.undropped.has(r.key) {
		r.era = c.era()
	}
	if r.era != 0 {
		err := resolveTags(c.rt, r)
		var slot string
		if err == nil {
			slot, _, err = c.rt.reads.one(keyspace.Cmd{Name: "GET", Key: r.key}).Text()
		}
		if err != nil {
			r.era = 0
			c.stats.failed.add(1)
		} else {
			r.accept(ctx, slot)
		}
	}
	entry, err := r.load(ctx, early)
	if err != nil {
		return entry, err
	}
	keys := []keyspace.Key{r.key}
	if entry.Version != 0 {
		err = c.rt.broadcastDrop(keys)
	} else {
		err = c.rt.Redo(keys)
	}
	if err != nil {
		c.rt.enqueueDrops(ctx, keys)
	}
	return entry, nil
}

// release removes a lease from its slot.
func (r *reading) release(lease string) {
	cmd := releaseCmd(r.key, lease)
	if err := r.c.rt.reads.one(cmd).Err; err != nil {
		r.c.rt.leases.disown(lease, cmd, r.c.leaseLife(), nil)
	}
}

// acquire acquires the lease on the slot, or waits for the result of its holder for at most [Policy.LeaseWait]. found
// reports that there is a result without a load. With neither a lease nor a result, the value has to be loaded and must
// not be stored.
func (r *reading) acquire(ctx context.Context) (lease string, found bool) {
	c := r.c
	waitUntil := bus.Now() + bus.Moment(c.leaseWait())
	for poll := firstPoll; ; poll = min(2*poll, longestPoll) {
		mine := c.rt.leases.token()
		slot, held, err := c.rt.reads.one(r.acquireCmd(mine)).Text()
		switch {
		case err != nil:
			c.stats.failed.add(1)
			c.rt.leases.disown(mine, releaseCmd(r.key, mine), c.leaseLife(), err)
			return "", false
		case !held:
			return mine, false
		case slots.Kind(slot) == slots.IsFence:
			c.stats.fenced.add(1)
			return "", false
		case slots.Kind(slot) == slots.IsValue:
			before := r.replaces
			if r.accept(ctx, slot) == settled {
				return "", true
			}
			if r.replaces == before { // not readable, and not replaceable
				return "", false
			}
			continue
		case r.breakAbandoned(slot):
			continue
		case r.best != nil: // another node holds the lease; serve stale
			c.stats.stale.add(1)
			return "", true
		case bus.Now() >= waitUntil:
			r.overdue, _, _ = leaseIn(slot)
			return "", false
		}
		c.stats.waited.add(1)
		time.Sleep(min(poll, time.Duration(waitUntil-bus.Now())))
	}
}

// acquireCmd returns the command that acquires the lease on the slot.
func (r *reading) acquireCmd(mine string) keyspace.Cmd {
	now := r.c.rt.clock()
	life := r.c.leaseLife()
	return acquireScript.Cmd([]keyspace.Key{r.key}, mine, strconv.FormatInt(now, 10), fmt.Sprintf("%013d", now+life.Milliseconds()),
		keyspace.Millis(life), r.replaces)
}

// ask loads a new copy of k from the source; the copy is missing if the error is [ErrNotFound].
func (c *core) ask(ctx context.Context, k any) (*localCopy, error) {
	e := c.types.newCopy(k)
	err := c.admitted(ctx, 1, func(ctx context.Context) error { return c.types.load(ctx, e) })
	e.missing = errors.Is(err, ErrNotFound)
	return e, err
}

func (c *core) admitted(ctx context.Context, keys int, load func(context.Context) error) error {
	return c.rt.admitted(ctx, c.Name(), &c.stats, keys, load)
}

// admitted runs a load when fewer than [Config.Loads] are running, and counts it.
func (rt *Runtime) admitted(ctx context.Context, cache string, stats *counters, keys int, load func(context.Context) error) (err error) {
	// A source that reads another cache counts once. If it had to wait for a second slot, waiting loads could occupy
	// all slots.
	if !isLoad(ctx) {
		select {
		case rt.loads <- struct{}{}:
			defer func() { <-rt.loads }()
		case <-urged(ctx):
		case <-ctx.Done():
			return fmt.Errorf("cache: %s: too many loads: %w", cache, context.Cause(ctx))
		}
	}
	ctx, answered := rt.asking(ctx, Origin, cache, keys)
	began := bus.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cache: the source of %s panicked: %v\n%s", cache, p, debug.Stack())
		}
		answered(Origin, err)
		took := time.Duration(bus.Now() - began)
		stats.loaded(keys, took, err)
		if rt.cfg.Hooks.Loaded != nil {
			rt.cfg.Hooks.Loaded(cache, keys, took, err)
		}
	}()
	return load(context.WithValue(ctx, admittance{}, true))
}

// admittance marks the context of a load.
type admittance struct{}

// isLoad reports whether a context belongs to a source that already has a load slot.
func isLoad(ctx context.Context) bool { return ctx.Value(admittance{}) != nil }

// An urge lets a load proceed without a slot of [Config.Loads] when another source waits for its result: that source
// may occupy the very slot that the load waits for.
type urge struct{ ch chan struct{} }

func newUrge() urge { return urge{make(chan struct{})} }

// signalIfLoad signals the urge if ctx belongs to a source, which now waits for this load. Callers hold a mutex.
func (u urge) signalIfLoad(ctx context.Context) {
	select {
	case <-u.ch:
	default:
		if isLoad(ctx) {
			close(u.ch)
		}
	}
}

type urging struct{}

// withUrge returns a context for the load that the urge belongs to.
func (u urge) withUrge(ctx context.Context) context.Context {
	return context.WithValue(ctx, urging{}, u)
}

// urged returns a channel that is closed when the load of a context is urged. It is nil if no caller can join the load.
func urged(ctx context.Context) <-chan struct{} {
	u, _ := ctx.Value(urging{}).(urge)
	return u.ch
}

// serveStale returns the entry to serve when the source fails or is slow.
func (c *core) serveStale(e *localCopy, tier Tier) Entry[*localCopy] {
	c.stats.stale.add(1)
	entry := e.entry(bus.Now(), tier)
	entry.Stale = true
	return entry
}

// seal makes the envelope of a value that r loaded; a life of 0 means that it must not be stored.
func (c *core) seal(e *localCopy, took time.Duration, r *reading) (env slots.Envelope, life time.Duration, err error) {
	now := c.rt.clock()
	env = slots.Envelope{Missing: e.missing, Era: r.era, ID: mathrand.Uint64(), Stored: now, Took: took.Microseconds(), Tags: r.tagVersions}
	soft := c.fam.TTL.Empty
	life = soft
	if !e.missing {
		if env.Payload, err = c.encode(e); err != nil {
			return env, 0, fmt.Errorf("cache: %s: %w", c.fam.Pattern, err)
		}
		soft = c.fam.TTL.Draw()
		if c.types.life != nil {
			switch own := c.types.life(e); {
			case own >= time.Millisecond:
				soft = min(own, c.fam.TTL.Longest())
			case own != 0:
				return env, 0, nil
			}
		}
		life = min(soft+c.fam.TTL.Stale, c.fam.TTL.Longest())
	}
	env.Soft, env.Hard = now+soft.Milliseconds(), now+life.Milliseconds()
	return env, life, nil
}

// textOr returns the envelope's text, or "" if it must not be stored.
func textOr(e *slots.Envelope, life time.Duration) string {
	if life <= 0 {
		return ""
	}
	return e.Text()
}

// fillCmd replaces the lease with the loaded value. A value that must not be stored removes the lease and the earlier
// value, because the source no longer has that one.
func fillCmd(key keyspace.Key, lease string, e *slots.Envelope, life time.Duration) keyspace.Cmd {
	if life <= 0 {
		return fillScript.Cmd([]keyspace.Key{key}, lease, "", "-1")
	}
	return fillScript.Cmd([]keyspace.Key{key}, lease, e.Text(), keyspace.Millis(life))
}

// forgetReplaced drops this process' copy of a value whose replacement must not be stored.
func (r *reading) forgetReplaced() {
	if r.best != nil || r.replaces != "" { // otherwise there is no copy, and other keys share the counter
		r.c.rt.invalidate(r.key.String())
	}
}

// storeLoaded stores the local copy of a value that was just loaded.
func (c *core) storeLoaded(e *localCopy, env *slots.Envelope, r *reading) {
	c.setTimes(e, env, r)
	c.storeLocal(r.hash, e)
}
