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
	// patience is how long a call waits for Redis before it counts in this
	// process: long against a round trip, short against a person's.
	patience = 250 * time.Millisecond
	// standstill is that for the embedded server, which is away only while this process stands
	// still, in a pause of its machine say.
	standstill = 5 * time.Second
	// retryEvery is how often, while Redis is silent, one call finds out whether
	// it still is.
	retryEvery = 100 * time.Millisecond
	// giveBackTime bounds a give-back, which runs on when the caller has left.
	giveBackTime = time.Second
)

// ErrLimit reports a [Limit] that cannot work. It is the program's mistake.
var ErrLimit = errors.New("ratelimit: impossible limit")

var (
	//go:embed lua/take.lua
	takeLua string
	//go:embed lua/giveback.lua
	givebackLua string

	take     = redis.NewScript(takeLua)
	giveback = redis.NewScript(givebackLua)
)

// Limit is how often something may happen.
type Limit struct {
	// Max is how many calls a window holds. Zero or less: none.
	Max int
	// Window is how long a window lasts, in whole milliseconds, at least one
	// and at most the life of the key's family.
	Window time.Duration
}

// Result is the answer to a call.
type Result struct {
	Allowed   bool
	Limit     int           // the limit's Max
	Remaining int           // calls left in this window
	Reset     time.Duration // until the window ends; of a refusal at least a millisecond
}

// Ask is one of the limits that [Limiter.AllowAll] checks.
type Ask struct {
	Key   keyspace.Counter
	Limit Limit
}

// Limiter counts calls. Make one for each process with [New]. It is safe for
// concurrent use.
type Limiter struct {
	db       *redis.DB
	patience time.Duration
	local    local
	permits  permits
	began    time.Time
	silent   atomic.Int64 // while Redis does not answer: when to ask again, since began
}

// New returns a limiter that counts in db.
func New(db *redis.DB) *Limiter {
	wait := patience
	if db.Mode() == "embedded" {
		wait = standstill
	}
	return &Limiter{db: db, patience: wait, local: local{max: localKeys}, began: time.Now()}
}

// Allow counts one call against lim, or refuses it. It fails with [ErrLimit],
// with the cause of ctx, or with what the server has against the key; that
// Redis is away is no error.
//
// A large limit is counted in blocks of permits, so that not every call asks Redis;
// see the package's guarantees.
func (l *Limiter) Allow(ctx context.Context, key keyspace.Counter, lim Limit) (Result, error) {
	if lim.Max >= smallestHeld && ctx.Err() == nil {
		if res, ok := l.permits.use(key.String(), lim, time.Now()); ok {
			return res, nil
		}
	}
	return l.AllowAll(ctx, []Ask{{key, lim}})
}

// AllowAll counts one call against each of asks, or against none if one of them
// refuses. The result is the tightest: of those that refused, the one to wait
// for longest, else the one with the fewest calls left. A key that occurs twice
// counts twice. Without asks everything is allowed. See [Limiter.Allow] for
// errors; after one, nothing is counted either.
//
// A count whose answer was lost, and a give-back that Redis does not get, leave a
// counter one too high until its window ends.
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
	places, err := l.take(ctx, asks)
	res := refused(tightest(places))
	if !res.Allowed { // nor is a place that failed
		l.giveBack(ctx, places, time.Since(began))
	}
	if err != nil {
		return Result{}, err
	}
	return res, nil
}

// place is what became of one ask.
type place struct {
	Ask
	Result
	failed bool
	local  window // where this process counted it; the zero window: Redis did
	demand demand // what was asked of Redis
}

// take asks for all at once. Each is decided by Redis or, if its owner is away,
// here.
func (l *Limiter) take(ctx context.Context, asks []Ask) (places []place, err error) {
	places = make([]place, len(asks))
	for i, a := range asks {
		places[i].Ask = a
	}
	if !l.reachable() {
		for i := range places {
			l.here(&places[i])
		}
		return places, nil
	}
	calls := make([]redis.Call, len(asks))
	sent := time.Now()
	for i, a := range asks {
		d := demand{want: 1}
		if len(asks) == 1 { // a block that is taken for a call which another limit refuses would be in vain
			d = l.permits.ask(a.Key.String(), a.Limit, sent)
		}
		places[i].demand = d
		calls[i] = redis.Call{Script: take, Keys: []keyspace.Key{a.Key.Key},
			Args: []string{strconv.Itoa(a.Limit.Max), strconv.FormatInt(a.Limit.Window.Milliseconds(), 10),
				strconv.Itoa(d.want), strconv.Itoa(d.back), strconv.FormatInt(d.within.Milliseconds(), 10)}}
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
			p.Result = l.permits.got(p.Key.String(), p.Ask.Limit, p.demand, int(answer[0].N), int(answer[1].N), time.Duration(answer[2].N)*time.Millisecond, sent)
		case ctx.Err() != nil:
			p.failed, err = true, context.Cause(ctx)
		case errors.Is(e, redis.ErrUnavailable) || waiting.Err() != nil:
			l.here(p)
		default:
			p.failed, err = true, fmt.Errorf("ratelimit: %s: %w", p.Key.Family().Pattern, e)
		}
	}
	// A server that refuses does so at once and may be asked by every call; one
	// that is silent may not.
	if waiting.Err() == nil {
		l.silent.Store(0)
	} else if ctx.Err() == nil {
		l.silent.Store(int64(time.Since(l.began) + retryEvery))
	}
	return places, err
}

// reachable reports whether this call should ask Redis. While it is silent, one
// call in retryEvery does.
func (l *Limiter) reachable() bool {
	again := l.silent.Load()
	if again == 0 {
		return true
	}
	now := time.Since(l.began)
	return int64(now) >= again && l.silent.CompareAndSwap(again, int64(now+retryEvery))
}

func (l *Limiter) here(p *place) {
	p.Result, p.local = l.local.take(p.Key.String(), p.Ask.Limit, time.Now())
}

// giveBack undoes what was taken, ago at the most.
func (l *Limiter) giveBack(ctx context.Context, places []place, ago time.Duration) {
	var calls []redis.Call
	for _, p := range places {
		switch {
		case p.failed || !p.Allowed:
		case p.local != window{}:
			l.local.giveBack(p.local)
		case ago < p.Ask.Limit.Window: // else the script could take its successor for it
			calls = append(calls, redis.Call{Script: giveback, Keys: []keyspace.Key{p.Key.Key},
				Args: []string{strconv.FormatInt(p.Reset.Milliseconds(), 10)}})
		}
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	l.db.RunMulti(ctx, calls) // one that fails errs on the strict side, and ends with the window
}

// refused gives a refusal a Reset: the window may end this very moment, and 0 would say
// that another try is in place.
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
