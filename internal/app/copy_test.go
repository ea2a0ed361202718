package app

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/stoa-dev/stoa/internal/storage/sqlcopy"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A copy to the server's database begins while the server migrates, or waits for another process that migrates.
func TestACopyThatBeginsDuringTheMigrationsKeepsAServerFromStarting(t *testing.T) {
	t.Parallel()
	url := sqldbtest.Server(t).URL
	db, err := sqldb.Open(t.Context(), sqldb.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	name := ""
	if err := db.QueryRowContext(t.Context(), "SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	lock, err := database.GenerateAdvisoryLockId(name + ":schema_migrations")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Writer().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "DO GET_LOCK(?, 0)", lock); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() {
		a, err := New(t.Context(), Config{Addr: "127.0.0.1:0", Data: t.TempDir(), Redis: "embedded", SQL: url, KeyPrefix: "stoa", Dev: "true"},
			slog.New(slog.DiscardHandler))
		if err == nil {
			err = errors.Join(errors.New("it starts"), a.Close())
		}
		started <- err
	}()
	eventually.True(t, "the server to wait for the migrations' lock", func() bool {
		n := 0
		err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE "+
			"'SELECT GET_LOCK%'").Scan(&n)
		return err == nil && n > 0
	})
	for _, statement := range []string{"CREATE TABLE stoa_copy (name VARCHAR(64) NOT NULL PRIMARY KEY, last_key TEXT NOT NULL, copied " +
		"BIGINT NOT NULL)", "DO RELEASE_LOCK('" + lock + "')"} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-started; !errors.Is(err, sqlcopy.ErrUnfinished) {
		t.Errorf("got %v, want ErrUnfinished", err)
	}
}
