package cache

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// openWait is how long [Open] waits for Redis, without which a cache only asks its source.
const openWait = time.Second

// Options say what [Open] opens. The zero Options are a cache in the memory of this process.
type Options struct {
	// Redis is the server that the processes of a program share. With a zero URL it is the
	// embedded one, which the program has to import:
	// _ "github.com/stoa-dev/stoa/lib/redis/embedded". Its Prefix keeps programs on one server apart.
	Redis redis.Config
	// DB is a connection that is there already, in place of Redis; Close leaves it open.
	DB *redis.DB
	// Node is what this process is called in logs, without a space; it need not be unique. Empty means a
	// random name.
	Node string

	Config
}

// Open connects to Redis, and returns a runtime that works until [Runtime.Close]. Redis may
// be away: caches ask their sources until it is there. It waits for Redis for a second at
// most. The error is one of the options.
func Open(ctx context.Context, o Options) (*Runtime, error) {
	db := o.DB
	if db != nil && !reflect.ValueOf(o.Redis).IsZero() {
		return nil, errors.New("cache: Options have a DB and a Redis: which is meant?")
	}
	if db == nil {
		var err error
		if db, err = redis.Open(ctx, o.Redis); err != nil {
			return nil, err
		}
	}
	events, err := bus.Open(db, bus.Keys{Events: sharedEvents.At(), Log: sharedLog.At()}, bus.Config{Node: cmp.Or(o.Node, "process-"+rand.Text()[:6]), Log: o.Log})
	if err != nil {
		if o.DB == nil {
			err = errors.Join(err, db.Close())
		}
		return nil, err
	}
	rt := NewRuntime(db, events, o.Config)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	all.Go(func() { _ = events.Run(running, func() {}) })
	all.Go(func() { _ = rt.Run(running, func() {}) })
	rt.close = sync.OnceValue(func() error {
		stop()
		all.Wait()
		if o.DB != nil {
			return nil
		}
		return db.Close()
	})
	wait, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	if err := events.Wait(wait); err != nil && ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), rt.Close())
	}
	return rt, nil
}

// Close ends what [Open] started and waits for it. Caches of the runtime ask their sources
// afterwards. A runtime of [NewRuntime] has nothing to close.
func (rt *Runtime) Close() error {
	if rt.close == nil {
		return nil
	}
	return rt.close()
}

// An Option says how long the values of [Keyed] live and how the cache behaves.
type Option func(*keyedOptions)

type keyedOptions struct {
	ttl    keyspace.TTL
	policy Policy
	codec  any // a Codec[V]; nil: the source's
	above  int // bytes; 0: as the policy says
	weight uint64
	weigh  any // a func(K, V) uint32; nil: the source's
	gone   any // a func(K, V, Removal); nil: the source's
	life   any // a func(V) time.Duration; nil: the source's
}

// optionOf returns what an option was given for caches of any type, as one cache has it.
func optionOf[T any](given any, name string) T {
	fits, ok := given.(T)
	if !ok {
		panic(fmt.Sprintf("cache: %s has an option for keys or values of another type: %T, not %s", name, given, reflect.TypeFor[T]()))
	}
	return fits
}

// TTL lets values live for d, a tenth more or less by chance, so that what was stored together does
// not expire together. That there is no such value is remembered for as long, a
// minute at most. The default is ten minutes.
func TTL(d time.Duration) Option {
	return Lives(keyspace.Expire(d).Jitter(d / 10).Negative(min(d, time.Minute)))
}

// Lives is TTL with all that a family can say, such as how long a value is served while its
// source fails.
func Lives(ttl keyspace.TTL) Option { return func(o *keyedOptions) { o.ttl = ttl } }

// LifeOf lets a value say itself how long it lives, as an access token does; d in [TTL] is the
// longest, a tenth more at most. See Source.Life. [Keyed] panics when life is for other values
// than the cache has.
func LifeOf[V any](life func(v V) time.Duration) Option {
	return func(o *keyedOptions) { o.life = life }
}

// With is how the cache behaves otherwise.
func With(p Policy) Option { return func(o *keyedOptions) { o.policy = p } }

// WithCodec is how values stand in Redis, in place of JSON. [Keyed] panics when it is a codec
// of another type than the cache's values have.
func WithCodec[V any](c Codec[V]) Option { return func(o *keyedOptions) { o.codec = c } }

// Compress has values compressed in Redis whose JSON, or what their codec makes of them, has
// more than above bytes, unless that makes them no shorter. Values are read whether they are
// compressed or not: it can be switched on and off, and processes can differ. A damaged one
// is loaded again. The format is S2, a relative of Snappy: Zstandard makes values shorter, and
// each read of Redis slower.
func Compress(above int) Option { return func(o *keyedOptions) { o.above = above } }

// MaxWeight bounds what the values in this process' memory weigh together, in place of how many
// there are; weigh says what each weighs, its size in bytes for instance. See Source.Weigh.
// [Keyed] panics when weigh is for other types than the cache has.
func MaxWeight[K comparable, V any](most uint64, weigh func(k K, v V) uint32) Option {
	return func(o *keyedOptions) { o.weight, o.weigh = most, weigh }
}

// OnRemoval is told which value has left this process' memory, and why. See
// Source.OnRemoval. [Keyed] panics when told is for other types than the cache has.
func OnRemoval[K comparable, V any](told func(k K, v V, why Removal)) Option {
	return func(o *keyedOptions) { o.gone = told }
}

var cacheName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Keyed returns a cache that needs no declared family: what is cached is called name, and key
// says what a value is called among the others. The two are its key in Redis, name:key. Keys
// longer than [keyspace.MaxText] bytes are hashed there.
//
// It is [New] with a family made for it. Whoever wants the key's form checked, or the
// keys in a catalogue, declares the family and calls New: nothing else changes. It panics
// when name has anything but letters, digits, '-', '_' and '.', or is already the name of a cache of rt,
// or when another cache of rt can have the same keys.
func Keyed[K comparable, V any](rt *Runtime, name string, key func(K) string, load func(context.Context, K) (V, error), opts ...Option) *Cache[K, V] {
	return KeyedFrom(rt, name, key, Source[K, V]{Load: load}, opts...)
}

// KeyedFrom is [Keyed] for a source that can do more than load one value.
func KeyedFrom[K comparable, V any](rt *Runtime, name string, key func(K) string, s Source[K, V], opts ...Option) *Cache[K, V] {
	if !cacheName.MatchString(name) {
		panic(fmt.Sprintf("cache: %q is no name of a cache: it has letters, digits, '-', '_' and '.'", name))
	}
	o := keyedOptions{}
	TTL(10 * time.Minute)(&o)
	for _, opt := range opts {
		opt(&o)
	}
	if o.codec != nil {
		s.Codec = optionOf[Codec[V]](o.codec, name)
	}
	if o.weigh != nil {
		s.Weigh, o.policy.MaxWeight = optionOf[func(K, V) uint32](o.weigh, name), o.weight
	}
	if o.life != nil {
		s.Life = optionOf[func(V) time.Duration](o.life, name)
	}
	if o.gone != nil {
		s.OnRemoval = optionOf[func(K, V, Removal)](o.gone, name)
	}
	o.policy.CompressAbove = cmp.Or(o.above, o.policy.CompressAbove)
	f := keyspace.Named1[keyspace.Text](name+":{key}", keyspace.CachedOf[V](), o.ttl, keyspace.Doc{Owner: name, Purpose: "values of " + name})
	return newCache(rt, f.Family, func(k K) keyspace.Key { return f.At(keyspace.Text{S: key(k)}).Key }, o.policy, s)
}

// Get returns the value called key among those called name, and loads it by load if neither this process
// nor Redis has it: a cache in one call, for what is asked for in one place. The first call of a name
// makes its cache, as [Keyed] does, and its opts count. Of callers who miss the same key at the same time
// one loads for all, and a value may be loaded anew before its life ends: load may run on after Get has returned.
//
// Values go when their life ends. Whoever wants to drop or change them makes the cache by [Keyed]. It panics
// as Keyed does, and when name has values of another type than V.
func Get[V any](ctx context.Context, rt *Runtime, name, key string, load func(context.Context) (V, error), opts ...Option) (V, error) {
	made, ok := rt.gets.Load(name)
	if !ok {
		made = rt.madeByGet(name, func() any {
			return Keyed(rt, name, func(k string) string { return k }, func(ctx context.Context, _ string) (V, error) {
				return ctx.Value(loadOfGet{}).(func(context.Context) (V, error))(ctx) // a miss has its caller's
			}, opts...)
		})
	}
	c, ok := made.(*Cache[string, V])
	if !ok {
		panic(fmt.Sprintf("cache: Get of %s has made a %T, and is asked for a value of type %s", name, made, reflect.TypeFor[V]()))
	}
	return c.Get(context.WithValue(ctx, loadOfGet{}, load), key)
}

// loadOfGet is what a context knows the load of a [Get] by.
type loadOfGet struct{}

// madeByGet returns the cache that [Get] has for name, and makes it unless it is there.
func (rt *Runtime) madeByGet(name string, make func() any) any {
	rt.getting.Lock()
	defer rt.getting.Unlock()
	made, ok := rt.gets.Load(name)
	if !ok {
		made = make()
		rt.gets.Store(name, made)
	}
	return made
}
