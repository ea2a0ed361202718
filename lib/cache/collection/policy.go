package collection

import (
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
)

// Policy says how one [Hash], [Set] or [ZSet] behaves. The zero policy
// is a good one. How long collections live is the family's to say:
// [keyspace.Expire] and Jitter, and Negative for empty ones; without it those are
// not kept.
type Policy struct {
	// MaxStale bounds how long after an acknowledged change something old may be
	// read, on any node, whatever happens to the network; 0 means 500 ms, and five
	// seconds for the embedded server, which other nodes cannot reach. It has
	// to be a few of the bus' beats.
	MaxStale time.Duration
	// Renew is the share of reads that check whether the collection is in the last
	// fifth of its life, and load it again then, so that a collection that is read
	// often does not expire; 0 means 0.01, a negative number none. Meanwhile the old
	// one answers, unless it has more than 500 members.
	Renew float64
	// LeaseWait is how long a reader waits for the load of another node; see
	// [cache.Policy.LeaseWait].
	LeaseWait time.Duration
	// LoadTimeout bounds a load; 0 means 5 s.
	LoadTimeout time.Duration
	// ChangeTimeout bounds what Mutate and [cache.Runtime.Change] call; 0 means 10 s.
	// No node stores the collection meanwhile.
	ChangeTimeout time.Duration
	// CutOff says what reads do while this node may have missed that a server was
	// replaced, for longer than MaxStale.
	CutOff cache.CutOff
	// Unfenced says what a change does that Redis cannot be told of beforehand.
	Unfenced cache.Unfenced
}

// cache is p as package cache takes it, whose other fields are for values.
func (p Policy) cache() cache.Policy {
	return cache.Policy{MaxStale: p.MaxStale, Renew: p.Renew, LeaseWait: p.LeaseWait, LoadTimeout: p.LoadTimeout, ChangeTimeout: p.ChangeTimeout,
		CutOff: p.CutOff, Unfenced: p.Unfenced}
}
