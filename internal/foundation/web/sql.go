package web

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// record is a row of idempotency_keys. Times are Unix milliseconds.
type record struct {
	Scope       string // "USER OPERATION"
	Key         string `bun:"idem_key"`
	RequestHash string
	Status      int // 0 until there is an answer
	ContentType string
	Body        []byte
	Created     int64 // the first try; part of the request id
	Claimed     int64 // the running try; 0 when none runs
	Expires     int64
}

const (
	recordInsert = `INSERT INTO idempotency_keys
	(scope, idem_key, request_hash, status, content_type, body, created, claimed, expires)
	VALUES (?, ?, ?, 0, '', ?, ?, ?, ?)`

	recordSelect = `SELECT scope, idem_key, request_hash, status, content_type, body, created, claimed, expires
	FROM idempotency_keys WHERE scope = ? AND idem_key = ?`

	// claimed tells one try from the next: whoever changes it has the row.
	recordClaim = `UPDATE idempotency_keys
	SET request_hash = ?, status = 0, content_type = '', body = ?, created = ?, claimed = ?, expires = ?
	WHERE scope = ? AND idem_key = ? AND created = ? AND claimed = ? AND status = ?`

	recordFinish = `UPDATE idempotency_keys SET status = ?, content_type = ?, body = ?
	WHERE scope = ? AND idem_key = ? AND claimed = ? AND status = 0`

	recordRelease = `UPDATE idempotency_keys SET claimed = 0
	WHERE scope = ? AND idem_key = ? AND claimed = ? AND status = 0`

	recordExpired = `SELECT expires FROM idempotency_keys WHERE expires <= ? ORDER BY expires LIMIT 1 OFFSET ?`

	recordDelete = `DELETE FROM idempotency_keys WHERE expires <= ?`

	recordErase = `DELETE FROM idempotency_keys WHERE scope >= ? AND scope < ?`
)

// insertRecord adds rec; ok is false when its key is there already.
func insertRecord(ctx context.Context, db *sqldb.DB, rec record) (ok bool, err error) {
	_, err = db.ExecContext(ctx, recordInsert, rec.Scope, rec.Key, rec.RequestHash, []byte{}, rec.Created, rec.Claimed, rec.Expires)
	if sqldb.IsDuplicate(err) {
		return false, nil
	}
	return err == nil, sqlErr("insert", err)
}

// selectRecord reads a row; ok is false when there is none.
func selectRecord(ctx context.Context, db *sqldb.DB, scope, key string) (rec record, ok bool, err error) {
	err = db.NewRaw(recordSelect, scope, key).Scan(ctx, &rec)
	if errors.Is(err, sql.ErrNoRows) {
		return record{}, false, nil
	}
	return rec, err == nil, sqlErr("select", err)
}

// claimRecord replaces old by rec unless somebody else was quicker.
func claimRecord(ctx context.Context, db *sqldb.DB, rec, old record) (ok bool, err error) {
	res, err := db.ExecContext(ctx, recordClaim, rec.RequestHash, []byte{}, rec.Created, rec.Claimed, rec.Expires,
		old.Scope, old.Key, old.Created, old.Claimed, old.Status)
	if err != nil {
		return false, sqlErr("claim", err)
	}
	n, err := res.RowsAffected()
	return n == 1, sqlErr("claim", err)
}

// finishRecord stores the answer, if the row is still rec's.
func finishRecord(ctx context.Context, db *sqldb.DB, rec record) error {
	body := append([]byte{}, rec.Body...) // not nil, which would be NULL
	_, err := db.ExecContext(ctx, recordFinish, rec.Status, rec.ContentType, body, rec.Scope, rec.Key, rec.Claimed)
	return sqlErr("finish", err)
}

// releaseRecord lets the next try run at once.
func releaseRecord(ctx context.Context, db *sqldb.DB, rec record) error {
	_, err := db.ExecContext(ctx, recordRelease, rec.Scope, rec.Key, rec.Claimed)
	return sqlErr("release", err)
}

// deleteExpired removes the sweepChunk rows that expired first (more, if several
// did so in the same millisecond) and returns how many those were.
func deleteExpired(ctx context.Context, db *sqldb.DB, now int64) (n int, err error) {
	until := now
	err = db.NewRaw(recordExpired, now, sweepChunk-1).Scan(ctx, &until)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, sqlErr("find the expired", err)
	}
	res, err := db.ExecContext(ctx, recordDelete, until)
	if err != nil {
		return 0, sqlErr("delete the expired", err)
	}
	rows, err := res.RowsAffected()
	return int(rows), sqlErr("delete the expired", err)
}

// eraseRecords deletes a user's rows: their scopes begin with the user and a
// space, which "!" follows.
func eraseRecords(ctx context.Context, db *sqldb.DB, user string) error {
	_, err := db.ExecContext(ctx, recordErase, user+" ", user+"!")
	return sqlErr("erase", err)
}

var errStoreAway = errs.New(errs.Unavailable, "unavailable", "The database is away. Try again.")

func sqlErr(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case sqldb.IsUnavailable(err) || sqldb.IsRetryable(err):
		return fmt.Errorf("idempotency: %s: %w: %w", what, errStoreAway, err)
	}
	return fmt.Errorf("idempotency: %s: %w", what, err)
}
