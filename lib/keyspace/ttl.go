package keyspace

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// TTL says how long a key of a family lives. Make one with [Expire], [UpTo],
// [Lease] or [Forever].
type TTL struct {
	Base     time.Duration // zero: the key does not expire, and Reason says why
	Spread   time.Duration // drawn around Base by this much either way
	Empty    time.Duration // life of a "there is no such thing" marker; zero: none is kept
	Stale    time.Duration // how much longer a cached value is kept, to be served while its source fails
	Reason   string        // why a key never expires
	IsLease  bool          // liveness: renewed by its holder, gone soon after a crash
	Variable bool          // Base is the longest life; each write may choose a shorter one
}

// Expire gives every key the life d, counted from its last write.
func Expire(d time.Duration) TTL { return TTL{Base: d} }

// UpTo lets each write choose its key's life, max at the most: tokens, codes,
// windows of a rate limit.
func UpTo(max time.Duration) TTL { return TTL{Base: max, Variable: true} }

// Lease is a life that its holder renews.
func Lease(d time.Duration) TTL { return TTL{Base: d, IsLease: true} }

// Forever declares keys that never expire; the reason says what removes them.
func Forever(reason literal) TTL { return TTL{Reason: string(reason)} }

// Jitter spreads lives evenly over Base ± j, so that keys written together do
// not expire together.
func (t TTL) Jitter(j time.Duration) TTL { t.Spread = j; return t }

// Negative sets the life of an empty marker.
func (t TTL) Negative(d time.Duration) TTL { t.Empty = d; return t }

// StaleIfError keeps a cached value for d after its life, to be served while its
// source fails; RFC 5861 has the name. Base is the soft life then, and the key's own,
// the hard one, is longer by d.
func (t TTL) StaleIfError(d time.Duration) TTL { t.Stale = d; return t }

// Draw returns the life for one write: Base with its jitter, 0 for Forever.
func (t TTL) Draw() time.Duration {
	if t.Spread == 0 {
		return t.Base
	}
	return t.Base - t.Spread + rand.N(2*t.Spread)
}

// Longest returns the longest life a key of the family may have, 0 for Forever.
func (t TTL) Longest() time.Duration { return t.Base + t.Spread + t.Stale }

// validate refuses lives that Redis cannot keep; it counts in milliseconds.
func (t TTL) validate() error {
	switch {
	case t.Base == 0 && strings.TrimSpace(t.Reason) == "":
		return errors.New("has neither a life nor a reason to live for ever")
	case t.Base == 0 && (t.Spread != 0 || t.Empty != 0 || t.Stale != 0):
		return errors.New("lives for ever and has a jitter, an empty or a stale life")
	case t.Base != 0 && t.Base-t.Spread < time.Millisecond:
		return errors.New("has a life that may be under a millisecond")
	case t.Spread < 0 || t.Empty < 0 || t.Stale < 0:
		return errors.New("has a negative jitter, empty or stale life")
	}
	return nil
}
