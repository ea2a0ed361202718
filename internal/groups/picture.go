package groups

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// PictureID identifies one picture of a group, in all its sizes. A new picture has a new id, so the content of an id
// never changes.
type PictureID = ids.ID[picture.Picture]

// ErrPicture is the error for an id that is not a group's present picture.
var ErrPicture = errs.New(errs.NotFound, "group.picture_unknown", "There is no such picture.")

// SetPicture replaces the group's picture, and returns the group and the user's membership. It returns ErrGroup,
// ErrMay, or an error of [picture.Studio.Square].
func (s *Service) SetPicture(ctx context.Context, user accounts.ID, id ID, image []byte) (_ Group, _ Membership, err error) {
	defer errs.Wrap(&err, "groups.SetPicture %s", id)
	if err := s.may(ctx, user, id, describe); err != nil { // before the image is decoded
		return Group{}, Membership{}, err
	}
	sizes, err := s.studio.Square(ctx, user.String(), image)
	if err != nil {
		return Group{}, Membership{}, err
	}
	return s.changePicture(ctx, user, id, ids.New[picture.Picture](), sizes)
}

// RemovePicture removes the group's picture, if there is one. It returns ErrGroup or ErrMay.
func (s *Service) RemovePicture(ctx context.Context, user accounts.ID, id ID) (err error) {
	defer errs.Wrap(&err, "groups.RemovePicture %s", id)
	_, _, err = s.changePicture(ctx, user, id, PictureID{}, nil)
	return err
}

// changePicture replaces the group's picture; the zero id means none.
func (s *Service) changePicture(ctx context.Context, user accounts.ID, id ID, next PictureID,
	sizes []picture.Picture) (g Group, me Membership, err error) {
	g, err = s.change(ctx, id, user, []verb{describe}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, m Membership) error {
		me, d.group.Picture = m, next.String()
		return replacePicture(ctx, tx, id, next, sizes)
	})
	return g, me, err
}

// Picture returns one size of a picture, or ErrPicture.
//
// The server has no cache of pictures: browsers and proxies cache a picture for a year.
func (s *Service) Picture(ctx context.Context, id PictureID, size int) (_ picture.Picture, err error) {
	defer errs.Wrap(&err, "groups.Picture %s", id)
	p, err := selectPicture(ctx, s.db, id, size)
	return p, asKind(ctx, err)
}
