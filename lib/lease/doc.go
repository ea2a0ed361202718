// Package lease gives one process at a time the right to do something, and numbers the turns.
//
//	err := leases.Run(ctx, lease.Named("report"), "node-7", 5*time.Second, func(ctx context.Context, token int64) error {
//		… // until ctx ends; send token with every write that a former holder must not overwrite
//	})
//
// # Idea
//
// A lease is a lock that expires (Gray and Cheriton, 1989). It is a key with a TTL. A process creates the key if it does
// not exist, and renews it while it holds the lease. If the holder dies, the key expires after at most the life of the
// lease, and another process takes over. Renewal and release compare the key with the value that the holder wrote, so
// that no process ends the lease of another. [Leases.Run] renews after a third of the life. After a failure it retries
// four times as often, until a sixth of the life is left.
//
// No lock over a network can guarantee that its holder was not suspended between a check of the clock and a write.
// Therefore every turn has a fencing token, a number greater than the tokens of all turns before (Kleppmann, "How to do
// distributed locking", 2016). A resource that stores the greatest token so far and refuses smaller ones is safe from
// former holders. In SQL, that is one more column and "WHERE token <= ?".
//
// # Guarantees
//
//   - While Redis keeps its data, no two processes hold a lease at once. This requires that their clocks run at the
//     same rate, within a tenth, and are not stopped, and that the clock of Redis is not set forward. The holder
//     counts its time with its own monotonic clock, from before it sent the renewal. Run cancels the context of the
//     function a sixth of the life before Redis could give the lease to another process. The function has to stop
//     within that sixth.
//   - Tokens rise from turn to turn.
//   - Run never runs the function twice at once: it waits for the function before it acquires the lease again.
//
// # When Redis loses data
//
// After a FLUSHALL, a restart without persistence or an asynchronous failover, the lease is lost although its holder is
// alive. Another process may acquire it at once. Until the first holder's next renewal, after at most a third of the
// life, both processes act as holders. Their tokens differ. A token is never smaller than the wall clocks of the acquiring
// process and of its Redis server, in microseconds, so it also rises if the counter was lost. For that, it is enough that
// the clocks of the processes and of the Redis servers differ by less than the time between two turns. There may be at
// most a million turns a second. While Redis is unreachable, no process can acquire a lease, and a holder loses its lease
// when the life has passed.
//
// # Costs
//
// A holder sends three scripts during each life, and each waiting process sends about as many. After a release, another
// process takes over within a third of the life; after a crash, within the rest of the life.
package lease
