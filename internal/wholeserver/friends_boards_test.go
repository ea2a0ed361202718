package wholeserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func befriend(t testing.TB, a, b *client.Client) {
	t.Helper()
	r, err := a.AskFriend(t.Context(), api.FriendRequestNew{User: id(b)})
	must(t, err)
	_, err = b.AcceptFriend(t.Context(), r.Request.ID, api.FriendRequestAccept{})
	must(t, err)
}

func TestFriendsHaveBoardsOfTheirOwnAndStreaksInTheirRows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 1)
		s := p.nodes[0]
		s.Clock.Set(time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)) // a Wednesday
		const many = 12
		ann := s.SignUp(t, "UTC")
		var all []*client.Client
		for range many {
			c := s.SignUp(t, "UTC")
			befriend(t, ann, c)
			all = append(all, c)
		}
		ada, bob, none := all[0], all[1], all[2]
		stranger := s.SignUp(t, "UTC")
		mark := func(cs ...*client.Client) {
			t.Helper()
			for _, c := range cs {
				if _, err := c.Checkin(t.Context(), api.CheckinRequest{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		mark(bob, stranger)
		s.Clock.Set(time.Date(2026, 11, 19, 11, 0, 0, 0, time.UTC)) // before the access tokens expire
		mark(ann, ada, bob, stranger)
		name := func(c *client.Client) string { return c.Tokens().User.Name }

		for board, want := range map[string]string{"streak": "1 %[2]s 2, 2 %[1]s 1, 2 %[3]s 1", "total_days": "1 %[2]s 2, 2 %[1]s 1, 2 %[3]s 1",
			"week": "1 %[2]s 2, 2 %[1]s 1, 2 %[3]s 1", "month": "1 %[2]s 2, 2 %[1]s 1, 2 %[3]s 1"} {
			b, err := ann.Board(t.Context(), board, client.BoardQuery{Scope: "friends", Around: 1})
			must(t, err)
			var rows []string
			for _, r := range b.Entries {
				rows = append(rows, fmt.Sprint(r.Rank, " ", r.Name, " ", r.Value))
			}
			// Ann is User 1 and ranks before Ada by her name.
			if got, want := strings.Join(rows, ", "), fmt.Sprintf(want, name(ann), name(bob), name(ada)); got != want {
				t.Errorf("%s: got %s, want %s", board, got, want)
			}
			if b.Me == nil || b.Me.Rank != 2 || len(b.Around) != 3 {
				t.Errorf("%s: me %+v among %+v", board, b.Me, b.Around)
			}
		}
		if b, err := none.Board(t.Context(), "streak", client.BoardQuery{Scope: "friends"}); err != nil || len(b.Entries) != 1 ||
			b.Entries[0].Name != name(ann) || b.Me != nil {
			t.Errorf("who has not checked in sees %+v, %v", b, err)
		}
		if b, err := stranger.Board(t.Context(), "streak", client.BoardQuery{Scope: "friends"}); err != nil || len(b.Entries) != 1 ||
			b.Me == nil {
			t.Errorf("who has no friends sees %+v, %v", b, err)
		}
		if status, _, body := s.Call(t, ann, "GET", "/v1/checkin/boards/streak?scope=enemies", ""); status != 422 {
			t.Errorf("another scope: got %d %s", status, body)
		}

		// A user who does not want to be shown is hidden from friends as well. Ann would rank before Ada by her name.
		shown := func(yes bool) {
			t.Helper()
			if _, err := ann.UpdateMe(t.Context(), api.UserUpdate{OnBoards: &yes}); err != nil {
				t.Fatal(err)
			}
		}
		shown(false)
		if b, err := ada.Board(t.Context(), "streak", client.BoardQuery{Scope: "friends", Around: 1}); err != nil || len(b.Entries) != 2 ||
			b.Entries[0].Name != name(ada) || b.Entries[1] != (api.BoardRow{Rank: 1, Value: 1}) || !slices.Equal(b.Around, b.Entries) {
			t.Errorf("with a friend who is hidden: %+v, %v", b, err)
		}
		if b, err := ann.Board(t.Context(), "streak", client.BoardQuery{Scope: "friends"}); err != nil || b.Me == nil || b.Me.Name != name(ann) {
			t.Errorf("who is hidden sees %+v, %v", b, err)
		}
		shown(true)

		// The list has the streaks of all friends, and they cost as much as one streak.
		streaks := func(friends []api.Friend) map[string]int {
			m := map[string]int{}
			for _, f := range friends {
				if f.Streak == nil {
					t.Fatalf("%s has no streak", f.User.Name)
				}
				m[f.User.Name] = *f.Streak
			}
			return m
		}
		list, err := ann.Friends(t.Context(), "", "", 100)
		must(t, err)
		if got := streaks(list.Friends); len(got) != many || got[name(ada)] != 1 || got[name(bob)] != 2 || got[name(none)] != 0 {
			t.Errorf("got %v", got)
		}
		one, err := ann.Friend(t.Context(), bob.Tokens().User.ID)
		if err != nil || one.Streak == nil || *one.Streak != 2 {
			t.Errorf("got %+v, %v", one, err)
		}
		statements := func(what func(context.Context) error) float64 {
			t.Helper()
			before := sqlReads(t, s)
			must(t, what(t.Context()))
			return sqlReads(t, s) - before
		}
		if n := statements(func(ctx context.Context) error {
			_, err := ann.Board(ctx, "streak", client.BoardQuery{Scope: "friends"})
			return err
		}); n != 0 {
			t.Errorf("%v records were read from SQL for a board whose records are all in Redis", n)
		}

		// Without Redis, SQL returns the same, with one statement for all.
		p.memory.Kill()
		list, err = ann.Friends(t.Context(), "", "", 100)
		must(t, err)
		if got := streaks(list.Friends); len(got) != many || got[name(bob)] != 2 {
			t.Errorf("without Redis: got %v", got)
		}
		if b, err := ann.Board(t.Context(), "week", client.BoardQuery{Scope: "friends"}); err != nil || len(b.Entries) != 3 ||
			b.Entries[0].Value != 2 {
			t.Errorf("without Redis: got %+v, %v", b, err)
		}
	})
}

// sqlReads returns the number of records that were read from SQL so far.
func sqlReads(t *testing.T, s *testkit.Server) (n float64) {
	t.Helper()
	_, _, text := s.Call(t, nil, "GET", "/metrics", "")
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, `stoa_checkin_reads_total{from="sql"} `); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no metric of reads in %s", text)
	return 0
}
