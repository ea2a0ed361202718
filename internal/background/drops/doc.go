// Package drops retries the cache invalidations that Redis did not accept. A change fences its keys before the commit
// and drops them after it. If Redis is unavailable then, stale values remain until the drop is done.
//
// Such a drop is stored twice. In memory, so that this node does it as soon as Redis is available again. In SQL, as a
// message of the outbox, so that another node can do it if this one dies: [Tx] commits it together with the change if
// Redis was unavailable before the commit. A node that alone lost its connection to Redis depends on the other nodes,
// and the back-off of the queue is too slow for that. So each node also checks for waiting drops five times a second,
// and any node that is connected to Redis does them.
//
// A late or repeated drop costs one cache load. A lost drop would leave a stale value until its TTL ends.
package drops
