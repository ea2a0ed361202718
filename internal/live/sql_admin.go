package live

import (
	"context"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// TopicAsk is the outbox's topic for what an operator wants done with a stream; the payload is an [Order].
const TopicAsk = "live.ask"

// Order is what an operator wants done by a server.
type Order struct {
	Stream ID   `json:"stream"`
	Stop   bool `json:"stop,omitempty"` // end its publisher; else only look at its keys
}

// All returns up to n streams: those that are live first, the one that began last at the top, then the newest. It asks SQL alone.
func All(ctx context.Context, db *sqldb.DB, n int) (_ []Stream, err error) {
	defer errs.Wrap(&err, "live.All")
	rows, err := db.QueryContext(ctx, "SELECT "+streamColumns+" FROM streams s ORDER BY s.since DESC, s.created DESC, s.id LIMIT ?", n)
	return sqldb.Collect(rows, err, scanRow)
}

// Find returns a stream. It asks SQL alone. ErrStream.
func Find(ctx context.Context, db *sqldb.DB, id ID) (_ Stream, err error) {
	defer errs.Wrap(&err, "live.Find %s", id)
	return selectStream(ctx, db, id, "")
}

// RecordingsOf returns the latest recordings of a stream. It asks SQL alone.
func RecordingsOf(ctx context.Context, db *sqldb.DB, id ID) (_ []Recording, err error) {
	defer errs.Wrap(&err, "live.RecordingsOf %s", id)
	return recordingsOf(ctx, db, id, start, mostRecordings)
}

// AskToStop has a server end a stream's publisher, at once where one runs. ErrStream.
func AskToStop(ctx context.Context, db *sqldb.DB, id ID) (err error) {
	defer errs.Wrap(&err, "live.AskToStop %s", id)
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := selectStream(ctx, tx, id, ""); err != nil {
			return err
		}
		return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicAsk, Key: id.String()}, Order{Stream: id, Stop: true})
	})
}

// Rotate gives a stream new keys, and has servers end the sessions that came with the old ones. ErrStream.
func Rotate(ctx context.Context, db *sqldb.DB, id ID, which Which) (keys StreamKeys, err error) {
	defer errs.Wrap(&err, "live.Rotate %s", id)
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		st, err := selectStream(ctx, tx, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		keys = which.rotate(&st)
		if err := updateStream(ctx, tx, st); err != nil {
			return err
		}
		// It must not take the place of a stop that waits, nor a stop its place.
		return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicAsk, Key: id.String(), NoDedup: true}, Order{Stream: id})
	})
	return keys, err
}
