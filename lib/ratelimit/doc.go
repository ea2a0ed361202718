// Package ratelimit says how often something may happen in a window of time,
// for all nodes together.
//
//	res, err := limiter.Allow(ctx, ratelimit.Named("login", ip), ratelimit.Limit{Max: 10, Window: time.Minute})
//	if err == nil && !res.Allowed { … } // come back after res.Reset
//
// # Idea
//
// A fixed window: the first call creates a counter whose life is the window,
// later calls count up to Max and not beyond. Checking, counting and setting
// the life are one script, so that neither two calls at once can both have the
// last place, nor a crash leave a counter that never ends, the flaw of INCR
// followed by EXPIRE. A window begins with its first call and not on the
// clock's minute, so that the nodes' clocks do not matter. (Redis' manual has
// the pattern under INCR, as "rate limiter 2".)
//
// # Blocks of permits
//
// A limit of at least 40 over at least 10 seconds is counted in blocks: [Limiter.Allow]
// has Redis count several calls ahead and lets them through from memory. A block is
// what the key used in the last second, or twice the last block when that did not last
// a second, and at most a twentieth of what the window has left. Its permits are good for
// a second and not beyond the window's end; the next call of the key on this process
// gives back what is left of them.
//
// Since a permit is counted before it is used, all processes together let no window
// exceed Max: the bound is exact, not 10 % more. The price is the other side. Permits
// that one process holds are missing elsewhere, so a caller who comes through several
// processes may be refused early, by a twentieth of Max for each other process;
// and [Result].Remaining does not know what other processes took in the last second.
// Smaller limits, and [Limiter.AllowAll] with several asks, are counted one by one.
//
// # Guarantees
//
//   - No window ever counts more than Max, whoever calls at once.
//   - A refused call is not counted: a caller that goes on trying is allowed
//     again when the window ends.
//   - Across the border of two windows, up to twice Max may fall into the time
//     of one. A caller that must not allow that sets half of it.
//   - A counter that has no life, or a longer one than the limit's window,
//     gets the window anew.
//   - A window whose counter Redis has lost begins anew; permits of the lost one are
//     used for a second at most.
//   - [Limiter.AllowAll] counts everywhere or nowhere. No script spans two
//     slots, so it takes all places at once and gives them back if one was
//     refused. In between, a millisecond or so, another caller may be refused
//     for a place that is about to come back; nobody is let in too many.
//
// # While Redis is away
//
// Nobody is locked out and nothing is left open: this process then counts by
// itself, each call by the same rules. Every node does so alone, so a caller
// who reaches all of n nodes has n times Max; and what one side counted, the
// other does not know, so an outage can give a window twice. Redis decides again
// with the first call that reaches it. An outage that only shows as silence
// costs the calls under way a quarter of a second, and then one call at most
// ten times a second; the others do not wait. A server that stalls for longer
// than that counts as away.
//
// The process keeps 10,000 counters. Those whose window has ended make room;
// if none has, new keys with the same limit share one counter. That fails to
// the safe side: a flood of made-up keys during an outage cannot push out the
// counter of a password under attack, and no key gets more than Max, but
// strangers to the process may be refused too early, until windows end.
//
// # Costs
//
// One round trip for AllowAll, two when something was refused; a few microseconds of
// the server for each key. One small string per window. Allow of a large limit makes
// about 100 round trips for 600 calls in a row, and one for each call of a key that is
// asked for less than once a second.
package ratelimit
