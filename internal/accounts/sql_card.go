package accounts

import (
	"context"
	"database/sql"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// The column token contains the names of cards.

// upsertCard replaces the user's card.
func upsertCard(ctx context.Context, tx *sqldb.Tx, c Card) error {
	text := tx.Dialect().Compile(sqldb.Upsert{
		Table:   "cards",
		Columns: []string{"user_id", "token", "expires"},
		Key:     []string{"user_id"},
		Set:     []string{"token", "expires"},
	}).For(1)
	_, err := tx.ExecContext(ctx, text, c.User, c.Name, c.Expires.UnixMilli())
	return err
}

// selectCard returns ErrNoCard if the user has none.
func selectCard(ctx context.Context, q sqldb.Querier, user ID) (Card, error) {
	return scanCard(q.QueryRowContext(ctx, "SELECT user_id, token, expires FROM cards WHERE user_id = ?", user))
}

func selectCardByName(ctx context.Context, q sqldb.Querier, name string) (Card, error) {
	return scanCard(q.QueryRowContext(ctx, "SELECT user_id, token, expires FROM cards WHERE token = ?", name))
}

func scanCard(row *sql.Row) (c Card, err error) {
	err = row.Scan(&c.User, &c.Name, (*millis)(&c.Expires))
	return c, sqldb.Missing(err, ErrNoCard)
}

// deleteCard deletes this card, but not one drawn later.
func deleteCard(ctx context.Context, tx *sqldb.Tx, c Card) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM cards WHERE user_id = ? AND token = ?", c.User, c.Name)
	return err
}
