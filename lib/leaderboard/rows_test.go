package leaderboard_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// table is the result of a query: names of members.
type table struct {
	names  []string
	at     int
	err    error // in place of the row after the last one
	closed bool
}

func (r *table) Next() bool   { r.at++; return r.at <= len(r.names) }
func (r *table) Err() error   { return r.err }
func (r *table) Close() error { r.closed = true; return nil }

func (r *table) scan(e *leaderboard.Entry) error {
	if e.Member = r.names[r.at-1]; e.Member == "" {
		return errors.New("a row without a name")
	}
	e.Value = int64(len(e.Member))
	return nil
}

func TestFromRows_LoadsBoard(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.InMemory(t).Open(t)
		now := time.Now()
		for _, c := range []struct {
			name  string
			rows  *table
			err   error // of the query
			fault string
		}{
			{name: "whole", rows: &table{names: []string{"ada", "bobby"}}},
			{name: "no rows", rows: &table{}},
			{name: "query", err: errors.New("no such table"), fault: "no such table"},
			{name: "scan", rows: &table{names: []string{"ada", "", "eve"}}, fault: "a row without a name"},
			{name: "cut off", rows: &table{names: []string{"ada"}, err: errors.New("the line is cut")}, fault: "the line is cut"},
		} {
			board := leaderboard.Exact(db, leaderboard.Named(strings.ReplaceAll(c.name, " ", "-")))
			asked := 0
			entries := leaderboard.FromRows(func() (*table, error) { asked++; return c.rows, c.err }, (*table).scan)
			loaded, err := leaderboard.Ensure(t.Context(), board, now, entries)
			if fault := c.fault; loaded != (fault == "") || (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: loaded %v, %v, want %q", c.name, loaded, err, fault)
			}
			if asked != 1 || c.rows != nil && !c.rows.closed {
				t.Errorf("%s: asked %d times, %+v", c.name, asked, c.rows)
			}
			best, err := board.Top(t.Context(), now, 10)
			switch {
			case c.fault != "" && !errors.Is(err, leaderboard.ErrNotLoaded):
				t.Errorf("%s: the board answers %v, %v", c.name, best, err)
			case c.fault == "" && (err != nil || len(best) != len(c.rows.names)):
				t.Errorf("%s: the board answers %v, %v", c.name, best, err)
			}
		}

		rows := &table{names: []string{"ada", "eve"}}
		for e, err := range leaderboard.FromRows(func() (*table, error) { return rows, nil }, (*table).scan) {
			if e.Member != "ada" || err != nil {
				t.Errorf("%+v, %v", e, err)
			}
			break
		}
		if !rows.closed || rows.at != 1 {
			t.Errorf("a stopped sequence left %+v", rows)
		}
	})
}
