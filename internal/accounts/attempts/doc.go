// Package attempts counts tries of passwords and codes. A try counts before the secret is checked ([Counter.Count]) and
// is given back if the secret was right ([Counter.Settle]), so that concurrent tries are limited like sequential ones.
//
// The caller defines the counters, their limits and their keys ([Meter]). The counters are in Redis. While Redis is
// unavailable this process counts by the same rules. Losing Redis resets the limits.
package attempts
