package wholeserver

import (
	"context"
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// Commands wait for a change of an account in the outbox. If no server can apply the change, it must stay there, and
// must not move to a queue that the commands do not check.
func TestChangesOfAccountsAreFollowedWhereCommandsWaitForThem(t *testing.T) {
	url := redistest.Server(t).URL
	db := testkit.Start(t, func(cfg *app.Config) { cfg.Redis, cfg.Queue = url, "redis" }).SQL(t)
	must(t, db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return tx.Enqueue(ctx, sqldb.Message{Topic: accounts.TopicChanged, Key: "a00000000001", Payload: []byte("nonsense")})
	}))
	var waiting, dead int
	eventually.True(t, "the message to be tried", func() bool {
		err := db.QueryRowContext(t.Context(), "SELECT COALESCE(SUM(1 - dead), 0), COALESCE(SUM(dead), 0) FROM outbox").Scan(&waiting, &dead)
		return err == nil && waiting == 0
	})
	if dead != 1 {
		t.Errorf("%d changes that nobody could follow are in the outbox, want 1", dead)
	}
}
