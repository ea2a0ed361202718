package checkin

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestSQL_HangingIsUnavailable(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		users := newUsers(2)
		var held []*sql.Conn
		for _, pool := range []*sql.DB{w.db.Writer(), w.db.Reader()} {
			for range pool.Stats().MaxOpenConnections {
				conn, err := pool.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				held = append(held, conn)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if res, err := w.Mark(ctx, users[0], civil.Clock{}, Activity{}, 1); !errors.Is(err, ErrStore) {
			t.Errorf("a check-in: %+v, %v; want %v", res, err, ErrStore)
		}
		if s, err := w.Status(ctx, users[1], civil.Clock{}); !errors.Is(err, ErrStore) {
			t.Errorf("a status: %+v, %v; want %v", s, err, ErrStore)
		}
		for _, conn := range held {
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if res := w.mustMark(t, users[0], civil.Clock{}); !res.New {
			t.Errorf("afterwards: %+v", res)
		}
	})
}

// The server commits a check-in, and its response is lost: the caller gets an error that SQL is away. Redis gets the
// day all the same, and a retry returns the result of the first try.
func TestCheckIn_OutcomeUnknownIsRechecked(t *testing.T) {
	t.Parallel()
	line := sqldbtest.NewLine(t, sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true}))
	// The only connection prepares the statement.
	w := newWorld(t, sqldbtest.Open(t, sqldb.Config{URL: line.URL, MaxConns: 1}), redistest.Open(t, redistest.Server(t).URL))
	users := newUsers(2)
	w.mustMark(t, users[0], civil.Clock{})
	if s, err := w.Status(t.Context(), users[1], civil.Clock{}); err != nil || s.Today { // Redis has the user's year
		t.Fatal(s, err)
	}
	line.Mute()
	if res, err := w.Mark(t.Context(), users[1], civil.Clock{}, Activity{}, 7); !errors.Is(err, ErrStore) {
		t.Fatalf("got %+v, %v; want %v", res, err, ErrStore)
	}
	tried := w.clock.now()
	eventually.True(t, "the day to be known", func() bool {
		s, err := w.Status(t.Context(), users[1], civil.Clock{})
		return err == nil && s.Today
	})
	if again, err := w.Mark(t.Context(), users[1], civil.Clock{}, Activity{}, 7); err != nil || !again.New || again.At.After(tried) {
		t.Errorf("the same request again: %+v, %v; want what the first try wrote", again, err)
	}
}
