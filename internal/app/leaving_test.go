package app_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit"
)

// A whole server, by its clock: the job, the message, every domain, and the second
// look.
func TestAnErasedUserIsGoneFromEveryDomain(t *testing.T) {
	t.Parallel()
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
	if n := rows(); n < 4 { // a check-in, a request, the answer to the former, the account
		t.Fatalf("%d rows before, want something of everybody", n)
	}
	deleted, err := ann.DeleteAccount(ctx, api.AccountDeletion{})
	if err != nil {
		t.Fatal(err)
	}
	s.Clock.Set(deleted.Erased.Add(time.Second))
	for end := time.Now().Add(2 * time.Minute); rows() > 1; time.Sleep(50 * time.Millisecond) { // the second look waits for its minute
		if time.Now().After(end) {
			t.Fatalf("%d rows are left", rows())
		}
	}
	s.Clock.Set(deleted.Erased.Add(3 * time.Minute))
	for end := time.Now().Add(time.Minute); rows() > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d rows are left", rows())
		}
	}
}
