package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	gocache "github.com/go-redis/cache/v9"
	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/viccon/sturdyc"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// life is the TTL of values. It is longer than any figure takes.
const life = time.Hour

// A library is one way to cache, used as its documentation shows.
type library struct {
	name string
	open func(context.Context, *opening) *side
	// near and far state that it reads from this process' memory, and from Redis.
	near, far bool
}

// opening has the options to open a library.
type opening struct {
	addr   string // of Redis
	prefix string // prefix of its keys
	near   bool   // values are cached in process
	steady bool   // no value changes: a node continues even if the machine stops it for a while
	load   func(id int64) profile
	names  []string // names of keys, created beforehand; others are created at each call
}

func (o *opening) name(id int64) string {
	if id < int64(len(o.names)) {
		return o.names[id]
	}
	return o.prefix + strconv.FormatInt(id, 10)
}

// A side is a library on one node.
type side struct {
	get   func(id int64) (profile, error)
	many  func(ids []int64) (found int, err error) // nil means one after the other
	drop  func(id int64) error
	close func()
}

// batch reads ids in the best available way.
func (s *side) batch(ids []int64) (found int, err error) {
	if s.many != nil {
		return s.many(ids)
	}
	for _, id := range ids {
		if _, err := s.get(id); err != nil {
			return found, err
		}
		found++
	}
	return found, nil
}

// libraries are the columns of the table. The last one is package cache.
var libraries = []library{
	{name: "otter v2.4.0", open: openOtter(false), near: true},
	{name: "rueidis v1.0.79, client-side caching", open: openRueidis, near: true, far: true},
	{name: "go-redis/cache v9.0.0", open: openGoRedis, near: true, far: true},
	{name: "sturdyc v1.1.5", open: openSturdyc(false), near: true},
	{name: "sturdyc v1.1.5 with Redis", open: openSturdyc(true), near: true, far: true},
	{name: "package cache", open: openCache, near: true, far: true},
}

const (
	otterAt, rueidisAt, ours = 0, 1, 5

	nearEntries = 100_000 // capacity in process, more than any figure reads
)

// openOtter opens otter with its defaults. With whole, it adds the features of all other sides: statistics and a TTL
// for each value, so that otter reads the clock.
func openOtter(whole bool) func(context.Context, *opening) *side {
	return func(ctx context.Context, o *opening) *side {
		opt := &otter.Options[int64, profile]{MaximumSize: nearEntries}
		if whole {
			opt.StatsRecorder, opt.ExpiryCalculator = stats.NewCounter(), otter.ExpiryWriting[int64, profile](life)
		}
		c := otter.Must(opt)
		load := otter.LoaderFunc[int64, profile](func(_ context.Context, id int64) (profile, error) { return o.load(id), nil })
		return &side{
			get: func(id int64) (profile, error) {
				if v, ok := c.GetIfPresent(id); ok {
					return v, nil
				}
				return c.Get(ctx, id, load)
			},
			drop: func(id int64) error {
				c.Invalidate(id)
				return nil
			},
			close: func() { c.StopAllGoroutines() },
		}
	}
}

func openRueidis(ctx context.Context, o *opening) *side {
	opt := rueidis.ClientOption{InitAddress: []string{o.addr}}
	if !o.near {
		opt.DisableCache, opt.AlwaysRESP2 = true, true
	}
	c, err := rueidis.NewClient(opt)
	must(err)
	decode := func(r rueidis.RedisResult) (p profile, err error) {
		text, err := r.ToString()
		if err == nil {
			err = json.Unmarshal([]byte(text), &p)
		}
		return p, err
	}
	s := &side{
		get: func(id int64) (profile, error) {
			var r rueidis.RedisResult
			if o.near {
				r = c.DoCache(ctx, c.B().Get().Key(o.name(id)).Cache(), life)
			} else {
				r = c.Do(ctx, c.B().Get().Key(o.name(id)).Build())
			}
			p, err := decode(r)
			if !rueidis.IsRedisNil(err) {
				return p, err
			}
			p = o.load(id) // there is no loader: callers load
			text, err := json.Marshal(p)
			if err == nil {
				err = c.Do(ctx, c.B().Set().Key(o.name(id)).Value(string(text)).Ex(life).Build()).Error()
			}
			return p, err
		},
		drop:  func(id int64) error { return c.Do(ctx, c.B().Del().Key(o.name(id)).Build()).Error() },
		close: c.Close,
	}
	s.many = func(ids []int64) (int, error) {
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = o.name(id)
		}
		var found map[string]rueidis.RedisMessage
		var err error
		if o.near {
			found, err = rueidis.MGetCache(c, ctx, life, names)
		} else {
			found, err = rueidis.MGet(c, ctx, names)
		}
		out := make(map[string]profile, len(found))
		for name, m := range found {
			var p profile
			text, err := m.ToString()
			if err == nil {
				err = json.Unmarshal([]byte(text), &p)
			}
			if err != nil {
				return 0, err
			}
			out[name] = p
		}
		return len(out), err
	}
	return s
}

func openGoRedis(ctx context.Context, o *opening) *side {
	rdb := goredis.NewClient(&goredis.Options{Addr: o.addr})
	opt := &gocache.Options{Redis: rdb}
	if o.near {
		opt.LocalCache = gocache.NewTinyLFU(nearEntries, life)
	}
	c := gocache.New(opt)
	return &side{
		get: func(id int64) (p profile, err error) {
			err = c.Once(&gocache.Item{Ctx: ctx, Key: o.name(id), Value: &p, TTL: life, Do: func(*gocache.Item) (any, error) {
				return o.load(id), nil
			}})
			return p, err
		},
		drop:  func(id int64) error { return c.Delete(ctx, o.name(id)) },
		close: func() { _ = rdb.Close() },
	}
}

func openSturdyc(withRedis bool) func(context.Context, *opening) *side {
	return func(ctx context.Context, o *opening) *side {
		var opts []sturdyc.Option
		rdb := goredis.NewClient(&goredis.Options{Addr: o.addr})
		if withRedis {
			opts = append(opts, sturdyc.WithDistributedStorage(&storage{rdb}))
		}
		c := sturdyc.New[profile](nearEntries, 10, life, 10, opts...)
		return &side{
			get: func(id int64) (profile, error) {
				name := o.name(id)
				if !o.near { // the only way to disable its memory
					c.Delete(name)
				}
				return c.GetOrFetch(ctx, name, func(context.Context) (profile, error) { return o.load(id), nil })
			},
			many: func(ids []int64) (int, error) {
				names, of := make([]string, len(ids)), make(map[string]int64, len(ids))
				for i, id := range ids {
					if names[i] = o.name(id); !o.near {
						c.Delete(names[i])
					}
					of[names[i]] = id
				}
				found, err := c.GetOrFetchBatch(ctx, names, func(name string) string {
					return name
				}, func(_ context.Context, names []string) (map[string]profile, error) {
					loaded := map[string]profile{}
					for _, n := range names {
						loaded[n] = o.load(of[n])
					}
					return loaded, nil
				})
				return len(found), err
			},
			drop: func(id int64) (err error) {
				if withRedis {
					err = rdb.Del(ctx, o.name(id)).Err()
				}
				c.Delete(o.name(id))
				return err
			},
			close: func() { _ = rdb.Close() },
		}
	}
}

// storage is Redis as sturdyc's distributed storage, with one round trip for each call.
type storage struct{ rdb *goredis.Client }

var _ sturdyc.DistributedStorage = (*storage)(nil)

func (s *storage) Get(ctx context.Context, key string) ([]byte, bool) {
	b, err := s.rdb.Get(ctx, key).Bytes()
	return b, err == nil
}

func (s *storage) Set(ctx context.Context, key string, value []byte) {
	s.SetBatch(ctx, map[string][]byte{key: value})
}

func (s *storage) GetBatch(ctx context.Context, keys []string) map[string][]byte {
	found := make(map[string][]byte, len(keys))
	values, err := s.rdb.MGet(ctx, keys...).Result()
	for i, v := range values {
		if text, ok := v.(string); ok && err == nil {
			found[keys[i]] = []byte(text)
		}
	}
	return found
}

func (s *storage) SetBatch(ctx context.Context, records map[string][]byte) {
	_, _ = s.rdb.Pipelined(ctx, func(p goredis.Pipeliner) error { // a value that Redis did not store is loaded again
		for k, v := range records {
			p.Set(ctx, k, v, life)
		}
		return nil
	})
}

func openCache(ctx context.Context, o *opening) *side {
	ctx, stop := context.WithCancel(ctx)
	rt, db, run := node(ctx, o.addr, patient)
	p := cache.Policy{Entries: -1, Renew: -1}
	if o.near {
		p.Entries = nearEntries
	}
	if o.steady {
		p.MaxStale = time.Minute
	}
	c := cached(rt, p, func(_ context.Context, id keyspace.Int) (profile, error) { return o.load(id.N), nil })
	run()
	return &side{
		get: func(id int64) (profile, error) { return c.Get(ctx, keyspace.Int{N: id}) },
		many: func(ids []int64) (int, error) {
			ks := make([]keyspace.Int, len(ids))
			for i, id := range ids {
				ks[i].N = id
			}
			found, err := c.GetMany(ctx, ks)
			return len(found), err
		},
		drop: func(id int64) error { return c.Invalidate(ctx, keyspace.Int{N: id}) },
		close: func() {
			stop()
			rt.Wait()
			_ = db.Close()
		},
	}
}
