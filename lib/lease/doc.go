// Package lease lets one process at a time do something, and numbers the turns.
//
//	err := leases.Run(ctx, lease.Named("report"), "node-7", 5*time.Second, func(ctx context.Context, token int64) error {
//		… // until ctx ends; send token along with what must not be overtaken
//	})
//
// # Idea
//
// A lease is a lock that expires (Gray and Cheriton, 1989): a key with a time to
// live, created only where there is none, that its holder renews. If the holder dies,
// the key expires a life later at most, and another process takes over. A renewal and
// a release compare the key with what the holder wrote, so that no process ends
// another's lease. [Leases.Run] renews after each third of the life, so two
// renewals may fail.
//
// No lock over a network can promise that its holder has not fallen asleep
// between a look at the clock and a write. Therefore every turn has a fencing
// token, a number greater than those of all turns before (Kleppmann, "How to do
// distributed locking", 2016): a resource that remembers the greatest token it
// has seen and refuses smaller ones cannot be harmed by a former holder.
// In SQL that is one more column and "WHERE token <= ?".
//
// # Guarantees
//
//   - While Redis keeps its data, no two processes hold a lease at once, as
//     long as their clocks run at the same rate, to a tenth, and are neither
//     stopped nor, on Redis' side, set forward. The holder counts its time by its own monotonic clock, from
//     before it sent the renewal, and Run cancels the function's context a
//     sixth of the life before Redis could give the lease away. That sixth is
//     what the function has to stop.
//   - Tokens rise from turn to turn.
//   - Run never runs the function twice at once: it waits for it before it
//     tries to take the lease again.
//
// # When Redis forgets
//
// After a FLUSHALL, a restart without persistence or an asynchronous failover,
// the lease is gone though its holder lives. Another may take it at once, and
// until the first one's next renewal, a third of a life later at the most, both
// believe that they hold it. Tokens tell them apart: a token is never smaller
// than the taker's wall clock in microseconds, so it rises also when the counter
// was lost, provided that the clocks of the two takers differ by less than the
// time between their turns, and that turns did not change more than a million
// times a second. While Redis is unreachable no process can take a lease, and a
// holder loses its lease when the life has passed.
//
// # Costs
//
// A holder sends three scripts a life, each waiting process about as many.
// After a release another takes over within a third of a life; after a death,
// within what is left of the life.
package lease
