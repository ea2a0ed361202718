package presence

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/cluster"
)

// forgetNodes is the time when a node that was swept may return and read its mark.
const forgetNodes = time.Hour

// Jobs returns the background jobs of this domain, in addition to [Service.Run].
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{{Name: "presence.sweep", Every: time.Second, Singleton: true, Run: func(ctx context.Context) error {
		if err := s.sweep(ctx); err != nil && !away(err) { // the connection's watcher logs that
			return err
		}
		return nil
	}}}
}

// sweep removes the connections of nodes without a lease for [linger], by the clock of this process alone. A node that
// is missing for a moment is not yet dead.
func (s *Service) sweep(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "presence.sweep")
	marks, err := s.redis.marks(ctx)
	if err != nil {
		return err
	}
	live, err := s.cfg.Nodes.Live(ctx)
	if err != nil {
		clear(s.missing)
		return err
	}
	now := time.Now()
	for node := range s.missing {
		if _, there := marks[node]; !there || !live[node].IsZero() {
			delete(s.missing, node)
		}
	}
	for node, m := range marks {
		switch since, missed := s.missing[node]; {
		case !live[node].IsZero():
		case !m.swept.IsZero() && s.db.Now().Sub(m.swept) > forgetNodes:
			err = s.redis.forgetNode(ctx, node)
		case !missed:
			s.missing[node] = now
		case now.Sub(since) >= linger:
			err = s.sweepNode(ctx, node, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepNode removes the connections of a dead node, or the rest of an earlier sweep. It sets the mark first, because a
// sweep may not finish, and again at the end. If the node was not dead, it stores all its connections again because of
// the mark.
func (s *Service) sweepNode(ctx context.Context, node cluster.ID, before mark) error {
	swept := 0
	for {
		users, err := s.redis.heldBy(ctx, node, atOnce)
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
		batch := make([]*closing, len(users))
		for i, u := range users {
			batch[i] = &closing{user: u, prefix: node.String() + ":"}
		}
		s.redis.close(ctx, batch)
		var done []accounts.ID
		var off []*closing
		for _, c := range batch {
			if c.err != nil {
				err = c.err
				continue
			}
			done = append(done, c.user)
			if c.found > 0 && c.last {
				off = append(off, c)
			}
		}
		s.wentOff(off)
		if gone := s.redis.letGo(ctx, node, done); gone != nil {
			err = gone
		}
		if err != nil {
			return err
		}
		swept += len(done)
		if live, err := s.cfg.Nodes.Live(ctx); err != nil || !live[node].IsZero() {
			break // the node is back: the mark shows it the sweep
		}
	}
	delete(s.missing, node)
	if swept == 0 && !before.swept.IsZero() {
		return nil // no connection was left
	}
	s.metrics.swept.Add(float64(swept))
	s.log.Info("presence: a dead node's connections are taken out", "dead", node, "users", swept)
	return s.redis.setMark(ctx, node, s.db.Now())
}
