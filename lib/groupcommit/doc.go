// Package groupcommit lets many callers share one commit.
//
// A durable write costs a disk flush, and a flush costs the same for one row as for five hundred. A [Committer] queues
// its callers, takes all waiting requests, writes them in one transaction and wakes each caller with its own result.
// While one batch commits, the next one gathers (natural batching). A single caller therefore never waits for others,
// and many callers share batches that grow with the disk's latency. Databases do the same internally, as group commit
// of their log; a batch before the network saves the statements too.
//
// A lone caller commits its own request in its own goroutine, with the values of its context. Requests that arrive
// during its commit form the next batch, which starts as soon as that commit ends.
//
// Many callers that submit repeatedly form two halves, one committing while the other is in [Options.After]. If After
// is short compared with the fixed cost of a commit, they form one group. For that, a batch may wait for callers that
// were just woken:
//
//   - It waits no longer than commit or After take on average.
//
//   - Each expected caller that joins is spared a commit. While no caller joins, the wait costs each request of the
//     batch the same time. The wait ends when this cost is twice what the expected callers would be spared.
//
//   - If a wait did not spare more than it cost, the next batch does not wait. The number of such batches doubles with
//     each failure, up to 64, and halves with each success. Callers that arrive independently thus hardly ever wait.
//
//     c := groupcommit.New(insertAll, groupcommit.Options[Row, Result]{Committers: 2})
//     go c.Run(ctx)             // until ctx ends; drains first
//     res, err := c.Do(ctx, row) // returns when the row is durable
//
// The commit function gets the batch and returns one result for each request, in order. It must be idempotent: after an
// error that [Options.Retry] accepts, it is called again with the same requests, even if the first commit may have
// succeeded unnoticed. Identify requests by a random value and compare it.
//
// One bad row fails alone: after an error that [Options.Split] accepts, the batch is halved until it contains only the
// row that causes the error.
//
// [Options.After] runs when a batch is committed, before its callers wake, and concurrently with the commit of the next
// batch. Use it for a cache update or an event that must be done when callers return.
//
// A caller that stops waiting gets its context's error; the batch continues, and the row may still be committed. A lone
// caller stops waiting only at its deadline, which is also that of its commit. If Retry accepts the commit's error, the
// batch continues in another goroutine.
package groupcommit
