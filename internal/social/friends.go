package social

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Friends returns up to limit friends of user after the cursor in page, of one tag unless it is empty. version is the
// list's version before the read. [Service.Changes] since that version returns the changes that the page may have
// missed. It returns ErrCursor if the cursor is invalid.
func (s *Service) Friends(ctx context.Context, user accounts.ID, tag, page string,
	limit int) (_ []Friend, next string, version int64, err error) {
	defer errs.Wrap(&err, "social.Friends %s", user)
	after, err := cursor.ParsePlace(page, firstFriend, ErrCursor)
	if err != nil {
		return nil, "", 0, err
	}
	l, err := readList(ctx, s.db, user)
	if err != nil {
		return nil, "", 0, asKind(ctx, err)
	}
	found, err := pageFriends(ctx, s.db, user, tag, after, limit+1)
	if err != nil {
		return nil, "", 0, asKind(ctx, err)
	}
	found, next = cursor.Page(found, limit, func(f Friend) cursor.Place {
		return cursor.Place{Primary: int64(f.Order), Secondary: f.Since.UnixMilli(), ID: f.User.String()}
	})
	return found, next, l.version, nil
}

// Remarks returns the user's remarks for those of others who are friends and have one. It may be slightly stale.
func (s *Service) Remarks(ctx context.Context, user accounts.ID, others []accounts.ID) (_ map[accounts.ID]string, err error) {
	defer errs.Wrap(&err, "social.Remarks %s", user)
	found, err := s.rel.friends.GetMany(ctx, user, others)
	all := map[accounts.ID]string{}
	for other, k := range found {
		if k.Remark != "" {
			all[other] = k.Remark
		}
	}
	return all, asKind(ctx, err)
}

// Friend returns the user's data about a friend, from a cache. It returns ErrNoFriend if other is no friend.
func (s *Service) Friend(ctx context.Context, user, other accounts.ID) (_ Friend, err error) {
	defer errs.Wrap(&err, "social.Friend %s", user)
	k, ok, err := s.rel.friends.Get(ctx, user, other)
	switch {
	case err != nil:
		return Friend{}, asKind(ctx, err)
	case !ok:
		return Friend{}, ErrNoFriend
	}
	return k.friend(other), nil
}

// ChangePage is a page of the changes of a list of friends.
type ChangePage struct {
	Changed []Friend
	Removed []accounts.ID
	Version int64 // the version of the last change
	More    bool
	Reset   bool // older changes are deleted: read the whole list
}

// Changes returns up to limit changes of user's list since a version. Each friend appears once, with the last change.
func (s *Service) Changes(ctx context.Context, user accounts.ID, since int64, limit int) (c ChangePage, err error) {
	defer errs.Wrap(&err, "social.Changes %s", user)
	if c, err = changedFriends(ctx, s.db, user, since, limit); err != nil {
		return ChangePage{}, asKind(ctx, err)
	}
	// Read after the rows, so that a removal that was pruned in the meantime is noticed.
	l, err := readList(ctx, s.db, user)
	if err != nil {
		return ChangePage{}, asKind(ctx, err)
	}
	if since < l.pruned || since > l.version { // or the database was restored
		return ChangePage{Version: l.version, Reset: true}, nil
	}
	return c, nil
}

// UpdateFriend changes the user's data about a friend and returns it. It returns ErrText, ErrOrder or ErrNoFriend.
func (s *Service) UpdateFriend(ctx context.Context, user, other accounts.ID, n FriendUpdate) (f Friend, err error) {
	defer errs.Wrap(&err, "social.UpdateFriend %s", user)
	if n, err = n.clean(); err != nil {
		return Friend{}, err
	}
	var d changeSet
	err = s.change(ctx, &d, s.rel.targets(user, inFriends, &d), func(ctx context.Context, tx *sqldb.Tx) error {
		if err := d.lock(ctx, tx, user); err != nil {
			return err
		}
		before, err := selectFriend(ctx, tx, user, other)
		if err != nil {
			return err
		}
		if f = n.apply(before); f == before {
			return nil
		}
		f.Updated = d.at
		d.written = []friendRow{{user, f, false}}
		d.nextVersions(user)
		return updateFriend(ctx, tx, d.lists[user].version, d.written[0])
	})
	return f, err
}

// Unfriend ends a friendship for both. It returns ErrNoFriend if there is none.
func (s *Service) Unfriend(ctx context.Context, user, other accounts.ID) (err error) {
	defer errs.Wrap(&err, "social.Unfriend %s", user)
	var d changeSet
	targets := s.rel.targetsOfPair(user, inFriends, other, inFriends, &d)
	return s.change(ctx, &d, targets, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := d.lock(ctx, tx, user, other); err != nil {
			return err
		}
		if _, err := selectFriend(ctx, tx, user, other); err != nil {
			return err
		}
		return d.unfriend(ctx, tx, user, other)
	})
}

// unfriend ends the friendship of two users whose lists are locked.
func (d *changeSet) unfriend(ctx context.Context, tx *sqldb.Tx, a, b accounts.ID) error {
	d.nextVersions(a, b)
	d.removed = []edge{{a, b}, {b, a}}
	return removeFriends(ctx, tx, d.lists, d.removed...)
}
