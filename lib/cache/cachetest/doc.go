// Package cachetest tries a cache against the hazards that make caches return old data. Loads are overtaken by changes;
// messages are lost or late; a partition stays unnoticed; a node crashes at the worst moment; many readers miss one
// key; Redis is unavailable, emptied, restarted or failed over. It runs against any cache with an [Adapter]:
//
//	func TestHazards(t *testing.T) {
//		cachetest.Run(t, cachetest.Library{Name: "mine", Open: open})
//	}
//
// Each hazard has its own Redis servers and two nodes, with a [redistest.Wire] between each node and Redis. A [Source] can be
// stopped in the middle of a load. To compare libraries, [Judge] returns the results instead of failing.
package cachetest
