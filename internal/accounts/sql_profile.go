package accounts

import (
	"context"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// selectUserByEmail answers ErrNoUser when there is no such account.
func selectUserByEmail(ctx context.Context, q sqldb.Querier, emailKey string) (User, error) {
	return scanUser(q.QueryRowContext(ctx, "SELECT "+userColumns+" FROM users WHERE email_key = ?", emailKey))
}
