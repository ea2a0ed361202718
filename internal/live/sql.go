package live

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ErrStore reports that SQL is unavailable.
var ErrStore = errs.New(errs.Unavailable, "live.store_away",
	"Streams cannot be reached right now. Please try again.").Retry(2 * time.Second)

// asKind gives database errors the kind that callers act on.
func asKind(ctx context.Context, err error) error { return sqldb.AsKindWithin(ctx, err, ErrStore) }

const streamColumns = "s.id, s.owner_id, s.title, s.access, s.record, s.created, s.since, s.ended, s.publish_hash, s.play_hash, s.fence"

func scanStream(scan func(...any) error) (st Stream, err error) {
	err = scan(&st.ID, &st.Owner, &st.Title, &st.Access, &st.Record, &st.Created, &st.Since, &st.Last, &st.Publish, &st.Play, &st.fence)
	return st, err
}

func scanRow(rows *sql.Rows) (Stream, error) { return scanStream(rows.Scan) }

// selectStream returns a stream, or ErrStream. lock is "" or a locking clause.
func selectStream(ctx context.Context, q sqldb.Querier, id ID, lock string) (Stream, error) {
	st, err := scanStream(q.QueryRowContext(ctx, "SELECT "+streamColumns+" FROM streams s WHERE s.id = ?"+lock, id).Scan)
	return st, sqldb.Missing(err, ErrStream)
}

// lockOwned returns a stream of the owner and locks its row until tx ends. It returns ErrStream if the stream is
// unknown or has another owner.
func lockOwned(ctx context.Context, tx *sqldb.Tx, owner accounts.ID, id ID) (Stream, error) {
	st, err := selectStream(ctx, tx, id, tx.Dialect().ForUpdate())
	if err == nil && st.Owner != owner {
		err = ErrStream
	}
	return st, err
}

// selectStreams returns the existing ones of at most 500 streams.
func selectStreams(ctx context.Context, q sqldb.Querier, list []ID) (map[ID]Stream, error) {
	all := make(map[ID]Stream, len(list))
	rows, err := q.QueryContext(ctx, "SELECT "+streamColumns+" FROM streams s WHERE s.id IN (?)", bun.List(list))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		st, err := scanRow(rows)
		all[st.ID] = st
		return err
	})
}

// selectUserStreams returns at most n streams of a user, newest first.
func selectUserStreams(ctx context.Context, q sqldb.Querier, owner accounts.ID, n int) ([]Stream, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+streamColumns+" FROM streams s WHERE s.owner_id = ? ORDER BY s.created DESC, s.id LIMIT ?",
		owner, n)
	return sqldb.Collect(rows, err, scanRow)
}

func countOwned(ctx context.Context, q sqldb.Querier, owner accounts.ID) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) FROM streams WHERE owner_id = ?", owner).Scan(&n)
	return n, err
}

// openLive returns at most n open streams that are live according to SQL, the latest start first.
func openLive(ctx context.Context, q sqldb.Querier, after place, n int) ([]Stream, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+streamColumns+
		" FROM streams s WHERE s.since > 0 AND s.access = ? AND (s.since < ? OR s.since = ? AND s.id > ?) ORDER BY s.since DESC, s.id LIMIT ?",
		Open, after.since, after.since, after.id, n)
	return sqldb.Collect(rows, err, scanRow)
}

// allLive returns at most n streams that are live according to SQL, the latest start first.
func allLive(ctx context.Context, q sqldb.Querier, n int) ([]Stream, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+streamColumns+" FROM streams s WHERE s.since > 0 ORDER BY s.since DESC, s.id LIMIT ?", n)
	return sqldb.Collect(rows, err, scanRow)
}

func insertStream(ctx context.Context, tx *sqldb.Tx, st Stream) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO streams (id, owner_id, title, access, record, created, since, ended, publish_hash, "+
		"play_hash, fence) VALUES "+sqldb.Tuples(11, 1),
		st.ID, st.Owner, st.Title, st.Access, st.Record, st.Created, 0, 0, st.Publish, st.Play, 0)
	return err
}

func updateStream(ctx context.Context, tx *sqldb.Tx, st Stream) error {
	_, err := tx.ExecContext(ctx, "UPDATE streams SET title = ?, access = ?, record = ?, publish_hash = ?, play_hash = ? WHERE id = ?",
		st.Title, st.Access, st.Record, st.Publish, st.Play, st.ID)
	return err
}

func deleteStream(ctx context.Context, tx *sqldb.Tx, id ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM stream_recordings WHERE stream_id = ?", id)
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM streams WHERE id = ?", id)
	}
	return err
}

// claim records that a stream is published with a token. It returns false if a newer token is recorded.
func claim(ctx context.Context, tx *sqldb.Tx, id ID, token, since int64) (bool, error) {
	return sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE streams SET fence = ?, since = ? WHERE id = ? AND fence < ?", token, since, id,
		token))
}

// unclaim records that a stream is no longer published, unless it has a newer token.
func unclaim(ctx context.Context, tx *sqldb.Tx, id ID, token int64) (bool, error) {
	return sqldb.AffectedOne(tx.ExecContext(ctx, "UPDATE streams SET since = 0, ended = ? WHERE id = ? AND fence = ? AND since > 0",
		tx.Now().UnixMilli(), id, token))
}

// insertRecording stores the row of a recording, if its stream exists.
func insertRecording(ctx context.Context, tx *sqldb.Tx, r Recording) error {
	if _, err := selectStream(ctx, tx, r.Stream, tx.Dialect().ForUpdate()); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO stream_recordings (id, stream_id, file_id, fault, started, duration, bytes) VALUES "+
		sqldb.Tuples(7, 1),
		r.ID, r.Stream, r.File, r.Fault, r.Started, r.Duration, r.Bytes)
	return err
}

// mostRecordings is the largest page of recordings.
const mostRecordings = 200

// selectRecordings returns at most n recordings of a stream after a place, newest first.
func selectRecordings(ctx context.Context, q sqldb.Querier, id ID, at place, n int) ([]Recording, error) {
	rows, err := q.QueryContext(ctx, "SELECT id, stream_id, file_id, fault, started, duration, bytes FROM stream_recordings WHERE "+
		"stream_id = ? AND (started < ? OR (started = ? AND id > ?)) ORDER BY started DESC, id LIMIT ?",
		id, at.since, at.since, at.id, n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (r Recording, err error) {
		err = rows.Scan(&r.ID, &r.Stream, &r.File, &r.Fault, &r.Started, &r.Duration, &r.Bytes)
		return r, err
	})
}

// hasRecording reports whether a recording has a row.
func hasRecording(ctx context.Context, q sqldb.Querier, id SessionID) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT COUNT(*) FROM stream_recordings WHERE id = ?", id).Scan(&n)
	return n > 0, err
}

// deleteOldRecordings deletes at most n recordings that began before a time.
func deleteOldRecordings(ctx context.Context, db *sqldb.DB, before time.Time, n int) error {
	rows, err := db.QueryContext(ctx, "SELECT id FROM stream_recordings WHERE started < ? ORDER BY started LIMIT ?", before.UnixMilli(), n)
	list, err := sqldb.Column[SessionID](rows, err)
	if err != nil || len(list) == 0 {
		return err
	}
	_, err = db.ExecContext(ctx, "DELETE FROM stream_recordings WHERE id IN (?)", bun.List(list))
	return err
}
