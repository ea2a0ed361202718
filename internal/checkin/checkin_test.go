package checkin

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

func TestUnanswered_TrueForLostConnection(t *testing.T) {
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

func TestEvent_HasStatusOfAPI(t *testing.T) {
	t.Parallel()
	for _, st := range []streak.Status{{}, {Day: civil.DayOf(2026, 11, 21), Today: true, Yesterday: true, Streak: 1, Longest: 20, Total: 300,
		Freezes: 2, Used: 5}} {
		want, err := json.Marshal(wireStatus(st))
		if got := string(appendStatus(nil, st)); err != nil || got != string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
