package accounts

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// exec changes SQL without the domain.
func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.db.ExecContext(w.t.Context(), query, args...); err != nil {
		w.t.Fatal(err)
	}
}

func TestHTTP_ProfilesAndSearch(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		c := w.talk()
		ann, bob := w.join("Ann@example.org", ""), w.join("bob@example.org", "")
		gone, banned := w.join("gone@example.org", ""), w.join("banned@example.org", "")
		c.call(ann.Access, "ANN'S TOKEN")
		for name, id := range map[string]ID{"ANN": ann.User.ID, "BOB": bob.User.ID, "GONE": gone.User.ID, "BANNED": banned.User.ID} {
			c.call(id.String(), name)
		}
		w.exec("UPDATE users SET erased = ?, avatar = 'avataravatar', bio = 'x', find_by_email = ? WHERE id = ?",
			w.db.Now().Add(time.Hour).UnixMilli(), true, gone.User.ID)
		w.exec("UPDATE users SET banned_until = ?, find_by_email = ? WHERE id = ?", w.db.Now().Add(time.Hour).UnixMilli(), true, banned.User.ID)
		say := func(method, path, body string) { t.Helper(); c.say(method, path, ann.Access, body, nil) }

		say("PATCH", "/v1/me", `{"name":" Änn ","bio":"one\ntwo","find_by_id":false,"find_by_email":true,"requests":false}`)
		say("PATCH", "/v1/me", `{"find_by_email":false,"bio":""}`)
		say("PATCH", "/v1/me", `{}`)
		say("PATCH", "/v1/me", `{"find_by_id":"yes"}`)
		say("PATCH", "/v1/me", `{"bio":"`+strings.Repeat("x", 201)+`"}`)
		say("PATCH", "/v1/me", `{"bio":"a\u202eb"}`)
		// Fields that the owner may not change are refused, not ignored.
		say("PATCH", "/v1/me", `{"id":"000000000000","email":"eve@example.org","email_key":"eve@example.org","avatar":"000000000000"}`)
		say("PATCH", "/v1/me", `{"name":"Eve","erased":0,"banned":false,"banned_until":0,"created":"2020-01-01T00:00:00Z","has_password":false}`)
		say("PATCH", "/v1/me", `{"Name":"Eve","FindByID":true}`)
		say("GET", "/v1/me", "")

		say("GET", "/v1/users/"+ann.User.ID.String(), "")
		say("GET", "/v1/users/"+gone.User.ID.String(), "")
		say("GET", "/v1/users/"+banned.User.ID.String(), "")
		say("GET", "/v1/users/000000000000", "")
		say("GET", "/v1/users/x", "")
		c.say("GET", "/v1/users/"+ann.User.ID.String(), "", "", nil)
		say("GET", fmt.Sprintf("/v1/users?ids=%s,000000000000,%s,%s", bob.User.ID, gone.User.ID, ann.User.ID), "")
		say("GET", "/v1/users?ids="+bob.User.ID.String()+",x", "")
		say("GET", "/v1/users", "")
		say("GET", "/v1/users?ids="+strings.Repeat("000000000000,", 100)+"000000000000", "")

		say("GET", "/v1/users/search?id="+bob.User.ID.String(), "")
		say("GET", "/v1/users/search?email=bob@example.org", "") // cannot be found
		say("GET", "/v1/users/search?email=nobody@example.org", "")
		say("GET", "/v1/users/search?email=gone@example.org", "")
		say("GET", "/v1/users/search?email=banned@example.org", "")
		say("GET", "/v1/users/search?id="+ann.User.ID.String(), "")
		say("GET", "/v1/users/search?id="+gone.User.ID.String(), "")
		say("GET", "/v1/users/search?id="+banned.User.ID.String(), "")
		say("GET", "/v1/users/search?id=000000000000", "")
		say("GET", "/v1/users/search?id=x", "")
		say("GET", "/v1/users/search?email=bob", "")
		say("GET", "/v1/users/search", "")
		say("GET", "/v1/users/search?id=x&email=bob@example.org", "")
		c.agrees("testdata/profile.golden")
	})
}

func TestFind_SettingAppliesAtOnce(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		id := w.join("Ann@example.org", "").User.ID
		yes, no := true, false
		found := func(byID, byEmail error) {
			t.Helper()
			if p, err := w.FindByID(t.Context(), id); !errors.Is(err, byID) || err == nil && p.ID != id {
				t.Errorf("by id: got %+v, %v, want %v", p, err, byID)
			}
			if p, err := w.FindByEmail(t.Context(), "aNN@example.ORG"); !errors.Is(err, byEmail) || err == nil && p.ID != id {
				t.Errorf("by e-mail: got %+v, %v, want %v", p, err, byEmail)
			}
		}
		found(nil, ErrUserNotFound)
		for _, c := range []struct {
			byID, byEmail         *bool
			wantByID, wantByEmail error
		}{{&no, &yes, ErrUserNotFound, nil}, {&yes, &no, nil, ErrUserNotFound}, {nil, &yes, nil, nil}} {
			if _, err := w.Update(t.Context(), id, Change{FindByID: c.byID, FindByEmail: c.byEmail}); err != nil {
				t.Fatal(err)
			}
			found(c.wantByID, c.wantByEmail)
		}
		w.exec("UPDATE users SET banned_until = ? WHERE id = ?", w.db.Now().Add(time.Hour).UnixMilli(), id)
		found(ErrUserNotFound, ErrUserNotFound)
		w.pass(time.Hour)
		found(nil, nil)
		w.exec("UPDATE users SET erased = 1 WHERE id = ?", id)
		found(ErrUserNotFound, ErrUserNotFound)
	})
}

func TestProfile_DeletedUserHasOnlyAnID(t *testing.T) {
	u := User{ID: ids.New[User](), Email: "a@b", Name: "Ann", Bio: "bio", Avatar: "a"}
	if got, want := u.profile(time.Now()), (Profile{ID: u.ID, Name: "Ann", Bio: "bio", Avatar: "a"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	u.Erased = time.Now()
	if got, want := u.profile(time.Now()).Wire(), (api.Profile{ID: u.ID.String(), Deleted: true}); got != want {
		t.Errorf("deleted: got %+v, want %+v", got, want)
	}
}

func TestProfiles_HundredUsersAreOneMGET(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, _ *redistest.Memory) {
		w.listen()
		cold := w.neighbour()
		const want = "cold: 1 MGETs, 1 from SQL; on another node: 1 MGETs, 0 from SQL; again: 0 MGETs, 0 from SQL"
		if got := w.costOfProfiles(cold); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// costOfProfiles reads a hundred profiles that are not cached.
func (w *world) costOfProfiles(cold *world) string {
	w.t.Helper()
	all := w.people(100)
	var costs []string
	for _, tt := range []struct {
		what string
		from *world
	}{{"cold", w}, {"on another node", cold}, {"again", w}} {
		before, loads := w.calls(), tt.from.users.cache.Stats().Loads
		got, err := tt.from.Profiles(w.t.Context(), all)
		if err != nil || len(got) != 100 || got[all[99]].Name != "user 99" {
			w.t.Fatalf("%s: got %d profiles, %v", tt.what, len(got), err)
		}
		costs = append(costs, fmt.Sprintf("%s: %d MGETs, %d from SQL", tt.what, w.calls()["mget"]-before["mget"],
			tt.from.users.cache.Stats().Loads-loads))
		tt.from.caches.Wait() // some entries are refreshed at random
	}
	return strings.Join(costs, "; ")
}

func TestSearch_IsLimitedPerUser(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := web.New(web.Config{Auth: w.Service, Limiter: ratelimit.New(w.redis)})
		w.Routes(a)
		ann, bob := w.join("ann@example.org", ""), w.join("bob@example.org", "")
		search := func(token string) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/users/search?email=nobody@example.org", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			rec := httptest.NewRecorder()
			a.Handler().ServeHTTP(rec, r)
			return rec.Code
		}
		for i := range 31 {
			want := http.StatusNotFound
			if i == 30 {
				want = http.StatusTooManyRequests
			}
			if got := search(ann.Access); got != want {
				t.Errorf("search %d: got %d, want %d", i+1, got, want)
			}
		}
		if got := search(bob.Access); got != http.StatusNotFound {
			t.Errorf("another user: got %d", got)
		}
	})
}

// During a ban other users see neither the profile nor the name of a user. Boards do not show the name of a user who
// hides it. The user sees both.
func TestShownTo_HidesBannedAndHiddenUsers(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a, b := w.join("ann@example.org", "").User.ID, w.join("bob@example.org", "").User.ID
		shown := func(viewer ID) string {
			users, err := w.UsersOf(t.Context(), []ID{a, b})
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(users[a].ShownTo(viewer, w.db.Now()), users[b].ShownTo(viewer, w.db.Now()))
		}
		if got := shown(b); got != "true true" {
			t.Errorf("at first: %s", got)
		}
		no := false
		if u, err := w.Update(t.Context(), a, Change{OnBoards: &no}); err != nil || u.OnBoards {
			t.Fatalf("got %+v, %v", u, err)
		}
		if got := shown(b) + ", " + shown(a); got != "false true, true true" {
			t.Errorf("for Bob and for Ann herself, who does not want it: %s", got)
		}
		if p, err := w.Profile(t.Context(), a); err != nil || p.Name != "Ann" {
			t.Errorf("the profile of who is not on boards: %+v, %v", p, err)
		}
		if err := w.Ban(t.Context(), b, w.db.Now().Add(time.Hour), ""); err != nil {
			t.Fatal(err)
		}
		if got := shown(a); got != "true false" {
			t.Errorf("while Bob is banned: %s", got)
		}
		if p, err := w.Profile(t.Context(), b); !errors.Is(err, ErrUserNotFound) || p != (Profile{}) {
			t.Errorf("a banned user's profile: %+v, %v", p, err)
		}
		if all, err := w.Profiles(t.Context(), []ID{b}); err != nil || all[b] != (Profile{ID: b, Deleted: true}) {
			t.Errorf("in a list: %+v, %v", all, err)
		}
		w.pass(time.Hour)
		if p, err := w.Profile(t.Context(), b); err != nil || p.Name == "" || shown(a) != "true true" {
			t.Errorf("after the ban: %+v, %v", p, err)
		}
	})
}

func TestProfiles_MissingUserCountsAsErased(t *testing.T) {
	user := ids.New[User]()
	if got, want := (Profiles{}).Wire(user), (api.Profile{ID: user.String(), Deleted: true}); got != want {
		t.Errorf("among profiles that were read: got %+v, want %+v", got, want)
	}
	if got, want := Profiles(nil).Wire(user), (api.Profile{ID: user.String()}); got != want {
		t.Errorf("where none could be read: got %+v, want %+v", got, want)
	}
}
