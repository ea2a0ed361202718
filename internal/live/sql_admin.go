package live

import (
	"context"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// TopicAsk is the outbox topic for an operator's orders about a stream; the payload is an [Order].
const TopicAsk = "live.ask"

// Order is an operator's order to the servers.
type Order struct {
	Stream ID   `json:"stream"`
	Stop   bool `json:"stop,omitempty"` // end the publisher's session; otherwise only recheck the keys
}

// All returns at most n streams: first the live ones, the latest start first, then the newest. It reads only SQL.
func All(ctx context.Context, db *sqldb.DB, n int) (_ []Stream, err error) {
	defer errs.Wrap(&err, "live.All")
	rows, err := db.QueryContext(ctx, "SELECT "+streamColumns+" FROM streams s ORDER BY s.since DESC, s.created DESC, s.id LIMIT ?", n)
	return sqldb.Collect(rows, err, scanRow)
}

// Find returns a stream, or ErrStream. It reads only SQL.
func Find(ctx context.Context, db *sqldb.DB, id ID) (_ Stream, err error) {
	defer errs.Wrap(&err, "live.Find %s", id)
	return selectStream(ctx, db, id, "")
}

// RecordingsOf returns the latest recordings of a stream. It reads only SQL.
func RecordingsOf(ctx context.Context, db *sqldb.DB, id ID) (_ []Recording, err error) {
	defer errs.Wrap(&err, "live.RecordingsOf %s", id)
	return selectRecordings(ctx, db, id, start, mostRecordings)
}

// EnqueueStop enqueues the end of a publisher's session. A running server does it at once. It returns ErrStream.
func EnqueueStop(ctx context.Context, db *sqldb.DB, id ID) (err error) {
	defer errs.Wrap(&err, "live.EnqueueStop %s", id)
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := selectStream(ctx, tx, id, ""); err != nil {
			return err
		}
		return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicAsk, Key: id.String()}, Order{Stream: id, Stop: true})
	})
}

// Rotate gives a stream new keys, and enqueues the end of the sessions with the old ones. It returns ErrStream.
func Rotate(ctx context.Context, db *sqldb.DB, id ID, set KeySet) (keys StreamKeys, err error) {
	defer errs.Wrap(&err, "live.Rotate %s", id)
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		st, err := selectStream(ctx, tx, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		keys = set.rotate(&st)
		if err := updateStream(ctx, tx, st); err != nil {
			return err
		}
		// The message must not replace a waiting stop, nor be replaced by one.
		return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicAsk, Key: id.String(), NoDedup: true}, Order{Stream: id})
	})
	return keys, err
}
