package social

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Befriend makes each pair friends, in SQL alone. It is for new accounts whose lists no server has cached. No pair may
// occur twice.
func Befriend(ctx context.Context, db *sqldb.DB, pairs [][2]accounts.ID) (err error) {
	defer errs.Wrap(&err, "social.Befriend")
	for _, p := range pairs {
		if err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			lists, err := lockLists(ctx, tx, p[0], p[1])
			if err != nil {
				return err
			}
			for u, l := range lists {
				l.version++
				lists[u] = l
			}
			row := func(user, other accounts.ID) friendRow {
				return friendRow{user, Friend{User: other, Since: tx.Now(), Updated: tx.Now()}, true}
			}
			if err := insertFriends(ctx, tx, lists, row(p[0], p[1]), row(p[1], p[0])); err != nil {
				return err
			}
			return saveLists(ctx, tx, lists)
		}); err != nil {
			return err
		}
	}
	return nil
}
