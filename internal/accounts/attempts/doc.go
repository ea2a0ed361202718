// Package attempts counts tries of passwords and codes. A try counts before the secret is looked
// at ([Counter.Take]) and is taken back when it was right ([Counter.Settle]): of a thousand at
// once as many are looked at as of a thousand one after the other.
//
// Whose tries have a counter, how many it allows and what its key is, the caller says ([Meter]).
// The counters live in Redis. While it is away this process counts by the same rules. Losing
// Redis costs limits that start anew.
package attempts
