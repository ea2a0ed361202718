package accounts

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// addressOf returns the address of the account that has it, as its owner
// wrote it; "" when there is none, or when it is except's.
func addressOf(ctx context.Context, q sqldb.Querier, email string, except ID) (owners string, err error) {
	err = q.QueryRowContext(ctx, "SELECT email FROM users WHERE email_key IN (?) AND id <> ?", bun.List(emails.Keys(email)), except).Scan(&owners)
	return owners, sqldb.Missing(err, nil)
}

// A codeRow is a verification code as it is stored.
type codeRow struct {
	emailHash string // see mint.emailHash
	purpose   Purpose
	codeHash  string
	household string // the one that asked, where the account knows it
}

// mailKey names the message that mails the code.
func (c codeRow) mailKey() string { return c.emailHash + string(c.purpose.AppendSegment(nil)) }

// replaceCode stores a code in the place of the one before and enqueues its mail.
func replaceCode(ctx context.Context, db *sqldb.DB, p proof, row codeRow, n codeNotice, life time.Duration) error {
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		account, err := addressOf(ctx, tx, p.email.Given, p.user)
		if err != nil {
			return err
		}
		n.To, n.Known = p.email.Given, account != ""
		if n.Known {
			// As the owner wrote it: should a provider tell Ann from ann after
			// all, Ann gets no mail meant for ann.
			n.To = account
		}
		if row.household == "" {
			if kept, err := keepsPlace(ctx, tx, row); err != nil || kept {
				return err
			}
		}
		// The same is written for known and unknown addresses. A code that is not
		// mailed cannot be known.
		expires := tx.Now().Add(life)
		if err := upsertCode(ctx, tx, row, expires); err != nil {
			return err
		}
		n.Expires = expires.UnixMilli()
		// By its key the message replaces a mail that still waits, whose code is
		// worth nothing any more.
		return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicCode, Key: row.mailKey()}, n)
	})
}

// keepsPlace reports whether there is a code that was asked for from a household that the
// account knows, and can still be used.
func keepsPlace(ctx context.Context, tx *sqldb.Tx, c codeRow) (kept bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM codes WHERE email_hash = ? AND purpose = ? AND household <> '' AND tries < ? AND expires > ?)",
		c.emailHash, int(c.purpose), codeTries, tx.Now().UnixMilli()).Scan(&kept)
	return kept, err
}

// upsertCode replaces the code of that address and purpose, its tries included.
func upsertCode(ctx context.Context, tx *sqldb.Tx, c codeRow, expires time.Time) error {
	text := tx.Dialect().Compile(sqldb.Upsert{
		Table:   "codes",
		Columns: []string{"email_hash", "purpose", "code_hash", "tries", "expires", "household", "tries_elsewhere"},
		Key:     []string{"email_hash", "purpose"},
		Set:     []string{"code_hash", "tries", "expires", "household", "tries_elsewhere"},
	}).For(1)
	_, err := tx.ExecContext(ctx, text, c.emailHash, int(c.purpose), c.codeHash, 0, expires.UnixMilli(), c.household, 0)
	return err
}

// tryCode counts a try from that household and returns the hash to compare with; "" when
// there is no code, or none any more. Counting comes before comparing: of a thousand
// guesses at once five are looked at. A code that belongs to a household counts the tries
// from there apart from all others.
func tryCode(ctx context.Context, db *sqldb.DB, c codeRow, household string) (codeHash string, err error) {
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		codeHash = ""
		const alive = " AND email_hash = ? AND purpose = ? AND expires > ?"
		args := []any{codeTries, household, c.emailHash, int(c.purpose), tx.Now().UnixMilli()}
		ok, err := sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE codes SET tries = tries + 1 WHERE tries < ? AND household IN ('', ?)"+alive, args...))
		if err == nil && !ok {
			ok, err = sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE codes SET tries_elsewhere = tries_elsewhere + 1 WHERE tries_elsewhere < ? AND household NOT IN ('', ?)"+alive, args...))
		}
		if err != nil || !ok {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT code_hash FROM codes WHERE email_hash = ? AND purpose = ?", c.emailHash, int(c.purpose)).Scan(&codeHash)
	})
	return codeHash, err
}

// consumeCode removes the code; all but one of many callers get ErrCode.
func consumeCode(ctx context.Context, tx *sqldb.Tx, c codeRow) error {
	ok, err := sqldb.AffectedOne(tx.ExecContext(ctx, "DELETE FROM codes WHERE email_hash = ? AND purpose = ? AND code_hash = ? AND expires > ?",
		c.emailHash, int(c.purpose), c.codeHash, tx.Now().UnixMilli()))
	if err == nil && !ok {
		return errCode
	}
	return err
}

// sweepCodes removes up to sweepChunk expired codes.
func sweepCodes(ctx context.Context, db *sqldb.DB) (int64, error) {
	return sqldb.DeleteSome(ctx, db, "codes", []string{"email_hash", "purpose"}, sweepChunk, "expires <= ?", db.Now().UnixMilli())
}
