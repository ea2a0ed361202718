package transfers

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// insertDescription stores the description of an upload.
func (s *sqlStore) insertDescription(ctx context.Context, tx *sqldb.Tx, t *Transfer) error {
	l := t.description
	if _, err := tx.ExecContext(ctx, "INSERT INTO transfer_looks (transfer, type, width, height, duration) VALUES (?, ?, ?, ?, ?)", t.ID,
		l.Type, l.Width, l.Height, l.Duration.Milliseconds()); err != nil {
		return err
	}
	if len(l.Thumbnails) == 0 {
		return nil
	}
	var args []any
	for _, th := range l.Thumbnails {
		args = append(args, t.ID, th.Side, th.Width, th.Height, th.Type, th.size, th.name)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO transfer_thumbnails (transfer, side, width, height, type, size, name) VALUES "+
		sqldb.Tuples(7, len(l.Thumbnails)), args...)
	return err
}

// descriptions returns the descriptions of some uploads.
func (s *sqlStore) descriptions(ctx context.Context, q sqldb.Querier, list []ID) (map[ID]*Description, error) {
	all := make(map[ID]*Description, len(list))
	for _, id := range list {
		all[id] = &Description{}
	}
	found, err := q.QueryContext(ctx, "SELECT transfer, type, width, height, duration FROM transfer_looks WHERE transfer IN (?)",
		bun.List(list))
	if err := sqldb.Each(found, err, func(rows *sql.Rows) error {
		var id ID
		var l Description
		var ms int64
		err := rows.Scan(&id, &l.Type, &l.Width, &l.Height, &ms)
		l.Duration = time.Duration(ms) * time.Millisecond
		all[id] = &l
		return err
	}); err != nil {
		return nil, err
	}
	found, err = q.QueryContext(ctx, "SELECT transfer, side, width, height, type, size, name FROM transfer_thumbnails WHERE transfer IN "+
		"(?) ORDER BY transfer, side DESC", bun.List(list))
	return all, sqldb.Each(found, err, func(rows *sql.Rows) error {
		var id ID
		var th Thumbnail
		err := rows.Scan(&id, &th.Side, &th.Width, &th.Height, &th.Type, &th.size, &th.name)
		all[id].Thumbnails = append(all[id].Thumbnails, th)
		return err
	})
}

// lockFiles returns those of some uploads that are complete and exist, and locks them until tx ends, in the order of
// their ids.
func (s *sqlStore) lockFiles(ctx context.Context, tx *sqldb.Tx, list []ID) ([]Transfer, error) {
	return collect(tx.QueryContext(ctx, "SELECT "+columns+
		" FROM transfers WHERE id IN (?) AND receiver = '' AND status = ? AND content = 1 AND expires > ? ORDER BY id"+tx.Dialect().ForUpdate(),
		bun.List(list), Done, tx.Now().UnixMilli()))
}

// expireAt sets the expiry of uploads.
func (s *sqlStore) expireAt(ctx context.Context, tx *sqldb.Tx, list []ID, at time.Time) error {
	_, err := tx.ExecContext(ctx, "UPDATE transfers SET expires = ? WHERE id IN (?)", at.UnixMilli(), bun.List(list))
	return err
}

// disown removes the sender from files that messages have.
func (s *sqlStore) disown(ctx context.Context, user accounts.ID) error {
	_, err := s.db.ExecContext(ctx, "UPDATE transfers SET sender = '' WHERE sender = ? AND receiver = '' AND expires = ?", user,
		never.UnixMilli())
	return err
}

// extendUnused extends the expiry of a complete upload without messages.
func (s *sqlStore) extendUnused(ctx context.Context, id ID, keep time.Duration) error {
	_, err := s.db.ExecContext(ctx, "UPDATE transfers SET expires = ? WHERE id = ? AND status = ? AND expires <> ?",
		s.db.Now().Add(keep).UnixMilli(), id, Done, never.UnixMilli())
	return err
}
