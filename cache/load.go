package cache

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/keyspace"
)

const (
	// Who waits for another node's load looks for its result so often.
	firstLook   = time.Millisecond
	longestLook = 25 * time.Millisecond
	// failedPause is for how long a value past its life answers without asking a
	// source that has just failed.
	failedPause = time.Second
)

// token returns 8 bytes that nobody had before.
func token() string {
	var b [tokenLen]byte
	_, _ = rand.Read(b[:]) // never fails
	return string(b[:])
}

// load gets the value from the source, or from another node that is loading it,
// and stores it if no change has come between. When there is something to fall
// back on and the load takes long, early gets that; when the source goes on
// after the end of its context, early gets the error.
func (r *reading[K, V]) load(ctx context.Context, early func(Entry[V], error)) (Entry[V], error) {
	c := r.c
	if old := r.best; old != nil {
		tier := r.tier
		defer time.AfterFunc(c.policy.Wait, func() { early(c.fallBack(old, tier), nil) }).Stop()
	}
	lease, found := "", false
	if r.era != 0 {
		if lease, found = r.acquire(ctx); found {
			return r.found(), nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.policy.LoadTimeout)
	defer cancel()
	late := context.AfterFunc(ctx, func() { early(Entry[V]{}, fmt.Errorf("cache: %s: %w", c.fam.Pattern, context.Cause(ctx))) })
	defer late()
	began := bus.Now()
	v, err := c.ask(ctx, r.k)
	late()
	took := time.Duration(bus.Now() - began)
	if err != nil && !errors.Is(err, ErrNotFound) {
		if lease != "" {
			c.rt.do(fillScript.Cmd([]keyspace.Key{r.key}, lease, "", "0"))
		}
		if r.best == nil {
			return Entry[V]{}, err
		}
		again := *r.best // which others may be reading
		again.again = min(bus.Now()+bus.Moment(failedPause+mathrand.N(failedPause/4)), again.hard)
		c.keep(r.k, &again)
		return c.fallBack(r.best, r.tier), nil
	}
	e := Entry[V]{Value: v, Missing: err != nil, Tier: Origin}
	if lease == "" {
		return e, nil
	}
	env, life, err := c.seal(v, e.Missing, took, r.era, r.under)
	if err != nil {
		return e, err
	}
	stored, _ := c.rt.one(fillScript.Cmd([]keyspace.Key{r.key}, lease, env.textOr(life), millis(life))).Int()
	if stored == 1 && life > 0 {
		c.keepLoaded(r.k, v, env, r.mark, r.tags)
		e.Version = env.id
	} else if life > 0 {
		c.stats.refused.add(1)
	}
	return e, nil
}

// acquire takes the lease on the slot, or waits for whoever has it; if that one
// is never heard of again, until its lease lapses. found says
// that there is an answer without a load; without a lease and an answer the value
// is to be loaded and not stored.
func (r *reading[K, V]) acquire(ctx context.Context) (lease string, found bool) {
	c := r.c
	patience := bus.Now() + bus.Moment(2*c.leaseLife())
	for look := firstLook; bus.Now() < patience; look = min(2*look, longestLook) {
		mine := token()
		slot, held, err := c.rt.one(r.acquireCmd(mine)).Text()
		switch {
		case err != nil:
			c.stats.failed.add(1)
			return "", false
		case !held:
			return mine, false
		case kind(slot) == isFence:
			c.stats.fenced.add(1)
			return "", false
		case kind(slot) == isValue:
			before := r.unwanted
			if r.take(ctx, slot) == settled {
				return "", true
			}
			if r.unwanted == before { // not readable, and not to be replaced
				return "", false
			}
			continue
		case r.best != nil: // somebody else is at it
			c.stats.stale.add(1)
			return "", true
		}
		c.stats.waited.add(1)
		time.Sleep(look)
	}
	return "", false
}

// leaseLife is how long a load may take, with what it takes to say so.
func (c *Cache[K, V]) leaseLife() time.Duration { return c.policy.LoadTimeout + c.rt.cfg.Budget }

// acquireCmd asks for the lease on the slot.
func (r *reading[K, V]) acquireCmd(mine string) keyspace.Cmd {
	now := r.c.rt.clock()
	life := r.c.leaseLife()
	return acquireScript.Cmd([]keyspace.Key{r.key}, mine, strconv.FormatInt(now, 10), fmt.Sprintf("%013d", now+life.Milliseconds()), millis(life), r.unwanted)
}

// ask calls the source, with the others' leave.
func (c *Cache[K, V]) ask(ctx context.Context, k K) (v V, err error) {
	err = c.admitted(ctx, 1, func(ctx context.Context) (err error) {
		v, err = c.source.Load(ctx, k)
		return err
	})
	return v, err
}

// admitted runs a load when fewer than [Config.Loads] run, and counts it.
func (c *Cache[K, V]) admitted(ctx context.Context, keys int, load func(context.Context) error) (err error) {
	// A source that reads another cache has leave already: were it to wait for
	// another one, all leave could be with those who wait.
	if ctx.Value(admittance{}) == nil {
		select {
		case c.rt.loads <- struct{}{}:
			defer func() { <-c.rt.loads }()
		case <-ctx.Done():
			return fmt.Errorf("cache: %s: too many loads: %w", c.fam.Pattern, context.Cause(ctx))
		}
	}
	began := bus.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cache: the source of %s panicked: %v\n%s", c.fam.Pattern, p, debug.Stack())
		}
		took := time.Duration(bus.Now() - began)
		c.stats.loaded(keys, took, err)
		if c.rt.cfg.Hooks.Loaded != nil {
			c.rt.cfg.Hooks.Loaded(c.Name(), keys, took, err)
		}
	}()
	return load(context.WithValue(ctx, admittance{}, true))
}

// admittance marks the context of a load.
type admittance struct{}

// fallBack is the answer when the source fails or is slow.
func (c *Cache[K, V]) fallBack(e *copied[V], tier Tier) Entry[V] {
	c.stats.stale.add(1)
	entry := e.entry(bus.Now(), tier)
	entry.Stale = true
	return entry
}

// seal makes the envelope of a loaded value; life 0 says that it is not to be
// stored.
func (c *Cache[K, V]) seal(v V, missing bool, took time.Duration, era uint64, tags []uint64) (env envelope, life time.Duration, err error) {
	now := c.rt.clock()
	env = envelope{missing: missing, era: era, id: mathrand.Uint64(), stored: now, took: took.Microseconds(), tags: tags}
	soft := c.fam.TTL.Empty
	life = soft
	if !missing {
		text, err := json.Marshal(v)
		if err != nil {
			return env, 0, fmt.Errorf("cache: %s: %w", c.fam.Pattern, err)
		}
		env.payload = string(text)
		soft = c.fam.TTL.Draw()
		if c.source.Life != nil {
			if own := c.source.Life(v); own > 0 {
				soft = min(own, c.fam.TTL.Longest())
			}
		}
		life = min(soft+c.fam.TTL.Stale, c.fam.TTL.Longest())
	}
	env.soft, env.hard = now+soft.Milliseconds(), now+life.Milliseconds()
	return env, life, nil
}

// textOr is the envelope's text, or nothing when it has no life.
func (e *envelope) textOr(life time.Duration) string {
	if life <= 0 {
		return ""
	}
	return e.text()
}

// keepLoaded puts what was just loaded into the process' memory.
func (c *Cache[K, V]) keepLoaded(k K, v V, env envelope, m mark, tags []mark) {
	e := c.timed(&env, m, tags)
	e.value = v
	c.keep(k, e)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
