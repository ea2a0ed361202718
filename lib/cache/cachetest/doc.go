// Package cachetest tries a cache against what makes caches lie: a load that is
// overtaken by a change, a lost or late message, a partition that nobody notices,
// a crash at the worst moment, a herd, a Redis that is away, emptied, restarted or
// failed over. It runs against any cache that an [Adapter] can be written for:
//
//	func TestHazards(t *testing.T) {
//		cachetest.Run(t, cachetest.Library{Name: "mine", Open: open})
//	}
//
// Each hazard has Redis servers of its own, two nodes with a [Proxy] between each
// and Redis, and a [Source] that it can stop in the middle of a load. [Judge]
// tells what held and what did not in place of failing, to compare libraries.
package cachetest
