// Package runs does long work on everything that a domain has: comparing, rebuilding,
// counting. A run is a row in SQL. It is requested there, by an operator or because its
// time has come, and some server does it in slices of two seconds. After each slice the
// row says how far the run is, so that another node can go on where a dead one stopped.
//
// One node at a time works on runs; a lease sees to that. While leases are away two
// nodes may: each row has a revision, and a node that finds a newer one leaves the run
// to the other node ([ErrOvertaken]).
//
// Each fault that a run finds is a line of the repair log, written in the transaction that
// says how far the run is ([Store.Save]).
//
// A domain has two tables of its own, laid out as the migrations of checkin_runs and
// checkin_repairs are, and says with two types what its runs can be asked for and what
// they come to; both are stored as JSON.
package runs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Kind is what a [Run] does.
type Kind string

// State is how far a [Run] is.
type State string

// The states of a run, in their order; Failed takes the place of Done.
const (
	Waiting State = "waiting"
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
)

// Run is a piece of long work. The zero Options are the whole of it.
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
	Node    string    `json:"node,omitempty"`  // that did the last slice
	Error   string    `json:"error,omitempty"` // why it failed, or what it waits for
	Summary Summary   `json:"summary"`

	Resume Resume `json:"-"`

	rev int64
}

// Resume says where the next slice begins.
type Resume struct {
	Stage  string `json:"stage,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	At     int64  `json:"at,omitempty"` // a second part of the cursor
	Fails  int    `json:"fails,omitempty"`
}

// Beat changes whenever a server has worked on the run, whether that shows in its
// figures or not.
func (r *Run[O, S]) Beat() int64 { return r.rev }

// Repair is one line of the repair log: a difference between what is derived and the
// truth.
type Repair struct {
	ID       int64     `json:"id"`
	At       time.Time `json:"at"`
	Run      int64     `json:"run"`
	User     string    `json:"user"` // or the name of something that is no user
	What     string    `json:"what"`
	Was      string    `json:"was"`
	Becomes  string    `json:"becomes"`
	Repaired bool      `json:"repaired"` // false after a dry run
}

// ErrUnknown reports that there is no run with that id.
var ErrUnknown = errs.New(errs.NotFound, "checkin.run_unknown", "There is no such run.")

// ErrOvertaken reports that another node has worked on the run since it was read. What
// the other node stored stands.
var ErrOvertaken = errors.New("another node went on with the run")

type notReady struct{ error }

// NotReady is an error by which a slice says what the run waits for. The run does not
// fail, however often that is.
func NotReady(why string) error { return notReady{errors.New(why)} }

// Pace waits until n things that were begun at a time have taken as long as they should
// at so many a second; 0 is no limit.
func Pace(ctx context.Context, n, perSecond int, began time.Time) error {
	if perSecond == 0 || n == 0 {
		return nil
	}
	return Sleep(ctx, time.Until(began.Add(time.Duration(n)*time.Second/time.Duration(perSecond))))
}

// Sleep waits for d. Where ctx ends before that, it returns the cause.
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

// row is a run as it is stored.
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
		Created: sqldb.MillisOrZero(r.Created), Started: sqldb.MillisOrZero(r.Started), Ended: sqldb.MillisOrZero(r.Ended), Node: r.Node, Error: Shorten(r.Error, 500),
		Summary: string(summary), Resume: string(resume), Rev: r.rev}, errors.Join(err1, err2, err3)
}

func runOf[O, S any](row row) (Run[O, S], error) {
	r := Run[O, S]{ID: row.ID, Kind: Kind(row.Kind), State: State(row.State), Done: row.Done, Total: row.Total,
		Created: sqldb.TimeOrZero(row.Created), Started: sqldb.TimeOrZero(row.Started), Ended: sqldb.TimeOrZero(row.Ended), Node: row.Node, Error: row.Error, rev: row.Rev}
	return r, errors.Join(json.Unmarshal([]byte(row.Options), &r.Options), json.Unmarshal([]byte(row.Summary), &r.Summary), json.Unmarshal([]byte(row.Resume), &r.Resume))
}

// Shorten cuts text to n characters, as many as a column of a repair takes.
func Shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
