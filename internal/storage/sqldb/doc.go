// Package sqldb opens the SQL database of Stoa: SQLite in a file, or MariaDB or MySQL.
//
//	db, err := sqldb.Open(ctx, sqldb.Config{Dir: "stoa-data"})
//	err = db.Migrate(ctx, migrations.FS)
//
// # Reading
//
// Both [DB] and [Tx] implement [Querier]. bun replaces the question marks, and bun.List expands a slice:
//
//	var names []string
//	err := db.NewRaw("SELECT name FROM users WHERE id IN (?)", bun.List(ids)).Scan(ctx, &names)
//
// # Writing
//
// [DB.Tx] runs statements in one transaction. It commits, rolls back, retries after deadlocks and gives all statements
// the same time:
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
// [Tx.ExecLater] saves a round trip for a write whose result does not matter.
//
// Batches lock their rows with [Locks], so that a row that another transaction locks for seconds delays only its own
// batch.
//
// Use [DB.InTurn] for rows with many concurrent writers, such as a room that many users join at once: a change that
// waits for its row uses no connection. Some connections are reserved for reads and for [DB.Batch].
//
// Code publishes events and changes caches only after the commit. Work that must not be lost goes through the outbox
// ([Tx.Enqueue]); package queue delivers it.
//
// # One text for all engines
//
// Almost every statement has the same text for all engines. The differences are:
//
//   - Upserts come from [Dialect.Compile].
//   - RowsAffected counts the changed rows on MySQL and MariaDB, and the matched rows on SQLite. An UPDATE that sets
//     the same values again counts 0 and 1. A count of 0 means "no such row" only if the statement always changes a
//     column.
//   - Read a row with [Dialect.ForUpdate] before you change it, and after an insert failed because of it. InnoDB
//     reports the duplicate a moment before a plain read returns the other row.
//   - MySQL and MariaDB ignore trailing spaces when they compare text. SQLite does not enforce lengths. Trim text and
//     check its length first.
//   - Text is valid UTF-8 without NUL. Bytes are stored in blob columns as []byte.
//
// The defaults of the server do not matter: each session sets READ COMMITTED, strict mode, utf8mb4 and short lock
// timeouts.
//
// # Errors
//
// [IsDuplicate], [IsRowError], [IsRetryable], [IsLocked] and [IsUnavailable] classify errors by the codes of the
// driver. The sql.go of each domain maps them to the domain's error kinds with [AsKind] or [AsKindWithin].
package sqldb
