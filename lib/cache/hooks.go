package cache

import (
	"context"
	"time"
)

// Hooks are called on the read's or change's own goroutine: be quick. Each may be
// nil. A hit in this process' memory calls none but, one in 64, Answered. Packages cacheprom
// and cacheotel have hooks for metrics and traces.
type Hooks struct {
	// Asking is called before Redis is asked for values that are not in this process' memory,
	// and before their source is, or that of a collection: of is [Redis] or [Origin]. The
	// first encloses the second, unless no reader waits, as when a value is loaded again
	// before its life ends. What is asked gets the context that is returned. The function,
	// which may be nil, is called when the answer is there: from is the tier that had it, of
	// several keys the furthest, empty if a reader got none; err is the reader's or the
	// source's, [ErrNotFound] included.
	Asking func(ctx context.Context, of Tier, cache string, keys int) (inner context.Context, answered func(from Tier, err error))
	// Loaded is called after each load: of how many keys, how long it took, and
	// its error, [ErrNotFound] included.
	Loaded func(cache string, keys int, took time.Duration, err error)
	// Answered is called with the age of a value that was answered: of one in 64 from
	// this process' memory, and of each from Redis or past its life.
	Answered func(cache string, from Tier, age time.Duration)
	// Dropped is called when keys were dropped by a change here.
	Dropped func(keys int)
	// Queued is called with how many keys Redis did not drop: they wait for that.
	Queued func(keys int)
	// Redis is called with each error of Redis for which a cache did without it.
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
			return ctx, func(from Tier, err error) { // what began last ends first
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

// either calls what there is of two hooks.
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

// asking begins to ask a tier. The function that it returns is never nil.
func (rt *Runtime) asking(ctx context.Context, of Tier, cache string, keys int) (context.Context, func(from Tier, err error)) {
	if rt.cfg.Hooks.Asking == nil {
		return ctx, unheard
	}
	inner, answered := rt.cfg.Hooks.Asking(ctx, of, cache, keys)
	if answered == nil {
		answered = unheard
	}
	return inner, answered
}

func unheard(Tier, error) {}
