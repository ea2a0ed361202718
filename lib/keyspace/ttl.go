package keyspace

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// TTL declares the lifetime of the keys of a family. Make one with [Expire], [UpTo], [Lease] or [Forever].
type TTL struct {
	Base     time.Duration // 0 means that the key never expires, and Reason states why
	Spread   time.Duration // jitter: the TTL is drawn from Base ± Spread
	Empty    time.Duration // TTL of a negative entry; 0 means that none is stored
	Stale    time.Duration // how much longer a cached value is kept, to be served while its source fails
	Reason   string        // why a key never expires
	IsLease  bool          // the holder renews the key, and it expires soon after a crash
	Variable bool          // Base is the largest TTL; each write may choose a smaller one
}

// Expire sets the TTL of every key to d, counted from its last write.
func Expire(d time.Duration) TTL { return TTL{Base: d} }

// UpTo lets each write choose the TTL of its key, up to max: for tokens, codes and windows of a rate limit.
func UpTo(max time.Duration) TTL { return TTL{Base: max, Variable: true} }

// Lease is a TTL that the holder of the key renews.
func Lease(d time.Duration) TTL { return TTL{Base: d, IsLease: true} }

// Forever declares keys that never expire; the reason states what deletes them.
func Forever(reason literal) TTL { return TTL{Reason: string(reason)} }

// Jitter distributes TTLs evenly over Base ± j, so that keys that are written together do not expire together.
func (t TTL) Jitter(j time.Duration) TTL { t.Spread = j; return t }

// Negative sets the TTL of a negative entry.
func (t TTL) Negative(d time.Duration) TTL { t.Empty = d; return t }

// StaleIfError keeps a cached value for d after its TTL, to be served while its source fails, as in RFC 5861. Base is
// then the soft TTL, and the hard TTL, which Redis applies to the key, is longer by d.
func (t TTL) StaleIfError(d time.Duration) TTL { t.Stale = d; return t }

// Draw returns the TTL for one write: Base with its jitter, or 0 for Forever.
func (t TTL) Draw() time.Duration {
	if t.Spread == 0 {
		return t.Base
	}
	return t.Base - t.Spread + rand.N(2*t.Spread)
}

// Longest returns the largest TTL that a key of the family may have, or 0 for Forever.
func (t TTL) Longest() time.Duration { return t.Base + t.Spread + t.Stale }

// validate refuses TTLs that Redis cannot represent; Redis counts in milliseconds.
func (t TTL) validate() error {
	switch {
	case t.Base == 0 && strings.TrimSpace(t.Reason) == "":
		return errors.New("has neither a TTL nor a reason why it never expires")
	case t.Base == 0 && (t.Spread != 0 || t.Empty != 0 || t.Stale != 0):
		return errors.New("never expires, but has a jitter, an empty or a stale TTL")
	case t.Base != 0 && t.Base-t.Spread < time.Millisecond:
		return errors.New("has a TTL that may be under a millisecond")
	case t.Spread < 0 || t.Empty < 0 || t.Stale < 0:
		return errors.New("has a negative jitter, empty or stale TTL")
	}
	return nil
}
