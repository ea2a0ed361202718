package accounts

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// selectUserByEmail returns ErrNoUser if there is no such account.
func selectUserByEmail(ctx context.Context, q sqldb.Querier, email string) (User, error) {
	return scanUser(q.QueryRowContext(ctx, "SELECT "+userColumns+" FROM users WHERE email_key IN (?)", bun.List(emails.Keys(email))))
}

// storeLanguage stores the language of the caller, who is the user, for mails about actions of other people. A request
// without a language changes nothing.
func storeLanguage(ctx context.Context, tx *sqldb.Tx, user ID) error {
	lang := i18n.Named(ctx)
	if lang == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, "UPDATE users SET lang = ? WHERE id = ? AND lang <> ?", string(lang), user, string(lang))
	return err
}

// languageOf returns the language of the user, or "" if it is unknown.
func languageOf(ctx context.Context, q sqldb.Querier, user ID) (lang i18n.Language, err error) {
	err = q.QueryRowContext(ctx, "SELECT lang FROM users WHERE id = ?", user).Scan((*string)(&lang))
	return lang, sqldb.Missing(err, ErrNoUser)
}
