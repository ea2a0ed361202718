package accounts

import (
	"context"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

func insertUndo(ctx context.Context, tx *sqldb.Tx, u undo, expires int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO email_undos (token_hash, user_id, email, at, expires) VALUES (?, ?, ?, ?, ?)", u.tokenHash,
		u.user, u.email, u.at, expires)
	return err
}

// selectUndo returns ErrUndo for a token that undoes nothing.
func selectUndo(ctx context.Context, q sqldb.Querier, tokenHash string) (u undo, err error) {
	u.tokenHash = tokenHash
	err = q.QueryRowContext(ctx, "SELECT user_id, email, at FROM email_undos WHERE token_hash = ? AND expires > ?", tokenHash,
		q.Now().UnixMilli()).
		Scan(&u.user, &u.email, &u.at)
	return u, sqldb.Missing(err, ErrUndo)
}

// consumeUndo deletes the undo of that change and of later ones. All but one of many callers get ErrUndo.
func consumeUndo(ctx context.Context, tx *sqldb.Tx, u undo) error {
	ok, err := sqldb.AffectedOne(tx.ExecContext(ctx, "DELETE FROM email_undos WHERE token_hash = ? AND expires > ?", u.tokenHash,
		tx.Now().UnixMilli()))
	if err == nil && !ok {
		err = ErrUndo
	}
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM email_undos WHERE user_id = ? AND at >= ?", u.user, u.at)
	return err
}

// sweepUndos deletes up to sweepChunk expired undos.
func sweepUndos(ctx context.Context, db *sqldb.DB) (int64, error) {
	return sqldb.DeleteSome(ctx, db, "email_undos", []string{"token_hash"}, sweepChunk, "expires <= ?", db.Now().UnixMilli())
}
