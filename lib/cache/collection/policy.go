package collection

import (
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
)

// Policy configures one [Hash], [Set] or [ZSet]. The zero Policy is a good default. The family sets how long
// collections live: [keyspace.Expire] and Jitter, and Negative for empty ones; without Negative, empty collections are
// not cached.
type Policy struct {
	// MaxStale bounds how long after an acknowledged change old data may be read, on any node, whatever happens to the
	// network. 0 means 500 ms, or five seconds for the embedded server, which other nodes cannot reach. It has to be
	// several beats of the bus.
	MaxStale time.Duration
	// Renew is the share of reads that check whether the collection is in the last fifth of its life, and then load it
	// again. A collection that is read often therefore does not expire. 0 means 0.01, a negative number none. Meanwhile
	// readers get the old collection, unless it has more than 500 members.
	Renew float64
	// LeaseWait is how long a reader waits for the load of another node; see
	// [cache.Policy.LeaseWait].
	LeaseWait time.Duration
	// LoadTimeout bounds a load; 0 means 5 s.
	LoadTimeout time.Duration
	// ChangeTimeout bounds what Mutate and [cache.Runtime.Change] call; 0 means 10 s.
	// No node stores the collection meanwhile.
	ChangeTimeout time.Duration
	// CutOff selects what reads do while this node may have missed the replacement of a server for longer than
	// MaxStale.
	CutOff cache.CutOff
	// Unfenced selects what a change does if Redis does not accept its fence.
	Unfenced cache.Unfenced
}

// cache returns p as a policy of package cache, whose other fields are for values.
func (p Policy) cache() cache.Policy {
	return cache.Policy{MaxStale: p.MaxStale, Renew: p.Renew, LeaseWait: p.LeaseWait, LoadTimeout: p.LoadTimeout,
		ChangeTimeout: p.ChangeTimeout,
		CutOff:        p.CutOff, Unfenced: p.Unfenced}
}
