package accounts

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// AvatarID identifies one picture of a user in all its sizes. A new picture gets a new id, so that the content of an id
// never changes.
type AvatarID = ids.ID[picture.Picture]

// ErrNoAvatar reports an id that is not the current picture of a user.
var ErrNoAvatar = errs.New(errs.NotFound, "avatar.unknown", "There is no such picture.")

// SetAvatar replaces the picture of the user with an image and returns its id. It returns ErrNoUser, or an error of
// [picture.Studio.Square].
func (s *Service) SetAvatar(ctx context.Context, user ID, image []byte) (_ AvatarID, err error) {
	defer errs.Wrap(&err, "accounts.SetAvatar %s", user)
	sizes, err := s.studio.Square(ctx, user.String(), image)
	if err != nil {
		return AvatarID{}, err
	}
	id := ids.New[picture.Picture]()
	return id, s.changeAvatar(ctx, user, id, sizes)
}

// RemoveAvatar removes the picture of the user, if there is one. It returns ErrNoUser for an unknown user.
func (s *Service) RemoveAvatar(ctx context.Context, user ID) (err error) {
	defer errs.Wrap(&err, "accounts.RemoveAvatar %s", user)
	return s.changeAvatar(ctx, user, AvatarID{}, nil)
}

// changeAvatar replaces the picture of the user. The zero id means no picture.
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

// Avatar returns one size of a picture, or ErrNoAvatar. It reads SQL without a cache: browsers and proxies keep a
// picture for a year, so that few requests arrive, each for a different picture.
func (s *Service) Avatar(ctx context.Context, id AvatarID, size int) (_ picture.Picture, err error) {
	defer errs.Wrap(&err, "accounts.Avatar %s", id)
	p, err := selectAvatar(ctx, s.db, id, size)
	return p, asKind(err)
}
