package membership

import (
	"context"
	"math"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Ban excludes a user from a parent.
type Ban struct {
	User accounts.ID
	By   accounts.ID
	At   int64 // Unix ms
}

// Bans is a table of bans.
type Bans[P any] struct {
	Table  string
	Column string // of the parent's id

	ErrNoBan error
}

// FirstBan is the place before the first ban of a list.
var FirstBan = cursor.Place{Primary: math.MaxInt64}

// List returns at most limit bans of a parent after a place, the latest first.
func (t Bans[P]) List(ctx context.Context, q sqldb.Querier, parent ids.ID[P], after cursor.Place,
	limit int) (_ []Ban, next string, err error) {
	list, err := t.page(ctx, q, parent, after, limit+1)
	list, next = cursor.Page(list, limit, func(b Ban) cursor.Place { return cursor.Place{Primary: b.At, ID: b.User.String()} })
	return list, next, err
}

// Check returns refusal if one of users is banned.
func (t Bans[P]) Check(ctx context.Context, q sqldb.Querier, parent ids.ID[P], refusal error, users ...accounts.ID) error {
	banned, err := t.among(ctx, q, parent, users)
	if err == nil && len(banned) > 0 {
		err = refusal
	}
	return err
}

// Add stores a ban. A second ban of a user changes nothing.
func (t Bans[P]) Add(ctx context.Context, tx *sqldb.Tx, parent ids.ID[P], b Ban) error {
	banned, err := t.among(ctx, tx, parent, []accounts.ID{b.User})
	if err != nil || len(banned) > 0 {
		return err
	}
	return t.store(ctx, tx, parent, b)
}
