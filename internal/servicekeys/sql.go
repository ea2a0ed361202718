package servicekeys

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// asKind maps errors of the engine to the kinds that callers handle.
func asKind(err error) error { return sqldb.AsKind(err, ErrStore) }

// MaxKeys is the largest number of keys, because each node caches all of them.
const MaxKeys = 1000

const keyColumns = "id, name, scopes, rate, hash, old_hash, old_until, created, expires, used, older_hash, older_until"

func selectKeys(ctx context.Context, q sqldb.Querier) ([]Key, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+keyColumns+" FROM service_keys ORDER BY name LIMIT ?", MaxKeys)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (k Key, err error) {
		var scopes string
		var created, expires, used, oldUntil, olderUntil int64
		err = rows.Scan(&k.ID, &k.Name, &scopes, &k.Rate, &k.hash, &k.oldHash, &oldUntil, &created, &expires, &used, &k.olderHash, &olderUntil)
		k.Created, k.Expires, k.Used, k.OldUntil, k.olderUntil = sqldb.TimeOrZero(created), sqldb.TimeOrZero(expires), sqldb.TimeOrZero(used),
			sqldb.TimeOrZero(oldUntil), sqldb.TimeOrZero(olderUntil)
		for name := range strings.FieldsSeq(scopes) {
			k.Scopes = append(k.Scopes, Scope(name))
		}
		return k, err
	})
}

func updateUsed(ctx context.Context, db *sqldb.DB, list []ID) error {
	now := db.Now().UnixMilli()
	_, err := db.ExecContext(ctx, "UPDATE service_keys SET used = ? WHERE id IN (?) AND used < ?", now, bun.List(list), now)
	return err
}

// Admin manages keys for operators, only in SQL. Nodes see changes within a second.
type Admin struct{ db *sqldb.DB }

// NewAdmin returns the Admin of the keys in db.
func NewAdmin(db *sqldb.DB) Admin { return Admin{db} }

// List returns all keys, by name.
func (d Admin) List(ctx context.Context) (_ []Key, err error) {
	defer errs.Wrap(&err, "servicekeys.List")
	list, err := selectKeys(ctx, d.db)
	return list, asKind(err)
}

// Create creates a key and returns its token, which cannot be shown again. A zero life means forever.
func (d Admin) Create(ctx context.Context, name string, scopes []Scope, rate int, life time.Duration) (_ Key, token string, err error) {
	defer errs.Wrap(&err, "servicekeys.Create")
	name, ok := words.Line(name, 60)
	if !ok || name == "" {
		return Key{}, "", ErrName
	}
	k := Key{ID: ids.New[Key](), Name: name, Scopes: scopes, Rate: rate}
	token, k.hash = newToken(k.ID)
	err = d.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM service_keys").Scan(&n); err != nil {
			return err
		}
		if n >= MaxKeys {
			return ErrMany
		}
		k.Created = tx.Now()
		if life > 0 {
			k.Expires = tx.Now().Add(life)
		}
		names := make([]string, len(scopes))
		for i, s := range scopes {
			names[i] = string(s)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO service_keys ("+keyColumns+") VALUES "+sqldb.Tuples(12, 1),
			k.ID, k.Name, strings.Join(names, " "), k.Rate, k.hash, "", 0, k.Created.UnixMilli(), sqldb.MillisOrZero(k.Expires), 0, "", 0)
		if sqldb.IsDuplicate(err) {
			err = ErrTaken
		}
		return err
	})
	return k, token, asKind(err)
}

// Rotate creates a new secret for a key. The current secret, and the one before it, stay valid for overlap, because the
// response of the last rotation may have been lost.
func (d Admin) Rotate(ctx context.Context, name string, overlap time.Duration) (token string, until time.Time, err error) {
	defer errs.Wrap(&err, "servicekeys.Rotate")
	err = d.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var id ID
		err := tx.QueryRowContext(ctx, "SELECT id FROM service_keys WHERE name = ?"+tx.Dialect().ForUpdate(), name).Scan(&id)
		if err != nil {
			return sqldb.Missing(err, ErrUnknown)
		}
		var hash string
		token, hash = newToken(id)
		until = tx.Now().Add(overlap)
		// MySQL uses the values that the statement has already set, so the order matters.
		_, err = tx.ExecContext(ctx, `UPDATE service_keys SET older_hash = old_hash, older_until = CASE WHEN old_until < ? THEN old_until ELSE ? END,
			old_hash = hash, old_until = ?, hash = ? WHERE id = ?`, until.UnixMilli(), until.UnixMilli(), until.UnixMilli(), hash, id)
		return err
	})
	return token, until, asKind(err)
}

// Revoke deletes a key, or returns ErrUnknown.
func (d Admin) Revoke(ctx context.Context, name string) (err error) {
	defer errs.Wrap(&err, "servicekeys.Revoke")
	found, err := sqldb.AffectedOne(d.db.ExecContext(ctx, "DELETE FROM service_keys WHERE name = ?", name))
	if err == nil && !found {
		err = ErrUnknown
	}
	return asKind(err)
}
