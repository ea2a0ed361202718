// Package drops does the cache drops that Redis did not take. A change fences its
// keys before the commit and drops them after it; where Redis is away then, old
// values stay there until the drop is done.
//
// Such a drop is kept twice. In memory, so that this node does it the moment Redis
// is back. In SQL, as a message of the outbox, so that some node does it whatever
// happens to this one: [Tx] commits it together with the change where Redis was away
// beforehand. A node that alone is cut off from Redis depends on the others, and the
// queue's back-off is too slow for that; so every node also looks for waiting drops
// five times a second, and any node that has Redis does them.
//
// Doing a drop late or twice costs a load. Losing one would leave an old value for
// as long as it lives.
package drops
