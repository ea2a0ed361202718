package rooms

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Erase removes a user without an account from all rooms, with all lines and danmaku of the user. A room of this owner
// passes to the admin, or else to the member, who joined first. A room without other members is closed. Erase may be
// repeated. Until it returns without an error, some data may remain.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "rooms.Erase %s", user)
	for {
		list, err := roomIDsOf(ctx, s.db, ParticipantID(user), sweepBatch)
		if err != nil {
			return asKind(ctx, err)
		}
		for _, id := range list {
			if err := s.eraseFrom(ctx, ParticipantID(user), id); err != nil {
				return err
			}
		}
		if len(list) < sweepBatch {
			break
		}
	}
	return asKind(ctx, s.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) error { return deleteUserRows(ctx, tx, user) }))
}

// errOtherMember reports that a change affects a member whose cache entry it would not drop. The caller retries.
var errOtherMember = errors.New("rooms: change affects another member")

func (s *Service) eraseFrom(ctx context.Context, user ParticipantID, id ID) error {
	for {
		// The cache entries to drop must be known before the change.
		next, err := successor(ctx, s.db, id, user)
		if err != nil && !errors.Is(err, ErrMember) {
			return asKind(ctx, err)
		}
		if err = s.eraseOnce(ctx, user, id, next.User); !errors.Is(err, errOtherMember) {
			return err
		}
	}
}

// eraseOnce removes a user from a room. The room passes to expected if the user is its owner. It returns errOtherMember
// if expected is no longer the successor.
func (s *Service) eraseOnce(ctx context.Context, user ParticipantID, id ID, expected ParticipantID) error {
	targets := append(s.memberTargets(id, user), RoomDeleted.Of(s.caches.Runtime, id)...)
	if !expected.IsZero() {
		targets = append(targets, PermissionsChanged.Of(s.caches.Runtime, MemberKey{A: id, B: expected})...)
	}
	ended := false
	_, err := s.changeUnchecked(ctx, id, targets, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		ended = false
		me, err := selectMember(ctx, tx, id, user)
		if err != nil {
			return err
		}
		if me.Role == Owner {
			next, err := successor(ctx, tx, id, user)
			if errors.Is(err, ErrMember) {
				ended = true
				return s.closeLocked(ctx, tx, d)
			}
			if err == nil && next.User != expected {
				err = errOtherMember
			}
			if err == nil {
				err = s.makeOwner(ctx, tx, d, next)
			}
			if err != nil {
				return err
			}
		}
		return d.removeMember(ctx, tx, me, api.RoomErased)
	})
	if errors.Is(err, ErrRoom) || errors.Is(err, ErrMember) { // the room was closed, or the user has left, in the meantime
		return nil
	}
	if ended {
		s.deleteKeys(ctx, id, err)
	}
	return err
}
