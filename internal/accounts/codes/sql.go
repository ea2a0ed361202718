package codes

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// A Code is one that [Service.Check] has found right, as it is stored.
type Code struct {
	emailHash string // see MAC.emailHash
	purpose   Purpose
	codeHash  string
	household string // the one that asked, where the account knows it
}

// mailKey names the message that mails the code.
func (c Code) mailKey() string { return c.emailHash + string(c.purpose.AppendSegment(nil)) }

// replace stores a code in the place of the one before and enqueues its mail.
func (s *Service) replace(ctx context.Context, p Proof, c Code, n Notice) error {
	return s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		account, err := s.owner(ctx, tx, p.Email.Given, p.User)
		if err != nil {
			return err
		}
		n.To, n.Known = p.Email.Given, account != ""
		if n.Known {
			// As the owner wrote it: should a provider tell Ann from ann after
			// all, Ann gets no mail meant for ann.
			n.To = account
		}
		if c.household == "" {
			if kept, err := keepsPlace(ctx, tx, c); err != nil || kept {
				return err
			}
		}
		// The same is written for known and unknown addresses. A code that is not
		// mailed cannot be known.
		expires := tx.Now().Add(s.life)
		if err := upsert(ctx, tx, c, expires); err != nil {
			return err
		}
		n.Expires = expires.UnixMilli()
		// By its key the message replaces a mail that still waits, whose code is
		// worth nothing any more.
		return tx.EnqueueJSON(ctx, sqldb.Message{Topic: Topic, Key: c.mailKey()}, n)
	})
}

// keepsPlace reports whether there is a code that was asked for from a household that the
// account knows, and can still be used.
func keepsPlace(ctx context.Context, tx *sqldb.Tx, c Code) (kept bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM codes WHERE email_hash = ? AND purpose = ? AND household <> '' AND tries < ? AND expires > ?)",
		c.emailHash, int(c.purpose), triesOfOne, tx.Now().UnixMilli()).Scan(&kept)
	return kept, err
}

// upsert replaces the code of that address and purpose, its tries included.
func upsert(ctx context.Context, tx *sqldb.Tx, c Code, expires time.Time) error {
	text := tx.Dialect().Compile(sqldb.Upsert{
		Table:   "codes",
		Columns: []string{"email_hash", "purpose", "code_hash", "tries", "expires", "household", "tries_elsewhere"},
		Key:     []string{"email_hash", "purpose"},
		Set:     []string{"code_hash", "tries", "expires", "household", "tries_elsewhere"},
	}).For(1)
	_, err := tx.ExecContext(ctx, text, c.emailHash, int(c.purpose), c.codeHash, 0, expires.UnixMilli(), c.household, 0)
	return err
}

// try counts a try from that household and returns the hash to compare with; "" when
// there is no code, or none any more. Counting comes before comparing: of a thousand
// guesses at once five are looked at. A code that belongs to a household counts the tries
// from there apart from all others.
func try(ctx context.Context, db *sqldb.DB, c Code, household string) (codeHash string, err error) {
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		codeHash = ""
		const alive = " AND email_hash = ? AND purpose = ? AND expires > ?"
		args := []any{triesOfOne, household, c.emailHash, int(c.purpose), tx.Now().UnixMilli()}
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

// Consume removes the code in the transaction of what it is for; all but one of many callers
// get ErrWrong, and so does one whose code was replaced or has expired since the check.
func (c Code) Consume(ctx context.Context, tx *sqldb.Tx) error {
	ok, err := sqldb.AffectedOne(tx.ExecContext(ctx, "DELETE FROM codes WHERE email_hash = ? AND purpose = ? AND code_hash = ? AND expires > ?",
		c.emailHash, int(c.purpose), c.codeHash, tx.Now().UnixMilli()))
	if err == nil && !ok {
		return errWrong
	}
	return err
}

// Forget removes all codes to an address that nobody logged in has asked for, those to it that
// are a user's own, and mails of these that wait or were given up.
func (s *Service) Forget(ctx context.Context, tx *sqldb.Tx, e emails.Address, user string) error {
	var hashes, keys []string
	for _, p := range []Proof{{e, ForRegister, ""}, {e, ForLogin, ""}, {e, ForResetPassword, ""}, {e, ForSetPassword, user}, {e, ForLeaveEmail, user}} {
		c := s.of(p, "")
		hashes, keys = append(hashes, c.emailHash), append(keys, c.mailKey())
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM codes WHERE email_hash IN (?)", bun.List(hashes)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM outbox WHERE topic = ? AND msg_key IN (?)", Topic, bun.List(keys))
	return err
}

// Sweep removes up to chunk expired codes and returns how many.
func Sweep(ctx context.Context, db *sqldb.DB, chunk int) (int64, error) {
	return sqldb.DeleteSome(ctx, db, "codes", []string{"email_hash", "purpose"}, chunk, "expires <= ?", db.Now().UnixMilli())
}
