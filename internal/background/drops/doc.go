// Package drops retries the cache invalidations that Redis did not accept. A change fences its keys before the commit
// and drops them after it. If Redis is unavailable after the commit, stale values remain until the drop is done.
//
// Such a drop is stored twice. In memory, it lets this node do the drop as soon as Redis is available again. In SQL, it
// is a message of the outbox, and another node can do it if this node dies. [Tx] commits the message together with the
// change if Redis was unavailable before the commit. If only one node has lost its connection to Redis, the other nodes
// do its drops. The back-off of the queue is too slow for that, so that each node also checks for waiting drops five
// times a second.
//
// A late or repeated drop costs one cache load. A lost drop would leave a stale value until its TTL ends.
package drops
