package checkin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
)

// RunKind is what a [Run] does.
type RunKind string

// The kinds of runs.
const (
	RebuildRun   RunKind = "rebuild"   // boards anew from SQL, records of active users loaded
	ReconcileRun RunKind = "reconcile" // compare Redis with SQL, and repair
	SnapshotRun  RunKind = "snapshot"  // month bitmaps and totals, from the log
)

// RunOptions narrow a run. The zero value is everybody and everything.
type RunOptions struct {
	Boards bool        `json:"boards,omitempty"` // of a rebuild: the boards alone, unless Records is set too
	Days   int         `json:"days,omitempty"`   // of a rebuild: records of who was active in so many days, and no boards unless Boards is set
	DryRun bool        `json:"dry_run,omitempty"`
	User   accounts.ID `json:"user,omitzero"`
	Part   int         `json:"part,omitempty"` // of Parts, from 1
	Parts  int         `json:"parts,omitempty"`
}

// MaxParts is into how many parts the users can be cut.
const MaxParts = 4096

// What a run can be asked for wrongly.
var (
	ErrNoRun      = errs.New(errs.NotFound, "checkin.run_unknown", "There is no such run.")
	ErrRunOptions = errs.New(errs.Invalid, "checkin.run_options", "A part is k/n with k from 1 to n and n at most 4096; days are 1 to 366.")
)

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

// RunState is how far a [Run] is.
type RunState string

// The states of a run, in their order; Failed takes the place of Done.
const (
	runWaiting RunState = "waiting"
	runRunning RunState = "running"
	RunDone    RunState = "done"
	RunFailed  RunState = "failed"
)

// Run is work on what Redis holds, asked for in SQL and done by a server in
// slices. Whatever node comes next goes on where the last slice ended.
type Run struct {
	ID      int64      `json:"id"`
	Kind    RunKind    `json:"kind"`
	Options RunOptions `json:"options"`
	State   RunState   `json:"state"`
	Done    int64      `json:"done"`
	Total   int64      `json:"total"` // 0 while unknown
	Created time.Time  `json:"created"`
	Started time.Time  `json:"started,omitzero"`
	Ended   time.Time  `json:"ended,omitzero"`
	Node    string     `json:"node,omitempty"`  // that did the last slice
	Error   string     `json:"error,omitempty"` // why it failed, or what it waits for
	Summary Summary    `json:"summary"`

	resume resume
	rev    int64
}

// Beat changes whenever a server has worked on the run, whether that shows in its
// figures or not.
func (r *Run) Beat() int64 { return r.rev }

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

// resume says where the next slice begins.
type resume struct {
	Stage  string `json:"stage,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	At     int64  `json:"at,omitempty"` // of a snapshot's cursor
	Fails  int    `json:"fails,omitempty"`
}

// Repair is one line of the repair log: a difference between Redis and SQL.
type Repair struct {
	ID       int64     `json:"id"`
	At       time.Time `json:"at"`
	Run      int64     `json:"run"`
	User     string    `json:"user"` // or a member of a board that is none
	What     string    `json:"what"`
	Was      string    `json:"was"`
	Becomes  string    `json:"becomes"`
	Repaired bool      `json:"repaired"` // false after a dry run
}

func (r *Run) row() runRow {
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // numbers, switches and ids
		}
		return string(b)
	}
	ms := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixMilli()
	}
	return runRow{ID: r.ID, Kind: string(r.Kind), Options: text(r.Options), State: string(r.State), Done: r.Done, Total: r.Total,
		Created: ms(r.Created), Started: ms(r.Started), Ended: ms(r.Ended), Node: r.Node, Error: cut(r.Error, 500),
		Summary: text(r.Summary), Resume: text(r.resume), Rev: r.rev}
}

func (row runRow) run() (Run, error) {
	at := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms).UTC()
	}
	r := Run{ID: row.ID, Kind: RunKind(row.Kind), State: RunState(row.State), Done: row.Done, Total: row.Total,
		Created: at(row.Created), Started: at(row.Started), Ended: at(row.Ended), Node: row.Node, Error: row.Error, rev: row.Rev}
	return r, errors.Join(json.Unmarshal([]byte(row.Options), &r.Options), json.Unmarshal([]byte(row.Summary), &r.Summary), json.Unmarshal([]byte(row.Resume), &r.resume))
}

// cut shortens text to n characters.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

const (
	// slice is how long a run is worked on before its state is stored and the
	// node may stop.
	slice = 2 * time.Second
	// runTries is how often a slice may fail before the run has failed. Waiting
	// for an engine that is away is not failing.
	runTries = 5
	// againAfter is how long after it failed a run that comes round is asked for
	// again.
	againAfter = time.Hour
	// runsKept is how long runs, and differences that were not repaired, can be
	// looked up.
	runsKept = 400 * 24 * time.Hour
	// touchedKept is how long it is known who was imported, beyond the snapshot
	// that saw it: a Redis that comes back with what it had before then lacks it.
	touchedKept = defaultActive * 24 * time.Hour
)

// errOvertaken reports that another node works on the run as well: leases may
// be in two hands while Redis is away. What it stored stands.
var errOvertaken = errors.New("another node went on with the run")

// errNotNow reports that Redis has to be complete first.
var errNotNow = errors.New("waiting for redis to be complete")

// workOnRuns does one slice of the run that is due and reports whether there is
// more to do at once.
func (s *Service) workOnRuns(ctx context.Context) (more bool, err error) {
	defer errs.Wrap(&err, "checkin.workOnRuns")
	if err := s.requestDue(ctx); err != nil {
		return false, err
	}
	r, err := s.nextRun(ctx)
	if err != nil || r == nil {
		return false, err
	}
	defer errs.Wrap(&err, "run %d", r.ID)
	if r.State == runWaiting {
		r.State, r.Started = runRunning, s.now()
	}
	r.Node = s.node
	if err := s.store.saveRun(ctx, r, nil); err != nil { // whoever waits for it sees that it was taken
		return false, ignore(err, errOvertaken)
	}
	finished, err := s.workOn(ctx, r)
	switch {
	case err == nil && !finished:
		r.Error, r.resume.Fails = "", 0
	case err == nil:
		r.State, r.Ended, r.Error = RunDone, s.now(), ""
	case errors.Is(err, errOvertaken):
		return false, nil
	case ctx.Err() != nil:
		return false, err // the next node goes on from what is stored
	case errors.Is(err, errNotNow):
		r.Error = errNotNow.Error()
	default:
		r.Error = err.Error()
		if r.resume.Fails++; r.resume.Fails >= runTries {
			r.State, r.Ended = RunFailed, s.now()
		}
	}
	if saveErr := s.store.saveRun(ctx, r, nil); saveErr != nil {
		return false, errors.Join(err, ignore(saveErr, errOvertaken))
	}
	if r.State == RunDone {
		s.finished(ctx, r)
	}
	if errors.Is(err, errNotNow) {
		return false, nil
	}
	return err == nil, err
}

// everyKind are all kinds, each of which some server knows.
var everyKind = []RunKind{RebuildRun, ReconcileRun, SnapshotRun}

// nextRun returns the run that is due. A snapshot needs SQL alone: it does not wait
// behind one that waits for Redis.
func (s *Service) nextRun(ctx context.Context) (*Run, error) {
	r, err := s.store.nextRun(ctx, everyKind...)
	if err != nil || r == nil || r.Kind == SnapshotRun || s.projection.Up() {
		return r, err
	}
	if snapshot, err := s.store.nextRun(ctx, SnapshotRun); err != nil || snapshot != nil {
		return snapshot, err
	}
	return r, nil // it says what it waits for
}

func ignore(err, this error) error {
	if errors.Is(err, this) {
		return nil
	}
	return err
}

func (s *Service) workOn(ctx context.Context, r *Run) (finished bool, err error) {
	until := time.Now().Add(slice)
	switch r.Kind {
	case RebuildRun:
		return s.rebuildSlice(ctx, r, until)
	case ReconcileRun:
		return s.reconcileSlice(ctx, r, until)
	case SnapshotRun:
		return s.snapshotSlice(ctx, r, until)
	}
	return false, fmt.Errorf("this server knows no runs of kind %q", r.Kind)
}

// finished tells what a run came to.
func (s *Service) finished(ctx context.Context, r *Run) {
	s.log.LogAttrs(ctx, slog.LevelInfo, "a run over check-in is done", slog.Int64("run", r.ID), slog.String("kind", string(r.Kind)),
		slog.Bool("dry_run", r.Options.DryRun), slog.Any("summary", r.Summary), slog.Duration("took", r.Ended.Sub(r.Started)))
	if r.Kind == ReconcileRun && r.Options.User.IsZero() {
		s.metrics.reconciled(r)
	}
}

// showEvery is how often a node looks what the last reconciliation found, which
// may have been done by another node or before this one was started.
var showEvery = 15 * time.Second

// showReconciliations keeps the metrics of the last reconciliation until ctx
// ends. They are those of all nodes: an alert about one that has been followed by
// a better one must end everywhere.
func (s *Service) showReconciliations(ctx context.Context) {
	for {
		if r, err := s.store.lastReconciled(ctx); err == nil && r != nil {
			s.metrics.reconciled(r)
		} // else the figures are as old as their timestamp says
		if sleep(ctx, showEvery) != nil {
			return
		}
	}
}

// requestDue asks for the runs that come round by themselves.
func (s *Service) requestDue(ctx context.Context) error {
	now := s.now()
	if now.Before(s.nextDue) {
		return nil
	}
	night := now.Truncate(24 * time.Hour).Add(snapshotHour * time.Hour)
	if night.After(now) {
		night = night.AddDate(0, 0, -1)
	}
	due := map[RunKind]time.Time{SnapshotRun: night}
	if s.rules.ReconcileEvery > 0 {
		due[ReconcileRun] = now.Add(-s.rules.ReconcileEvery)
	}
	for kind, before := range due {
		last, err := s.store.lastRun(ctx, kind, now.Add(-againAfter))
		if err != nil {
			return err
		}
		if last.Before(before) {
			if err := s.store.addRun(ctx, &Run{Kind: kind, State: runWaiting, Created: now}); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(s.store.forgetRuns(ctx, now.Add(-runsKept)), s.store.forgetTouched(ctx, now.Add(-touchedKept))); err != nil {
		return err
	}
	s.nextDue = now.Add(time.Minute)
	return nil
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
	if r.resume.Stage == "" {
		if boards {
			n, err := s.store.countUsers(ctx, "", "")
			if err != nil {
				return false, err
			}
			r.Done, r.Total = 0, n*int64(len(current(s.now()))) // at the most
			placed, err := s.rebuildBoardsAnew(ctx, r)
			if err != nil {
				return false, err
			}
			r.Summary.Placed = placed
		}
		r.resume.Stage, r.Done, r.Total = "records", 0, 0
		if days != 0 {
			if r.Total, err = s.store.countActive(ctx, activeSince(s.now(), days)); err != nil {
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
		users, err := s.store.activeAfter(ctx, r.resume.Cursor, activeSince(now, days), chunkUsers)
		if err != nil || len(users) == 0 {
			return err == nil, err
		}
		if err := s.warm(ctx, users); err != nil {
			return false, err
		}
		r.Summary.Loaded += len(users)
		r.Done += int64(len(users))
		r.resume.Cursor = users[len(users)-1].String()
		if err := s.pace(ctx, len(users), began); err != nil {
			return false, err
		}
	}
	return false, nil
}

func activeSince(now time.Time, days int) civil.Day { return dayAt(now) - civil.Day(days) }
