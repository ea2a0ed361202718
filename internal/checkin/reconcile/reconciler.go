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

// Config has the dependencies and settings of a [Reconciler].
type Config struct {
	DB           *sqldb.DB
	Records      *records.Store // with the time limits of background work
	Boards       *ranking.Boards
	Every        time.Duration // how often Redis is compared with SQL; 0: only by request
	Rate         int           // users per second, at most; 0: no limit
	RecheckAfter time.Duration // the time before a user who differs is rechecked; 0: two seconds
	Node         string        // this process, as runs show it
	Metrics      prometheus.Registerer
	Log          *slog.Logger
	Now          func() time.Time

	// Up reports whether Redis has everything that was acknowledged. Otherwise, runs that compare it or write to it
	// wait.
	Up func() bool
	// Clocks returns the clocks of users.
	Clocks func(context.Context, []accounts.ID) (map[accounts.ID]civil.Clock, error)
	// Histories returns all days of some users. They include the acknowledged ones that SQL does not have yet. It
	// returns an error if Redis does not return these.
	Histories func(context.Context, []accounts.ID) (map[accounts.ID]streak.History, error)
	// Logged returns the days of some users that SQL has.
	Logged func(context.Context, []accounts.ID) (map[accounts.ID]streak.History, error)
	// Flush returns when SQL has the acknowledged check-ins of some users.
	Flush func(context.Context, []accounts.ID) error
	// FlushSome writes to SQL, page by page, the acknowledged check-ins of the last days that it lacks. It returns how
	// many check-ins it has compared and the cursor of the next page, which is empty after the last one.
	FlushSome func(ctx context.Context, cursor string) (n int, next string, err error)
	// Renew merges the log of a user into all records that Redis has. With boards, it also moves the user to the right
	// places.
	Renew func(ctx context.Context, user accounts.ID, boards bool) error
	// EraseLate erases those users who no longer have an account, and returns the others.
	EraseLate func(context.Context, []accounts.ID) ([]accounts.ID, error)
}

// Reconciler does the runs of check-in.
type Reconciler struct {
	Runs *Store // the runs that are done, in progress or waiting, and the repair log

	cfg     Config
	sql     *sqlStore
	records *records.Store
	boards  *ranking.Boards
	metrics *metrics
	log     *slog.Logger
	now     func() time.Time
	worker  *runs.Worker[Options, Summary]
	more    bool // used only by the job that works on runs
}

// New returns a reconciler. [Reconciler.Jobs] do its work.
func New(cfg Config) *Reconciler {
	cfg.RecheckAfter = cmp.Or(cfg.RecheckAfter, recheckAfter)
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

// Step does one slice of the run that is due. It reports whether there is more to do at once. Only one goroutine may
// call it at a time.
func (rc *Reconciler) Step(ctx context.Context) (more bool, err error) { return rc.worker.Step(ctx) }

// showEvery is the interval between two reads of the result of the last reconciliation, because another node may have
// done it, or this one before a restart.
const showEvery = time.Minute

// Run updates the metrics of the last reconciliation until ctx ends. All nodes show the same run: an alert must end on
// every node after a better run.
func (rc *Reconciler) Run(ctx context.Context) {
	for {
		if r, err := rc.Runs.LastDone(ctx, ReconcileRun, ofMany); err == nil && r != nil {
			rc.metrics.reconciled(r)
		} // else the figures are as old as their timestamp
		if runs.Sleep(ctx, showEvery) != nil {
			return
		}
	}
}

// errNotNow reports that the run needs a complete Redis.
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

// snapshotHour is the hour of the nightly snapshot, in UTC.
const snapshotHour = 3

// lastNight returns when the newest snapshot was due.
func lastNight(now time.Time) time.Time {
	night := now.Truncate(24 * time.Hour).Add(snapshotHour * time.Hour)
	if night.After(now) {
		night = night.AddDate(0, 0, -1)
	}
	return night
}

// touchedKept is the time that touched users are stored after the snapshot that included them. A Redis that returns
// with older data lacks their imports.
const touchedKept = defaultActive * 24 * time.Hour

// forgetTouched deletes the users who were touched before that time and whom a finished snapshot has included. It does
// not delete tombstones.
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

// pace waits until n users have taken as long as the setting requires.
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
