// Package drops retries the cache invalidations that Redis did not accept. A change fences its keys before the commit
// and drops them after it. If Redis is unavailable after the commit, stale values remain until the drop is done.
//
// Such a drop is stored twice. In memory, it lets this node do the drop as soon as Redis is available again. In SQL, it
// is a message of the outbox, and another node can do it if this node dies. [Tx] commits the message together with the
// change if Redis was unavailable before the commit. If only one node has lost its connection to Redis, the other nodes
// do its drops. The back-off of the queue is too slow for that, so that each node also looks for waiting drops in each
// check of [sqldb.DB.Watch]. It checks five times a second while it is cut off from Redis, and for half a minute after a drop.
// Otherwise a check may follow after [sqldb.WatchWithin]. The first change of a node that is cut off therefore waits that
// long before its response. Changes within 15 s after it do not wait.
//
// A late or repeated drop costs one cache load. A lost drop would leave a stale value until its TTL ends.
package drops
