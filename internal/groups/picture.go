package groups

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// PictureID names one picture of a group, in all its sizes. A new picture has a new id, so that what an id stands for
// never changes.
type PictureID = ids.ID[picture.Picture]

// ErrPicture refuses a picture that is not, or not any more, a group's.
var ErrPicture = errs.New(errs.NotFound, "group.picture_unknown", "There is no such picture.")

// SetPicture makes an image the group's picture, in place of the one before, and returns the group as the user sees it.
// ErrGroup, ErrMay, and what [picture.Studio.Square] refuses.
func (s *Service) SetPicture(ctx context.Context, user accounts.ID, id ID, image []byte) (_ Group, _ Membership, err error) {
	defer errs.Wrap(&err, "groups.SetPicture %s", id)
	if err := s.may(ctx, user, id, describe); err != nil { // before a core works for it
		return Group{}, Membership{}, err
	}
	sizes, err := s.studio.Square(ctx, user.String(), image)
	if err != nil {
		return Group{}, Membership{}, err
	}
	return s.changePicture(ctx, user, id, ids.New[picture.Picture](), sizes)
}

// RemovePicture takes the group's picture away, if there is one. ErrGroup, ErrMay.
func (s *Service) RemovePicture(ctx context.Context, user accounts.ID, id ID) (err error) {
	defer errs.Wrap(&err, "groups.RemovePicture %s", id)
	_, _, err = s.changePicture(ctx, user, id, PictureID{}, nil)
	return err
}

// changePicture replaces the group's picture; the zero id is none.
func (s *Service) changePicture(ctx context.Context, user accounts.ID, id ID, next PictureID, sizes []picture.Picture) (g Group, me Membership, err error) {
	g, err = s.change(ctx, id, user, []verb{describe}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, m Membership) error {
		me, d.group.Picture = m, next.String()
		return replacePicture(ctx, tx, id, next, sizes)
	})
	return g, me, err
}

// Picture returns one size of a picture. ErrPicture.
//
// It reads SQL: browsers and proxies keep a picture for a year.
func (s *Service) Picture(ctx context.Context, id PictureID, size int) (_ picture.Picture, err error) {
	defer errs.Wrap(&err, "groups.Picture %s", id)
	p, err := selectPicture(ctx, s.db, id, size)
	return p, asKind(ctx, err)
}
