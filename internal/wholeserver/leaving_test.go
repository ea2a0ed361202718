package wholeserver

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/activity"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// A whole server by its clock: the job, the message, every domain, and the recheck.
func TestAnErasedUserIsGoneFromEveryDomain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, ctx := newActives(t, 1), t.Context()
		s := a.nodes[0]
		db := s.SQL(t)
		ann, bob := s.SignUp(t, "Asia/Tokyo"), s.SignUp(t, "UTC")
		if _, err := ann.Checkin(ctx, api.CheckinRequest{}); err != nil {
			t.Fatal(err)
		}
		me, err := ann.Me(ctx)
		must(t, err)
		they, err := bob.Me(ctx)
		must(t, err)
		if status, _, answer := s.Call(t, ann, "POST", "/v1/friends/requests", fmt.Sprintf(`{"user":%q}`, they.ID)); status > 299 {
			t.Fatalf("a friend request: %d %s", status, answer)
		}
		bubble.Sleep(2 * time.Second)
		a.are("2026-11-21", ann, bob)
		rows := func() (n int) {
			t.Helper()
			err := db.NewRaw(`SELECT (SELECT COUNT(*) FROM checkins WHERE user_id = ?) + (SELECT COUNT(*) FROM friend_requests WHERE from_id = ?) +
			(SELECT COUNT(*) FROM idempotency_keys WHERE scope LIKE ?) + (SELECT COUNT(*) FROM outbox WHERE topic = 'accounts.erased') +
			(SELECT COUNT(*) FROM users WHERE id = ? AND (email <> '' OR zone <> 'UTC'))`, me.ID, me.ID, me.ID+" %", me.ID).Scan(ctx, &n)
			must(t, err)
			return n
		}
		if n := rows(); n < 4 { // a check-in, a request, its stored response, the account
			t.Fatalf("%d rows before, want something of everybody", n)
		}
		deleted, err := ann.DeleteAccount(ctx, api.AccountDeletion{})
		must(t, err)
		s.Clock.Set(deleted.Erased.Add(time.Second))
		bubble.Sleep(20 * time.Second)
		if n := rows(); n > 1 { // the recheck waits for its minute
			t.Errorf("%d rows are left, want the second look's message at most", n)
		}
		bubble.Sleep(70 * time.Second)
		if n := rows(); n > 0 {
			t.Errorf("%d rows are left", n)
		}
		if got := a.on("2026-11-21"); len(got) != 2 || slices.Contains(got, me.ID) || !slices.Contains(got, they.ID) {
			t.Errorf("the day has %v, want another id in the place of %s", got, me.ID)
		}
		today := civil.DayOf(2026, 11, 28)
		n, err := a.kept.CountBetween(ctx, a.redis, activity.Settings{}, activity.Span{First: today - 7, Last: today})
		if err != nil || n != (activity.Count{Actives: 2, Exact: true}) {
			t.Errorf("the range has %+v, %v; want 2", n, err)
		}
	})
}
