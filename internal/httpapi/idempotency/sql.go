package idempotency

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// values appends the row to args, in the order of [recordUpsert]'s columns.
func (rec Record) values(args []any) []any {
	body := rec.Body
	if body == nil {
		body = []byte{} // nil would be NULL
	}
	return append(args, rec.Scope, rec.Key, rec.RequestHash, rec.Status, rec.ContentType, body, rec.Created, rec.Claimed, rec.Expires,
		rec.Claim)
}

// recordUpsert returns an upsert of rows that updates the columns in set of existing rows.
func recordUpsert(set ...string) sqldb.Upsert {
	return sqldb.Upsert{
		Table:   "idempotency_keys",
		Columns: []string{"scope", "idem_key", "request_hash", "status", "content_type", "body", "created", "claimed", "expires", "claim"},
		Key:     []string{"scope", "idem_key"},
		Set:     set,
	}
}

// ofThisTry returns an assignment that sets a column only if this try owns the row and has not ended.
func ofThisTry(column string) string {
	return column + " = CASE WHEN claim = {new.claim} AND status = 0 THEN {new." + column + "} ELSE " + column + " END"
}

const (
	recordSelect = `SELECT scope, idem_key, request_hash, status, created, claimed, expires, claim
	FROM idempotency_keys WHERE `

	recordAnswer = `SELECT content_type, body FROM idempotency_keys
	WHERE scope = ? AND idem_key = ? AND claim = ? AND status <> 0`

	// recordOrphans deletes rows that the end of a try inserted instead of updating, because the row before been swept
	// or erased. No other row expires at 0; until it is deleted it counts as free.
	recordOrphans = `DELETE FROM idempotency_keys WHERE expires = 0`

	recordExpired = `SELECT expires FROM idempotency_keys WHERE expires <= ? ORDER BY expires LIMIT 1 OFFSET ?`

	recordDelete = `DELETE FROM idempotency_keys WHERE expires <= ?`

	recordErase = `DELETE FROM idempotency_keys WHERE scope >= ? AND scope < ?`
)

// maxRows and maxBodies bound a statement with responses: MariaDB accepts 16 MiB by default, and up to seven copies
// of the last row may pad the statement.
const (
	maxRows   = 64
	maxBodies = 2 << 20
)

// statements write many rows at once, each with one prepared statement if possible. In a transaction of several
// statements, SQLite would first copy every page that such a statement changes, to be able to undo it alone.
type statements struct {
	db               *sqldb.DB
	insert, takeOver *sqldb.Inserter
	end              *sqldb.Inserter
}

func newStatements(db *sqldb.DB) statements {
	return statements{
		db:       db,
		insert:   db.Inserter(recordUpsert()),
		takeOver: db.Inserter(recordUpsert("request_hash", "status", "content_type", "body", "created", "claimed", "expires", "claim")),
		// MySQL evaluates assignments in order and sees the values already set. The other assignments depend on
		// status; hence it comes last.
		end: db.Inserter(recordUpsert(ofThisTry("content_type"), ofThisTry("body"), ofThisTry("claimed"), ofThisTry("status"))),
	}
}

func values(recs []Record) []any {
	args := make([]any, 0, 10*(len(recs)+7)) // an Inserter pads its rows
	for _, rec := range recs {
		args = rec.values(args)
	}
	return args
}

// add inserts the rows of new tries, sorted by key, and reports whether all were new.
func (s statements) add(ctx context.Context, recs []Record) (all bool, err error) {
	added, err := s.insert.Insert(ctx, values(recs))
	return added == int64(len(recs)), err
}

// locked inserts the missing rows and returns all of them by key, without their responses. They stay locked until tx
// ends.
func (s statements) locked(ctx context.Context, tx *sqldb.Tx, recs []Record) (map[rowKey]Record, error) {
	if _, err := tx.SQL().ExecContext(ctx, s.insert.For(len(recs)), values(recs)...); err != nil {
		return nil, err
	}
	var keys []any
	for _, rec := range recs {
		keys = append(keys, rec.Scope, rec.Key)
	}
	rows, err := tx.QueryContext(ctx, recordSelect+sqldb.AnyOf("scope = ? AND idem_key = ?", len(recs))+tx.Dialect().ForUpdate(), keys...)
	found := map[rowKey]Record{}
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var rec Record
		err := rows.Scan(&rec.Scope, &rec.Key, &rec.RequestHash, &rec.Status, &rec.Created, &rec.Claimed, &rec.Expires, &rec.Claim)
		found[rec.row()] = rec
		return err
	})
	return found, err
}

// replace assigns locked rows to new tries.
func (s statements) replace(ctx context.Context, tx *sqldb.Tx, recs []Record) error {
	if len(recs) == 0 {
		return nil
	}
	_, err := tx.SQL().ExecContext(ctx, s.takeOver.For(len(recs)), values(recs)...)
	return err
}

// finish ends tries: it stores the responses of records with a Status, and frees the rows of the others, so that the
// next try runs at once. It changes no row that another try has taken over, and does not restore swept or erased
// rows.
func (s statements) finish(ctx context.Context, recs []Record) error {
	orphans := false // some may exist
	for len(recs) > 0 {
		n, bodies := 0, 0
		for n < min(len(recs), maxRows) && (n == 0 || bodies+len(recs[n].Body) <= maxBodies) {
			bodies += len(recs[n].Body)
			n++
		}
		changed, err := s.end.Insert(ctx, values(recs[:n]))
		if err != nil {
			return err
		}
		// MySQL and MariaDB count 2 for an updated row, 1 for a new one, and 0 for an unchanged one. A copy that pads the
		// statement is unchanged.
		orphans = orphans || s.db.Dialect() == sqldb.SQLite || changed != 2*int64(n)
		recs = recs[n:]
	}
	if !orphans {
		return nil
	}
	_, err := s.db.ExecContext(ctx, recordOrphans)
	return err
}

// loadAnswer sets the content type and the body of rec, which has a Status; ok is false if the row no longer exists.
func loadAnswer(ctx context.Context, db *sqldb.DB, rec *Record) (ok bool, err error) {
	err = db.QueryRowContext(ctx, recordAnswer, rec.Scope, rec.Key, rec.Claim).Scan(&rec.ContentType, &rec.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, sqlErr("select an answer", err)
}

// deleteExpired deletes the sweepChunk rows that expired first (more if several expired in the same millisecond) and
// returns their number.
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

// eraseRecords deletes a user's rows: their scopes begin with the user and a space; "!" is the character after the
// space.
func eraseRecords(ctx context.Context, db *sqldb.DB, user string) error {
	_, err := db.ExecContext(ctx, recordErase, user+" ", user+"!")
	return sqlErr("erase", err)
}

var errStoreAway = errs.New(errs.Unavailable, "unavailable", "The database is unavailable. Try again.")

func sqlErr(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("idempotency: %s: %w", what, sqldb.AsKind(err, errStoreAway))
}
