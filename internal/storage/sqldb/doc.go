// Package sqldb keeps the truth: SQLite in a file, or MariaDB or MySQL.
//
//	db, err := sqldb.Open(ctx, sqldb.Config{Dir: "stoa-data"})
//	err = db.Migrate(ctx, migrations.FS)
//
// # Reading
//
// Both [DB] and [Tx] are a [Querier]. Question marks are filled in by bun,
// lists by bun.In:
//
//	var names []string
//	err := db.NewRaw("SELECT name FROM users WHERE id IN (?)", bun.List(ids)).Scan(ctx, &names)
//
// # Writing
//
// Statements that belong together go into [DB.Tx], which commits, rolls back, retries
// deadlocks and offers one fixed time:
//
//	err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
//		_, err := tx.ExecContext(ctx, "UPDATE users SET name = ?, changed = ? WHERE id = ?", name, tx.Now().UnixMilli(), id)
//		if err != nil {
//			return err
//		}
//		tx.AfterCommit(func() { cache.Drop(id) })
//		return tx.Enqueue(ctx, sqldb.Message{Topic: "user.changed", Key: id.String()})
//	})
//
// A batch of what many callers write locks its rows by [Locks]: one that another transaction holds for
// seconds holds up no other.
//
// What many change at the same moment, such as a room into which everybody comes, is changed by [DB.InTurn]: whoever waits for
// its row has no connection. Transactions leave some connections to reads, and to those of batches, by [DB.Batch].
//
// Nothing is published, cached or dropped before the commit. A message that
// must not be lost is enqueued instead; package queue delivers it.
//
// # One text for all engines
//
// Almost every statement reads the same everywhere. Where they part:
//
//   - Upserts come from [Dialect.Compile].
//   - RowsAffected counts the changed rows on MySQL and MariaDB, the matched
//     ones on SQLite: an UPDATE to the values a row has already counts 0 and 1.
//     Do not take 0 for "no such row" unless something always changes.
//   - A row read in order to be changed is read with [Dialect.ForUpdate], and so is one
//     that an insert has just met: InnoDB refuses a duplicate a moment before a plain read
//     sees the row in its way.
//   - Text on MySQL and MariaDB ignores trailing spaces in comparisons, and
//     SQLite knows no lengths. Trim and measure first.
//   - Text is valid UTF-8 without NUL; bytes go into blobs as []byte.
//
// The server's own settings do not matter: every session is set to READ
// COMMITTED, strict mode, utf8mb4, and short waits for locks.
//
// # Errors
//
// [IsDuplicate], [IsRowError], [IsRetryable], [IsLocked] and [IsUnavailable] tell by the
// driver's codes what happened; a domain's sql.go turns that into its kinds, by [AsKind] or [AsKindWithin].
package sqldb
