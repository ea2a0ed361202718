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

func TestAGroupHasOneCardForAsLongAsItIsGood(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		nodes := []*world{w, w.neighbour()}
		who := w.join(8)
		id := w.create(who[0], who[1], who[2])
		var mu sync.Mutex
		drawn := map[LinkID]bool{}
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				l, err := nodes[i%2].DrawCard(ctx, who[i%3], id)
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
			t.Errorf("members have %d cards", len(drawn))
		}
		first, err := w.DrawCard(ctx, who[0], id)
		w.must(err)
		w.pass(47 * time.Hour)
		if again, err := w.DrawCard(ctx, who[2], id); err != nil || again != first {
			t.Errorf("asked again it is %+v, %v", again, err)
		}
		if left := sqldb.Time(first.Expires).Sub(w.db.Now()); left <= 0 || left > time.Hour {
			t.Errorf("it is good for %s", left)
		}
		w.pass(time.Hour)
		_, _, _, err = w.Join(ctx, who[3], first.ID, "")
		w.fails("an expired card", err, ErrLink)
		next, err := w.DrawCard(ctx, who[1], id)
		if err != nil || next.ID == first.ID {
			t.Errorf("after its end it is %+v, %v", next, err)
		}
		w.must(w.Revoke(ctx, who[0], id, next.ID))
		_, _, _, err = w.Join(ctx, who[3], next.ID, "")
		w.fails("a card that was revoked", err, ErrLink)
		next, err = w.DrawCard(ctx, who[1], id)
		w.must(err)
		w.must(w.Leave(ctx, who[1], id))
		_, _, _, err = w.Join(ctx, who[3], next.ID, "")
		w.fails("the card of who has left", err, ErrLink)
		// Cards do not count as links, whose number is limited.
		for range maxLinks {
			_, err := w.NewLink(ctx, who[2], id, ids.New[Link](), time.Hour, 1)
			w.must(err)
		}
		_, err = w.DrawCard(ctx, who[2], id)
		w.must(err)
		w.sound()
	})
}

func TestACardLeadsInAsTheGroupAllows(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(7)
		id := w.create(who[0], who[1])
		card, err := w.DrawCard(ctx, who[1], id)
		w.must(err)
		for i, joins := range []Joins{Invited, Open} {
			_, _, err := w.Change(ctx, who[0], id, Update{Joins: &joins})
			w.must(err)
			g, me, r, err := w.Join(ctx, who[2+i], card.ID, "")
			if err != nil || me == nil || r != nil || g.ID != id || me.Inviter != who[1] {
				t.Errorf("%s: got %+v, %+v, %+v, %v", joins, g, me, r, err)
			}
		}
		_, _, err = w.Change(ctx, who[0], id, Update{Joins: to(Asking), Announcement: to("hidden")})
		w.must(err)
		w.must(w.Ban(ctx, who[0], id, who[5]))
		g, me, r, err := w.Join(ctx, who[4], card.ID, "a friend of Bob's")
		if err != nil || me != nil || r == nil || r.Answer != "a friend of Bob's" || g.Announcement != "" {
			t.Fatalf("asking: got %+v, %+v, %+v, %v", g, me, r, err)
		}
		if _, _, again, err := w.Join(ctx, who[4], card.ID, ""); err != nil || again.ID != r.ID {
			t.Errorf("asking again: %+v, %v", again, err)
		}
		if in := w.roles(id); len(in) != 4 {
			t.Errorf("members are %v", in)
		}
		_, _, _, err = w.Join(ctx, who[5], card.ID, "")
		w.fails("who is banned", err, ErrBanned)
		_, _, _, err = w.Join(ctx, who[1], card.ID, "")
		w.fails("who is in", err, ErrAlready)
		l, err := w.NewLink(ctx, who[1], id, ids.New[Link](), time.Hour, 1)
		w.must(err)
		if _, me, _, err := w.Join(ctx, who[6], l.ID, ""); err != nil || me == nil {
			t.Errorf("a link lets in where others ask: %v", err)
		}
		w.must(w.Answer(ctx, who[0], id, r.ID, true))
		w.sound()
	})
}

func TestAGroupsPictureIsShownUntilThereIsAnother(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(2)
		id := w.create(who[0], who[1])
		told := w.listen(who[1])
		g, _, err := w.SetPicture(ctx, who[0], id, portrait(t))
		if err != nil || g.Picture == "" {
			t.Fatalf("got %+v, %v", g, err)
		}
		if got := fmt.Sprint(told.all()); got != "[changed 0+ 0-]" {
			t.Errorf("members are told %s", got)
		}
		shown := func(g Group) error {
			var name PictureID
			w.must(name.UnmarshalText([]byte(g.Picture)))
			for _, size := range picture.Sizes {
				if p, err := w.Picture(ctx, name, size); err != nil || p.Type == "" || len(p.Data) == 0 {
					return err
				}
			}
			return nil
		}
		w.must(shown(g))
		next, _, err := w.SetPicture(ctx, who[0], id, portrait(t))
		w.must(err)
		if next.Picture == g.Picture || next.Version <= g.Version {
			t.Errorf("another one is %+v, after %+v", next, g)
		}
		w.must(shown(next))
		w.fails("the one before", shown(g), ErrPicture)
		if _, _, err := w.SetPicture(ctx, who[0], id, []byte("no image")); !errors.Is(err, picture.ErrUnreadable) {
			t.Errorf("no image: %v", err)
		}
		c, err := w.Changes(ctx, who[1], id, g.Version, 10)
		if err != nil || c.Group.Picture != next.Picture {
			t.Errorf("a client that syncs gets %+v, %v", c, err)
		}
		w.must(w.RemovePicture(ctx, who[0], id))
		w.fails("one that was removed", shown(next), ErrPicture)
		g, _, err = w.SetPicture(ctx, who[0], id, portrait(t))
		w.must(err)
		w.must(w.Dissolve(ctx, who[0], id))
		w.fails("of a group that is no more", shown(g), ErrPicture)
	})
}

func TestMembersAreFoundByWhatTheyAreCalled(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(6) // user 0 to user 5
		id := w.create(who[0], who[1:5]...)
		for i, nickname := range map[int]string{1: "Стасик", 2: "划船 Bär", 3: "ｌｏｎｇ name"} {
			_, _, err := w.SetOwn(ctx, who[i], id, OwnUpdate{Nickname: to(nickname)})
			w.must(err)
		}
		_, err := w.friends.(*social.Service).UpdateFriend(ctx, who[0], who[4], social.FriendUpdate{Remark: to("the baker")})
		w.must(err)
		find := func(user accounts.ID, q string) string {
			t.Helper()
			var found []string
			for cursor := ""; ; {
				list, next, _, err := w.Search(ctx, user, id, q, cursor, 1)
				w.must(err)
				for _, m := range list {
					found = append(found, fmt.Sprint(slices.Index(who, m.User)))
				}
				if cursor = next; next == "" {
					return strings.Join(found, " ")
				}
			}
		}
		for q, want := range map[string]string{"船": "2", "стас": "1", "bär": "2", "LONG": "3", "user": "0 1 2 3 4", "user 3": "3", "name user": "3", "baker": "4", "nobody": "", "%": "", "_": ""} {
			if got := find(who[0], q); got != want && len(got) != len(want) || q != "user" && got != want {
				t.Errorf("%q finds %q, want %q", q, got, want)
			}
		}
		if got := find(who[1], "baker"); got != "" {
			t.Errorf("the remark of another finds %q", got)
		}
		_, _, _, err = w.Search(ctx, who[0], id, " \t ", "", 10)
		w.fails("a search for nothing", err, ErrQuery)
		_, _, _, err = w.Search(ctx, who[0], id, "x", "AAAA", 10)
		w.fails("a cursor of nowhere", err, ErrCursor)
		_, _, _, err = w.Search(ctx, who[5], id, "user", "", 10)
		w.fails("a stranger", err, ErrGroup)
	})
}

// crowd creates a group with size members, the owner first. They are friends in SQL only, for speed.
func (w *world) crowd(size int) (ID, []accounts.ID) {
	w.t.Helper()
	who := w.join(size)
	pairs := make([][2]accounts.ID, size-1)
	for i := range pairs {
		pairs[i] = [2]accounts.ID{who[0], who[i+1]}
	}
	w.must(social.Befriend(w.t.Context(), w.db, pairs))
	g, _, err := w.Create(w.t.Context(), who[0], ids.New[Group](), "a crowd", who[1:])
	w.must(err)
	return g.ID, who
}

func TestALargeGroupIsSearchedInSteps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.Engine{Name: "sqlite"}.Open(t), redistest.Open(t, "embedded"), new(atomic.Int64), Settings{Members: 5000})
		id, who := w.crowd(2*searchReach + 1)
		_, _, err := w.SetOwn(t.Context(), who[0], id, OwnUpdate{Nickname: to("needle")}) // the owner is first
		w.must(err)
		for q, want := range map[string][]int{"needle": {1, 0, 0}, "nobody": {0, 0, 0}, "user": {10, 10}} {
			var got []int
			for cursor := ""; len(got) < len(want); {
				list, next, _, err := w.Search(t.Context(), who[1], id, q, cursor, 10)
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
	id, who := w.crowd(5000)
	for b.Loop() {
		for cursor, more := "", true; more; more = cursor != "" {
			var err error
			_, cursor, _, err = w.Search(b.Context(), who[1], id, "nobody", cursor, 10)
			w.must(err)
		}
	}
}
