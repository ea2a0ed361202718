package accounts

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// selectUserByEmail answers ErrNoUser when there is no such account.
func selectUserByEmail(ctx context.Context, q sqldb.Querier, email string) (User, error) {
	return scanUser(q.QueryRowContext(ctx, "SELECT "+userColumns+" FROM users WHERE email_key IN (?)", bun.List(emails.Keys(email))))
}

// keepLanguage notes the language that the caller, who is the user, reads: for mails that
// come of what others do. A caller who names none changes nothing.
func keepLanguage(ctx context.Context, tx *sqldb.Tx, user ID) error {
	lang := i18n.Named(ctx)
	if lang == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, "UPDATE users SET lang = ? WHERE id = ? AND lang <> ?", string(lang), user, string(lang))
	return err
}

// languageOf returns the language that the user reads; empty: not known. ErrNoUser.
func languageOf(ctx context.Context, q sqldb.Querier, user ID) (lang i18n.Language, err error) {
	err = q.QueryRowContext(ctx, "SELECT lang FROM users WHERE id = ?", user).Scan((*string)(&lang))
	return lang, sqldb.Missing(err, ErrNoUser)
}
