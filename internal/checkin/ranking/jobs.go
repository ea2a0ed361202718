package ranking

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
)

// Jobs returns the background jobs of the boards.
func (bs *Boards) Jobs() []worker.Job {
	sweep := worker.Job{Name: "checkin.sweep", Singleton: true, Run: bs.Sweep}
	if bs.kind == Compact {
		sweep.Every = 5 * time.Second // it folds in new moves, which reads include in any case
	} else {
		// Reads remove dead streaks themselves. This job saves that work for the first reader after a midnight.
		sweep.Next = func(now time.Time) time.Time { return nextQuarter(now).Add(time.Second) }
	}
	return []worker.Job{sweep, {
		// A board that was lost with Redis is loaded before a reader needs it.
		Name:      "checkin.boards",
		Every:     2 * time.Second,
		Timeout:   time.Hour, // four passes over the days of many millions of users
		Singleton: true,
		Run:       bs.LoadMissing,
	}, {
		Name:      "checkin.seasons",
		Every:     time.Hour,
		Singleton: true,
		Run:       bs.Tidy,
	}}
}

// recountEvery is the longest time until a compact board is counted again. Its counts are sums of changes, so a mistake
// would otherwise stay for ever.
const recountEvery = time.Hour

// LoadMissing loads the current boards that are not loaded. It also loads compact boards whose counts are in doubt,
// because a change was applied that may have been applied before, or was old. A node spends no more than a tenth of its
// time on the latter.
func (bs *Boards) LoadMissing(ctx context.Context) error {
	if !bs.projection.Up() {
		return nil
	}
	boards := Current(bs.now())
	failed := make([]error, len(boards))
	var all sync.WaitGroup // most of a load is waiting
	for i, b := range boards {
		all.Go(func() { failed[i] = bs.loadBoard(ctx, b) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func (bs *Boards) loadBoard(ctx context.Context, b Board) error {
	if b == StreakBoard {
		if err := bs.applyRules(ctx); err != nil {
			return err
		}
	}
	sure, err := bs.Of(b).Complete(ctx, bs.now())
	if err == nil && !sure {
		sure, err = bs.rebuild(ctx, b)
	}
	last, _ := bs.filled.LoadOrStore(b, filled{at: time.Now()}) // another node loaded it, or this one before it was started
	was := last.(filled)
	old := bs.kind == Compact && time.Since(was.at) > recountEvery
	if err != nil || sure && !old || time.Since(was.at) < 10*was.read {
		return err
	}
	return bs.Recount(ctx, b, nil)
}

// applyRules loads the streak board again if its deaths were computed with other settings of freezes than this node's.
// Without stored settings, the board is lost as well, and its next load uses the present ones.
func (bs *Boards) applyRules(ctx context.Context) error {
	want := bs.freezes.String()
	have, err := bs.rules(ctx)
	if err != nil || have == want {
		return err
	}
	if have != "" {
		bs.log.InfoContext(ctx, "checkin: rules of freezes changed, rebuilding the streak board", "were", have, "are", want)
		if err := bs.Renew(ctx, StreakBoard, nil); err != nil {
			return err
		}
	}
	return bs.setRules(ctx, want)
}

// Sweep removes dead streaks and folds in new moves.
func (bs *Boards) Sweep(ctx context.Context) error {
	if !bs.projection.Writable() {
		return nil
	}
	var all []error
	for _, b := range Current(bs.now()) {
		_, err := bs.Of(b).Sweep(ctx, bs.now())
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Tidy handles the boards that no job sweeps. On boards of former seasons that can still be read, it folds
// in late moves, or deletes the board until a read if its counts are in doubt. It deletes the older ones, and boards of
// the kind that is not in use.
func (bs *Boards) Tidy(ctx context.Context) error {
	kind, other := bs.kind, Exact
	if kind == Exact {
		other = Compact
	}
	now := bs.now()
	var all []error
	for _, b := range bygone(now) {
		all = append(all, bs.drop(ctx, b, kind), bs.open(b, other).Drop(ctx))
	}
	ofNow := Current(now)
	for _, b := range Kept(now) {
		if all = append(all, bs.open(b, other).Drop(ctx)); slices.Contains(ofNow, b) {
			continue
		}
		board := bs.open(b, kind) // it caches nothing of what it reads
		sure, err := board.Complete(ctx, now)
		switch {
		case err != nil:
		case sure:
			_, err = board.Sweep(ctx, now)
		default:
			err = board.Drop(ctx)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// nextQuarter returns the next time when streaks may die: offsets of zones are whole quarters of an hour.
func nextQuarter(now time.Time) time.Time {
	return now.Truncate(15 * time.Minute).Add(15 * time.Minute)
}
