package accounts

import (
	"context"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// selectUserByEmail answers ErrNoUser when there is no such account.
func selectUserByEmail(ctx context.Context, q sqldb.Querier, emailKey string) (User, error) {
	return scanUser(q.QueryRowContext(ctx, "SELECT "+userColumns+" FROM users WHERE email_key = ?", emailKey))
}

// lockPresent is lockUser for what a deleted account may not get any more, because
// it would be left when the account is erased.
func lockPresent(ctx context.Context, tx *sqldb.Tx, id ID) (User, error) {
	u, err := lockUser(ctx, tx, id)
	if err == nil && u.Deleted() {
		err = ErrNoUser
	}
	return u, err
}
