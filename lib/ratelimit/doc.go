// Package ratelimit limits how often something may happen in a window of time, for all nodes together.
//
//	res, err := limiter.Allow(ctx, ratelimit.Named("login", ip), ratelimit.Limit{Max: 10, Window: time.Minute})
//	if err == nil && !res.Allowed { … } // retry after res.Reset
//
// # Idea
//
// The window is fixed. The first call creates a counter whose TTL is the window, and later calls count up to Max. One
// script checks, counts and sets the TTL. So two concurrent calls cannot both get the last place, and a crash cannot
// leave a counter that never expires, which is the flaw of INCR followed by EXPIRE. A window begins with its first call,
// not at a full minute, so that the clocks of the nodes do not matter. (The Redis manual has the pattern under INCR, as
// "rate limiter 2".)
//
// # Blocks of permits
//
// A limit of at least 40 in at least 10 seconds is counted in blocks: [Limiter.Allow] counts several calls in Redis in
// advance and allows them from memory. The size of a block is the number of calls of the key in the last second. If the
// last block was used up within a second, the next one is twice as large. A block is at most a twentieth of the
// remaining calls of the window. Permits are valid for one second, but not beyond the end of the window. The next call
// of the key on this process returns unused permits to Redis.
//
// A permit is counted before it is used. Therefore all processes together never exceed Max in a window: the bound is
// exact, not 10 % more. The disadvantage is that permits of one process are not available to others. So a caller that
// uses several processes may be refused early, by a twentieth of Max for each other process. In addition,
// [Result].Remaining does not include the calls of other processes in the last second. Smaller limits, and
// [Limiter.AllowAll] with several asks, count each call in Redis.
//
// # Guarantees
//
//   - No window ever counts more than Max, even with concurrent calls.
//   - A refused call is not counted: a caller that retries is allowed again when the window ends.
//   - A period as long as a window that spans two windows may have up to twice Max calls. If that is not acceptable,
//     use half of Max.
//   - A counter without a TTL, or with a TTL longer than the window of the limit, gets the window as its TTL.
//   - If Redis has lost the counter of a window, a new window begins; permits of the lost one are used for at most a
//     second.
//   - [Limiter.AllowAll] counts in all counters or in none. No script spans two slots, so AllowAll counts in all at
//     once and undoes that if one of them refused. In between, for about a millisecond, another caller may be refused
//     a place that is about to be returned. It never allows too many calls.
//
// # While Redis is unavailable
//
// A Redis outage blocks no callers and disables no limits: the process then counts in memory, by the same rules. Every
// node counts on its own, so a caller that reaches all n nodes has n times Max. Redis and the process do not share their
// counts, so an outage can double a window. Redis decides again with the first call that reaches it. If Redis does not
// respond, the calls in progress wait for a quarter of a second. After that, at most one call waits ten times a second,
// and the others do not wait. A server that stalls for longer than that counts as unavailable.
//
// The process has at most 10,000 counters. Expired windows are evicted. If none has expired, new keys with the same
// limit share one counter. This is the safe choice: many invented keys during an outage cannot evict the counter of a
// password under attack, and no key gets more than Max. However, callers that are new to the process may be refused too
// early, until windows end.
//
// # Costs
//
// AllowAll takes one round trip, or two if a limit refused, and a few microseconds of the server for each key. Each
// window is one small string. Allow with a large limit takes about 100 round trips for 600 calls in a row. For a key that
// is called less than once a second, it takes one round trip for each call.
package ratelimit
