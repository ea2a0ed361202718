package accounts

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

const credentialByID = "SELECT " + userColumns + ", COALESCE(password_hash, '') FROM users WHERE id = ?"

// credentialOf returns ErrNoUser if there is no such account.
func credentialOf(ctx context.Context, q sqldb.Querier, id ID) (credential, error) {
	return scanCredential(q.QueryRowContext(ctx, credentialByID, id))
}

// lockCredential is credentialOf that locks the row until tx ends.
func lockCredential(ctx context.Context, tx *sqldb.Tx, id ID) (credential, error) {
	return scanCredential(tx.QueryRowContext(ctx, credentialByID+tx.Dialect().ForUpdate(), id))
}

func scanCredential(row *sql.Row) (c credential, err error) {
	err = row.Scan(append(c.columns(), &c.passwordHash)...)
	return c, sqldb.Missing(err, ErrNoUser)
}

// updatePassword sets the password; an empty hash removes it.
func updatePassword(ctx context.Context, tx *sqldb.Tx, id ID, hash string) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET password_hash = NULLIF(?, ''), version = version + 1 WHERE id = ?", hash, id)
	return err
}

// updateEmail returns ErrEmailTaken if an account has the address.
func updateEmail(ctx context.Context, tx *sqldb.Tx, id ID, e emails.Address) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET email = ?, email_key = ?, version = version + 1 WHERE id = ?", e.Given, e.Key, id)
	if sqldb.IsDuplicate(err) {
		return ErrEmailTaken
	}
	return err
}

// hasSessionRow reports whether SQL has a session of the device, even an expired one.
func hasSessionRow(ctx context.Context, q sqldb.Querier, user ID, device DeviceID) (in bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sessions WHERE user_id = ? AND device_id = ?)", user, device).Scan(&in)
	return in, err
}

// addressOf returns the address of its account in the owner's spelling, or "" if there is no account or it belongs to
// except.
func addressOf(ctx context.Context, q sqldb.Querier, email, except string) (owners string, err error) {
	err = q.QueryRowContext(ctx, "SELECT email FROM users WHERE email_key IN (?) AND id <> ?", bun.List(emails.Keys(email)),
		except).Scan(&owners)
	return owners, sqldb.Missing(err, nil)
}
