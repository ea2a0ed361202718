package app

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Stored responses expire by the clock of the database, not by the clock of this machine.
func TestStoredAnswersAreSweptByTheClockTheyExpireBy(t *testing.T) {
	now := time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC)
	a, err := New(t.Context(), Config{Data: t.TempDir(), Redis: "embedded", SQL: "sqlite", KeyPrefix: "stoa", Dev: "true",
		Now: func() time.Time { return now }}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	for key, expires := range map[string]time.Time{"over": now, "holds": now.Add(time.Hour)} {
		if _, err := a.db.ExecContext(t.Context(), "INSERT INTO idempotency_keys (scope, idem_key, request_hash, status, content_type, body, "+
			"created, claimed, expires) VALUES ('s', ?, 'h', 200, '', '', 0, 0, ?)",
			key, expires.UnixMilli()); err != nil {
			t.Fatal(err)
		}
	}
	jobs := a.housekeeping()
	sweep := jobs[slices.IndexFunc(jobs, func(j worker.Job) bool { return j.Name == "web.idempotency" })]
	if err := sweep.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := sqldb.Column[string](a.db.QueryContext(t.Context(), "SELECT idem_key FROM idempotency_keys"))
	if err != nil || !slices.Equal(left, []string{"holds"}) {
		t.Errorf("left %v (%v), want the answer that holds", left, err)
	}
}
