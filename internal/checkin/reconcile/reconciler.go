package reconcile

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Config has what a [Reconciler] stands on.
type Config struct {
	DB         *sqldb.DB
	Records    *records.Store // with the time limits of work in the background
	Boards     *ranking.Boards
	Every      time.Duration // how often Redis is compared with SQL; 0: only when somebody asks for it
	Rate       int           // users a second, at most; 0: no limit
	SecondLook time.Duration // how long after the first look a user who differs is looked at again; 0: two seconds
	Node       string        // this process, for those who follow a run
	Metrics    prometheus.Registerer
	Log        *slog.Logger
	Now        func() time.Time

	// Up reports whether Redis has everything that was answered. While it has not, runs that
	// compare it or write to it wait.
	Up func() bool
	// Clocks returns the clocks of users.
	Clocks func(context.Context, []accounts.ID) (map[accounts.ID]civil.Clock, error)
	// Histories returns all days of some users, the answered ones that SQL does not have
	// yet included. It fails where Redis does not tell these.
	Histories func(context.Context, []accounts.ID) (map[accounts.ID]streak.History, error)
	// Logged returns the days of some users that SQL has.
	Logged func(context.Context, []accounts.ID) (map[accounts.ID]streak.History, error)
	// Flush returns when SQL has what was answered to some users.
	Flush func(context.Context, []accounts.ID) error
	// FlushSome brings to SQL, page by page, what it lacks of what was answered in the last
	// days. It returns how many check-ins it has looked at and the cursor of the next page,
	// which is empty after the last one.
	FlushSome func(ctx context.Context, cursor string) (n int, next string, err error)
	// Renew merges into all records that Redis has of a user what the log has, and, with
	// boards, puts the user on those where the user belongs.
	Renew func(ctx context.Context, user accounts.ID, boards bool) error
	// EraseLate erases those of some users who have no account any more, and returns the
	// others.
	EraseLate func(context.Context, []accounts.ID) ([]accounts.ID, error)
}

// Reconciler does the runs of check-in.
type Reconciler struct {
	Runs *Store // what was done, is being done and waits, and what was found

	cfg     Config
	sql     *sqlStore
	records *records.Store
	boards  *ranking.Boards
	metrics *metrics
	log     *slog.Logger
	now     func() time.Time
	worker  *runs.Worker[Options, Summary]
	more    bool // belongs to the job that works on runs
}

// New returns a reconciler. It does nothing by itself: the work is done by [Reconciler.Jobs].
func New(cfg Config) *Reconciler {
	cfg.SecondLook = cmp.Or(cfg.SecondLook, secondLook)
	rc := &Reconciler{
		Runs: NewStore(cfg.DB), cfg: cfg, sql: &sqlStore{cfg.DB}, records: cfg.Records, boards: cfg.Boards,
		metrics: newMetrics(cfg.Metrics), log: cfg.Log, now: cfg.Now,
	}
	// A snapshot needs SQL alone: it does not wait behind a run that waits for Redis.
	rc.worker = runs.NewWorker(runs.Config[Options, Summary]{
		Store: rc.Runs, Node: cfg.Node, Now: cfg.Now, Log: cfg.Log,
		Kinds: map[runs.Kind]runs.Work[Options, Summary]{
			RebuildRun:   {Slice: rc.rebuildSlice, Ready: cfg.Up},
			ReconcileRun: {Slice: rc.reconcileSlice, Ready: cfg.Up, Due: rc.reconcileDue, Finished: rc.reconciled},
			SnapshotRun:  {Slice: rc.snapshotSlice, Due: lastNight},
		},
		Upkeep: func(ctx context.Context, now time.Time) error { return rc.forgetTouched(ctx, now.Add(-touchedKept)) },
	})
	return rc
}

// Step does one slice of the run that is due, and reports whether there is more to do at
// once. One goroutine may call it at a time.
func (rc *Reconciler) Step(ctx context.Context) (more bool, err error) { return rc.worker.Step(ctx) }

// showEvery is the interval at which a node looks what the last reconciliation found:
// another node may have done it, or this one before it was restarted.
const showEvery = 15 * time.Second

// Run keeps the metrics of the last reconciliation until ctx ends. They are those of all
// nodes: an alert about one that has been followed by a better one must end everywhere.
func (rc *Reconciler) Run(ctx context.Context) {
	for {
		if r, err := rc.Runs.LastDone(ctx, ReconcileRun, ofMany); err == nil && r != nil {
			rc.metrics.reconciled(r)
		} // else the figures are as old as their timestamp says
		if runs.Sleep(ctx, showEvery) != nil {
			return
		}
	}
}

// errNotNow reports that Redis has to be complete first.
var errNotNow = runs.NotReady("waiting for redis to be complete")

func (rc *Reconciler) reconcileDue(now time.Time) (due time.Time) {
	if rc.cfg.Every > 0 {
		due = now.Add(-rc.cfg.Every)
	}
	return due
}

func (rc *Reconciler) reconciled(r *Run) {
	if ofMany(r) {
		rc.metrics.reconciled(r)
	}
}

// ofMany reports whether a run was over more than one user.
func ofMany(r *Run) bool { return r.Options.User.IsZero() }

// snapshotHour is when the night's snapshot is due, in UTC.
const snapshotHour = 3

// lastNight is when the newest snapshot was due.
func lastNight(now time.Time) time.Time {
	night := now.Truncate(24 * time.Hour).Add(snapshotHour * time.Hour)
	if night.After(now) {
		night = night.AddDate(0, 0, -1)
	}
	return night
}

// touchedKept is how long it is known who was imported, beyond the snapshot
// that saw it: a Redis that comes back with what it had before then lacks it.
const touchedKept = defaultActive * 24 * time.Hour

// forgetTouched removes who was touched before then, as far as a snapshot that is done
// has seen them. Tombstones are kept.
func (rc *Reconciler) forgetTouched(ctx context.Context, before time.Time) error {
	done, err := rc.Runs.LastDone(ctx, SnapshotRun, nil)
	if err != nil || done == nil {
		return err
	}
	if seen := done.Started.Add(-Settled); seen.Before(before) {
		before = seen
	}
	return rc.sql.forgetTouched(ctx, before)
}

// pace waits until n users have taken as long as the setting wants.
func (rc *Reconciler) pace(ctx context.Context, n int, began time.Time) error {
	return runs.Pace(ctx, n, rc.cfg.Rate, began)
}

func mapped[A, B any](in []A, f func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, a := range in {
		out = append(out, f(a))
	}
	return out
}
