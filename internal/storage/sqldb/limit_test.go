package sqldb_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// The server receives each statement, but its response never arrives.
func TestStatement_EndsAtTheLimitOfItsContext(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	exec(t, sqldbtest.Open(t, sqldb.Config{URL: server.URL}), "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)")
	things := sqldb.Upsert{Table: "things", Columns: []string{"id", "name", "n"}, Key: []string{"id"}}
	var n int
	for name, do := range map[string]func(ctx context.Context, db *sqldb.DB, in *sqldb.Inserter, mute func()) error{
		"a write": func(ctx context.Context, db *sqldb.DB, _ *sqldb.Inserter, mute func()) error {
			mute()
			_, err := db.ExecContext(ctx, "DELETE FROM things")
			return err
		},
		"a read": func(ctx context.Context, db *sqldb.DB, _ *sqldb.Inserter, mute func()) error {
			mute()
			return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM things").Scan(&n)
		},
		"a prepared write": func(ctx context.Context, _ *sqldb.DB, in *sqldb.Inserter, mute func()) error {
			if _, err := in.Insert(context.WithoutCancel(t.Context()), []any{"first", "", 0}); err != nil {
				return err
			}
			mute()
			_, err := in.Insert(ctx, []any{"second", "", 0})
			return err
		},
		"a statement of a transaction": func(ctx context.Context, db *sqldb.DB, _ *sqldb.Inserter, mute func()) error {
			return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
				mute()
				return insert(context.WithoutCancel(ctx), tx, "third", "")
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := sqldbtest.NewLine(t, server)
			db := sqldbtest.Open(t, sqldb.Config{URL: line.URL, MaxConns: 1})
			err := do(sqldb.WithLimit(t.Context(), 200*time.Millisecond), db, db.Inserter(things), line.Mute)
			if !sqldb.IsUnavailable(err) || !sqldb.IsUnanswered(err) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want unavailable and unanswered", err)
			}
			must(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM things").Scan(&n)) // on a new connection
		})
	}
	t.Run("a commit", func(t *testing.T) {
		t.Parallel()
		line := sqldbtest.NewLine(t, server)
		db := sqldbtest.Open(t, sqldb.Config{URL: line.URL, MaxConns: 1})
		err := db.Tx(sqldb.WithLimit(t.Context(), time.Second), func(ctx context.Context, tx *sqldb.Tx) error {
			defer line.Mute()
			return insert(ctx, tx, "fourth", "")
		})
		if !errors.Is(err, sqldb.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "COMMIT was not answered in 1s") {
			t.Errorf("got %v, want an unknown outcome after a second", err)
		}
	})
}
