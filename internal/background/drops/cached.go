package drops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/inspect"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// ErrNotCached reports text that names no key, tag or family of a cache.
var ErrNotCached = errors.New("nothing is cached as that")

// pageSize is how many keys are dropped at once.
const pageSize = 500

// Cached knows which keys and families of a program are cached.
type Cached struct {
	parser   *keyspace.Parser
	families map[string]*keyspace.Family // by pattern
	longest  time.Duration               // life of any cached value
}

// NewCached returns what is cached among the families of schemas.
func NewCached(schemas ...*keyspace.Schema) *Cached {
	c := &Cached{parser: keyspace.NewParser(schemas...), families: map[string]*keyspace.Family{}}
	for _, s := range schemas {
		for _, f := range s.Families() {
			if f.IsCached() {
				c.families[f.Pattern] = f
				c.longest = max(c.longest, f.TTL.Longest())
			}
		}
	}
	return c
}

// Key returns the cached key of that name, or ErrNotCached.
func (c *Cached) Key(name string) (keyspace.Key, error) {
	found, ok := c.parser.Key(name)
	if !ok || !found.Family.IsCached() {
		return keyspace.Key{}, fmt.Errorf("%w: %s", ErrNotCached, name)
	}
	return found.Key(), nil
}

func (c *Cached) keys(names []string) (_ []keyspace.Key, err error) {
	keys := make([]keyspace.Key, len(names))
	for i, name := range names {
		if keys[i], err = c.Key(name); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// Family returns the cached family with that pattern, or ErrNotCached.
func (c *Cached) Family(pattern string) (*keyspace.Family, error) {
	f := c.families[pattern]
	if f == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotCached, pattern)
	}
	return f, nil
}

// Each calls fn with the keys that Redis holds of a cached family, up to 500 at a
// time.
func (c *Cached) Each(ctx context.Context, db *redis.DB, f *keyspace.Family, fn func([]keyspace.Key) error) error {
	prefix := db.Physical(keyspace.Key{})
	var page []keyspace.Key
	err := db.Scan(ctx, func(physical string) error {
		found, ok := c.parser.Key(strings.TrimPrefix(physical, prefix))
		if !ok || found.Family != f {
			return nil
		}
		if page = append(page, found.Key()); len(page) < pageSize {
			return nil
		}
		err := fn(page)
		page = nil
		return err
	})
	if err == nil && len(page) > 0 {
		err = fn(page)
	}
	return err
}

// Do drops as a change would, on every node, and returns how many keys it dropped
// in Redis. progress, unless nil, hears of each page. ErrNotCached.
func (c *Cached) Do(ctx context.Context, db *redis.DB, rt *cache.Runtime, d Drop, progress func(done int)) (n int, err error) {
	drop := func(keys []keyspace.Key) error {
		if err := rt.Redo(keys); err != nil {
			return err
		}
		if n += len(keys); progress != nil {
			progress(n)
		}
		return nil
	}
	keys, err := c.keys(d.Keys)
	if err != nil {
		return 0, err
	}
	for _, tag := range d.Tags {
		t, ok := inspect.ParseTag(tag)
		if !ok {
			return 0, fmt.Errorf("%w: %s", ErrNotCached, tag)
		}
		keys = append(keys, t.Target().Key())
	}
	if len(keys) > 0 {
		if err := drop(keys); err != nil {
			return n, err
		}
	}
	if d.Family == "" {
		return n, nil
	}
	f, err := c.Family(d.Family)
	if err != nil {
		return n, err
	}
	if err := c.Each(ctx, db, f, drop); err != nil {
		return n, err
	}
	return n, rt.Forget() // what Redis has evicted, processes may still have
}
