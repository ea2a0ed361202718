package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// parent is the type of groups and rooms in the tests.
type parent struct{}

var (
	errLink  = errors.New("no open link")
	errLinks = errors.New("too many links")
	errMay   = errors.New("not allowed")
	errNoBan = errors.New("no ban")
	errOther = errors.New("refused")
)

// A world is a database with users. All but the last may invite.
type world struct {
	t     *testing.T
	db    *sqldb.DB
	links Links[parent]
	bans  Bans[parent]
	users []accounts.ID
	ahead atomic.Int64 // lead of the clock, in ns
}

// eachTable runs test with the tables of groups and with those of rooms, on each kind of database.
func eachTable(t *testing.T, test func(t *testing.T, w *world)) {
	for name, cards := range map[string]bool{"group": true, "room": false} {
		for _, e := range sqldbtest.Engines(t) {
			t.Run(name+" "+e.Name, func(t *testing.T) {
				t.Parallel()
				w := &world{t: t, links: Links[parent]{Table: name + "_links", Column: name + "_id", Cards: cards, ErrLink: errLink,
					ErrLinks: errLinks, ErrMay: errMay}, bans: Bans[parent]{Table: name + "_bans", Column: name + "_id", ErrNoBan: errNoBan}}
				begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
				w.db = e.Open(t, func(c *sqldb.Config) {
					c.Now = func() time.Time { return begin.Add(time.Duration(w.ahead.Load())) }
				})
				var users []accounts.User
				for i := range 4 {
					u, err := accounts.NewUser(fmt.Sprintf("u%d@example.org", i), fmt.Sprint("user ", i), "UTC")
					w.check("new user", err, nil)
					users, w.users = append(users, u), append(w.users, u.ID)
				}
				w.check("insert", w.tx(func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, users) }), nil)
				test(t, w)
			})
		}
	}
}

func (w *world) tx(fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return w.db.Tx(w.t.Context(), fn)
}

func (w *world) check(what string, err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		w.t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// inviters returns all users but the last.
func (w *world) inviters(_ context.Context, _ sqldb.Querier, users []accounts.ID) ([]accounts.ID, error) {
	return slices.DeleteFunc(users, func(u accounts.ID) bool { return u == w.users[3] }), nil
}

// create creates a link with a life of an hour.
func (w *world) create(l Link[parent], maxOwn int) (Link[parent], error) {
	err := w.tx(func(ctx context.Context, tx *sqldb.Tx) (err error) {
		l, err = w.links.Create(ctx, tx, l, time.Hour, maxOwn, w.inviters)
		return err
	})
	return l, err
}

// mustCreate returns a new link of a user.
func (w *world) mustCreate(id ids.ID[parent], by accounts.ID, maxUses int) Link[parent] {
	w.t.Helper()
	l, err := w.create(Link[parent]{ID: ids.New[Link[parent]](), Parent: id, By: by, MaxUses: maxUses}, MaxLinks)
	w.check("create", err, nil)
	return l
}

// checkOpen compares Check and Open for a link that is the only one of its parent.
func (w *world) checkOpen(when string, id ids.ID[Link[parent]], want error) {
	w.t.Helper()
	l, err := w.links.Get(w.t.Context(), w.db, id)
	if err == nil {
		err = w.links.Check(w.t.Context(), w.db, l, w.inviters)
		list, openErr := w.links.Open(w.t.Context(), w.db, l.Parent, w.inviters)
		if w.check("open", openErr, nil); (len(list) == 1) != (want == nil) || want == nil && list[0] != l {
			w.t.Errorf("%s: got open links %+v, want error %v of the link", when, list, want)
		}
	}
	w.check(when, err, want)
}

func TestLinks_EndByUsesTimeAndRevocation(t *testing.T) {
	eachTable(t, func(t *testing.T, w *world) {
		id := ids.New[parent]()
		l := w.mustCreate(id, w.users[0], 2)
		for range 2 {
			w.checkOpen("with uses left", l.ID, nil)
			w.check("use", w.tx(func(ctx context.Context, tx *sqldb.Tx) error { return w.links.Use(ctx, tx, l.ID) }), nil)
		}
		w.checkOpen("used up", l.ID, errLink)
		w.ahead.Add(int64(time.Second))
		other := ids.New[parent]()
		l = w.mustCreate(other, w.users[0], 0)
		w.ahead.Add(int64(time.Hour - time.Millisecond))
		w.checkOpen("before the expiry", l.ID, nil)
		w.ahead.Add(int64(time.Millisecond))
		w.checkOpen("expired", l.ID, errLink)

		l = w.mustCreate(other, w.users[0], 0)
		revoke := func(parent ids.ID[parent], by accounts.ID, all bool) error {
			return w.tx(func(ctx context.Context, tx *sqldb.Tx) error { return w.links.Revoke(ctx, tx, parent, l.ID, by, all) })
		}
		w.check("revoke a link of another parent", revoke(id, w.users[0], true), errLink)
		w.check("revoke a link of another user", revoke(other, w.users[1], false), errMay)
		w.check("revoke an own link", revoke(other, w.users[0], false), nil)
		w.checkOpen("revoked", l.ID, errLink)
		w.check("revoke twice", revoke(other, w.users[0], false), errLink)
		l = w.mustCreate(other, w.users[0], 0)
		w.check("revoke a link as one who may revoke all", revoke(other, w.users[1], true), nil)

		l = w.mustCreate(other, w.users[0], 0)
		kept := w.mustCreate(other, w.users[1], 0)
		w.check("delete", w.tx(func(ctx context.Context, tx *sqldb.Tx) error { return w.links.DeleteOf(ctx, tx, other, w.users[0]) }), nil)
		_, err := w.links.Get(t.Context(), w.db, l.ID)
		w.check("the link of a user whose links are deleted", err, errLink)
		w.checkOpen("the link of another user", kept.ID, nil)
	})
}

func TestLinks_EndWithTheirCreatorsRight(t *testing.T) {
	eachTable(t, func(t *testing.T, w *world) {
		l := w.mustCreate(ids.New[parent](), w.users[3], 0)
		w.checkOpen("a creator who may not invite", l.ID, errLink)
		for column, until := range map[string]time.Time{"banned_until": w.db.Now().Add(time.Minute), "erased": w.db.Now().Add(time.Hour)} {
			l := w.mustCreate(ids.New[parent](), w.users[1], 0)
			w.checkOpen("an active creator", l.ID, nil)
			set := func(ms int64) {
				_, err := w.db.ExecContext(t.Context(), "UPDATE users SET "+column+" = ? WHERE id = ?", ms, w.users[1])
				w.check("update", err, nil)
			}
			set(until.UnixMilli())
			w.checkOpen(column, l.ID, errLink)
			set(0)
			w.checkOpen("an active creator again", l.ID, nil)
		}
	})
}

func TestCreate_LimitsOpenLinks(t *testing.T) {
	eachTable(t, func(t *testing.T, w *world) {
		const maxOwn = 3
		id := ids.New[parent]()
		first := Link[parent]{ID: ids.New[Link[parent]](), Parent: id, By: w.users[0], MaxUses: 7}
		created, err := w.create(first, maxOwn)
		w.check("first", err, nil)
		w.ahead.Add(int64(time.Minute))
		if again, err := w.create(first, maxOwn); err != nil || again != created {
			t.Errorf("second try: got %+v, %v, want %+v", again, err, created)
		}
		for range maxOwn - 1 {
			w.mustCreate(id, w.users[0], 0)
		}
		if w.links.Cards {
			card := Link[parent]{ID: ids.New[Link[parent]](), Parent: id, By: w.users[1], Expires: w.db.Now().Add(time.Hour).UnixMilli(), Card: true}
			w.check("card", w.tx(func(ctx context.Context, tx *sqldb.Tx) error { return w.links.Store(ctx, tx, card) }), nil)
		}
		_, err = w.create(Link[parent]{ID: ids.New[Link[parent]](), Parent: id, By: w.users[0]}, maxOwn)
		w.check("one more of a user", err, errLinks)
		for range MaxLinks - maxOwn {
			w.mustCreate(id, w.users[1], 0)
		}
		_, err = w.create(Link[parent]{ID: ids.New[Link[parent]](), Parent: id, By: w.users[2]}, MaxLinks)
		w.check("one more of the parent", err, errLinks)
		w.ahead.Add(int64(time.Hour - time.Minute)) // the first one has expired
		w.mustCreate(id, w.users[2], 0)
	})
}

func TestBans_ExcludeUsersUntilTheyAreDeleted(t *testing.T) {
	eachTable(t, func(t *testing.T, w *world) {
		id, other := ids.New[parent](), ids.New[parent]()
		add := func(user accounts.ID) {
			t.Helper()
			w.ahead.Add(int64(time.Second))
			b := Ban{User: user, By: w.users[0], At: w.db.Now().UnixMilli()}
			w.check("add", w.tx(func(ctx context.Context, tx *sqldb.Tx) error { return w.bans.Add(ctx, tx, id, b) }), nil)
		}
		for _, u := range []accounts.ID{w.users[1], w.users[2], w.users[3], w.users[1]} {
			add(u)
		}
		check := func(of ids.ID[parent], users ...accounts.ID) error {
			return w.bans.Check(t.Context(), w.db, of, errOther, users...)
		}
		w.check("a banned user", check(id, w.users[1]), errOther)
		w.check("a banned user among others", check(id, w.users[0], w.users[2]), errOther)
		w.check("another user", check(id, w.users[0]), nil)
		w.check("another parent", check(other, w.users[1]), nil)

		var got []accounts.ID
		for after, next := FirstBan, ""; ; {
			list, text, err := w.bans.List(t.Context(), w.db, id, after, 2)
			w.check("list", err, nil)
			for _, b := range list {
				got = append(got, b.User)
			}
			if next = text; next == "" {
				break
			}
			after, err = cursor.ParsePlace(next, FirstBan, errOther)
			w.check("cursor", err, nil)
		}
		if want := []accounts.ID{w.users[3], w.users[2], w.users[1]}; !slices.Equal(got, want) {
			t.Errorf("got bans of %v, want %v", got, want)
		}

		lift := func(of ids.ID[parent]) error {
			return w.tx(func(ctx context.Context, tx *sqldb.Tx) error { return w.bans.Delete(ctx, tx, of, w.users[1]) })
		}
		w.check("lift a ban of another parent", lift(other), errNoBan)
		w.check("lift", lift(id), nil)
		w.check("a user whose ban is lifted", check(id, w.users[1]), nil)
		w.check("lift twice", lift(id), errNoBan)
	})
}

func TestMuteEnd(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for end, want := range map[time.Time]struct {
		ms  int64
		err error
	}{now: {}, now.Add(-time.Hour): {}, now.Add(time.Second): {ms: now.UnixMilli() + 1000},
		now.AddDate(10, 0, 0): {ms: now.AddDate(10, 0, 0).UnixMilli()}, now.AddDate(10, 0, 0).Add(time.Second): {err: errOther}} {
		if ms, err := MuteEnd(end, now, errOther); ms != want.ms || !errors.Is(err, want.err) {
			t.Errorf("%s: got %d, %v, want %d, %v", end, ms, err, want.ms, want.err)
		}
	}
}

func TestLine(t *testing.T) {
	invalid := errs.New(errs.Invalid, "text", "The text is invalid.")
	for text, want := range map[string]string{" a film ": "a film", "": "", "a\nb": "", "666666": "666666", "7777777": ""} {
		got, err := Line(invalid, "body.name", text, 1, 6)
		if got != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, invalid) {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}
