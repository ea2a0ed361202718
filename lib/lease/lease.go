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
	// minLife keeps the margin above the embedded server's clock resolution, 50 ms
	// by which a key may expire there early or late.
	minLife = 400 * time.Millisecond
	// renewals is how many renewals fit in a life: two may fail.
	renewals = 3
	// margin: a holder stops a sixth of the life before Redis could give the lease
	// to another process.
	margin = 6
	// releaseTime bounds a release, which goes on after its caller's context has
	// ended.
	releaseTime = time.Second
)

var (
	// ErrHeld says that another process, or another turn of this one, holds the lease.
	ErrHeld = errors.New("another holder has it")
	// ErrLost says that the lease is not, or may not be, the caller's any more.
	// It is the cause of the context that [Leases.Run] cancels.
	ErrLost = errors.New("lease: lost")
	// ErrLife reports a life that cannot work. It is the program's mistake.
	ErrLife = errors.New("impossible life")
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
	// Lease names the holder; its family's life is a [keyspace.Lease] and the longest
	// life that may be asked for.
	Lease keyspace.Bytes
	// Fence is the last fencing token issued. Its family never expires or, where
	// leases come and go, lives longer than the clocks of two nodes can differ.
	Fence keyspace.Counter
}

// Leases hands out leases. It is safe for concurrent use.
type Leases struct{ db *redis.DB }

// New returns leases kept in db.
func New(db *redis.DB) *Leases { return &Leases{db} }

// Holder is the present holder of a lease.
type Holder struct {
	Owner string
	Token int64
	Left  time.Duration // until the lease ends unless it is renewed
}

// Holder returns the holder of the lease; ok is false when it is free.
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

// Held is a lease that was acquired. It is safe for concurrent use.
type Held struct {
	// Token numbers this turn; it is greater than those of all turns before.
	Token int64

	l     *Leases
	key   keyspace.Key
	value string
	life  time.Duration
	until atomic.Pointer[time.Time]
}

// Acquire takes the lease for life, in the name of owner, which is for people to
// read. It fails with [ErrHeld] when the lease is held, be it by the same owner,
// and with [ErrLife] when life is under 400 ms or over that of the family. After
// [redis.ErrUnavailable] the lease may have been taken all the same and then
// expires.
func (l *Leases) Acquire(ctx context.Context, keys Keys, owner string, life time.Duration) (*Held, error) {
	held, _, err := l.acquire(ctx, keys, owner, life)
	if err != nil {
		return nil, fmt.Errorf("lease: acquire %s: %w", keys.Lease, err)
	}
	return held, nil
}

// acquire also says, with ErrHeld, how long the lease has left.
func (l *Leases) acquire(ctx context.Context, keys Keys, owner string, life time.Duration) (*Held, time.Duration, error) {
	if life < minLife || life > keys.Lease.Family().TTL.Base {
		return nil, 0, fmt.Errorf("%w: %s; %s to %s are possible", ErrLife, life, minLife, keys.Lease.Family().TTL.Base)
	}
	me := rand.Text() + " " + owner
	sent := time.Now()
	answer, err := acquire.Run(ctx, l.db, []keyspace.Key{keys.Lease.Key, keys.Fence.Key}, me, millis(life),
		strconv.FormatInt(sent.UnixMicro(), 10), millis(keys.Fence.Family().TTL.Base)).Items()
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
		return nil, h.Left, fmt.Errorf("%w: %s for %s", ErrHeld, h.Owner, h.Left)
	}
	h := &Held{Token: token, l: l, key: keys.Lease.Key, value: fmt.Sprintf("%d %s", token, me), life: life}
	h.heldSince(sent)
	return h, 0, nil
}

// Until returns when the holder has to stop, by its monotonic clock: a sixth of the
// life before Redis could give the lease to another process.
func (h *Held) Until() time.Time { return *h.until.Load() }

// heldSince sets Until after a message that was sent then gave the lease its life.
func (h *Held) heldSince(sent time.Time) {
	until := sent.Add(h.life - h.life/margin)
	h.until.Store(&until)
}

// Renew gives the lease its whole life again. After [ErrLost] the lease is free or
// another's, and stays lost.
func (h *Held) Renew(ctx context.Context) error {
	sent := time.Now()
	n, err := renew.Run(ctx, h.l.db, []keyspace.Key{h.key}, h.value, millis(h.life)).Int()
	if err != nil {
		return fmt.Errorf("lease: renew %s: %w", h.key, err)
	}
	if n == 0 {
		return ErrLost
	}
	h.heldSince(sent)
	return nil
}

// Release ends the lease, so that another process can take it at once. To release a
// lost lease does nothing. When ctx has ended, Release still tries, for a second at
// most.
func (h *Held) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if _, err := release.Run(ctx, h.l.db, []keyspace.Key{h.key}, h.value).Int(); err != nil {
		return fmt.Errorf("lease: release %s: %w", h.key, err)
	}
	return nil
}

// Run takes the lease as soon as it is free, calls fn and keeps the lease
// renewed until fn returns. It then releases the lease and returns what fn
// returned. If the lease is lost, it cancels fn's context with the cause
// [ErrLost], waits for fn, whatever it returns, and begins anew. While Redis is
// away, it tries again three times a life.
//
// It is one turn: what is to be done again and again is done in fn, or by calling Run again.
//
// When ctx ends, Run returns the result of fn, or the cause of ctx if fn was not
// running, joined with a [redis.ErrUnavailable] if Redis was away. Other errors are [ErrLife] and what the server has against the key.
func (l *Leases) Run(ctx context.Context, keys Keys, owner string, life time.Duration, fn func(ctx context.Context, token int64) error) error {
	var away error // why Redis could not be asked, if it could not
	for {
		if ctx.Err() != nil {
			if away != nil {
				return errors.Join(context.Cause(ctx), away)
			}
			return context.Cause(ctx)
		}
		trying, cancel := context.WithTimeout(ctx, life)
		held, left, err := l.acquire(trying, keys, owner, life)
		cancel()
		switch {
		case err == nil:
			away = nil
			if lost, err := held.keep(ctx, fn); !lost {
				return err
			}
		case errors.Is(err, ErrHeld):
			// Try again just after the lease expires unless it is renewed; sooner,
			// in case it is released.
			away = nil
			wait(ctx, min(left+time.Millisecond, pause(life)))
		case errors.Is(err, redis.ErrUnavailable):
			away = err
			wait(ctx, pause(life))
		case ctx.Err() == nil:
			return fmt.Errorf("lease: run %s: %w", keys.Lease, err)
		}
	}
}

// pause is the interval of renewals, with jitter, so that waiting processes do not
// ask in step.
func pause(life time.Duration) time.Duration {
	return life/renewals - mathrand.N(life/renewals/4)
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// keep calls fn while it renews the lease, and releases it at the end.
func (h *Held) keep(ctx context.Context, fn func(context.Context, int64) error) (lost bool, err error) {
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
			_ = h.Release(ctx) // if that fails, the lease ends by itself
		}
	}()
	return false, fn(inner, h.Token)
}

// renewUntil renews until ctx ends or the lease is lost.
func (h *Held) renewUntil(ctx context.Context) (lost bool) {
	next := h.life / renewals
	for {
		wait(ctx, min(next, time.Until(h.Until())))
		if ctx.Err() != nil {
			return false
		}
		// An answer after the end of the lease would be of no use.
		trying, stop := context.WithDeadline(ctx, h.Until())
		err := h.Renew(trying)
		stop()
		switch {
		case err == nil:
			next = h.life / renewals
		case ctx.Err() != nil:
			return false
		case errors.Is(err, ErrLost) || !time.Now().Before(h.Until()):
			return true
		default:
			next = h.life / renewals / 4
		}
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
