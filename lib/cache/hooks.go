package cache

import (
	"context"
	"time"
)

// Hooks are called on the goroutine of the read or change, so they must be quick. Each may be nil. A hit in this
// process' memory only calls Answered, for one hit in 64. Packages cacheprom and cacheotel provide hooks for metrics
// and traces.
type Hooks struct {
	// Asking is called before Redis is asked for values that are not in this process' memory, and before their source
	// or the source of a collection is asked: of is [Redis] or [Origin]. The first encloses the second, unless no
	// reader waits, as when a value is loaded before its life ends. The request runs with the returned context. The
	// returned function, which may be nil, is called with the result. from is the tier that had the value, for several
	// keys the furthest; it is empty if a reader got none. err is the error of the reader or the source, [ErrNotFound]
	// included.
	Asking func(ctx context.Context, of Tier, cache string, keys int) (inner context.Context, answered func(from Tier, err error))
	// Loaded is called after each load with the number of keys, the duration, and the error, [ErrNotFound] included.
	Loaded func(cache string, keys int, took time.Duration, err error)
	// Answered is called with the age of a returned value: for one in 64 from this process' memory, and for each from
	// Redis or past its life.
	Answered func(cache string, from Tier, age time.Duration)
	// Dropped is called when a change of this process dropped keys.
	Dropped func(keys int)
	// Queued is called with the number of keys that Redis did not drop and that are retried.
	Queued func(keys int)
	// Redis is called with each error of Redis that made a cache do without it.
	Redis func(err error)
}

// And returns hooks that call those of h and then those of others.
func (h Hooks) And(others Hooks) Hooks {
	both := Hooks{
		Asking:   h.Asking,
		Loaded:   h.Loaded,
		Answered: h.Answered,
		Dropped:  either(h.Dropped, others.Dropped),
		Queued:   either(h.Queued, others.Queued),
		Redis:    either(h.Redis, others.Redis),
	}
	switch {
	case h.Asking == nil:
		both.Asking = others.Asking
	case others.Asking != nil:
		both.Asking = func(ctx context.Context, of Tier, cache string, keys int) (context.Context, func(Tier, error)) {
			ctx, outer := h.Asking(ctx, of, cache, keys)
			ctx, inner := others.Asking(ctx, of, cache, keys)
			return ctx, func(from Tier, err error) { // the last to begin ends first
				for _, answered := range []func(Tier, error){inner, outer} {
					if answered != nil {
						answered(from, err)
					}
				}
			}
		}
	}
	switch {
	case h.Loaded == nil:
		both.Loaded = others.Loaded
	case others.Loaded != nil:
		both.Loaded = func(cache string, keys int, took time.Duration, err error) {
			h.Loaded(cache, keys, took, err)
			others.Loaded(cache, keys, took, err)
		}
	}
	switch {
	case h.Answered == nil:
		both.Answered = others.Answered
	case others.Answered != nil:
		both.Answered = func(cache string, from Tier, age time.Duration) {
			h.Answered(cache, from, age)
			others.Answered(cache, from, age)
		}
	}
	return both
}

// either returns a function that calls those of the two hooks that are set.
func either[A any](first, second func(A)) func(A) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(a A) {
		first(a)
		second(a)
	}
}

// asking calls [Hooks.Asking]. The function that it returns is never nil.
func (rt *Runtime) asking(ctx context.Context, of Tier, cache string, keys int) (context.Context, func(from Tier, err error)) {
	if rt.cfg.Hooks.Asking == nil {
		return ctx, noAnswered
	}
	inner, answered := rt.cfg.Hooks.Asking(ctx, of, cache, keys)
	if answered == nil {
		answered = noAnswered
	}
	return inner, answered
}

func noAnswered(Tier, error) {}
