package checkin

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

// checkinLog is the log of check-ins, as one of two modes stores it. [sqlLog] writes to SQL alone. [streamLog] writes
// to a stream in Redis first, and a worker writes the stream to SQL. New chooses one, and no other code checks the
// mode.
type checkinLog interface {
	// commit writes sorted rows, whose records a collects. After an error the rows may exist or not.
	commit(ctx context.Context, rows []request, a *ahead) (written, error)
	// secure gets committed rows that are applied to Redis, before their callers get a result.
	secure(ctx context.Context, reqs []request, out []outcome)
	// withSQL calls fn, which reads or writes SQL while check-ins wait that may not need SQL.
	withSQL(ctx context.Context, fn func(context.Context) error) error

	// histories returns all days of some users. They include the acknowledged ones that SQL does not have yet. With
	// errClaims, the histories have the rows of SQL only.
	histories(ctx context.Context, users []accounts.ID) (map[accounts.ID]streak.History, error)
	// flush returns when SQL has the acknowledged check-ins of some users. It returns errClaims if the claims cannot be
	// read.
	flush(ctx context.Context, users []accounts.ID) error
	// drain returns when SQL has all check-ins that were acknowledged before, because a pass over the whole log would
	// miss the others.
	drain(ctx context.Context) error
	// flushPage writes to SQL, page by page, the acknowledged check-ins of the last days that it lacks. It returns how
	// many check-ins it has compared and the cursor of the next page, which is empty after the last one.
	flushPage(ctx context.Context, cursor string) (n int, next string, err error)
	// forget deletes a user's rows that are stored until SQL has them. The caller must have drained the log.
	forget(ctx context.Context, user accounts.ID) error

	// journal and batches return the stream and its consumers. They are nil in durable-first mode.
	journal() *queue.Redis
	batches() []queue.Batch
	// check returns an error if Redis cannot store what the mode needs. If Redis does not respond, run checks it again.
	check(ctx context.Context) error
	// run ends with ctx at the latest.
	run(ctx context.Context)
}

// written is the result for the rows of a batch.
type written struct {
	rows     map[rowKey]row   // the rows that the log has for their days
	streamed map[rowKey]bool  // the rows that the stream has, and SQL has not yet
	refused  map[rowKey]error // the rows that needed SQL while it was away
}

// sqlLog is the log in durable-first mode: SQL has every acknowledged check-in.
type sqlLog struct{ *sqlStore }

func (l sqlLog) commit(ctx context.Context, rows []request, a *ahead) (written, error) {
	if a.repeats { // reading costs less than an insert that adds nothing
		if held, err := l.signed(ctx, rows); err != nil || len(held) == len(rows) {
			return written{rows: held}, err
		}
	}
	held, err := l.write(ctx, rows)
	return written{rows: held}, err
}

func (sqlLog) withSQL(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	return fn(ctx)
}

func (sqlLog) secure(context.Context, []request, []outcome)           {}
func (sqlLog) flush(context.Context, []accounts.ID) error             { return nil }
func (sqlLog) drain(context.Context) error                            { return nil }
func (sqlLog) flushPage(context.Context, string) (int, string, error) { return 0, "", nil }
func (sqlLog) forget(context.Context, accounts.ID) error              { return nil }
func (sqlLog) journal() *queue.Redis                                  { return nil }
func (sqlLog) batches() []queue.Batch                                 { return nil }
func (sqlLog) check(context.Context) error                            { return nil }
func (sqlLog) run(context.Context)                                    {}
