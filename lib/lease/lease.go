package lease

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	// minLife keeps the margin larger than the clock resolution of the embedded server, which may expire a key 50 ms
	// early or late.
	minLife = 400 * time.Millisecond
	// renewalsPerLife is the number of renewals in a life. After a failure, a holder retries four times as often, until
	// the margin.
	renewalsPerLife = 3
	// marginDivisor is the divisor of the life: a holder stops a sixth of the life before Redis could give the lease to
	// another process.
	marginDivisor = 6
	// releaseTime bounds a release, which continues after the context of its caller has ended.
	releaseTime = time.Second
)

var (
	// ErrHeld reports that another process, or another turn of this one, holds the lease.
	ErrHeld = errors.New("lease held")
	// ErrLost reports that the caller no longer holds the lease, or may no longer hold it. It is the cause of the
	// context that [Leases.Run] cancels.
	ErrLost = errors.New("lease: lost")
	// ErrLife reports an invalid life, which is a mistake of the program.
	ErrLife = errors.New("invalid duration")
)

var (
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/release.lua
	releaseLua string

	acquire = redis.NewScript(acquireLua)
	renew   = redis.NewScript(renewLua)
	release = redis.NewScript(releaseLua)
)

// Keys are the keys of one lease. They share a hash tag.
type Keys struct {
	// Lease stores the holder. Declare its family with keyspace.Lease(max); max bounds the life.
	Lease keyspace.Bytes
	// Fence stores the last fencing token. Its family never expires. For leases with many names, it may have a TTL that
	// is longer than the largest difference between the clocks of two nodes.
	Fence keyspace.Counter
}

// Leases acquires leases. It is safe for concurrent use.
type Leases struct{ db *redis.DB }

// New returns leases that are stored in db.
func New(db *redis.DB) *Leases { return &Leases{db} }

// Holder is the current holder of a lease.
type Holder struct {
	Owner string
	Token int64
	Left  time.Duration // the time until the lease ends, unless it is renewed
}

// Holder returns the holder of the lease; ok is false if the lease is free.
func (l *Leases) Holder(ctx context.Context, keys Keys) (h Holder, ok bool, err error) {
	replies := l.db.DoMulti(ctx, []keyspace.Cmd{
		{Name: "GET", Key: keys.Lease.Key},
		{Name: "PTTL", Key: keys.Lease.Key},
	})
	held, ok, err := replies[0].Text()
	left, err2 := replies[1].Int()
	if err = errors.Join(err, err2); err != nil {
		return Holder{}, false, fmt.Errorf("lease: holder of %s: %w", keys.Lease, err)
	}
	if !ok || left < 0 {
		return Holder{}, false, nil
	}
	return holder(held, left), true, nil
}

func holder(held string, left int64) Holder {
	token, rest, _ := strings.Cut(held, " ")
	_, owner, _ := strings.Cut(rest, " ")
	n, _ := strconv.ParseInt(token, 10, 64)
	return Holder{owner, n, time.Duration(left) * time.Millisecond}
}

// Held is an acquired lease. It is safe for concurrent use.
type Held struct {
	// Token is the number of this turn; it is greater than those of all turns before.
	Token int64

	l     *Leases
	key   keyspace.Key
	value string
	life  time.Duration
	until atomic.Pointer[time.Time]
}

// Acquire acquires the lease for life. owner is shown in [Holder] (for example a node's id); it is not compared. Acquire
// returns [ErrHeld] if the lease is held, even by the same owner, and [ErrLife] if life is under 400 ms or over the TTL
// of the family. After [redis.ErrUnavailable], the lease may have been acquired; it then expires.
func (l *Leases) Acquire(ctx context.Context, keys Keys, owner string, life time.Duration) (*Held, error) {
	held, _, err := l.acquire(ctx, keys, owner, life)
	if err != nil {
		return nil, fmt.Errorf("lease: acquire %s: %w", keys.Lease, err)
	}
	return held, nil
}

// acquire also returns, with ErrHeld, the time until the lease ends.
func (l *Leases) acquire(ctx context.Context, keys Keys, owner string, life time.Duration) (*Held, time.Duration, error) {
	if life < minLife || life > keys.Lease.Family().TTL.Base {
		return nil, 0, fmt.Errorf("%w: %s; use %s to %s", ErrLife, life, minLife, keys.Lease.Family().TTL.Base)
	}
	me := rand.Text() + " " + owner
	sent := time.Now()
	answer, err := acquire.Run(ctx, l.db, []keyspace.Key{keys.Lease.Key, keys.Fence.Key}, me, keyspace.Millis(life),
		strconv.FormatInt(sent.UnixMicro(), 10), keyspace.Millis(keys.Fence.Family().TTL.Base)).Items()
	if err != nil {
		return nil, 0, err
	}
	if len(answer) != 1 && len(answer) != 3 {
		return nil, 0, keyspace.ErrReply
	}
	token := answer[0].N
	switch {
	case token == 0 && len(answer) == 1:
		return nil, 0, keyspace.ErrReply
	case token == 0:
		h := holder(answer[1].Str, answer[2].N)
		return nil, h.Left, fmt.Errorf("%w by %s, expires in %s", ErrHeld, h.Owner, h.Left)
	}
	h := &Held{Token: token, l: l, key: keys.Lease.Key, value: fmt.Sprintf("%d %s", token, me), life: life}
	h.heldSince(sent)
	return h, 0, nil
}

// Until returns the time when the holder has to stop, with a monotonic clock reading. It is a sixth of the life
// before Redis could give the lease to another process.
func (h *Held) Until() time.Time { return *h.until.Load() }

// heldSince sets Until after a request set the TTL of the lease; sent is the time before that request.
func (h *Held) heldSince(sent time.Time) {
	until := sent.Add(h.life - h.life/marginDivisor)
	h.until.Store(&until)
}

// Renew extends the lease to its whole life. [ErrLost] means that the lease is free or belongs to another holder. A lost
// lease cannot be renewed again.
func (h *Held) Renew(ctx context.Context) error {
	sent := time.Now()
	n, err := renew.Run(ctx, h.l.db, []keyspace.Key{h.key}, h.value, keyspace.Millis(h.life)).Int()
	if err != nil {
		return fmt.Errorf("lease: renew %s: %w", h.key, err)
	}
	if n == 0 {
		return ErrLost
	}
	h.heldSince(sent)
	return nil
}

// Release ends the lease, so that another process can acquire it at once. It does nothing if the lease is lost. If ctx
// has ended, Release still tries, for at most a second.
func (h *Held) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if _, err := release.Run(ctx, h.l.db, []keyspace.Key{h.key}, h.value).Int(); err != nil {
		return fmt.Errorf("lease: release %s: %w", h.key, err)
	}
	return nil
}

// Run waits until the lease is free, acquires it, calls fn and renews the lease until fn returns. Then it releases the
// lease and returns the error of fn. If the lease is lost, Run cancels the context of fn with the cause [ErrLost],
// waits for fn, ignores its error and starts again. While Redis is unavailable, Run retries three times per life.
//
// Run ends after the first call of fn that ends without losing the lease. For repeated work, use a loop in fn or call
// Run again.
//
// If ctx ends, Run returns the error of fn. If fn was not running, it returns the cause of ctx, joined with a
// [redis.ErrUnavailable] if Redis was unavailable. Other errors are [ErrLife] and errors of the server about the key.
func (l *Leases) Run(ctx context.Context, keys Keys, owner string, life time.Duration,
	fn func(ctx context.Context, token int64) error) error {
	var unavailable error // why Redis was unavailable, if it was
	for {
		if ctx.Err() != nil {
			if unavailable != nil {
				return errors.Join(context.Cause(ctx), unavailable)
			}
			return context.Cause(ctx)
		}
		trying, cancel := context.WithTimeout(ctx, life)
		held, left, err := l.acquire(trying, keys, owner, life)
		cancel()
		switch {
		case err == nil:
			unavailable = nil
			if lost, err := held.runHeld(ctx, fn); !lost {
				return err
			}
		case errors.Is(err, ErrHeld):
			// Retry just after the lease expires, or sooner, in case it is released.
			unavailable = nil
			wait(ctx, min(left+time.Millisecond, pause(life)))
		case errors.Is(err, redis.ErrUnavailable):
			unavailable = err
			wait(ctx, pause(life))
		case ctx.Err() == nil:
			return fmt.Errorf("lease: run %s: %w", keys.Lease, err)
		}
	}
}

// pause returns the interval of renewals, with jitter, so that waiting processes do not send requests at the same time.
func pause(life time.Duration) time.Duration {
	return life/renewalsPerLife - mathrand.N(life/renewalsPerLife/4)
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// runHeld calls fn while it renews the lease, and releases the lease at the end.
func (h *Held) runHeld(ctx context.Context, fn func(context.Context, int64) error) (lost bool, err error) {
	inner, cancel := context.WithCancelCause(ctx)
	renewing := make(chan struct{})
	gone := false
	go func() {
		defer close(renewing)
		if gone = h.renewUntil(inner); gone {
			cancel(ErrLost)
		}
	}()
	defer func() { // also when fn panics
		cancel(nil)
		<-renewing
		if lost = gone; !lost {
			_ = h.Release(ctx) // if that fails, the lease expires
		}
	}()
	return false, fn(inner, h.Token)
}

// renewUntil renews the lease until ctx ends or the lease is lost.
func (h *Held) renewUntil(ctx context.Context) (lost bool) {
	next := h.life / renewalsPerLife
	for {
		wait(ctx, min(next, time.Until(h.Until())))
		if ctx.Err() != nil {
			return false
		}
		// A reply after the end of the lease would be useless.
		trying, stop := context.WithDeadline(ctx, h.Until())
		err := h.Renew(trying)
		stop()
		switch {
		case err == nil:
			next = h.life / renewalsPerLife
		case ctx.Err() != nil:
			return false
		case errors.Is(err, ErrLost) || !time.Now().Before(h.Until()):
			return true
		default:
			next = h.life / renewalsPerLife / 4
		}
	}
}
