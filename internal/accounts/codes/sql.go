package codes

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// A Code is the stored form of a code that [Service.Check] accepted.
type Code struct {
	emailHash string // see MAC.emailHash
	purpose   Purpose
	codeHash  string
	clientNet string // the requesting client network, if the account knows it
}

// mailKey returns the key of the message that mails the code.
func (c Code) mailKey() string { return c.emailHash + string(c.purpose.AppendSegment(nil)) }

// replace stores a code in place of the previous one and enqueues its mail.
func (s *Service) replace(ctx context.Context, p Proof, c Code, n Notice) error {
	return s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		account, err := s.owner(ctx, tx, p.Email.Given, p.User)
		if err != nil {
			return err
		}
		n.To, n.Known = p.Email.Given, account != ""
		if n.Known {
			// The owner's spelling: if a provider distinguishes Ann from ann after all, Ann gets no mail for ann.
			n.To = account
		}
		if c.clientNet == "" {
			if kept, err := hasCodeOfKnownNetwork(ctx, tx, c); err != nil || kept {
				return err
			}
		}
		// Known and unknown addresses cause the same writes. A code that is not mailed is known to no one.
		expires := tx.Now().Add(s.life)
		if err := upsert(ctx, tx, c, expires); err != nil {
			return err
		}
		n.Expires = expires.UnixMilli()
		// By its key the message replaces a waiting mail, whose code is no longer valid.
		return tx.EnqueueJSON(ctx, sqldb.Message{Topic: Topic, Key: c.mailKey()}, n)
	})
}

// hasCodeOfKnownNetwork reports whether there is a valid code that was requested from a known client network.
func hasCodeOfKnownNetwork(ctx context.Context, tx *sqldb.Tx, c Code) (kept bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM codes WHERE email_hash = ? AND purpose = ? AND household <> '' AND tries < "+
		"? AND expires > ?)",
		c.emailHash, int(c.purpose), triesOfOne, tx.Now().UnixMilli()).Scan(&kept)
	return kept, err
}

// upsert replaces the code of an address and purpose, including its tries.
func upsert(ctx context.Context, tx *sqldb.Tx, c Code, expires time.Time) error {
	text := tx.Dialect().Compile(sqldb.Upsert{
		Table:   "codes",
		Columns: []string{"email_hash", "purpose", "code_hash", "tries", "expires", "household", "tries_elsewhere"},
		Key:     []string{"email_hash", "purpose"},
		Set:     []string{"code_hash", "tries", "expires", "household", "tries_elsewhere"},
	}).For(1)
	_, err := tx.ExecContext(ctx, text, c.emailHash, int(c.purpose), c.codeHash, 0, expires.UnixMilli(), c.clientNet, 0)
	return err
}

// try counts a try from a client network and returns the hash to compare with, or "" if there is no valid code. It
// counts before the comparison: of a thousand concurrent guesses five are checked. A code of a client network counts
// the tries from there separately.
func try(ctx context.Context, db *sqldb.DB, c Code, clientNet string) (codeHash string, err error) {
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		codeHash = ""
		const alive = " AND email_hash = ? AND purpose = ? AND expires > ?"
		args := []any{triesOfOne, clientNet, c.emailHash, int(c.purpose), tx.Now().UnixMilli()}
		ok, err := sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE codes SET tries = tries + 1 WHERE tries < ? AND household IN ('', ?)"+alive,
			args...))
		if err == nil && !ok {
			ok, err = sqldb.AffectedOne(tx.ExecContext(ctx,
				"UPDATE codes SET tries_elsewhere = tries_elsewhere + 1 WHERE tries_elsewhere < ? AND household NOT IN ('', ?)"+alive, args...))
		}
		if err != nil || !ok {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT code_hash FROM codes WHERE email_hash = ? AND purpose = ?", c.emailHash,
			int(c.purpose)).Scan(&codeHash)
	})
	return codeHash, err
}

// Consume deletes the code in the transaction of its purpose. All but one of many callers get ErrWrong, and so does a
// caller whose code was replaced or has expired since the check.
func (c Code) Consume(ctx context.Context, tx *sqldb.Tx) error {
	ok, err := sqldb.AffectedOne(tx.ExecContext(ctx,
		"DELETE FROM codes WHERE email_hash = ? AND purpose = ? AND code_hash = ? AND expires > ?",
		c.emailHash, int(c.purpose), c.codeHash, tx.Now().UnixMilli()))
	if err == nil && !ok {
		return errWrong
	}
	return err
}

// Forget deletes all codes to an address that were requested without a log-in, the user's own codes, and their mails in
// the outbox.
func (s *Service) Forget(ctx context.Context, tx *sqldb.Tx, e emails.Address, user string) error {
	var hashes, keys []string
	for _, p := range []Proof{{e, ForRegister, ""}, {e, ForLogin, ""}, {e, ForResetPassword, ""}, {e, ForSetPassword, user},
		{e, ForLeaveEmail, user}} {
		c := s.storedCode(p, "")
		hashes, keys = append(hashes, c.emailHash), append(keys, c.mailKey())
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM codes WHERE email_hash IN (?)", bun.List(hashes)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM outbox WHERE topic = ? AND msg_key IN (?)", Topic, bun.List(keys))
	return err
}

// Sweep deletes up to chunk expired codes and returns their number.
func Sweep(ctx context.Context, db *sqldb.DB, chunk int) (int64, error) {
	return sqldb.DeleteSome(ctx, db, "codes", []string{"email_hash", "purpose"}, chunk, "expires <= ?", db.Now().UnixMilli())
}
