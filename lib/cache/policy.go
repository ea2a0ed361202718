package cache

import (
	"cmp"
	"context"
	"errors"
	"time"
)

var (
	// ErrNotFound is what a source answers when there is no such thing, and what
	// a cache answers then.
	ErrNotFound = errors.New("cache: there is no such thing")
	// ErrUnfenced says that nothing was changed, because Redis could not be told
	// of the change beforehand. See [Policy.Unfenced].
	ErrUnfenced = errors.New("cache: Redis cannot be told of a change")
	// ErrUndecided is for a change to join with its error when nobody knows whether the source
	// has committed, or will in a moment: a connection broke before the answer, say. See
	// [Runtime.Change].
	ErrUndecided = errors.New("cache: the source may have committed, or may yet")
	// ErrCutOff is what a read returns under [Fail] while this node may have
	// missed changes.
	ErrCutOff = errors.New("cache: this node may have missed changes")
	// ErrQueued says that Redis did not take a drop, which now waits in the
	// [RetryQueue] or in memory.
	ErrQueued = errors.New("cache: Redis did not take a drop, it will be tried again")
)

// Source is where values come from.
type Source[K comparable, V any] struct {
	// Load returns the value of k, or an error that is [ErrNotFound] when there
	// is none. Its context ends after [Policy.LoadTimeout] and not when the
	// caller's does: others wait for the same value.
	Load func(ctx context.Context, k K) (V, error)
	// LoadMany returns the values of keys; what is absent does not exist. Nil:
	// Load is called for each.
	LoadMany func(ctx context.Context, keys []K) (map[K]V, error)
	// Life returns a value's soft life, if that depends on the value, up to the longest that
	// the family allows, StaleIfError included; 0 means the family's life. A value whose life is
	// negative, or less than a millisecond, is over by then: callers that wait for
	// it get it, and it is stored nowhere. No such life is extended (Policy.Renew). Nil: it never
	// depends on the value.
	Life func(v V) time.Duration
	// Tags are what a value belongs to beside its key: dropping a tag drops all
	// its values. They depend on the key alone, for they have to be known before
	// the load. At most 255. Nil: none.
	Tags func(k K) []Tag
	// Codec is how values stand in Redis. Nil: as JSON, whose shape is what the
	// family's form tells with any codec.
	Codec Codec[V]
	// Weigh returns what a value weighs in this process' memory, its size in bytes for
	// instance, when it is put there; 0 counts as 1. [Policy.MaxWeight] bounds the
	// sum. It runs under a lock: it must not use the cache. Nil: values have no weight.
	Weigh func(k K, v V) uint32
	// OnRemoval is told which value has left this process' memory, and why, on a goroutine of
	// its own. A value that was changed or dropped, or whose life has ended, leaves when it
	// is asked for or, if it is not, within a minute. Nil: nobody is told.
	OnRemoval func(k K, v V, why Removal)
}

// A Removal is why a value has left the memory of a process.
type Removal string

// The reasons.
const (
	Replaced    Removal = "replaced"    // by what was loaded or read anew before its life ended
	Invalidated Removal = "invalidated" // it, a tag of it or everything was changed, dropped or cleared
	Expired     Removal = "expired"     // its life had ended
	Evicted     Removal = "evicted"     // others needed the room
)

// Policy says how one cache behaves. The zero Policy is a good one. How long
// values live is the family's to say: [keyspace.Expire], Jitter, Negative and
// StaleIfError.
type Policy struct {
	// Entries is how many values are kept in process; 0 means 10,000, a negative
	// number none.
	Entries int
	// MaxWeight bounds what the values in process weigh together, by Source.Weigh, in
	// place of a positive Entries; 0 means by Entries. What is known not to exist weighs
	// a ten-thousandth of it.
	MaxWeight uint64
	// CompressAbove has values of more bytes than this compressed in Redis; 0 means
	// none. See [Compress].
	CompressAbove int
	// MaxStale bounds how long after an acknowledged change an old value may be
	// read, on any node, whatever happens to the network; 0 means 500 ms, and five
	// seconds for the embedded server, which other nodes cannot reach. It has
	// to be a few of the bus' beats; New panics when it is less than two.
	MaxStale time.Duration
	// Beta is how eagerly a value is loaded again before it expires, by chance, so
	// that not all nodes and callers find it expired at once; 0 means 1, a
	// negative number not at all. See XFetch: Vattani, Chierichetti, Lowenstein,
	// "Optimal Probabilistic Cache Stampede Prevention", VLDB 2015.
	Beta float64
	// Renew is the share of reads of Redis that extend a value's life, up to the
	// hard life that StaleIfError gives it; 0 means 0.01, a negative number none.
	Renew float64
	// Wait is how long a caller waits for a load when there is a value past its
	// life to answer with; 0 means 100 ms.
	Wait time.Duration
	// LeaseWait is how long a reader waits for the load of another node, which may
	// have died, before it loads the value itself, which is then not stored; 0 means
	// four times what loads took of late, at least 200 ms and at most LoadTimeout, a
	// negative number not at all.
	LeaseWait time.Duration
	// LoadTimeout bounds a load; 0 means 5 s.
	LoadTimeout time.Duration
	// ChangeTimeout bounds what [Cache.Mutate] and [Runtime.Change] call; 0 means
	// 10 s. No node stores a value meanwhile.
	ChangeTimeout time.Duration
	// CutOff says what reads do while this node may have missed changes for
	// longer than MaxStale.
	CutOff CutOff
	// Unfenced says what a change does that Redis cannot be told of beforehand.
	Unfenced Unfenced
}

// CutOff is what reads do on a node that may have missed changes.
type CutOff uint8

const (
	// Bypass asks the source.
	Bypass CutOff = iota
	// ServeStale answers as if nothing were wrong.
	ServeStale
	// Fail returns [ErrCutOff].
	Fail
)

// Unfenced is what a change does that Redis cannot be told of beforehand.
type Unfenced uint8

const (
	// Refuse returns [ErrUnfenced] and changes nothing. With it the promise of
	// MaxStale holds whatever happens.
	Refuse Unfenced = iota
	// Proceed changes all the same and retries the drop until Redis has done it. Until
	// then this node reads the key from its source, and sees its change. Another node
	// may read the old value: for MaxStale, if it cannot reach Redis either; if it can,
	// until this node has dropped the value or, should this process die before that,
	// until the value expires. [FenceFailed] tells a change to record its drop itself, and [UnfencedKeys] of what.
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

// Entry is a value and what is known of it.
type Entry[V any] struct {
	Value   V
	Missing bool // there is no such thing; Value is zero
	Tier    Tier
	Age     time.Duration // since it was loaded
	Stale   bool          // past its life: its source failed, or is slow
	Version uint64        // of the load it came from; 0 when it was stored nowhere
}
