package checkin

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
)

func TestALostConnectionLeavesTheCommitOpen(t *testing.T) {
	t.Parallel()
	refused := error(&net.OpError{Op: "dial", Err: io.EOF})
	deadlock := error(&mysql.MySQLError{Number: 1213})
	for _, tt := range []struct {
		what string
		err  error
		want bool
	}{
		{"nobody was there", refused, false},
		{"the engine undid it", deadlock, false},
		{"the engine undid it, then nobody was there", errors.Join(deadlock, refused), false},
		{"the connection broke", mysql.ErrInvalidConn, true},
		{"the connection broke, then nobody was there", errors.Join(mysql.ErrInvalidConn, refused), true},
		{"the answer did not come, then nobody was there", errors.Join(&net.OpError{Op: "read", Err: io.EOF}, refused), true},
	} {
		if got := unanswered(tt.err); got != tt.want {
			t.Errorf("%s: open %t, want %t", tt.what, got, tt.want)
		}
	}
}

func TestARecordTellsAWeekOverNewYear(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		newYear := civil.DayOf(2020+random.IntN(12), 1, 1)
		var h streak.History
		for d := newYear - 20; d < newYear+20; d++ {
			if random.IntN(2) == 0 {
				h.Marks = append(h.Marks, streak.Mark{Day: d, Kind: streak.Kind(1 + random.IntN(4))})
			}
		}
		rec := streak.RecordOf(newYear.Year(), h)
		for day := newYear; day < newYear+20; day++ {
			for _, b := range seasonsOf(day) {
				first, last := b.span()
				if first > day || day > last || WeekOf(first) != WeekOf(day) && b == WeekOf(day) {
					t.Fatalf("%s is not in %s, %s to %s", day, b.key(), first, last)
				}
				want, _ := h.SignedIn(b.span())
				if got := rec.SignedIn(newYear.Year(), first, last); got != want {
					t.Fatalf("%s: %d days by the record, %d by the log", b.key(), got, want)
				}
			}
		}
	}
}

func TestAnEventHasTheStatusAsTheAPIDoes(t *testing.T) {
	t.Parallel()
	for _, st := range []streak.Status{{}, {Day: civil.DayOf(2026, 11, 21), Today: true, Yesterday: true, Streak: 1, Longest: 20, Total: 300, Freezes: 2, Used: 5}} {
		want, err := json.Marshal(wireStatus(st))
		if got := string(appendStatus(nil, st)); err != nil || got != string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
