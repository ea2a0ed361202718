package presence

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/cluster"
)

// sweptMarkTTL is how long the mark of a swept node is kept. A node that returns within this time finds its mark.
const sweptMarkTTL = time.Hour

// Jobs returns the background jobs of this domain, in addition to [Service.Run].
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{{Name: "presence.sweep", Every: time.Second, Singleton: true, Run: func(ctx context.Context) error {
		if err := s.sweep(ctx); err != nil && !isUnavailable(err) { // the watcher of the Redis connection logs that
			return err
		}
		return nil
	}}}
}

// sweep removes the connections of nodes that have had no lease for [linger]. Times are compared within this process,
// because clocks of nodes differ. A node that is missing for a moment is not yet dead.
func (s *Service) sweep(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "presence.sweep")
	marks, err := s.redis.readMarks(ctx)
	if err != nil {
		return err
	}
	live, err := s.cfg.Nodes.Live(ctx)
	if err != nil {
		clear(s.missingSince)
		return err
	}
	now := time.Now()
	for node := range s.missingSince {
		if _, hasMark := marks[node]; !hasMark || !live[node].IsZero() {
			delete(s.missingSince, node)
		}
	}
	for node, m := range marks {
		switch since, missing := s.missingSince[node]; {
		case !live[node].IsZero():
		case !m.swept.IsZero() && s.db.Now().Sub(m.swept) > sweptMarkTTL:
			err = s.redis.deleteMark(ctx, node)
		case !missing:
			s.missingSince[node] = now
		case now.Sub(since) >= linger:
			err = s.sweepNode(ctx, node, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepNode removes the connections of a dead node, or those that an earlier sweep left. It sets the mark before the
// first removal, because a sweep may not finish. It sets the mark again at the end, because the node may have returned
// and replaced the first one. A node that was not dead reads the mark and stores all its connections again.
func (s *Service) sweepNode(ctx context.Context, node cluster.ID, before mark) error {
	swept := 0
	for {
		users, err := s.redis.sampleNodeUsers(ctx, node, batchSize)
		if err != nil {
			return err
		}
		if len(users) == 0 {
			break
		}
		if swept == 0 {
			if err := s.redis.setMark(ctx, node, s.db.Now()); err != nil {
				return err
			}
		}
		batch := make([]*closeRequest, len(users))
		for i, u := range users {
			batch[i] = &closeRequest{user: u, prefix: node.String() + ":"}
		}
		s.redis.close(ctx, batch)
		var removed []accounts.ID
		var offline []*closeRequest
		for _, c := range batch {
			if c.err != nil {
				err = c.err
				continue
			}
			removed = append(removed, c.user)
			if c.found > 0 && c.last {
				offline = append(offline, c)
			}
		}
		s.enqueueOffline(offline)
		if removeErr := s.redis.removeNodeUsers(ctx, node, removed); removeErr != nil {
			err = removeErr
		}
		if err != nil {
			return err
		}
		swept += len(removed)
		if live, err := s.cfg.Nodes.Live(ctx); err != nil || !live[node].IsZero() {
			break // the node is back, and learns of the sweep from the mark
		}
	}
	delete(s.missingSince, node)
	if swept == 0 && !before.swept.IsZero() {
		return nil // no connection was left
	}
	s.metrics.swept.Add(float64(swept))
	s.log.Info("presence: connections of a dead node removed", "dead", node, "users", swept)
	return s.redis.setMark(ctx, node, s.db.Now())
}
