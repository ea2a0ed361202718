package membership

import (
	"context"
	"database/sql"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

func (t Links[P]) columns() string {
	if t.Cards {
		return "id, " + t.Column + ", by_id, created, expires, uses, most, card"
	}
	return "id, " + t.Column + ", by_id, created, expires, uses, most"
}

func (t Links[P]) fields(l *Link[P]) []any {
	all := []any{&l.ID, &l.Parent, &l.By, &l.Created, &l.Expires, &l.Uses, &l.MaxUses, &l.Card}
	if t.Cards {
		return all
	}
	return all[:len(all)-1]
}

func (t Links[P]) selectWhere(ctx context.Context, q sqldb.Querier, condition string, args ...any) ([]Link[P], error) {
	rows, err := q.QueryContext(ctx, "SELECT "+t.columns()+" FROM "+t.Table+" WHERE "+condition, args...)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (l Link[P], err error) {
		err = rows.Scan(t.fields(&l)...)
		return l, err
	})
}

// Get returns a link, which may be closed, or ErrLink.
func (t Links[P]) Get(ctx context.Context, q sqldb.Querier, id ids.ID[Link[P]]) (Link[P], error) {
	found, err := t.selectWhere(ctx, q, "id = ?", id)
	if err == nil && len(found) == 0 {
		err = t.ErrLink
	}
	if err != nil {
		return Link[P]{}, err
	}
	return found[0], nil
}

// unexpired returns the links of a parent that have not expired.
func (t Links[P]) unexpired(ctx context.Context, q sqldb.Querier, parent ids.ID[P]) ([]Link[P], error) {
	return t.selectWhere(ctx, q, t.Column+" = ? AND expires > ? ORDER BY created, id", parent, q.Now().UnixMilli())
}

// Store stores a new link.
func (t Links[P]) Store(ctx context.Context, tx *sqldb.Tx, l Link[P]) error {
	fields := t.fields(&l)
	_, err := tx.ExecContext(ctx, "INSERT INTO "+t.Table+" ("+t.columns()+") VALUES "+sqldb.Tuples(len(fields), 1), fields...)
	return err
}

// Use counts a use of a link.
func (t Links[P]) Use(ctx context.Context, tx *sqldb.Tx, id ids.ID[Link[P]]) error {
	_, err := tx.ExecContext(ctx, "UPDATE "+t.Table+" SET uses = uses + 1 WHERE id = ?", id)
	return err
}

func (t Links[P]) delete(ctx context.Context, tx *sqldb.Tx, id ids.ID[Link[P]]) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM "+t.Table+" WHERE id = ?", id)
	return err
}

// DeleteOf deletes the links of a parent that a user has created.
func (t Links[P]) DeleteOf(ctx context.Context, tx *sqldb.Tx, parent ids.ID[P], by accounts.ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM "+t.Table+" WHERE "+t.Column+" = ? AND by_id = ?", parent, by)
	return err
}
