package cache

import (
	"cmp"
	"context"
	"errors"
	"time"
)

var (
	// ErrNotFound is returned by a source, and then by the cache, if the value does not exist.
	ErrNotFound = errors.New("cache: the value does not exist")
	// ErrUnfenced is returned if nothing was changed, because Redis did not accept the fence. See [Policy.Unfenced].
	ErrUnfenced = errors.New("cache: nothing was changed: Redis did not accept the fence")
	// ErrUndecided is for a change to join with its error if it is unknown whether the source has committed, or will in
	// a moment: for example, a connection broke before the reply. See [Runtime.Change].
	ErrUndecided = errors.New("cache: the source may have committed, or may still commit")
	// ErrCutOff is returned by a read under [Fail] while this node may have missed changes.
	ErrCutOff = errors.New("cache: this node may have missed changes")
	// ErrQueued is returned if Redis did not accept a drop, which now waits in the [RetryQueue] or in memory.
	ErrQueued = errors.New("cache: Redis did not accept a drop, which will be retried")
)

// Source loads the values of a cache.
type Source[K comparable, V any] struct {
	// Load returns the value of k, or an error that is [ErrNotFound] if there is none. Its context ends after
	// [Policy.LoadTimeout], not with the caller's context, because others wait for the same value.
	Load func(ctx context.Context, k K) (V, error)
	// LoadMany returns the values of keys; a key that is absent from the map does not exist. Nil: Load is called for
	// each.
	LoadMany func(ctx context.Context, keys []K) (map[K]V, error)
	// Life returns a value's soft life if it depends on the value, up to the longest that the family allows,
	// StaleIfError included; 0 means the family's life. If the life is negative or less than a millisecond, the value
	// has already expired: callers that wait for it get it, and it is not stored. Such a life is never extended
	// (Policy.Renew). Nil: the family's life.
	Life func(v V) time.Duration
	// Tags returns the tags of a key: dropping a tag drops all its values. They depend on the key alone, because they
	// have to be known before the load. At most 255. Nil: none.
	Tags func(k K) []Tag
	// Codec encodes the values in Redis. Nil: JSON. The form that the family declares is the JSON shape of the value,
	// whatever the codec.
	Codec Codec[V]
	// Weigh returns the weight of a value in this process' memory, such as its size in bytes, when it is stored there;
	// 0 counts as 1. [Policy.MaxWeight] bounds the sum. It runs under a lock and must not use the cache. Nil: values
	// have no weight.
	Weigh func(k K, v V) uint32
	// OnRemoval is called with each value that has left this process' memory, and the reason, on a goroutine of its
	// own. A value that was changed or dropped, or has expired, leaves at its next read, or within a minute if it is
	// not read. Nil: no listener.
	OnRemoval func(k K, v V, why Removal)
}

// A Removal is the reason why a value has left the memory of a process.
type Removal string

// The reasons.
const (
	Replaced    Removal = "replaced"    // by a value that was loaded or read before its life ended
	Invalidated Removal = "invalidated" // the value, one of its tags or everything was changed, dropped or cleared
	Expired     Removal = "expired"     // its life had ended
	Evicted     Removal = "evicted"     // other values needed the space
)

// Policy configures one cache. The zero Policy is a good default. The family sets how long values live:
// [keyspace.Expire], Jitter, Negative and StaleIfError.
type Policy struct {
	// Entries is the number of values kept in process; 0 means 10,000, a negative number none.
	Entries int
	// MaxWeight bounds the total weight, by Source.Weigh, of the values in process. It replaces a positive Entries; 0
	// means that Entries applies. A negative entry weighs a ten-thousandth of MaxWeight.
	MaxWeight uint64
	// CompressAbove is the size in bytes above which values are compressed in Redis; 0 means no compression. See
	// [Compress].
	CompressAbove int
	// MaxStale bounds how long after an acknowledged change an old value may be read, on any node, whatever happens to
	// the network. 0 means 500 ms, or five seconds for the embedded server, which other nodes cannot reach. It has to
	// be several beats of the bus; New panics if it is less than two.
	MaxStale time.Duration
	// Beta controls how early a value is loaded before it expires, at random, so that not all nodes and callers find it
	// expired at once; 0 means 1, a negative number disables it. See XFetch: Vattani, Chierichetti, Lowenstein,
	// "Optimal Probabilistic Cache Stampede Prevention", VLDB 2015.
	Beta float64
	// Renew is the share of reads of Redis that extend a value's life, up to the hard life that StaleIfError sets; 0
	// means 0.01, a negative number none.
	Renew float64
	// Wait bounds how long a caller waits for a load if there is a stale value to return; 0 means 100 ms.
	Wait time.Duration
	// LeaseWait bounds how long a reader waits for the load of another node, which may have died. After it the reader
	// loads the value itself without storing it. 0 means four times the average of recent loads, at least 200 ms and at
	// most LoadTimeout; a negative number means no wait.
	LeaseWait time.Duration
	// LoadTimeout bounds a load; 0 means 5 s.
	LoadTimeout time.Duration
	// ChangeTimeout bounds the functions that [Cache.Mutate] and [Runtime.Change] call; 0 means 10 s. No node stores a
	// value meanwhile.
	ChangeTimeout time.Duration
	// CutOff selects what reads do while this node may have missed changes for longer than MaxStale.
	CutOff CutOff
	// Unfenced selects what a change does if Redis does not accept its fence.
	Unfenced Unfenced
}

// CutOff selects what reads do on a node that may have missed changes.
type CutOff uint8

const (
	// Bypass asks the source.
	Bypass CutOff = iota
	// ServeStale returns copies as if nothing were wrong.
	ServeStale
	// Fail returns [ErrCutOff].
	Fail
)

// Unfenced selects what a change does if Redis does not accept its fence.
type Unfenced uint8

const (
	// Refuse returns [ErrUnfenced] and changes nothing. With it the guarantee of MaxStale always holds.
	Refuse Unfenced = iota
	// Proceed makes the change and retries the drop until Redis has done it. Until then this node reads the key from
	// its source, and sees its change. Another node may read the old value. If it cannot reach Redis either, it may do
	// so for MaxStale. If it can, it may do so until this node has dropped the value or, if this process dies before
	// that, until the value expires. [FenceFailed] reports to a change that it has to record the drop itself, and
	// [UnfencedKeys] lists the keys to record.
	Proceed
)

const defaultEntries = 10_000

func (p Policy) withDefaults() Policy {
	p.Entries = cmp.Or(p.Entries, defaultEntries)
	p.MaxStale = cmp.Or(p.MaxStale, 500*time.Millisecond)
	p.Beta = cmp.Or(p.Beta, 1)
	p.Renew = cmp.Or(p.Renew, 0.01)
	p.Wait = cmp.Or(p.Wait, 100*time.Millisecond)
	p.LoadTimeout = cmp.Or(p.LoadTimeout, 5*time.Second)
	p.ChangeTimeout = cmp.Or(p.ChangeTimeout, 10*time.Second)
	return p
}

// Tier is where a value was found.
type Tier string

// The tiers.
const (
	Process Tier = "process" // in this process' memory
	Redis   Tier = "redis"
	Origin  Tier = "source"
)

// Entry is a value with its metadata.
type Entry[V any] struct {
	Value   V
	Missing bool // the value does not exist; Value is zero
	Tier    Tier
	Age     time.Duration // since it was loaded
	Stale   bool          // past its soft life, because its source failed or is slow
	Version uint64        // of the load; 0 if the value was not stored
}
