package groups

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// maxPending is the largest number of pending requests of a group, because some changes of the group read all of them.
const maxPending = 1000

// RequestJoin requests to join a group. An open group admits the user at once; then r is nil. A second request changes
// nothing. It returns ErrGroup, ErrText, ErrAlready, ErrBanned, ErrFull, ErrGroups, ErrRequests or accounts.ErrNoUser.
func (s *Service) RequestJoin(ctx context.Context, user accounts.ID, id ID, answer string) (r *Request, err error) {
	defer errs.Wrap(&err, "groups.RequestJoin %s", id)
	if answer, err = line("body.answer", answer, 0, 200); err != nil {
		return nil, err
	}
	_, err = s.changeUnchecked(ctx, id, user, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		r = nil
		err := s.checkJoin(ctx, tx, d, user)
		switch {
		case errors.Is(err, ErrAlready):
			return err
		case d.group.Joins == Invited: // users who are not members may not see it
			return ErrGroup
		case err != nil:
			return err
		case d.group.Joins == Open:
			return s.admit(ctx, tx, d, accounts.ID{}, Member, user)
		}
		r, err = s.request(ctx, tx, d, user, answer)
		return err
	})
	return r, err
}

// request opens a request in a locked group, or returns the pending one.
func (s *Service) request(ctx context.Context, tx *sqldb.Tx, d *changeSet, user accounts.ID, answer string) (*Request, error) {
	switch before, err := unclosedRequest(ctx, tx, d.group.ID, user); {
	case errors.Is(err, ErrNoRequest):
	case err != nil:
		return nil, err
	case d.at.UnixMilli() < before.Expires:
		return &before, nil
	default:
		if err := d.close(ctx, tx, before, Expired); err != nil {
			return nil, err
		}
	}
	switch n, err := countPending(ctx, tx, d.group.ID); {
	case err != nil:
		return nil, err
	case n >= maxPending:
		return nil, ErrRequests
	}
	r := &Request{ID: ids.New[Request](), Group: d.group.ID, User: user, Answer: answer, Created: d.at.UnixMilli(),
		Expires: d.at.Add(s.cfg.RequestLife).UnixMilli()}
	d.opened = r
	return r, insertRequest(ctx, tx, *r)
}

// Requests returns up to limit pending requests, oldest first, after the cursor. It returns ErrGroup, ErrMay or
// ErrCursor.
func (s *Service) Requests(ctx context.Context, user accounts.ID, id ID, after string, limit int) (_ []Request, next string, err error) {
	defer errs.Wrap(&err, "groups.Requests %s", id)
	from, err := cursor.ParsePlace(after, cursor.Place{}, ErrCursor)
	if err == nil {
		err = s.may(ctx, user, id, decide)
	}
	if err != nil {
		return nil, "", err
	}
	list, err := pagePending(ctx, s.db, id, from, limit+1)
	list, next = cursor.Page(list, limit, func(r Request) cursor.Place { return cursor.Place{Secondary: r.Created, ID: r.ID.String()} })
	return list, next, asKind(ctx, err)
}

// Decide approves a request, so that its user becomes a member, or refuses it. It returns ErrGroup, ErrMay,
// ErrNoRequest, ErrFull, ErrGroups or accounts.ErrNoUser.
func (s *Service) Decide(ctx context.Context, user accounts.ID, id ID, request RequestID, accept bool) (err error) {
	defer errs.Wrap(&err, "groups.Decide %s", id)
	_, err = s.change(ctx, id, user, []verb{decide}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, _ Membership) error {
		r, err := selectRequest(ctx, tx, request)
		switch {
		case err != nil:
			return err
		case r.Group != id || r.State != Pending || d.at.UnixMilli() >= r.Expires:
			return ErrNoRequest
		case !accept:
			return d.close(ctx, tx, r, Refused)
		}
		if err := d.close(ctx, tx, r, Approved); err != nil {
			return err
		}
		return s.admit(ctx, tx, d, user, Member, r.User)
	})
	return err
}

// Withdraw withdraws the user's own request. It returns ErrNoRequest if there is none.
func (s *Service) Withdraw(ctx context.Context, user accounts.ID, id ID) (err error) {
	defer errs.Wrap(&err, "groups.Withdraw %s", id)
	_, err = s.changeUnchecked(ctx, id, user, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		r, err := unclosedRequest(ctx, tx, id, user)
		if err != nil {
			return err
		}
		return d.close(ctx, tx, r, Withdrawn)
	})
	if errors.Is(err, ErrGroup) {
		err = ErrNoRequest
	}
	return err
}
