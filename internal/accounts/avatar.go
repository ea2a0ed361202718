package accounts

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// AvatarID names one picture of a user, in all its sizes. A new picture has a new
// id, so that what an id stands for never changes.
type AvatarID = ids.ID[picture.Picture]

// ErrNoAvatar refuses a picture that is not, or not any more, a user's.
var ErrNoAvatar = errs.New(errs.NotFound, "avatar.unknown", "There is no such picture.")

// SetAvatar makes an image the user's picture, in place of the one before, and
// returns its id. ErrNoUser, and what [picture.Studio.Square] refuses.
func (s *Service) SetAvatar(ctx context.Context, user ID, image []byte) (_ AvatarID, err error) {
	defer errs.Wrap(&err, "accounts.SetAvatar %s", user)
	sizes, err := s.studio.Square(ctx, user.String(), image)
	if err != nil {
		return AvatarID{}, err
	}
	id := ids.New[picture.Picture]()
	return id, s.changeAvatar(ctx, user, id, sizes)
}

// RemoveAvatar takes the user's picture away, if there is one. ErrNoUser.
func (s *Service) RemoveAvatar(ctx context.Context, user ID) (err error) {
	defer errs.Wrap(&err, "accounts.RemoveAvatar %s", user)
	return s.changeAvatar(ctx, user, AvatarID{}, nil)
}

// changeAvatar replaces the user's picture; the zero id is none.
func (s *Service) changeAvatar(ctx context.Context, user ID, id AvatarID, sizes []picture.Picture) error {
	var u User
	err := s.commit(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if u, err = lockLiving(ctx, tx, user); err != nil {
			return err
		}
		u.Avatar = id.String()
		u.Version++
		if err := deleteAvatars(ctx, tx, user); err != nil {
			return err
		}
		if err := insertAvatar(ctx, tx, user, id, sizes); err != nil {
			return err
		}
		return updateAvatar(ctx, tx, user, id)
	}, AvatarChanged.Of(s.caches.Runtime, user)...)
	if err != nil {
		return err
	}
	now := s.db.Now()
	s.publish(api.EventAccountUpdated, user, now, wireUser(u, now))
	return nil
}

// Avatar returns one size of a picture. ErrNoAvatar.
//
// It reads SQL: browsers and proxies keep a picture for a year, so that hardly any
// request for one gets here, and those that do want other ones each time.
func (s *Service) Avatar(ctx context.Context, id AvatarID, size int) (_ picture.Picture, err error) {
	defer errs.Wrap(&err, "accounts.Avatar %s", id)
	p, err := selectAvatar(ctx, s.db, id, size)
	return p, asKind(err)
}
