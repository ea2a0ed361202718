package social

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Block blocks other for user. Their friendship and any request between them end, and other can send no more requests.
// A second block changes nothing. It returns ErrSelf, accounts.ErrNoUser or ErrBlocksFull.
func (s *Service) Block(ctx context.Context, user, other accounts.ID) (err error) {
	defer errs.Wrap(&err, "social.Block %s", user)
	if user == other {
		return ErrSelf
	}
	var d changeSet
	targets := s.rel.targetsOfPair(user, inFriends|inBlocks|inRequests, other, inFriends|inBlockers|inRequests, &d)
	return s.change(ctx, &d, targets, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := d.lock(ctx, tx, user, other); err != nil {
			return err
		}
		if standings, err := accounts.Standings(ctx, tx, other); err != nil {
			return err
		} else if _, known := standings[other]; !known {
			return accounts.ErrNoUser
		}
		if blocked, err := blocksAmong(ctx, tx, user, []accounts.ID{other}); err != nil || len(blocked) > 0 {
			return err
		}
		if n, err := countBlocks(ctx, tx, user); err != nil {
			return err
		} else if n >= s.cfg.Blocks {
			return ErrBlocksFull
		}
		if err := insertBlock(ctx, tx, user, other); err != nil {
			return err
		}
		d.blocked = []edge{{user, other}}
		r, err := selectPending(ctx, tx, user, other)
		if err == nil {
			if _, err := d.close(ctx, tx, r, r.stateAfterBlock(user)); err != nil {
				return err
			}
			if err := d.countUnread(ctx, tx, r.To); err != nil {
				return err
			}
		} else if !errors.Is(err, ErrNoRequest) {
			return err
		}
		if _, err := selectFriend(ctx, tx, user, other); errors.Is(err, ErrNoFriend) {
			return nil
		} else if err != nil {
			return err
		}
		return d.unfriend(ctx, tx, user, other)
	})
}

// Unblock ends a block. It does not restore what the block ended. A second call changes nothing.
func (s *Service) Unblock(ctx context.Context, user, other accounts.ID) (err error) {
	defer errs.Wrap(&err, "social.Unblock %s", user)
	var d changeSet
	targets := s.rel.targetsOfPair(user, inBlocks, other, inBlockers, &d)
	return s.change(ctx, &d, targets, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := d.lock(ctx, tx, user); err != nil {
			return err
		}
		if found, err := deleteBlock(ctx, tx, user, other); err != nil || !found {
			return err
		}
		d.unblocked = []edge{{user, other}}
		return nil
	})
}

// Blocks returns up to limit users whom user blocks, newest first, after the cursor in page. It returns ErrCursor if the
// cursor is invalid.
func (s *Service) Blocks(ctx context.Context, user accounts.ID, page string, limit int) (_ []Block, next string, err error) {
	defer errs.Wrap(&err, "social.Blocks %s", user)
	after, err := cursor.ParsePlace(page, newest, ErrCursor)
	if err != nil {
		return nil, "", err
	}
	found, err := pageBlocks(ctx, s.db, user, after, limit+1)
	if err != nil {
		return nil, "", asKind(ctx, err)
	}
	found, next = cursor.Page(found, limit, func(b Block) cursor.Place {
		return cursor.Place{Secondary: b.Since.UnixMilli(), ID: b.User.String()}
	})
	return found, next, nil
}
