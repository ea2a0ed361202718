// Package runs runs long work on all data of a domain: comparing, rebuilding, counting. A run is a row in SQL. An
// operator or a schedule requests it, and a server works on it in slices of two seconds. After each slice the server
// stores the progress in the row, so that another node can continue after a crash.
//
// A lease ensures that one node works on runs at a time. While leases are unavailable two nodes may work on a run. Each
// row has a revision, and a node that finds a newer revision leaves the run to the other node ([ErrOvertaken]).
//
// Each difference that a run finds is a row of the repair log, written in the transaction that stores the progress
// ([Store.Save]).
//
// A domain has two tables of its own with the columns of checkin_runs and checkin_repairs. It defines one type for the
// options of its runs and one for their summaries. Both are stored as JSON.
package runs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Kind is the kind of a [Run].
type Kind string

// State is the state of a [Run].
type State string

// The states of a run in their order. A run ends as Done or as Failed.
const (
	Waiting State = "waiting"
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
)

// Run is long work. Zero Options select all data.
type Run[Options, Summary any] struct {
	ID      int64     `json:"id"`
	Kind    Kind      `json:"kind"`
	Options Options   `json:"options"`
	State   State     `json:"state"`
	Done    int64     `json:"done"`
	Total   int64     `json:"total"` // 0 while unknown
	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	Node    string    `json:"node,omitempty"`  // that worked on the last slice
	Error   string    `json:"error,omitempty"` // why it failed, or what it waits for
	Summary Summary   `json:"summary"`

	Resume Resume `json:"-"`

	rev int64
}

// Resume is the position of the next slice.
type Resume struct {
	Stage  string `json:"stage,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	At     int64  `json:"at,omitempty"` // second part of the cursor
	Fails  int    `json:"fails,omitempty"`
}

// Beat returns a value that changes each time a server has worked on the run, even without visible progress.
func (r *Run[O, S]) Beat() int64 { return r.rev }

// Repair is a row of the repair log: a difference between derived data and its source.
type Repair struct {
	ID       int64     `json:"id"`
	At       time.Time `json:"at"`
	Run      int64     `json:"run"`
	User     string    `json:"user"` // or the name of another subject
	What     string    `json:"what"`
	Was      string    `json:"was"`
	Becomes  string    `json:"becomes"`
	Repaired bool      `json:"repaired"` // false after a dry run
}

// ErrUnknown reports that no run has the id.
var ErrUnknown = errs.New(errs.NotFound, "checkin.run_unknown", "There is no such run.")

// ErrOvertaken reports that another node has stored progress of the run since it was read. That progress is kept.
var ErrOvertaken = errors.New("another node continued the run")

type notReady struct{ error }

// NotReady returns an error with the reason why the run cannot continue yet. It never counts as a failure of the run.
func NotReady(why string) error { return notReady{errors.New(why)} }

// Pace waits until n items that started at began have taken the time of perSecond items per second. 0 means no limit.
func Pace(ctx context.Context, n, perSecond int, began time.Time) error {
	if perSecond == 0 || n == 0 {
		return nil
	}
	return Sleep(ctx, time.Until(began.Add(time.Duration(n)*time.Second/time.Duration(perSecond))))
}

// Sleep waits for d. If ctx ends first, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// row is a stored run.
type row struct {
	ID      int64  `bun:"id"`
	Kind    string `bun:"kind"`
	Options string `bun:"options"`
	State   string `bun:"state"`
	Done    int64  `bun:"done"`
	Total   int64  `bun:"total"`
	Created int64  `bun:"created"`
	Started int64  `bun:"started"`
	Ended   int64  `bun:"ended"`
	Node    string `bun:"node"`
	Error   string `bun:"error"`
	Summary string `bun:"summary"`
	Resume  string `bun:"resume_at"`
	Rev     int64  `bun:"rev"`
}

func (r *Run[O, S]) row() (row, error) {
	options, err1 := json.Marshal(r.Options)
	summary, err2 := json.Marshal(r.Summary)
	resume, err3 := json.Marshal(r.Resume)
	return row{ID: r.ID, Kind: string(r.Kind), Options: string(options), State: string(r.State), Done: r.Done, Total: r.Total,
		Created: sqldb.MillisOrZero(r.Created), Started: sqldb.MillisOrZero(r.Started), Ended: sqldb.MillisOrZero(r.Ended), Node: r.Node,
		Error:   Shorten(r.Error, 500),
		Summary: string(summary), Resume: string(resume), Rev: r.rev}, errors.Join(err1, err2, err3)
}

func runOf[O, S any](row row) (Run[O, S], error) {
	r := Run[O, S]{ID: row.ID, Kind: Kind(row.Kind), State: State(row.State), Done: row.Done, Total: row.Total,
		Created: sqldb.TimeOrZero(row.Created), Started: sqldb.TimeOrZero(row.Started), Ended: sqldb.TimeOrZero(row.Ended), Node: row.Node,
		Error: row.Error, rev: row.Rev}
	return r, errors.Join(json.Unmarshal([]byte(row.Options), &r.Options), json.Unmarshal([]byte(row.Summary), &r.Summary),
		json.Unmarshal([]byte(row.Resume), &r.Resume))
}

// Shorten cuts text to n characters, as many as a column of a repair takes.
func Shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
