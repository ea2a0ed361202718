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

// openTimeout bounds how long [Open] waits for Redis. Without Redis a cache only asks its source.
const openTimeout = time.Second

// Options configure [Open]. The zero Options are a cache in the memory of this process.
type Options struct {
	// Redis is the server that the processes of a program share. With a zero URL it is the embedded one, which the
	// program has to import: _ "github.com/stoa-dev/stoa/lib/redis/embedded". Its Prefix separates programs on one
	// server.
	Redis redis.Config
	// DB is an existing connection to use instead of Redis; Close leaves it open.
	DB *redis.DB
	// Node is the name of this process in logs, without a space; it need not be unique. Empty means a random name.
	Node string

	Config
}

// Open connects to Redis, and returns a runtime that works until [Runtime.Close]. Redis may be unavailable: caches ask
// their sources until it is back. Open waits for Redis for at most a second. It returns an error if the options are
// invalid.
func Open(ctx context.Context, o Options) (*Runtime, error) {
	db := o.DB
	if db != nil && !reflect.ValueOf(o.Redis).IsZero() {
		return nil, errors.New("cache: Options have both DB and Redis: set one")
	}
	if db == nil {
		var err error
		if db, err = redis.Open(ctx, o.Redis); err != nil {
			return nil, err
		}
	}
	events, err := bus.Open(db, bus.Keys{Events: sharedEvents.At(), Log: sharedLog.At()},
		bus.Config{Node: cmp.Or(o.Node, "process-"+rand.Text()[:6]), Log: o.Log})
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
	wait, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := events.Wait(wait); err != nil && ctx.Err() != nil {
		return nil, errors.Join(context.Cause(ctx), rt.Close())
	}
	return rt, nil
}

// Close ends what [Open] started and waits for it. Caches of the runtime ask their sources afterwards. A runtime of
// [NewRuntime] has nothing to close.
func (rt *Runtime) Close() error {
	if rt.close == nil {
		return nil
	}
	return rt.close()
}

// An Option configures a cache of [Keyed].
type Option func(*keyedOptions)

type keyedOptions struct {
	ttl           keyspace.TTL
	policy        Policy
	codec         any // a Codec[V]; nil: the source's
	compressAbove int // bytes; 0: as in the policy
	weight        uint64
	weigh         any // a func(K, V) uint32; nil: the source's
	onRemoval     any // a func(K, V, Removal); nil: the source's
	life          any // a func(V) time.Duration; nil: the source's
}

// optionOf converts the value of an option, which was given for caches of any type, to the type of one cache.
func optionOf[T any](given any, name string) T {
	fits, ok := given.(T)
	if !ok {
		panic(fmt.Sprintf("cache: %s has an option for keys or values of another type: %T, not %s", name, given, reflect.TypeFor[T]()))
	}
	return fits
}

// TTL sets the life of values to d, plus or minus a random tenth, so that values stored together do not expire
// together. Missing values are remembered for as long, but at most a minute. The default is ten minutes.
func TTL(d time.Duration) Option {
	return Lives(keyspace.Expire(d).Jitter(d / 10).Negative(min(d, time.Minute)))
}

// Lives is TTL with all settings of a family, such as how long a value is served while its source fails.
func Lives(ttl keyspace.TTL) Option { return func(o *keyedOptions) { o.ttl = ttl } }

// LifeOf lets a value set its own life, as an access token does. d in [TTL] is the longest, plus at most a tenth. See
// Source.Life. [Keyed] panics if life is for other values than those of the cache.
func LifeOf[V any](life func(v V) time.Duration) Option {
	return func(o *keyedOptions) { o.life = life }
}

// With sets the policy of the cache.
func With(p Policy) Option { return func(o *keyedOptions) { o.policy = p } }

// WithCodec sets the codec for values in Redis, instead of JSON. [Keyed] panics if the codec is for another type than
// the cache's values.
func WithCodec[V any](c Codec[V]) Option { return func(o *keyedOptions) { o.codec = c } }

// Compress compresses values in Redis whose encoded form has more than above bytes, unless compression does not shorten
// them. Values are read whether or not they are compressed: the option can be switched on and off, and processes can
// differ. A damaged value is loaded again. The format is S2, a relative of Snappy. Zstandard would make values shorter,
// but each read of Redis slower.
func Compress(above int) Option { return func(o *keyedOptions) { o.compressAbove = above } }

// MaxWeight bounds the total weight of the values in this process' memory, instead of their number; weigh returns the
// weight of a value, such as its size in bytes. See Source.Weigh. [Keyed] panics if weigh is for other types than those
// of the cache.
func MaxWeight[K comparable, V any](limit uint64, weigh func(k K, v V) uint32) Option {
	return func(o *keyedOptions) { o.weight, o.weigh = limit, weigh }
}

// OnRemoval sets the function that is called with each value that has left this process' memory, and the reason. See
// Source.OnRemoval. [Keyed] panics if removed is for other types than those of the cache.
func OnRemoval[K comparable, V any](removed func(k K, v V, reason Removal)) Option {
	return func(o *keyedOptions) { o.onRemoval = removed }
}

var cacheName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Keyed returns a cache that needs no declared family. name is the name of the cache, and key returns the key of a
// value within it. Together they are the key in Redis, name:key. Keys longer than [keyspace.MaxText] bytes are hashed
// there.
//
// It is [New] with a family made for it. To have the form of keys checked, or the keys in a catalogue, declare the
// family and call New: nothing else changes. Keyed panics if name has characters other than letters, digits, '-', '_'
// and '.', or if name is already a cache of rt. It also panics if another cache of rt can have the same keys.
func Keyed[K comparable, V any](rt *Runtime, name string, key func(K) string, load func(context.Context, K) (V, error),
	opts ...Option) *Cache[K, V] {
	return KeyedFrom(rt, name, key, Source[K, V]{Load: load}, opts...)
}

// KeyedFrom is [Keyed] for a source that can do more than load one value.
func KeyedFrom[K comparable, V any](rt *Runtime, name string, key func(K) string, s Source[K, V], opts ...Option) *Cache[K, V] {
	if !cacheName.MatchString(name) {
		panic(fmt.Sprintf("cache: %q is not a valid cache name: use letters, digits, '-', '_' and '.'", name))
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
	if o.onRemoval != nil {
		s.OnRemoval = optionOf[func(K, V, Removal)](o.onRemoval, name)
	}
	o.policy.CompressAbove = cmp.Or(o.compressAbove, o.policy.CompressAbove)
	f := keyspace.Named1[keyspace.Text](name+":{key}", keyspace.CachedOf[V](), o.ttl, keyspace.Doc{Owner: name, Purpose: "values of " + name})
	return newCache(rt, f.Family, func(k K) keyspace.Key { return f.At(keyspace.Text{S: key(k)}).Key }, o.policy, s)
}

// Get returns the value key of the cache name, and calls load if neither this process nor Redis has the value. It is a
// cache in one call, for values that are read in one place. The first call with a name creates its cache, as [Keyed]
// does, with its opts. If several callers miss the same key at the same time, one loads for all. A value may be loaded
// again before its life ends: load may still run after Get has returned.
//
// Values are removed when their life ends. To drop or change them, create the cache with [Keyed]. Get panics as Keyed
// does, and if the cache name has values of another type than V.
func Get[V any](ctx context.Context, rt *Runtime, name, key string, load func(context.Context) (V, error), opts ...Option) (V, error) {
	made, ok := rt.gets.Load(name)
	if !ok {
		made = rt.madeByGet(name, func() any {
			return Keyed(rt, name, func(k string) string { return k }, func(ctx context.Context, _ string) (V, error) {
				return ctx.Value(loadOfGet{}).(func(context.Context) (V, error))(ctx) // a miss runs with its caller's context
			}, opts...)
		})
	}
	c, ok := made.(*Cache[string, V])
	if !ok {
		panic(fmt.Sprintf("cache: the cache %s of Get is a %T, but a value of type %s was requested", name, made, reflect.TypeFor[V]()))
	}
	return c.Get(context.WithValue(ctx, loadOfGet{}, load), key)
}

// loadOfGet is the context key for the load function of a [Get].
type loadOfGet struct{}

// madeByGet returns the cache that [Get] has for name, and creates it if it is absent.
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
