package groups

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Erase takes a user who has no account any more out of all groups. A group of which the user was the owner
// goes to the admin, else the member, who joined first; one without other members is dissolved. What the user has
// asked to join is withdrawn. It may be repeated; until it has returned without an error something may be left.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "groups.Erase %s", user)
	for {
		list, err := groupIDsOf(ctx, s.db, user, sweepBatch)
		if err != nil {
			return asKind(ctx, err)
		}
		for _, id := range list {
			if err := s.eraseFrom(ctx, user, id); err != nil {
				return err
			}
		}
		if len(list) < sweepBatch {
			break
		}
	}
	asked, err := groupsAsked(ctx, s.db, user)
	if err != nil {
		return asKind(ctx, err)
	}
	for _, id := range asked { // admins are told, and lose their notices
		if err := s.Withdraw(ctx, user, id); err != nil && !errors.Is(err, ErrNoRequest) {
			return err
		}
	}
	return asKind(ctx, s.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) error { return deleteTraces(ctx, tx, user) }))
}

func (s *Service) eraseFrom(ctx context.Context, user accounts.ID, id ID) error {
	_, err := s.enter(ctx, id, user, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		me, err := selectMember(ctx, tx, id, user)
		switch {
		case err != nil:
			return err
		case d.group.Members == 1:
			return s.end(ctx, tx, d)
		case me.Role == Owner:
			next, err := successor(ctx, tx, id, user)
			if err != nil {
				return err
			}
			was := next
			next.Role, next.Muted = Owner, 0
			if err := d.set(ctx, tx, was, next); err != nil {
				return err
			}
		}
		return d.take(ctx, tx, me, api.GroupLeft)
	})
	if errors.Is(err, ErrGroup) || errors.Is(err, ErrMember) { // it has left meanwhile
		return nil
	}
	return err
}
