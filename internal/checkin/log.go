package checkin

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

// checkinLog is the log of check-ins as a mode keeps it: [sqlLog] in SQL alone, [streamLog]
// in a stream in Redis first, which a worker takes to SQL. New chooses one, and no other
// code asks for the mode.
type checkinLog interface {
	// commit writes sorted rows, whose records a collects. After an error the rows may be
	// there or not.
	commit(ctx context.Context, rows []request, a *ahead) (written, error)
	// secure is told of committed rows that are applied to Redis, before their callers are
	// answered.
	secure(ctx context.Context, reqs []request, out []outcome)
	// ask calls fn, which reads or writes SQL while check-ins wait that may not need SQL.
	ask(ctx context.Context, fn func(context.Context) error) error

	// histories returns all days of some users, the answered ones that SQL does not have
	// yet included. With errClaims the histories are what SQL has.
	histories(ctx context.Context, users []accounts.ID) (map[accounts.ID]streak.History, error)
	// flush returns when SQL has what was answered to some users. It may return errClaims.
	flush(ctx context.Context, users []accounts.ID) error
	// drain returns when SQL has what was answered before to anybody: a pass over the
	// whole log would miss it.
	drain(ctx context.Context) error
	// flushSome brings to SQL, page by page, what it lacks of what was answered in the last
	// days. It returns how many check-ins it has looked at and the cursor of the next page,
	// which is empty after the last one.
	flushSome(ctx context.Context, cursor string) (n int, next string, err error)
	// forget drops what is kept of a user until SQL has it, which by now it has.
	forget(ctx context.Context, user accounts.ID) error

	// journal and batches are the stream and what a worker does with it, nil without one.
	journal() *queue.Redis
	batches() []queue.Batch
	// check returns an error where Redis cannot keep what the mode leaves to it. Where Redis
	// does not answer, run asks it again.
	check(ctx context.Context) error
	// run ends with ctx at the latest.
	run(ctx context.Context)
}

// written is what became of the rows of a batch.
type written struct {
	held    map[rowKey]row   // the rows that the log has of their days
	kept    map[rowKey]bool  // those that the stream has, and SQL has not yet
	refused map[rowKey]error // those that needed SQL while it was away
}

// sqlLog is the log in durable-first mode: SQL has whatever was answered.
type sqlLog struct{ *sqlStore }

func (l sqlLog) commit(ctx context.Context, rows []request, a *ahead) (written, error) {
	if a.repeats { // reading costs less than adding nothing
		if held, err := l.signed(ctx, rows); err != nil || len(held) == len(rows) {
			return written{held: held}, err
		}
	}
	held, err := l.write(ctx, rows)
	return written{held: held}, err
}

func (sqlLog) ask(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	return fn(ctx)
}

func (sqlLog) secure(context.Context, []request, []outcome)           {}
func (sqlLog) flush(context.Context, []accounts.ID) error             { return nil }
func (sqlLog) drain(context.Context) error                            { return nil }
func (sqlLog) flushSome(context.Context, string) (int, string, error) { return 0, "", nil }
func (sqlLog) forget(context.Context, accounts.ID) error              { return nil }
func (sqlLog) journal() *queue.Redis                                  { return nil }
func (sqlLog) batches() []queue.Batch                                 { return nil }
func (sqlLog) check(context.Context) error                            { return nil }
func (sqlLog) run(context.Context)                                    {}
