package wholeserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// A board lists users who do not want to be shown without name and id. It does the same for each of two users if one of
// them blocks the other. Places and numbers stay.
func TestWhoIsHiddenHasAPlaceOnABoardAndNoName(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := testkit.Start(t)
		ann, bob, eve := s.SignUp(t, "UTC"), s.SignUp(t, "UTC"), s.SignUp(t, "UTC")
		all := []*client.Client{ann, bob, eve}
		ids := make([]string, len(all))
		for i, c := range all {
			me, err := c.Me(t.Context())
			must(t, err)
			ids[i] = me.ID
			time.Sleep(time.Second) // the first to reach a value ranks first
			if _, err := c.Checkin(t.Context(), api.CheckinRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		// sees returns the names on the boards as each of the three users sees them.
		sees := func() string {
			var out []string
			for _, c := range all {
				var before string
				for _, name := range []string{"streak", "total_days", "week", "month"} {
					_, _, body := s.Call(t, c, "GET", "/v1/checkin/boards/"+name+"?around=5", "")
					var b api.Board
					must(t, json.Unmarshal([]byte(body), &b))
					var names []string
					for i, r := range b.Entries {
						if r.Rank != i+1 || r.Value != 1 || (r.Name == "") != (r.User == "") {
							t.Errorf("%s has the row %+v", name, r)
						}
						names = append(names, strings.TrimPrefix(r.Name, "User "))
						if around := b.Around[i]; around != r {
							t.Errorf("%s has %+v, and among neighbours %+v", name, r, around)
						}
						if r.Name == "" && strings.Contains(body, ids[i]) {
							t.Errorf("%s has the id of who is hidden: %s", name, body)
						}
					}
					got := strings.Join(names, ",")
					if b.Me == nil || b.Me.Name == "" || before != "" && got != before {
						t.Errorf("%s has %s and %+v, another board %s", name, got, b.Me, before)
					}
					before = got
				}
				out = append(out, before)
			}
			return fmt.Sprint(out)
		}
		if got := sees(); got != "[1,2,3 1,2,3 1,2,3]" {
			t.Errorf("at first: %s", got)
		}
		must(t, ann.Block(t.Context(), ids[1]))
		if got := sees(); got != "[1,,3 ,2,3 1,2,3]" {
			t.Errorf("once Ann blocks Bob: %s", got)
		}
		for _, tt := range []struct {
			onBoards bool
			want     string
		}{{false, "[1,, ,2, 1,2,3]"}, {true, "[1,,3 ,2,3 1,2,3]"}} {
			if _, err := eve.UpdateMe(t.Context(), api.UserUpdate{OnBoards: &tt.onBoards}); err != nil {
				t.Fatal(err)
			}
			if got := sees(); got != tt.want {
				t.Errorf("when Eve has on_boards %v: %s, want %s", tt.onBoards, got, tt.want)
			}
		}
		must(t, ann.Unblock(t.Context(), ids[1]))
		if got := sees(); got != "[1,2,3 1,2,3 1,2,3]" {
			t.Errorf("without a block: %s", got)
		}
	})
}
