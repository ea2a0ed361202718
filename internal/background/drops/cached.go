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

// ErrNotCached reports a name that is not a cached key, tag or family.
var ErrNotCached = errors.New("no such cached key, tag or family")

// pageSize is the number of keys per drop command.
const pageSize = 500

// Cached lists the cached keys and families of a program.
type Cached struct {
	parser   *keyspace.Parser
	families map[string]*keyspace.Family // by pattern
	longest  time.Duration               // the longest TTL of a cached value
}

// NewCached returns the cached families of schemas.
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

// Key returns the cached key with a name, or ErrNotCached.
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

// Family returns the cached family with a pattern, or ErrNotCached.
func (c *Cached) Family(pattern string) (*keyspace.Family, error) {
	f := c.families[pattern]
	if f == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotCached, pattern)
	}
	return f, nil
}

// Each calls fn with the existing keys of a cached family, up to 500 at a time.
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

// Do drops keys on all nodes, as a change does, and returns the number of keys that it dropped in Redis. It calls
// progress, unless nil, after each page. It returns ErrNotCached for unknown names.
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
	return n, rt.Forget() // local caches may still hold values that Redis evicted
}
