package wholeserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// A whole server by its clock: the job, the message, every domain, and the recheck.
func TestAnErasedUserIsGoneFromEveryDomain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var data string
		s := testkit.Start(t, func(c *app.Config) { data = c.Data })
		ctx := t.Context()
		ann, bob := s.SignUp(t, "Asia/Tokyo"), s.SignUp(t, "UTC")
		if _, err := ann.Checkin(ctx, api.CheckinRequest{}); err != nil {
			t.Fatal(err)
		}
		me, err := ann.Me(ctx)
		if err != nil {
			t.Fatal(err)
		}
		they, err := bob.Me(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if status, _, answer := s.Call(t, ann, "POST", "/v1/friends/requests", fmt.Sprintf(`{"user":%q}`, they.ID)); status > 299 {
			t.Fatalf("a friend request: %d %s", status, answer)
		}
		db, err := sqldb.Open(ctx, sqldb.Config{Dir: data})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		rows := func() (n int) {
			t.Helper()
			err := db.NewRaw(`SELECT (SELECT COUNT(*) FROM checkins WHERE user_id = ?) + (SELECT COUNT(*) FROM friend_requests WHERE from_id = ?) +
			(SELECT COUNT(*) FROM idempotency_keys WHERE scope LIKE ?) + (SELECT COUNT(*) FROM outbox WHERE topic = 'accounts.erased') +
			(SELECT COUNT(*) FROM users WHERE id = ? AND (email <> '' OR zone <> 'UTC'))`, me.ID, me.ID, me.ID+" %", me.ID).Scan(ctx, &n)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := rows(); n < 4 { // a check-in, a request, its stored response, the account
			t.Fatalf("%d rows before, want something of everybody", n)
		}
		deleted, err := ann.DeleteAccount(ctx, api.AccountDeletion{})
		if err != nil {
			t.Fatal(err)
		}
		s.Clock.Set(deleted.Erased.Add(time.Second))
		bubble.Sleep(time.Minute)
		if n := rows(); n > 1 { // the recheck waits for its minute
			t.Errorf("%d rows are left, want the second look's message at most", n)
		}
		bubble.Sleep(2 * time.Minute)
		if n := rows(); n > 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}
