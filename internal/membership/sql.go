package membership

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// columns returns the names of the columns of a link, and the fields of l with their values.
func (t Links[P]) columns(l *Link[P]) (names string, fields []any) {
	names = "id, " + t.Column + ", by_id, created, expires, uses, most"
	fields = []any{&l.ID, &l.Parent, &l.By, &l.Created, &l.Expires, &l.Uses, &l.MaxUses}
	if t.Cards {
		names, fields = names+", card", append(fields, &l.Card)
	}
	return names, fields
}

// Get returns a link, which need not be open, or ErrLink.
func (t Links[P]) Get(ctx context.Context, q sqldb.Querier, id ids.ID[Link[P]]) (l Link[P], err error) {
	names, fields := t.columns(&l)
	err = q.QueryRowContext(ctx, "SELECT "+names+" FROM "+t.Table+" WHERE id = ?", id).Scan(fields...)
	return l, sqldb.Missing(err, t.ErrLink)
}

// unexpired returns the links of a parent that have not expired.
func (t Links[P]) unexpired(ctx context.Context, q sqldb.Querier, parent ids.ID[P]) ([]Link[P], error) {
	names, _ := t.columns(&Link[P]{})
	rows, err := q.QueryContext(ctx, "SELECT "+names+" FROM "+t.Table+" WHERE "+t.Column+" = ? AND expires > ? ORDER BY created, id", parent,
		q.Now().UnixMilli())
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (l Link[P], err error) {
		_, fields := t.columns(&l)
		err = rows.Scan(fields...)
		return l, err
	})
}

// Store stores a new link.
func (t Links[P]) Store(ctx context.Context, tx *sqldb.Tx, l Link[P]) error {
	names, fields := t.columns(&l)
	_, err := tx.ExecContext(ctx, "INSERT INTO "+t.Table+" ("+names+") VALUES "+sqldb.Tuples(len(fields), 1), fields...)
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

// among returns the banned users in users.
func (t Bans[P]) among(ctx context.Context, q sqldb.Querier, parent ids.ID[P], users []accounts.ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, "SELECT user_id FROM "+t.Table+" WHERE "+t.Column+" = ? AND user_id IN (?)", parent,
		bun.List(users)))
}

func (t Bans[P]) store(ctx context.Context, tx *sqldb.Tx, parent ids.ID[P], b Ban) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO "+t.Table+" ("+t.Column+", user_id, by_id, at) VALUES (?, ?, ?, ?)", parent, b.User, b.By, b.At)
	return err
}

// Delete deletes a ban. It returns ErrNoBan if there is none.
func (t Bans[P]) Delete(ctx context.Context, tx *sqldb.Tx, parent ids.ID[P], user accounts.ID) error {
	deleted, err := sqldb.AffectedOne(tx.ExecContext(ctx, "DELETE FROM "+t.Table+" WHERE "+t.Column+" = ? AND user_id = ?", parent, user))
	if err == nil && !deleted {
		err = t.ErrNoBan
	}
	return err
}

// page returns at most n bans after a place, the latest first.
func (t Bans[P]) page(ctx context.Context, q sqldb.Querier, parent ids.ID[P], after cursor.Place, n int) ([]Ban, error) {
	rows, err := q.QueryContext(ctx, "SELECT user_id, by_id, at FROM "+t.Table+" WHERE "+t.Column+" = ? AND at <= ? AND (at < ? OR "+
		"user_id > ?) ORDER BY at DESC, user_id LIMIT ?", parent, after.Primary, after.Primary, after.ID, n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (b Ban, err error) {
		err = rows.Scan(&b.User, &b.By, &b.At)
		return b, err
	})
}
