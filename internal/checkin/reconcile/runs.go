package reconcile

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Run is long work on check-in's data in Redis; see package runs.
type Run = runs.Run[Options, Summary]

// The kinds of runs.
const (
	RebuildRun   runs.Kind = "rebuild"   // loads boards from SQL again, and records of active users
	ReconcileRun runs.Kind = "reconcile" // compare Redis with SQL, and repair
	SnapshotRun  runs.Kind = "snapshot"  // month bitmaps and totals, from the log
)

// Kinds are all kinds of runs that servers do.
var Kinds = []runs.Kind{RebuildRun, ReconcileRun, SnapshotRun}

// Store has the runs and the repair log.
type Store = runs.Store[Options, Summary]

// Options narrow a run. The zero value selects all users and everything.
type Options struct {
	Boards bool        `json:"boards,omitempty"` // of a rebuild: the boards alone, unless Days is set too
	Days   int         `json:"days,omitempty"`   // of a rebuild: records of users active in so many days; no boards unless Boards is set
	DryRun bool        `json:"dry_run,omitempty"`
	User   accounts.ID `json:"user,omitzero"`
	Part   int         `json:"part,omitempty"` // of Parts, from 1
	Parts  int         `json:"parts,omitempty"`
}

// MaxParts is the largest number of parts of the users.
const MaxParts = 4096

// ErrOptions reports invalid options.
var ErrOptions = errs.New(errs.Invalid, "checkin.run_options", "Use k/n with k from 1 to n and n up to 4096, and 1 to 366 days.")

// Validate returns ErrOptions if no run can have these options.
func (o Options) Validate() error {
	if o.Parts < 0 || o.Parts > MaxParts || o.Part < 0 || o.Part > o.Parts || (o.Part == 0) != (o.Parts == 0) || o.Days < 0 || o.Days > 366 {
		return ErrOptions
	}
	return nil
}

// String returns the options that are not zero, as flags of the command line.
func (o Options) String() string {
	var parts []string
	switch {
	case o.Boards && o.Days == 0:
		parts = append(parts, "boards")
	case o.Days != 0 && !o.Boards:
		parts = append(parts, "records")
	}
	if o.Days != 0 {
		parts = append(parts, fmt.Sprintf("--days %d", o.Days))
	}
	if o.DryRun {
		parts = append(parts, "--dry-run")
	}
	if !o.User.IsZero() {
		parts = append(parts, "--user "+o.User.String())
	}
	if o.Parts != 0 {
		parts = append(parts, fmt.Sprintf("--part %d/%d", o.Part, o.Parts))
	}
	return strings.Join(parts, " ")
}

// Summary is the result of a run.
type Summary struct {
	Compared    int `json:"compared,omitempty"`    // users
	Differing   int `json:"differing,omitempty"`   // users
	Differences int `json:"differences,omitempty"` // lines of the repair log
	Repaired    int `json:"repaired,omitempty"`    // lines of the repair log
	Abnormal    int `json:"abnormal,omitempty"`    // users whose days in SQL became fewer, or whose streak is too long
	Placed      int `json:"placed,omitempty"`      // users put on boards
	Loaded      int `json:"loaded,omitempty"`      // records
	Persisted   int `json:"persisted,omitempty"`   // users whose months and totals were written
}

// figures yields the figures that are not 0, by name.
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

// String returns the figures that are not 0.
func (s Summary) String() string {
	var parts []string
	for name, n := range s.figures {
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
	}
	return strings.Join(parts, ", ")
}

// LogValue returns one attribute for each figure that is not 0.
func (s Summary) LogValue() slog.Value {
	var attrs []slog.Attr
	for name, n := range s.figures {
		attrs = append(attrs, slog.Int(name, n))
	}
	return slog.GroupValue(attrs...)
}
