package membership

import (
	"context"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// MaxLinks is the largest number of open links of a parent. Cards do not count.
const MaxLinks = 50

// Link admits users to its parent.
type Link[P any] struct {
	ID      ids.ID[Link[P]] // also the link's secret: 72 random bits
	Parent  ids.ID[P]
	By      accounts.ID
	Created int64 // Unix ms
	Expires int64 // Unix ms
	Uses    int   // so far
	MaxUses int   // limit of uses; 0: none
	Card    bool  // the link is its parent's card
}

// isOpen reports whether the link has not expired and has uses left.
func (l Link[P]) isOpen(now time.Time) bool {
	return now.UnixMilli() < l.Expires && (l.MaxUses == 0 || l.Uses < l.MaxUses)
}

// Links is a table of links.
type Links[P any] struct {
	Table  string
	Column string // of the parent's id
	Cards  bool   // the table has the column card

	ErrLink  error // the link does not exist or is not open
	ErrLinks error // the parent or the creator has too many links
	ErrMay   error // the user may not revoke the link
}

// Inviters returns those of users who may invite other users to a parent. It may change users.
type Inviters func(ctx context.Context, q sqldb.Querier, users []accounts.ID) ([]accounts.ID, error)

// Open returns the open links of a parent: they have not expired, have uses left, and their creators may invite.
func (t Links[P]) Open(ctx context.Context, q sqldb.Querier, parent ids.ID[P], inviters Inviters) ([]Link[P], error) {
	all, err := t.unexpired(ctx, q, parent)
	if err != nil {
		return nil, err
	}
	return open(ctx, q, all, inviters)
}

// open returns the open links in links, in the same array.
func open[P any](ctx context.Context, q sqldb.Querier, links []Link[P], inviters Inviters) ([]Link[P], error) {
	links = slices.DeleteFunc(links, func(l Link[P]) bool { return !l.isOpen(q.Now()) })
	if len(links) == 0 {
		return nil, nil
	}
	creators := make([]accounts.ID, len(links))
	for i, l := range links {
		creators[i] = l.By
	}
	standings, err := accounts.Standings(ctx, q, creators...)
	if err == nil {
		creators, err = inviters(ctx, q, creators)
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(links, func(l Link[P]) bool {
		return standings[l.By].IsInactive() || !slices.Contains(creators, l.By)
	}), nil
}

// Check returns ErrLink for a link that is not open.
func (t Links[P]) Check(ctx context.Context, q sqldb.Querier, l Link[P], inviters Inviters) error {
	found, err := open(ctx, q, []Link[P]{l}, inviters)
	if err == nil && len(found) == 0 {
		err = t.ErrLink
	}
	return err
}

// Create creates a link that expires after life. l has its id, parent, creator and limit of uses. Create returns the
// link of an earlier try with the same id. It returns ErrLinks if the parent has MaxLinks open links, or the creator
// has maxOwn of them.
func (t Links[P]) Create(ctx context.Context, tx *sqldb.Tx, l Link[P], life time.Duration, maxOwn int, inviters Inviters) (Link[P], error) {
	all, err := t.unexpired(ctx, tx, l.Parent)
	if err != nil {
		return Link[P]{}, err
	}
	if i := slices.IndexFunc(all, func(o Link[P]) bool { return o.ID == l.ID && o.By == l.By }); i >= 0 {
		return all[i], nil
	}
	if all, err = open(ctx, tx, all, inviters); err != nil {
		return Link[P]{}, err
	}
	links, own := 0, 0
	for _, o := range all {
		if !o.Card {
			links++
			if o.By == l.By {
				own++
			}
		}
	}
	if links >= MaxLinks || own >= maxOwn {
		return Link[P]{}, t.ErrLinks
	}
	l.Created, l.Expires = tx.Now().UnixMilli(), tx.Now().Add(life).UnixMilli()
	return l, t.Store(ctx, tx, l)
}

// Revoke revokes a link of a parent for the user by, who may revoke own links only, unless all is true. It returns
// ErrLink or ErrMay.
func (t Links[P]) Revoke(ctx context.Context, tx *sqldb.Tx, parent ids.ID[P], id ids.ID[Link[P]], by accounts.ID, all bool) error {
	l, err := t.Get(ctx, tx, id)
	switch {
	case err != nil:
		return err
	case l.Parent != parent:
		return t.ErrLink
	case l.By != by && !all:
		return t.ErrMay
	}
	return t.delete(ctx, tx, id)
}
