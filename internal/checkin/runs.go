package checkin

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/runs"
)

// Run is long work on what Redis holds of check-in; see package runs.
type Run = runs.Run[RunOptions, Summary]

// The kinds of runs.
const (
	RebuildRun   runs.Kind = "rebuild"   // boards anew from SQL, records of active users loaded
	ReconcileRun runs.Kind = "reconcile" // compare Redis with SQL, and repair
	SnapshotRun  runs.Kind = "snapshot"  // month bitmaps and totals, from the log
)

// RunKinds are all kinds, each of which some server knows.
var RunKinds = []runs.Kind{RebuildRun, ReconcileRun, SnapshotRun}

type runStore = runs.Store[RunOptions, Summary]

// RunOptions narrow a run. The zero value is all users and everything.
type RunOptions struct {
	Boards bool        `json:"boards,omitempty"` // of a rebuild: the boards alone, unless Records is set too
	Days   int         `json:"days,omitempty"`   // of a rebuild: records of those who were active in so many days, and no boards unless Boards is set
	DryRun bool        `json:"dry_run,omitempty"`
	User   accounts.ID `json:"user,omitzero"`
	Part   int         `json:"part,omitempty"` // of Parts, from 1
	Parts  int         `json:"parts,omitempty"`
}

// MaxParts is into how many parts the users can be cut.
const MaxParts = 4096

// ErrRunOptions reports options that no run can have.
var ErrRunOptions = errs.New(errs.Invalid, "checkin.run_options", "A part is k/n with k from 1 to n and n at most 4096; days are 1 to 366.")

func (o RunOptions) check() error {
	if o.Parts < 0 || o.Parts > MaxParts || o.Part < 0 || o.Part > o.Parts || (o.Part == 0) != (o.Parts == 0) || o.Days < 0 || o.Days > 366 {
		return ErrRunOptions
	}
	return nil
}

// String names what is not the zero value, as flags of the command line do.
func (o RunOptions) String() string {
	var said []string
	switch {
	case o.Boards && o.Days == 0:
		said = append(said, "boards")
	case o.Days != 0 && !o.Boards:
		said = append(said, "records")
	}
	if o.Days != 0 {
		said = append(said, fmt.Sprintf("--days %d", o.Days))
	}
	if o.DryRun {
		said = append(said, "--dry-run")
	}
	if !o.User.IsZero() {
		said = append(said, "--user "+o.User.String())
	}
	if o.Parts != 0 {
		said = append(said, fmt.Sprintf("--part %d/%d", o.Part, o.Parts))
	}
	return strings.Join(said, " ")
}

// Summary is what a run has done.
type Summary struct {
	Compared    int `json:"compared,omitempty"`    // users
	Differing   int `json:"differing,omitempty"`   // users
	Differences int `json:"differences,omitempty"` // lines of the log
	Repaired    int `json:"repaired,omitempty"`    // lines of the log
	Abnormal    int `json:"abnormal,omitempty"`    // users whose days in SQL became fewer, or their streak too long
	Placed      int `json:"placed,omitempty"`      // users put on boards
	Loaded      int `json:"loaded,omitempty"`      // records
	Persisted   int `json:"persisted,omitempty"`   // users whose months and totals were written
}

// figures are those that are not 0, by name.
func (s Summary) figures(yield func(name string, n int) bool) {
	for _, f := range []struct {
		name string
		n    int
	}{{"compared", s.Compared}, {"differing", s.Differing}, {"differences", s.Differences}, {"repaired", s.Repaired},
		{"abnormal", s.Abnormal}, {"placed", s.Placed}, {"loaded", s.Loaded}, {"persisted", s.Persisted}} {
		if f.n != 0 && !yield(f.name, f.n) {
			return
		}
	}
}

// String names what is not 0.
func (s Summary) String() string {
	var said []string
	for name, n := range s.figures {
		said = append(said, fmt.Sprintf("%d %s", n, name))
	}
	return strings.Join(said, ", ")
}

// LogValue has a log show a field for each figure.
func (s Summary) LogValue() slog.Value {
	var attrs []slog.Attr
	for name, n := range s.figures {
		attrs = append(attrs, slog.Int(name, n))
	}
	return slog.GroupValue(attrs...)
}

// touchedKept is how long it is known who was imported, beyond the snapshot
// that saw it: a Redis that comes back with what it had before then lacks it.
const touchedKept = defaultActive * 24 * time.Hour

// errNotNow reports that Redis has to be complete first.
var errNotNow = runs.NotReady("waiting for redis to be complete")

// newRunWorker returns what does this node's slices. A snapshot needs SQL alone: it
// does not wait behind a run that waits for Redis.
func (s *Service) newRunWorker() *runs.Worker[RunOptions, Summary] {
	return runs.NewWorker(runs.Config[RunOptions, Summary]{
		Store: s.runs, Node: s.node, Now: s.now, Log: s.log,
		Kinds: map[runs.Kind]runs.Work[RunOptions, Summary]{
			RebuildRun:   {Slice: s.rebuildSlice, Ready: s.projection.Up},
			ReconcileRun: {Slice: s.reconcileSlice, Ready: s.projection.Up, Due: s.reconcileDue, Finished: s.reconciled},
			SnapshotRun:  {Slice: s.snapshotSlice, Due: lastNight},
		},
		Upkeep: func(ctx context.Context, now time.Time) error { return s.forgetTouched(ctx, now.Add(-touchedKept)) },
	})
}

// lastNight is when the newest snapshot was due.
func lastNight(now time.Time) time.Time {
	night := now.Truncate(24 * time.Hour).Add(snapshotHour * time.Hour)
	if night.After(now) {
		night = night.AddDate(0, 0, -1)
	}
	return night
}

func (s *Service) reconcileDue(now time.Time) (due time.Time) {
	if s.rules.ReconcileEvery > 0 {
		due = now.Add(-s.rules.ReconcileEvery)
	}
	return due
}

func (s *Service) reconciled(r *Run) {
	if ofMany(r) {
		s.metrics.reconciled(r)
	}
}

// ofMany reports whether a run was over more than one user.
func ofMany(r *Run) bool { return r.Options.User.IsZero() }

// forgetTouched removes who was touched before then, as far as a snapshot that is done
// has seen them. Tombstones are kept.
func (s *Service) forgetTouched(ctx context.Context, before time.Time) error {
	done, err := s.runs.LastDone(ctx, SnapshotRun, nil)
	if err != nil || done == nil {
		return err
	}
	if seen := done.Started.Add(-settled); seen.Before(before) {
		before = seen
	}
	return s.sql.forgetTouched(ctx, before)
}

// showEvery is the interval at which a node looks what the last reconciliation found:
// another node may have done it, or this one before it was restarted.
const showEvery = 15 * time.Second

// showReconciliations keeps the metrics of the last reconciliation until ctx
// ends. They are those of all nodes: an alert about one that has been followed by
// a better one must end everywhere.
func (s *Service) showReconciliations(ctx context.Context) {
	for {
		if r, err := s.runs.LastDone(ctx, ReconcileRun, ofMany); err == nil && r != nil {
			s.metrics.reconciled(r)
		} // else the figures are as old as their timestamp says
		if sleep(ctx, showEvery) != nil {
			return
		}
	}
}

// rebuildSlice does the boards in one go and the records in slices.
func (s *Service) rebuildSlice(ctx context.Context, r *Run, until time.Time) (finished bool, err error) {
	if !s.projection.Up() {
		return false, errNotNow
	}
	boards, days := r.Options.Boards, r.Options.Days
	if !boards && days == 0 {
		boards, days = true, defaultActive
	}
	if r.Resume.Stage == "" {
		if boards {
			n, err := s.sql.countUsers(ctx, "", "")
			if err != nil {
				return false, err
			}
			r.Done, r.Total = 0, n*int64(len(ranking.Current(s.now()))) // at the most
			placed, err := s.rebuildBoardsAnew(ctx, r)
			if err != nil {
				return false, err
			}
			r.Summary.Placed = placed
		}
		r.Resume.Stage, r.Done, r.Total = "records", 0, 0
		if days != 0 {
			if r.Total, err = s.sql.countActive(ctx, activeSince(s.now(), days)); err != nil {
				return false, err
			}
		}
	}
	if days == 0 {
		return true, nil
	}
	now := s.now()
	for time.Now().Before(until) {
		began := time.Now()
		users, err := s.sql.activeAfter(ctx, r.Resume.Cursor, activeSince(now, days), chunkUsers)
		if err != nil || len(users) == 0 {
			return err == nil, err
		}
		if err := s.warm(ctx, users); err != nil {
			return false, err
		}
		r.Summary.Loaded += len(users)
		r.Done += int64(len(users))
		r.Resume.Cursor = users[len(users)-1].String()
		if err := s.pace(ctx, len(users), began); err != nil {
			return false, err
		}
	}
	return false, nil
}

func activeSince(now time.Time, days int) civil.Day {
	return civil.Clock{}.Today(now) - civil.Day(days)
}
