package ratelimit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	// patience bounds the wait for Redis before a call counts in this process. It is long for a round trip and short
	// for a user.
	patience = 250 * time.Millisecond
	// standstill is the same for the embedded server, which is only unavailable while this process stalls, for example
	// when its machine is paused.
	standstill = 5 * time.Second
	// retryEvery is the interval of checks whether a Redis that does not respond is still silent.
	retryEvery = 100 * time.Millisecond
	// giveBackTime bounds the undo of calls, which continues after the caller has left.
	giveBackTime = time.Second
)

// ErrLimit reports an invalid [Limit], which is a mistake of the program.
var ErrLimit = errors.New("ratelimit: impossible limit")

var (
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/giveback.lua
	givebackLua string

	take     = redis.NewScript(takeLua)
	giveback = redis.NewScript(givebackLua)
)

// Limit is the largest number of calls in a window.
type Limit struct {
	// Max is the largest number of calls in a window. 0 or less allows no calls.
	Max int
	// Window is the length of a window, in whole milliseconds. It is at least one millisecond and at most the TTL of
	// the key's family.
	Window time.Duration
}

// Result is the result of a call.
type Result struct {
	Allowed   bool
	Limit     int           // the Max of the limit
	Remaining int           // remaining calls in this window
	Reset     time.Duration // time until the window ends; at least one millisecond for a refused call
}

// Ask is one of the limits that [Limiter.AllowAll] checks.
type Ask struct {
	Key   keyspace.Counter
	Limit Limit
}

// Limiter counts calls. Use one for each process; see [New]. It is safe for concurrent use.
type Limiter struct {
	db       *redis.DB
	patience time.Duration
	local    local
	permits  permits
	began    time.Time
	silent   atomic.Int64 // if Redis does not respond: the time of the next attempt, since began; else 0
}

// New returns a limiter that counts in db.
func New(db *redis.DB) *Limiter {
	wait := patience
	if db.Mode() == "embedded" {
		wait = standstill
	}
	return &Limiter{db: db, patience: wait, local: local{max: maxLocalKeys}, began: time.Now()}
}

// Allow counts one call for lim, or refuses it. It returns [ErrLimit], the cause of ctx, or an error of the server
// about the key. An unavailable Redis is not an error.
//
// A large limit is counted in blocks of permits, so that not every call needs a request to Redis; see the guarantees of
// the package.
func (l *Limiter) Allow(ctx context.Context, key keyspace.Counter, lim Limit) (Result, error) {
	if lim.Max >= minBlockMax && ctx.Err() == nil {
		if res, ok := l.permits.use(key.String(), lim, time.Now()); ok {
			return res, nil
		}
	}
	return l.AllowAll(ctx, []Ask{{key, lim}})
}

// AllowAll counts one call for each of asks, or for none if one of them refuses. The result is the tightest. If some
// refused, it is the one with the longest Reset; otherwise it is the one with the fewest remaining calls. A key that
// occurs twice counts twice. Without asks, the call is allowed. The errors are those of [Limiter.Allow]; after an
// error, nothing is counted.
//
// If a reply is lost, or an undo does not reach Redis, a counter is one too high until its window ends.
func (l *Limiter) AllowAll(ctx context.Context, asks []Ask) (Result, error) {
	for _, a := range asks {
		if life := a.Key.Family().TTL.Base; a.Limit.Window < time.Millisecond || a.Limit.Window > life {
			return Result{}, fmt.Errorf("%w: a window of %s in %s, which lives %s", ErrLimit, a.Limit.Window, a.Key.Family().Pattern, life)
		}
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	if len(asks) == 0 {
		return Result{Allowed: true}, nil
	}
	began := time.Now()
	places, err := l.takeAll(ctx, asks)
	res := refused(tightest(places))
	if !res.Allowed { // a place that failed is not allowed either
		l.giveBack(ctx, places, time.Since(began))
	}
	if err != nil {
		return Result{}, err
	}
	return res, nil
}

// place is the outcome of one ask.
type place struct {
	Ask
	Result
	failed bool
	local  window // the window if this process counted it; zero if Redis did
	demand demand // the request to Redis
}

// takeAll checks all asks at once. Redis decides each of them, or this process if the owner of its key is unavailable.
func (l *Limiter) takeAll(ctx context.Context, asks []Ask) (places []place, err error) {
	places = make([]place, len(asks))
	for i, a := range asks {
		places[i].Ask = a
	}
	if !l.reachable() {
		for i := range places {
			l.countLocally(&places[i])
		}
		return places, nil
	}
	calls := make([]redis.Call, len(asks))
	sent := time.Now()
	for i, a := range asks {
		d := demand{want: 1}
		if len(asks) == 1 { // a block would be wasted if another limit refuses the call
			d = l.permits.demandFor(a.Key.String(), a.Limit, sent)
		}
		places[i].demand = d
		calls[i] = redis.Call{Script: take, Keys: []keyspace.Key{a.Key.Key},
			Args: []string{strconv.Itoa(a.Limit.Max), keyspace.Millis(a.Limit.Window),
				strconv.Itoa(d.want), strconv.Itoa(d.back), keyspace.Millis(d.within)}}
	}
	waiting, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	for i, r := range l.db.RunMulti(waiting, calls) {
		p := &places[i]
		answer, e := r.Items()
		if e != nil {
			l.permits.failed(p.Key.String(), p.demand)
		}
		switch {
		case e == nil:
			p.Result = l.permits.record(p.Key.String(), p.Ask.Limit, p.demand, int(answer[0].N), int(answer[1].N),
				time.Duration(answer[2].N)*time.Millisecond, sent)
		case ctx.Err() != nil:
			p.failed, err = true, context.Cause(ctx)
		case errors.Is(e, redis.ErrUnavailable) || waiting.Err() != nil:
			l.countLocally(p)
		default:
			p.failed, err = true, fmt.Errorf("ratelimit: %s: %w", p.Key.Family().Pattern, e)
		}
	}
	// A server that refuses a connection does so at once, so every call may try it. A server that does not respond is
	// tried only at intervals.
	if waiting.Err() == nil {
		l.silent.Store(0)
	} else if ctx.Err() == nil {
		l.silent.Store(int64(time.Since(l.began) + retryEvery))
	}
	return places, err
}

// reachable reports whether this call should use Redis. If Redis does not respond, one call per retryEvery does.
func (l *Limiter) reachable() bool {
	again := l.silent.Load()
	if again == 0 {
		return true
	}
	now := time.Since(l.began)
	return int64(now) >= again && l.silent.CompareAndSwap(again, int64(now+retryEvery))
}

func (l *Limiter) countLocally(p *place) {
	p.Result, p.local = l.local.count(p.Key.String(), p.Ask.Limit, time.Now())
}

// giveBack undoes the counted calls; ago is the largest time since they were counted.
func (l *Limiter) giveBack(ctx context.Context, places []place, ago time.Duration) {
	var calls []redis.Call
	for _, p := range places {
		switch {
		case p.failed || !p.Allowed:
		case p.local != window{}:
			l.local.giveBack(p.local)
		case ago < p.Ask.Limit.Window: // later, the script could mistake the next window for this one
			calls = append(calls, redis.Call{Script: giveback, Keys: []keyspace.Key{p.Key.Key},
				Args: []string{keyspace.Millis(p.Reset)}})
		}
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	l.db.RunMulti(ctx, calls) // a failed undo makes the limit stricter until the window ends
}

// refused sets a minimum Reset for a refusal. The window may end at this moment, but 0 would mean that a retry is
// possible at once.
func refused(r Result) Result {
	if !r.Allowed {
		r.Reset = max(r.Reset, time.Millisecond)
	}
	return r
}

func tightest(places []place) Result {
	t := places[0].Result
	for _, p := range places[1:] {
		r := p.Result
		switch {
		case r.Allowed != t.Allowed:
			if !r.Allowed {
				t = r
			}
		case r.Allowed && r.Remaining != t.Remaining:
			if r.Remaining < t.Remaining {
				t = r
			}
		case r.Reset > t.Reset:
			t = r
		}
	}
	return t
}
