package accounts

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/ids"
)

// Other requests may create the users of a list one after the other.
func TestProvide_OverlappingListsInParallel(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		const users, each = 5, 3
		for round := range 10 {
			var all sync.WaitGroup
			var got [users][]Provided
			for i := range got {
				var list []External
				for j := range each {
					name := fmt.Sprint(round, "-", (i+j)%users)
					list = append(list, External{ID: name, Name: name})
				}
				all.Go(func() {
					var err error
					if got[i], err = w.Provide(t.Context(), list); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			accounts, fresh := map[string]ID{}, 0
			for _, p := range slices.Concat(got[:]...) {
				if id, known := accounts[p.External]; known && id != p.ID {
					t.Errorf("%s has the accounts %s and %s", p.External, id, p.ID)
				}
				if accounts[p.External] = p.ID; p.New {
					fresh++
				}
			}
			if len(accounts) != users || fresh != users {
				t.Errorf("%d users have accounts, %d were opened; want %d", len(accounts), fresh, users)
			}
		}
	})
}

func TestProvide_OneAccountPerExternalUser(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		list := []External{{ID: "a", Name: "Ann", Zone: "Europe/Athens"}, {ID: "b", Name: "Bob"}, {ID: "a", Name: "Ann"}}
		var all sync.WaitGroup
		got := make([][]Provided, 4)
		for i := range got {
			all.Go(func() {
				var err error
				if got[i], err = w.Provide(t.Context(), list); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		fresh := 0
		for _, g := range got {
			if len(g) != 3 || g[0].ID != got[0][0].ID || g[1].ID != got[0][1].ID || g[2].ID != g[0].ID || g[0].Clock.Zone != "Europe/Athens" ||
				g[1].Clock.Zone != "UTC" {
				t.Errorf("got %+v", g)
			}
			if len(g) > 0 && g[0].New {
				fresh++
			}
		}
		if fresh != 1 {
			t.Errorf("the account was opened %d times", fresh)
		}
		for _, id := range []string{"", "with space", "a\nb", string(make([]byte, 129))} {
			if _, err := w.Provide(t.Context(), []External{{ID: id, Name: "X"}}); !errors.Is(err, ErrExternalID) {
				t.Errorf("%q: %v", id, err)
			}
		}
		ann := got[0][0].ID
		if u, err := w.ExternalUser(t.Context(), "a"); err != nil || u.ID != ann {
			t.Errorf("found %+v, %v", u, err)
		}
		if _, err := w.RequestOwnCode(t.Context(), ann, "set_password", ""); !errors.Is(err, ErrNoEmail) {
			t.Errorf("a code to no address: %v", err)
		}
		tokens, err := w.SignIn(trail.By(t.Context(), "shop"), ann, Login{Device: "Phone"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Verify(t.Context(), tokens.Access); err != nil {
			t.Error(err)
		}
		if _, err := w.DeleteFor(t.Context(), ann, time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Verify(t.Context(), tokens.Access); !errors.Is(err, ErrToken) {
			t.Errorf("a deleted user's token: %v", err)
		}
		// The response was lost, and the backend retries.
		bob, session := got[0][1].ID, ids.New[Session]()
		var tries []Tokens
		for range 2 {
			tokens, err := w.SignIn(t.Context(), bob, Login{Device: "Phone", Session: session})
			if err != nil || tokens.Device != session {
				t.Fatalf("got %+v, %v", tokens, err)
			}
			w.check("the tokens of this try", tokens.Access, nil)
			tries = append(tries, tokens)
		}
		w.check("the tokens of the first try", tries[0].Access, ErrToken)
		if list, err := w.Sessions(t.Context(), bob); err != nil || len(list) != 1 {
			t.Errorf("bob has %+v, %v, want one session", list, err)
		}
		if back, err := w.SignIn(t.Context(), ann, Login{}); err != nil || !back.Restored {
			t.Errorf("signed in after the deletion: %+v, %v", back, err)
		}
		if _, err := w.DeleteFor(t.Context(), ann, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.eraseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.ExternalUser(t.Context(), "a"); !errors.Is(err, ErrNoUser) {
			t.Errorf("an erased user is found: %v", err)
		}
		if again, err := w.Provide(t.Context(), list[:1]); err != nil || !again[0].New || again[0].ID == ann {
			t.Errorf("opened anew: %+v, %v", again, err)
		}
	})
}
