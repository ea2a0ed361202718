package sqldb_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
)

// The server hears COMMIT or ROLLBACK, and its answer never comes.
func TestTheEndOfATransactionIsNotWaitedForWithoutEnd(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	exec(t, sqldbtest.Open(t, sqldb.Config{URL: server.URL}), "CREATE TABLE things (id VARCHAR(12) PRIMARY KEY, name VARCHAR(20), n INTEGER)")
	boom := errors.New("boom")
	for name, tt := range map[string]struct{ err, want error }{"committed": {nil, sqldb.ErrOutcomeUnknown}, "rolled back": {boom, boom}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := sqldbtest.NewLine(t, server)
			db := sqldbtest.Open(t, sqldb.Config{URL: line.URL, MaxConns: 1})
			err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				if err := insert(ctx, tx, name, name); err != nil {
					return err
				}
				line.Mute()
				return tt.err
			})
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			var n int // the pool has thrown its one connection away
			must(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM things WHERE id = ?", name).Scan(&n))
			if (n == 1) != (tt.err == nil) {
				t.Errorf("%d rows of what is %s", n, name)
			}
		})
	}
}
