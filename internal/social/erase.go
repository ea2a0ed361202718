package social

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
)

// Erase removes all data of an erased user: friends on both sides, requests, and blocks in both directions. The other
// users get events, and their lists keep the removal by id for a while. It works in batches, so that no transaction
// holds locks for long. It may be repeated, and some data may remain until it returns no error.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "social.Erase %s", user)
	for _, step := range []func(context.Context, accounts.ID) (more bool, err error){s.eraseFriends, s.eraseRequests, s.eraseBlocks} {
		for more := true; more; {
			if more, err = step(ctx, user); err != nil {
				return asKind(ctx, err)
			}
		}
	}
	var d changeSet
	targets := slices.Concat(FriendsChanged.Of(s.caches.Runtime, user), BlocksChanged.Of(s.caches.Runtime, user),
		RequestsChanged.Of(s.caches.Runtime, user))
	return s.change(ctx, &d, targets, func(ctx context.Context, tx *sqldb.Tx) error { return deleteList(ctx, tx, user) })
}

// eraseFriends ends a batch of friendships of a user, for both sides.
func (s *Service) eraseFriends(ctx context.Context, user accounts.ID) (more bool, err error) {
	others, err := friendBatch(ctx, s.db, user, sweepBatch)
	if err != nil || len(others) == 0 {
		return false, err
	}
	var d changeSet
	targets := append(s.rel.targets(user, inFriends, &d), s.rel.pairTargets(user, others...)...)
	for _, o := range others {
		targets = append(targets, s.rel.targets(o, inFriends, &d)...)
	}
	return len(others) == sweepBatch, s.change(ctx, &d, targets, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := d.lock(ctx, tx, append(slices.Clone(others), user)...); err != nil {
			return err
		}
		friends, err := friendsOf(ctx, tx, user, others)
		if err != nil {
			return err
		}
		d.nextVersions(friends...)
		removals := make([]edge, len(friends))
		for i, f := range friends {
			removals[i] = edge{f, user}
			d.removed = append(d.removed, edge{f, user}, edge{user, f})
		}
		if len(friends) > 0 {
			if err := removeFriends(ctx, tx, d.lists, removals...); err != nil {
				return err
			}
		}
		return deleteFriends(ctx, tx, user, others)
	})
}

// eraseRequests deletes a batch of requests from and to a user.
func (s *Service) eraseRequests(ctx context.Context, user accounts.ID) (more bool, err error) {
	requests, err := requestBatch(ctx, s.db, user, sweepBatch)
	if err != nil || len(requests) == 0 {
		return false, err
	}
	var d changeSet
	var targets []cache.Target
	receivers := usersOf(requests, func(r Request) accounts.ID { return r.To })
	for _, u := range receivers {
		targets = append(targets, s.rel.targets(u, inRequests, &d)...)
	}
	return len(requests) == sweepBatch, s.change(ctx, &d, targets, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := d.lock(ctx, tx, receivers...); err != nil {
			return err
		}
		var err error
		if d.closed, err = selectOpen(ctx, tx, requestIDs(requests)); err != nil {
			return err
		}
		for i, r := range d.closed {
			d.closed[i].State = r.stateAfterBlock(user)
		}
		if err := deleteRequests(ctx, tx, requestIDs(requests)); err != nil {
			return err
		}
		return d.countUnread(ctx, tx, receivers...)
	})
}

// eraseBlocks removes a batch of blocks of a user, in both directions. It publishes nothing, because the account no
// longer exists.
func (s *Service) eraseBlocks(ctx context.Context, user accounts.ID) (more bool, err error) {
	blocks, err := blockBatch(ctx, s.db, user, sweepBatch)
	if err != nil || len(blocks) == 0 {
		return false, err
	}
	var d changeSet
	var targets []cache.Target
	for _, b := range blocks {
		targets = append(targets, BlocksChanged.Of(s.caches.Runtime, b.user)...)
		targets = append(targets, s.rel.pairTargets(b.user, b.other)...)
	}
	return len(blocks) == sweepBatch, s.change(ctx, &d, targets,
		func(ctx context.Context, tx *sqldb.Tx) error { return deleteBlocks(ctx, tx, blocks) })
}
