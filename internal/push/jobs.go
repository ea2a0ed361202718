package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// remembered is the retention of push_chats.
const remembered = 30 * 24 * time.Hour

// Jobs returns the background jobs. Two nodes that follow at once push nothing twice.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{
		{Name: "push.follow", Every: deepEvery, Waiting: s.changedChats(), Singleton: true, RunWithoutLease: true, Run: s.follow},
		{Name: "push.prune", Every: time.Hour, Singleton: true, RunWithoutLease: true, Run: func(ctx context.Context) (err error) {
			defer errs.Wrap(&err, "push.prune")
			return asKind(prune(ctx, s.db, s.db.Now().Add(-remembered)))
		}},
	}
}

// longest returns the largest delay of a push: after another push of the chat, for a paused host, or for a user who
// seems online.
func (s *Service) longest() time.Duration { return max(s.cfg.Pause, maxPause) + deep }

// Batches returns the queue batches that send pushes. They have separate lanes, so that no other message waits for a
// push service.
func (s *Service) Batches() []queue.Batch {
	return []queue.Batch{{Topics: []string{TopicSend}, Size: batchSize, Longest: s.longest(), Handle: s.sendAll},
		{Topics: []string{TopicOffline}, Size: batchSize, Longest: s.longest(), Handle: s.offlineAll}}
}

// maxTries is the number of tries of a push. After the last failure it is dropped.
const maxTries = queue.Tries

// decodeJobs decodes the jobs of deliveries. Invalid jobs are given up.
func decodeJobs(ds []queue.Delivery) (jobs []job, attempts []int, answers []error) {
	jobs, attempts, answers = make([]job, len(ds)), make([]int, len(ds)), make([]error, len(ds))
	for i, d := range ds {
		attempts[i] = d.Attempt
		if err := json.Unmarshal(d.Payload, &jobs[i]); err != nil {
			answers[i] = fmt.Errorf("%w: %w", queue.ErrGiveUp, err)
		}
	}
	return jobs, attempts, answers
}

// settled converts the results of a batch for the queue. It enqueues jobs for later again, with a new due time.
func (s *Service) settled(ctx context.Context, jobs []job, malformed, answers []error) []error {
	var again []job
	var places []int
	for i, err := range answers {
		if l, ok := errors.AsType[later](err); ok && malformed[i] == nil {
			jobs[i].due = l.at.UnixMilli()
			again, places = append(again, jobs[i]), append(places, i)
		}
		if malformed[i] != nil {
			answers[i] = malformed[i]
		}
	}
	if len(again) == 0 {
		return answers
	}
	err := inTx(context.WithoutCancel(ctx), s.db, func(ctx context.Context, tx *sqldb.Tx) error { return enqueue(ctx, tx, again) })
	for _, i := range places {
		answers[i] = asKind(err)
	}
	return answers
}

// sendAll handles [TopicSend].
func (s *Service) sendAll(ctx context.Context, ds []queue.Delivery) []error {
	jobs, attempts, malformed := decodeJobs(ds)
	list, answers := s.prepared(ctx, jobs)
	s.deliver(ctx, list, attempts, answers)
	s.recordSent(ctx, list, answers)
	return s.settled(ctx, jobs, malformed, answers)
}

// offlineAll handles [TopicOffline].
func (s *Service) offlineAll(ctx context.Context, ds []queue.Delivery) []error {
	jobs, _, malformed := decodeJobs(ds)
	list, answers := s.prepared(ctx, jobs)
	for _, d := range list {
		if s.offline != nil { // otherwise the backend with its own pushes is gone
			answers[d.at] = s.offline(ctx, d.job.User, d.push)
		}
	}
	s.recordSent(ctx, list, answers)
	return s.settled(ctx, jobs, malformed, answers)
}
