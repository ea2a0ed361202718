package groups

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Erase removes an erased user from all groups. Another member becomes the owner of the user's own groups: the admin
// who joined first, else the member who joined first. A group without other members is dissolved. The user's pending
// requests are withdrawn. It may be repeated, and some data may remain until it returns no error.
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
	requested, err := groupsWithRequest(ctx, s.db, user)
	if err != nil {
		return asKind(ctx, err)
	}
	for _, id := range requested { // admins get an event, and lose their notices
		if err := s.Withdraw(ctx, user, id); err != nil && !errors.Is(err, ErrNoRequest) {
			return err
		}
	}
	return asKind(ctx, s.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) error { return deleteUserRows(ctx, tx, user) }))
}

func (s *Service) eraseFrom(ctx context.Context, user accounts.ID, id ID) error {
	_, err := s.changeUnchecked(ctx, id, user, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		me, err := selectMember(ctx, tx, id, user)
		switch {
		case err != nil:
			return err
		case d.group.Members == 1:
			return s.dissolveLocked(ctx, tx, d)
		case me.Role == Owner:
			next, err := successor(ctx, tx, id, user)
			if err != nil {
				return err
			}
			before := next
			next.Role, next.MutedUntil = Owner, 0
			if err := d.updateMember(ctx, tx, before, next); err != nil {
				return err
			}
		}
		return d.removeMember(ctx, tx, me, api.GroupLeft)
	})
	if errors.Is(err, ErrGroup) || errors.Is(err, ErrMember) { // the user has left in the meantime
		return nil
	}
	return err
}
