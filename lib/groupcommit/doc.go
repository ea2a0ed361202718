// Package groupcommit lets many callers share one commit.
//
// A durable write costs a disk flush, and a flush costs the same for one row
// as for five hundred. A [Committer] queues its callers, takes all that wait,
// writes them in one transaction and wakes each with its own result. While one
// batch commits, the next one gathers (natural batching), so that a single caller
// never waits for others and many callers share batches that grow with the disk's
// latency. Databases do the same inside, as group commit of their log; doing it
// before the wire saves the statements too.
//
// Many callers that submit again and again go in two halves, one committing while the
// other is in [Options.After], or all together where the disk is slow. For that a
// batch may wait for callers that were just woken, no longer than commit or After
// take.
//
//	c := groupcommit.New(insertAll, groupcommit.Options[Row, Result]{Committers: 2})
//	go c.Run(ctx)             // until ctx ends; drains first
//	res, err := c.Do(ctx, row) // returns when the row is durable
//
// The commit function gets the batch and returns one result for each request,
// in order. It must be idempotent: after an error that [Options.Retry] accepts
// it is called again with the same requests, also when the first commit may
// have succeeded unnoticed. Identify requests by something random and compare.
//
// One bad row fails alone: after an error that [Options.Split] accepts, the
// batch is halved until the row that causes it stands by itself.
//
// [Options.After] runs once a batch is committed, before its callers wake, and
// beside the commit of the next batch: the place for a cache update or an event
// that callers should find done.
//
// A caller that stops waiting gets its context's error; the batch goes on, and
// the row may well be committed.
package groupcommit
