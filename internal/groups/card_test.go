package groups

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func portrait(t testing.TB) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 40, 40))
	for i := range 40 {
		img.Set(i, i, color.White)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDrawCard_ReturnsTheSameCardUntilItEnds(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		nodes := []*world{w, w.newNode()}
		users := w.newUsers(8)
		id := w.newGroup(users[0], users[1], users[2])
		var mu sync.Mutex
		drawn := map[LinkID]bool{}
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				l, err := nodes[i%2].DrawCard(ctx, users[i%3], id)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				drawn[l.ID] = true
			})
		}
		all.Wait()
		if len(drawn) != 1 {
			t.Errorf("members got %d different cards, want 1", len(drawn))
		}
		first, err := w.DrawCard(ctx, users[0], id)
		w.must(err)
		w.advance(47 * time.Hour)
		if again, err := w.DrawCard(ctx, users[2], id); err != nil || again != first {
			t.Errorf("second call: got %+v, %v, want %+v", again, err, first)
		}
		if left := sqldb.Time(first.Expires).Sub(w.db.Now()); left <= 0 || left > time.Hour {
			t.Errorf("the card expires in %s, want at most an hour", left)
		}
		w.advance(time.Hour)
		_, _, _, err = w.Join(ctx, users[3], first.ID, "")
		w.wantErr("an expired card", err, ErrLink)
		next, err := w.DrawCard(ctx, users[1], id)
		if err != nil || next.ID == first.ID {
			t.Errorf("after the expiry: got %+v, %v, want another card", next, err)
		}
		w.must(w.Revoke(ctx, users[0], id, next.ID))
		_, _, _, err = w.Join(ctx, users[3], next.ID, "")
		w.wantErr("a card that was revoked", err, ErrLink)
		next, err = w.DrawCard(ctx, users[1], id)
		w.must(err)
		w.must(w.Leave(ctx, users[1], id))
		_, _, _, err = w.Join(ctx, users[3], next.ID, "")
		w.wantErr("the card of a former member", err, ErrLink)
		w.checkInvariants()
	})
}

func TestJoin_FollowsTheGroupsSettingForCards(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(7)
		id := w.newGroup(users[0], users[1])
		card, err := w.DrawCard(ctx, users[1], id)
		w.must(err)
		for i, joins := range []Joins{Invited, Open} {
			_, _, err := w.Update(ctx, users[0], id, Update{Joins: &joins})
			w.must(err)
			g, me, r, err := w.Join(ctx, users[2+i], card.ID, "")
			if err != nil || me == nil || r != nil || g.ID != id || me.Inviter != users[1] {
				t.Errorf("%s: got %+v, %+v, %+v, %v", joins, g, me, r, err)
			}
		}
		_, _, err = w.Update(ctx, users[0], id, Update{Joins: to(ByRequest), Announcement: to("hidden")})
		w.must(err)
		w.must(w.Ban(ctx, users[0], id, users[5]))
		g, me, r, err := w.Join(ctx, users[4], card.ID, "a friend of Bob's")
		if err != nil || me != nil || r == nil || r.Answer != "a friend of Bob's" || g.Announcement != "" {
			t.Fatalf("a request: got %+v, %+v, %+v, %v", g, me, r, err)
		}
		if _, _, again, err := w.Join(ctx, users[4], card.ID, ""); err != nil || again.ID != r.ID {
			t.Errorf("second request: got %+v, %v, want the first one", again, err)
		}
		if roles := w.roles(id); len(roles) != 4 {
			t.Errorf("members are %v", roles)
		}
		_, _, _, err = w.Join(ctx, users[5], card.ID, "")
		w.wantErr("a banned user", err, ErrBanned)
		_, _, _, err = w.Join(ctx, users[1], card.ID, "")
		w.wantErr("a member", err, ErrAlready)
		l, err := w.NewLink(ctx, users[1], id, ids.New[Link](), time.Hour, 1)
		w.must(err)
		if _, me, _, err := w.Join(ctx, users[6], l.ID, ""); err != nil || me == nil {
			t.Errorf("a link in a group where admins decide: got %+v, %v, want a member", me, err)
		}
		w.must(w.Decide(ctx, users[0], id, r.ID, true))
		w.checkInvariants()
	})
}

func TestPicture_EndsWhenItIsReplaced(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(2)
		id := w.newGroup(users[0], users[1])
		recorder := w.recordEvents(users[1])
		g, _, err := w.SetPicture(ctx, users[0], id, portrait(t))
		if err != nil || g.Picture == "" {
			t.Fatalf("got %+v, %v", g, err)
		}
		if got := fmt.Sprint(recorder.received()); got != "[changed 0+ 0-]" {
			t.Errorf("members got the events %s", got)
		}
		checkSizes := func(g Group) error {
			var name PictureID
			w.must(name.UnmarshalText([]byte(g.Picture)))
			for _, size := range picture.Sizes {
				if p, err := w.Picture(ctx, name, size); err != nil || p.Type == "" || len(p.Data) == 0 {
					return err
				}
			}
			return nil
		}
		w.must(checkSizes(g))
		next, _, err := w.SetPicture(ctx, users[0], id, portrait(t))
		w.must(err)
		if next.Picture == g.Picture || next.Version <= g.Version {
			t.Errorf("second picture: got %+v after %+v", next, g)
		}
		w.must(checkSizes(next))
		w.wantErr("a replaced picture", checkSizes(g), ErrPicture)
		if _, _, err := w.SetPicture(ctx, users[0], id, []byte("no image")); !errors.Is(err, picture.ErrUnreadable) {
			t.Errorf("no image: %v", err)
		}
		c, err := w.Changes(ctx, users[1], id, g.Version, 10)
		if err != nil || c.Group.Picture != next.Picture {
			t.Errorf("a client that syncs gets %+v, %v", c, err)
		}
		w.must(w.RemovePicture(ctx, users[0], id))
		w.wantErr("a removed picture", checkSizes(next), ErrPicture)
		g, _, err = w.SetPicture(ctx, users[0], id, portrait(t))
		w.must(err)
		w.must(w.Dissolve(ctx, users[0], id))
		w.wantErr("a dissolved group's picture", checkSizes(g), ErrPicture)
	})
}

func TestSearch_MatchesNicknameNameAndRemark(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(6) // user 0 to user 5
		id := w.newGroup(users[0], users[1:5]...)
		for i, nickname := range map[int]string{1: "Стасик", 2: "划船 Bär", 3: "ｌｏｎｇ name"} {
			_, _, err := w.SetOwn(ctx, users[i], id, OwnUpdate{Nickname: to(nickname)})
			w.must(err)
		}
		_, err := w.friends.(*social.Service).UpdateFriend(ctx, users[0], users[4], social.FriendUpdate{Remark: to("the baker")})
		w.must(err)
		find := func(user accounts.ID, q string) string {
			t.Helper()
			var found []string
			for cursor := ""; ; {
				list, next, _, err := w.Search(ctx, user, id, q, cursor, 1)
				w.must(err)
				for _, m := range list {
					found = append(found, fmt.Sprint(slices.Index(users, m.User)))
				}
				if cursor = next; next == "" {
					return strings.Join(found, " ")
				}
			}
		}
		for q, want := range map[string]string{"船": "2", "стас": "1", "bär": "2", "LONG": "3", "user": "0 1 2 3 4", "user 3": "3",
			"name user": "3", "baker": "4", "nobody": "", "%": "", "_": ""} {
			if got := find(users[0], q); got != want && len(got) != len(want) || q != "user" && got != want {
				t.Errorf("%q finds %q, want %q", q, got, want)
			}
		}
		if got := find(users[1], "baker"); got != "" {
			t.Errorf("another user's remark finds %q, want none", got)
		}
		_, _, _, err = w.Search(ctx, users[0], id, " \t ", "", 10)
		w.wantErr("a search without words", err, ErrQuery)
		_, _, _, err = w.Search(ctx, users[0], id, "x", "AAAA", 10)
		w.wantErr("an invalid cursor", err, ErrCursor)
		_, _, _, err = w.Search(ctx, users[5], id, "user", "", 10)
		w.wantErr("a stranger", err, ErrGroup)
	})
}

// newLargeGroup creates a group with size members and returns them, the owner first.
func (w *world) newLargeGroup(size int) (ID, []accounts.ID) {
	w.t.Helper()
	users := w.newUsers(size)
	pairs := make([][2]accounts.ID, size-1)
	for i := range pairs {
		pairs[i] = [2]accounts.ID{users[0], users[i+1]}
	}
	w.must(social.Befriend(w.t.Context(), w.db, pairs))
	g, _, err := w.Create(w.t.Context(), users[0], ids.New[Group](), "a crowd", users[1:])
	w.must(err)
	return g.ID, users
}

func TestSearch_ReadsALargeGroupInSteps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.Engine{Name: "sqlite"}.Open(t), redistest.Open(t, "embedded"), new(atomic.Int64), Settings{Members: 5000})
		id, users := w.newLargeGroup(2*searchBatch + 1)
		_, _, err := w.SetOwn(t.Context(), users[0], id, OwnUpdate{Nickname: to("needle")}) // the owner is first
		w.must(err)
		for q, want := range map[string][]int{"needle": {1, 0, 0}, "nobody": {0, 0, 0}, "user": {10, 10}} {
			var got []int
			for cursor := ""; len(got) < len(want); {
				list, next, _, err := w.Search(t.Context(), users[1], id, q, cursor, 10)
				w.must(err)
				got = append(got, len(list))
				if cursor = next; (next == "") != (q != "user" && len(got) == 3) {
					t.Errorf("%q: after %d steps the next is %q", q, len(got), next)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q finds %d, want %d", q, got, want)
			}
		}
	})
}

// BenchmarkSearch searches for an absent name in a group of 5,000.
func BenchmarkSearch(b *testing.B) {
	w := newWorld(b, sqldbtest.SQLite(b), redistest.Open(b, "embedded"), new(atomic.Int64), Settings{Members: 5000})
	id, users := w.newLargeGroup(5000)
	for b.Loop() {
		for cursor, more := "", true; more; more = cursor != "" {
			var err error
			_, cursor, _, err = w.Search(b.Context(), users[1], id, "nobody", cursor, 10)
			w.must(err)
		}
	}
}
