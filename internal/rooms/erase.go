package rooms

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Erase takes a user who has no account any more out of all rooms, with what they said there. A room of which the user was the owner
// goes to the admin, else the member, who joined first; one without other members is closed. It may be
// repeated; until it has returned without an error something may be left.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "rooms.Erase %s", user)
	for {
		list, err := roomIDsOf(ctx, s.db, ViewerID(user), sweepBatch)
		if err != nil {
			return asKind(ctx, err)
		}
		for _, id := range list {
			if err := s.eraseFrom(ctx, ViewerID(user), id); err != nil {
				return err
			}
		}
		if len(list) < sweepBatch {
			break
		}
	}
	return asKind(ctx, s.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) error { return deleteTraces(ctx, tx, user) }))
}

// errOther reports that a change concerns a viewer whose cached place it would not drop. The caller starts again.
var errOther = errors.New("rooms: another viewer is concerned")

func (s *Service) eraseFrom(ctx context.Context, user ViewerID, id ID) error {
	for {
		// Whose copies are to be dropped has to be known before.
		next, err := successor(ctx, s.db, id, user)
		if err != nil && !errors.Is(err, ErrMember) {
			return asKind(ctx, err)
		}
		if err = s.eraseOnce(ctx, user, id, next.User); !errors.Is(err, errOther) {
			return err
		}
	}
}

// eraseOnce takes a user out of a room, which expected gets should the user be its owner. errOther.
func (s *Service) eraseOnce(ctx context.Context, user ViewerID, id ID, expected ViewerID) error {
	targets := append(s.seats(id, user), RoomDeleted.Of(s.caches.Runtime, id)...)
	if !expected.IsZero() {
		targets = append(targets, PermissionsChanged.Of(s.caches.Runtime, Seat{A: id, B: expected})...)
	}
	ended := false
	_, err := s.enter(ctx, id, targets, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		ended = false
		me, err := selectMember(ctx, tx, id, user)
		if err != nil {
			return err
		}
		if me.Role == Owner {
			next, err := successor(ctx, tx, id, user)
			if errors.Is(err, ErrMember) {
				ended = true
				return s.end(ctx, tx, d)
			}
			if err == nil && next.User != expected {
				err = errOther
			}
			if err == nil {
				err = s.crown(ctx, tx, d, next)
			}
			if err != nil {
				return err
			}
		}
		return d.take(ctx, tx, me, api.RoomErased)
	})
	if errors.Is(err, ErrRoom) || errors.Is(err, ErrMember) { // it has gone meanwhile
		return nil
	}
	if ended {
		s.closed(ctx, id, err)
	}
	return err
}
