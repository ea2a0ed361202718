package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

const (
	// sliceTime is the length of a slice. After each slice, the state of the run is stored, and the node may stop.
	sliceTime = 2 * time.Second
	// maxFailures is the number of consecutive failed slices that make a run fail.
	maxFailures = 5
	// retryAfter is how long a failed scheduled run is not requested again.
	retryAfter = time.Hour
	// retention is how long ended runs are stored, and differences that were not repaired.
	retention = 400 * 24 * time.Hour
)

// Work defines how to work on one kind of run.
type Work[Options, Summary any] struct {
	// Slice continues the run until the given time, and reports whether it is finished. It updates r.Resume, and may
	// call [Store.Save].
	Slice func(ctx context.Context, r *Run[Options, Summary], until time.Time) (finished bool, err error)
	// Ready reports whether such runs can continue. A run that cannot does not delay others. Nil means always.
	Ready func() bool
	// Due returns a time. If no full run was requested since that time, the worker requests one. Nil or the zero time
	// means that runs of this kind are not scheduled.
	Due func(now time.Time) time.Time
	// Finished is called after the run is stored as done. It may be nil.
	Finished func(r *Run[Options, Summary])
}

// Config configures a [Worker].
type Config[Options, Summary any] struct {
	Store *Store[Options, Summary]
	Kinds map[Kind]Work[Options, Summary]
	Node  string
	Now   func() time.Time
	Log   *slog.Logger
	// Upkeep is called about once a minute, in addition to the clean-up of old runs.
	Upkeep func(ctx context.Context, now time.Time) error
}

// Worker works on runs. Only one goroutine may call it at a time.
type Worker[Options, Summary any] struct {
	Config[Options, Summary]

	nextDue time.Time // the next check for scheduled runs
}

// NewWorker returns a worker.
func NewWorker[O, S any](cfg Config[O, S]) *Worker[O, S] { return &Worker[O, S]{Config: cfg} }

// Waiting returns the probe for runs to work on.
func (w *Worker[O, S]) Waiting() *sqldb.Probe {
	return &sqldb.Probe{Query: "SELECT 1 FROM " + w.Store.t.Runs + " WHERE state IN (?, ?) AND kind IN (?)",
		Args: func() []any { return []any{Running, Waiting, bun.List(w.kinds(false))} }}
}

// Step works on one slice of the next run, and reports whether more work is due at once. A singleton job calls it once a
// minute, and about once a second while runs are [Worker.Waiting].
func (w *Worker[O, S]) Step(ctx context.Context) (more bool, err error) {
	defer errs.Wrap(&err, "runs.Step")
	if err := w.requestDue(ctx); err != nil {
		return false, err
	}
	r, err := w.next(ctx)
	if err != nil || r == nil {
		return false, err
	}
	defer errs.Wrap(&err, "run %d", r.ID)
	if r.State == Waiting {
		r.State, r.Started = Running, w.Now()
	}
	r.Node = w.Node
	if err := w.Store.Save(ctx, r); err != nil { // before the slice, so that the run is listed as begun
		return false, ignore(err, ErrOvertaken)
	}
	finished, err := w.workSlice(ctx, r)
	_, waits := errors.AsType[notReady](err)
	switch {
	case err == nil && !finished:
		r.Error, r.Resume.Fails = "", 0
	case err == nil:
		r.State, r.Ended, r.Error = Done, w.Now(), ""
	case errors.Is(err, ErrOvertaken):
		return false, nil
	case ctx.Err() != nil:
		return false, err // the next node continues from the stored state
	case waits:
		r.Error = err.Error()
	default:
		r.Error = err.Error()
		if r.Resume.Fails++; r.Resume.Fails >= maxFailures {
			r.State, r.Ended = Failed, w.Now()
		}
	}
	if saveErr := w.Store.Save(ctx, r); saveErr != nil {
		return false, errors.Join(err, ignore(saveErr, ErrOvertaken))
	}
	if r.State == Done {
		w.finished(ctx, r)
	}
	if waits {
		return false, nil
	}
	return err == nil, err
}

// next returns the first run, or the first one that can continue.
func (w *Worker[O, S]) next(ctx context.Context) (*Run[O, S], error) {
	r, err := w.Store.Next(ctx, w.kinds(false)...)
	if err != nil || r == nil || w.ready(r.Kind) {
		return r, err
	}
	ready := w.kinds(true)
	if len(ready) == 0 {
		return r, nil
	}
	if other, err := w.Store.Next(ctx, ready...); err != nil || other != nil {
		return other, err
	}
	return r, nil // Step stores the reason why it waits
}

// kinds returns the kinds of runs of this worker, or only those that can continue.
func (w *Worker[O, S]) kinds(ready bool) []Kind {
	all := slices.Sorted(maps.Keys(w.Kinds))
	if ready {
		all = slices.DeleteFunc(all, func(k Kind) bool { return !w.ready(k) })
	}
	return all
}

func (w *Worker[O, S]) ready(k Kind) bool {
	ready := w.Kinds[k].Ready
	return ready == nil || ready()
}

func (w *Worker[O, S]) workSlice(ctx context.Context, r *Run[O, S]) (finished bool, err error) {
	work, ok := w.Kinds[r.Kind]
	if !ok {
		return false, fmt.Errorf("this server has no runs of kind %q", r.Kind)
	}
	return work.Slice(ctx, r, time.Now().Add(sliceTime))
}

func (w *Worker[O, S]) finished(ctx context.Context, r *Run[O, S]) {
	w.Log.LogAttrs(ctx, slog.LevelInfo, "runs: run finished", slog.Int64("run", r.ID), slog.String("kind", string(r.Kind)),
		slog.Any("options", r.Options), slog.Any("summary", r.Summary), slog.Duration("took", r.Ended.Sub(r.Started)))
	if notify := w.Kinds[r.Kind].Finished; notify != nil {
		notify(r)
	}
}

// requestDue requests the scheduled runs that are due.
func (w *Worker[O, S]) requestDue(ctx context.Context) error {
	now := w.Now()
	if now.Before(w.nextDue) {
		return nil
	}
	for _, kind := range w.kinds(false) {
		due := w.Kinds[kind].Due
		if due == nil || due(now).IsZero() {
			continue
		}
		last, err := w.Store.lastRequested(ctx, kind, now.Add(-retryAfter))
		if err != nil {
			return err
		}
		if last.Before(due(now)) {
			var all O
			if _, err := w.Store.request(ctx, kind, all, now); err != nil {
				return err
			}
		}
	}
	if err := w.Store.deleteOld(ctx, now.Add(-retention)); err != nil {
		return err
	}
	if w.Upkeep != nil {
		if err := w.Upkeep(ctx, now); err != nil {
			return err
		}
	}
	w.nextDue = now.Add(time.Minute)
	return nil
}

func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
