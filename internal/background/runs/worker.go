package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

const (
	// slice is how long a run is worked on before its state is stored and the node may
	// stop.
	slice = 2 * time.Second
	// tries is how often in a row a slice may fail before the run has failed.
	tries = 5
	// againAfter is how long after it failed a run that comes round is requested again.
	againAfter = time.Hour
	// kept is how long runs, and differences that were not repaired, can be looked up.
	kept = 400 * 24 * time.Hour
)

// Work is how one kind of run is done.
type Work[Options, Summary any] struct {
	// Slice goes on with the run until then, and reports whether it is finished. It
	// moves r.Resume, and may call [Store.Save] on the way.
	Slice func(ctx context.Context, r *Run[Options, Summary], until time.Time) (finished bool, err error)
	// Ready reports whether such runs can go on. A run that cannot does not hold up one
	// that can. Nil: always.
	Ready func() bool
	// Due returns the time since when a run over everything must have been requested;
	// the worker requests it otherwise. Nil or the zero time: runs of this kind do not
	// come round.
	Due func(now time.Time) time.Time
	// Finished is called after the run is stored as done. It may be nil.
	Finished func(r *Run[Options, Summary])
}

// Config is what a [Worker] works with.
type Config[Options, Summary any] struct {
	Store *Store[Options, Summary]
	Kinds map[Kind]Work[Options, Summary]
	Node  string
	Now   func() time.Time
	Log   *slog.Logger
	// Upkeep is called about once a minute, beside what the worker forgets of its own.
	Upkeep func(ctx context.Context, now time.Time) error
}

// Worker does runs. One goroutine may call it at a time.
type Worker[Options, Summary any] struct {
	Config[Options, Summary]

	nextDue time.Time // when to look for runs that come round
}

// NewWorker returns a worker.
func NewWorker[O, S any](cfg Config[O, S]) *Worker[O, S] { return &Worker[O, S]{Config: cfg} }

// Step does one slice of the run that is due, and reports whether there is more to do
// at once. A singleton job calls it about once a second.
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
	if err := w.Store.Save(ctx, r); err != nil { // whoever follows the run sees that it was begun
		return false, unless(err, ErrOvertaken)
	}
	finished, err := w.slice(ctx, r)
	_, waits := errors.AsType[notReady](err)
	switch {
	case err == nil && !finished:
		r.Error, r.Resume.Fails = "", 0
	case err == nil:
		r.State, r.Ended, r.Error = Done, w.Now(), ""
	case errors.Is(err, ErrOvertaken):
		return false, nil
	case ctx.Err() != nil:
		return false, err // the next node goes on from what is stored
	case waits:
		r.Error = err.Error()
	default:
		r.Error = err.Error()
		if r.Resume.Fails++; r.Resume.Fails >= tries {
			r.State, r.Ended = Failed, w.Now()
		}
	}
	if saveErr := w.Store.Save(ctx, r); saveErr != nil {
		return false, errors.Join(err, unless(saveErr, ErrOvertaken))
	}
	if r.State == Done {
		w.finished(ctx, r)
	}
	if waits {
		return false, nil
	}
	return err == nil, err
}

// next returns the run that is due: the first, or the first that can go on.
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
	return r, nil // it says what it waits for
}

// kinds are the kinds of runs that this worker does, or those that can go on.
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

func (w *Worker[O, S]) slice(ctx context.Context, r *Run[O, S]) (finished bool, err error) {
	work, known := w.Kinds[r.Kind]
	if !known {
		return false, fmt.Errorf("this server knows no runs of kind %q", r.Kind)
	}
	return work.Slice(ctx, r, time.Now().Add(slice))
}

func (w *Worker[O, S]) finished(ctx context.Context, r *Run[O, S]) {
	w.Log.LogAttrs(ctx, slog.LevelInfo, "a run is done", slog.Int64("run", r.ID), slog.String("kind", string(r.Kind)),
		slog.Any("options", r.Options), slog.Any("summary", r.Summary), slog.Duration("took", r.Ended.Sub(r.Started)))
	if tell := w.Kinds[r.Kind].Finished; tell != nil {
		tell(r)
	}
}

// requestDue requests the runs that come round by themselves.
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
		last, err := w.Store.lastRequested(ctx, kind, now.Add(-againAfter))
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
	if err := w.Store.forget(ctx, now.Add(-kept)); err != nil {
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

func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
