package groups

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// testTimeout ends a test that would otherwise hang.
const testTimeout = time.Minute

// longBudget replaces the budget of production: a slow machine must not look like an unavailable Redis.
const longBudget = 10 * time.Second

// A world is a node's Service with its other services and engines.
type world struct {
	*Service
	t        testing.TB
	accounts *accounts.Service
	redis    *redis.DB
	ahead    *atomic.Int64 // lead of the clock, in ns
}

func newWorld(t testing.TB, db *sqldb.DB, rdb *redis.DB, ahead *atomic.Int64, settings Settings) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	bus := events.NewBus(rdb, ids.New[world]().String(), log)
	budget := longBudget
	if bubble.In(t) {
		budget = 0 // the budget of production
	}
	caches := cache.NewRuntime(rdb, bus.Nodes(), cache.Config{Budget: budget})
	people, err := accounts.New(accounts.Config{DB: db, Redis: rdb, Limiter: ratelimit.New(rdb), Caches: caches, Bus: bus,
		Secret: make([]byte, 32), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	friends, err := social.New(social.Config{DB: db, Caches: caches, Bus: bus, People: people, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{DB: db, Caches: caches, Bus: bus, People: people, Friends: friends, Log: log, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{s, t, people, rdb, ahead}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = bus.Run(ctx, func() {}) })
	all.Go(func() { _ = caches.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); all.Wait() })
	if err := bus.Nodes().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// eachEngine runs test on the embedded engines, in a bubble, and on a real Redis with a real MariaDB.
func eachEngine(t *testing.T, settings Settings, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		run := func(t *testing.T, cfg redis.Config) {
			ahead := new(atomic.Int64)
			db := e.Open(t, func(c *sqldb.Config) {
				c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			})
			w := newWorld(t, db, redistest.OpenConfig(t, cfg), ahead, settings)
			test(t, w)
			w.checkInvariants()
			redistest.KeysDeclared(t, w.redis, Keys, social.Keys, accounts.Keys, events.Keys, cache.Keys)
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			if e.Name == "sqlite" {
				bubble.Test(t, func(t *testing.T) { run(t, redis.Config{URL: "embedded"}) })
			} else {
				run(t, redistest.Shared(t))
			}
		})
	}
}

// newNode returns another node on the same engines.
func (w *world) newNode() *world {
	w.t.Helper()
	return newWorld(w.t, w.db, w.redis, w.ahead, w.cfg)
}

func (w *world) advance(d time.Duration) { w.ahead.Add(int64(d)) }

// newUsers creates n accounts. All are friends of the first one.
func (w *world) newUsers(n int) (all []accounts.ID) {
	w.t.Helper()
	var users []accounts.User
	var pairs [][2]accounts.ID
	for i := range n {
		u, err := accounts.NewUser(fmt.Sprintf("%x@example.org", ids.New[world]().String()), fmt.Sprint("user ", i), "UTC")
		w.must(err)
		users, all = append(users, u), append(all, u.ID)
		if i > 0 {
			pairs = append(pairs, [2]accounts.ID{all[0], u.ID})
		}
	}
	w.must(w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, users) }))
	if len(pairs) > 0 {
		w.must(social.Befriend(w.t.Context(), w.db, pairs))
	}
	return all
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// wantErr expects an error.
func (w *world) wantErr(name string, err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Errorf("%s: got %v, want %v", name, err, want)
	}
}

// newGroup creates a group.
func (w *world) newGroup(owner accounts.ID, members ...accounts.ID) ID {
	w.t.Helper()
	g, _, err := w.Create(w.t.Context(), owner, ids.New[Group](), "Rowing", members)
	w.must(err)
	return g.ID
}

func (w *world) appoint(id ID, owner accounts.ID, users ...accounts.ID) {
	w.t.Helper()
	admin := Admin
	for _, u := range users {
		_, err := w.SetMember(w.t.Context(), owner, id, u, MemberUpdate{Role: &admin})
		w.must(err)
	}
}

// roles returns the members of a group with their roles, from SQL.
func (w *world) roles(id ID) map[accounts.ID]Role {
	w.t.Helper()
	list, err := allMembers(w.t.Context(), w.db, id)
	w.must(err)
	all := map[accounts.ID]Role{}
	for _, m := range list {
		all[m.User] = m.Role
	}
	return all
}

// checkInvariants checks the invariants of the package in SQL, and compares the copies of members with SQL.
func (w *world) checkInvariants() {
	w.t.Helper()
	for name, query := range map[string]string{
		"groups without one owner": `SELECT COUNT(*) FROM chat_groups g WHERE g.dissolved = 0 AND 1 <>
			(SELECT COUNT(*) FROM group_members m WHERE m.group_id = g.id AND m.gone = 0 AND m.role = 2)`,
		"groups with a wrong member count": `SELECT COUNT(*) FROM chat_groups g WHERE g.members <>
			(SELECT COUNT(*) FROM group_members m WHERE m.group_id = g.id AND m.gone = 0)`,
		"rows newer than their group":  `SELECT COUNT(*) FROM group_members m JOIN chat_groups g ON g.id = m.group_id WHERE m.version > g.version`,
		"members who are banned":       `SELECT COUNT(*) FROM group_members m JOIN group_bans b ON b.group_id = m.group_id AND b.user_id = m.user_id WHERE m.gone = 0`,
		"links used above their limit": `SELECT COUNT(*) FROM group_links WHERE most > 0 AND uses > most`,
		"members with a pending request": `SELECT COUNT(*) FROM group_members m JOIN group_requests r ON r.group_id = m.group_id AND r.user_id = m.user_id
			WHERE m.gone = 0 AND r.state = 0`,
		"requests whose state contradicts their waiting key": `SELECT COUNT(*) FROM group_requests WHERE (state = 0) <> (waiting IS NOT NULL)`,
		"rows of dissolved groups": `SELECT (SELECT COUNT(*) FROM group_members m JOIN chat_groups g ON g.id = m.group_id WHERE g.dissolved > 0)
			+ (SELECT COUNT(*) FROM group_links m JOIN chat_groups g ON g.id = m.group_id WHERE g.dissolved > 0)
			+ (SELECT COUNT(*) FROM group_requests m JOIN chat_groups g ON g.id = m.group_id WHERE g.dissolved > 0)
			+ (SELECT COUNT(*) FROM group_bans m JOIN chat_groups g ON g.id = m.group_id WHERE g.dissolved > 0)`,
	} {
		var n int
		w.must(w.db.QueryRowContext(w.t.Context(), query).Scan(&n))
		if n != 0 {
			w.t.Errorf("%d %s, want none", n, name)
		}
	}
	list, err := sqldb.Column[ID](w.db.QueryContext(w.t.Context(), "SELECT id FROM chat_groups"))
	w.must(err)
	for _, id := range list {
		got, err := w.copies.members.All(w.t.Context(), id)
		w.must(err)
		want := map[accounts.ID]Role{}
		for u, k := range got {
			want[u] = k.Role
		}
		if roles := w.roles(id); !maps.Equal(want, roles) {
			w.t.Errorf("members in Redis: got %v, want %v as in SQL", want, roles)
		}
	}
}

func at(t time.Time) *time.Time { return &t }

func to[T any](v T) *T { return &v }

// Each case is an act on a group, with the result for the roles stranger, member, admin and owner. The other user is a
// member unless the case has another role.
func TestRoles_AllowTheirOperationsOnly(t *testing.T) {
	type try func(ctx context.Context, w *world, id ID, me, other accounts.ID) error
	setMember := func(u MemberUpdate) try {
		return func(ctx context.Context, w *world, id ID, me, other accounts.ID) error {
			_, err := w.SetMember(ctx, me, id, other, u)
			return err
		}
	}
	update := func(u func(w *world) Update) try {
		return func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, _, err := w.Update(ctx, me, id, u(w))
			return err
		}
	}
	ok := error(nil)
	until := func(w *world) *time.Time { return at(w.db.Now().Add(time.Hour)) }
	for name, c := range map[string]struct {
		try   try
		other Role
		want  [4]error
	}{
		"rename": {update(func(*world) Update { return Update{Name: to("Sailing")} }), Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"announce": {update(func(*world) Update { return Update{Announcement: to("Tomorrow")} }), Member,
			[4]error{ErrGroup, ErrMay, ok, ok}},
		"mute all":         {update(func(w *world) Update { return Update{MutedUntil: until(w)} }), Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"open it":          {update(func(*world) Update { return Update{Joins: to(Open)} }), Member, [4]error{ErrGroup, ErrMay, ErrMay, ok}},
		"set the question": {update(func(*world) Update { return Update{Question: to("Who?")} }), Member, [4]error{ErrGroup, ErrMay, ErrMay, ok}},
		"restrict inviting": {update(func(*world) Update { return Update{AdminsInvite: to(true)} }), Member,
			[4]error{ErrGroup, ErrMay, ErrMay, ok}},
		"rename and open it": {update(func(*world) Update { return Update{Name: to("Sailing"), Joins: to(Open)} }), Member,
			[4]error{ErrGroup, ErrMay, ErrMay, ok}},
		"make a link": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, err := w.NewLink(ctx, me, id, ids.New[Link](), time.Hour, 0)
			return err
		}, Member, [4]error{ErrGroup, ok, ok, ok}},
		"show its card": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, err := w.DrawCard(ctx, me, id)
			return err
		}, Member, [4]error{ErrGroup, ok, ok, ok}},
		"show its card where admins invite": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			if g, _, err := w.Group(ctx, me, id); err == nil && !g.AdminsInvite {
				return ErrSelf // the test is broken
			}
			_, err := w.DrawCard(ctx, me, id)
			return err
		}, Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"give it a picture": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, _, err := w.SetPicture(ctx, me, id, portrait(w.t))
			return err
		}, Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"remove its picture": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			return w.RemovePicture(ctx, me, id)
		}, Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"search the members": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, _, _, err := w.Search(ctx, me, id, "user", "", 10)
			return err
		}, Member, [4]error{ErrGroup, ok, ok, ok}},
		"see the members": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, _, _, err := w.Members(ctx, me, id, "", 10)
			return err
		}, Member, [4]error{ErrGroup, ok, ok, ok}},
		"see the changes": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, err := w.Changes(ctx, me, id, 0, 10)
			return err
		}, Member, [4]error{ErrGroup, ok, ok, ok}},
		"see the links": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, err := w.Links(ctx, me, id)
			return err
		}, Member, [4]error{ErrGroup, ok, ok, ok}},
		"see the requests": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, _, err := w.Requests(ctx, me, id, "", 10)
			return err
		}, Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"see the bans": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, _, err := w.Bans(ctx, me, id, "", 10)
			return err
		}, Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"see who has seen": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, _, err := w.Seen(ctx, me, id)
			return err
		}, Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"change oneself": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			_, _, err := w.SetOwn(ctx, me, id, OwnUpdate{Nickname: to("X"), Remark: to("Y")})
			return err
		}, Member, [4]error{ErrGroup, ok, ok, ok}},
		"appoint":       {setMember(MemberUpdate{Role: to(Admin)}), Member, [4]error{ErrGroup, ErrMay, ErrMay, ok}},
		"depose":        {setMember(MemberUpdate{Role: to(Member)}), Admin, [4]error{ErrGroup, ErrMay, ErrMay, ok}},
		"mute a member": {setMember(MemberUpdate{MutedUntil: at(time.Now().Add(time.Hour))}), Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"mute an admin": {setMember(MemberUpdate{MutedUntil: at(time.Now().Add(time.Hour))}), Admin, [4]error{ErrGroup, ErrMay, ErrRank, ok}},
		"remove a member": {func(ctx context.Context, w *world, id ID, me, other accounts.ID) error {
			return w.Remove(ctx, me, id, other)
		}, Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"remove an admin": {func(ctx context.Context, w *world, id ID, me, other accounts.ID) error {
			return w.Remove(ctx, me, id, other)
		}, Admin, [4]error{ErrGroup, ErrMay, ErrRank, ok}},
		"ban a member": {func(ctx context.Context, w *world, id ID, me, other accounts.ID) error {
			return w.Ban(ctx, me, id, other)
		}, Member, [4]error{ErrGroup, ErrMay, ok, ok}},
		"ban an admin": {func(ctx context.Context, w *world, id ID, me, other accounts.ID) error {
			return w.Ban(ctx, me, id, other)
		}, Admin, [4]error{ErrGroup, ErrMay, ErrRank, ok}},
		"lift a ban": {func(ctx context.Context, w *world, id ID, me, other accounts.ID) error {
			return w.Unban(ctx, me, id, other)
		}, Member, [4]error{ErrGroup, ErrMay, ErrNoBan, ErrNoBan}},
		"answer a request": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error {
			return w.Decide(ctx, me, id, ids.New[Request](), true)
		}, Member, [4]error{ErrGroup, ErrMay, ErrNoRequest, ErrNoRequest}},
		"hand it over": {func(ctx context.Context, w *world, id ID, me, other accounts.ID) error {
			_, _, err := w.Transfer(ctx, me, id, other)
			return err
		}, Member, [4]error{ErrGroup, ErrMay, ErrMay, ok}},
		"leave": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error { return w.Leave(ctx, me, id) }, Member,
			[4]error{ErrGroup, ok, ok, ErrOwner}},
		"dissolve": {func(ctx context.Context, w *world, id ID, me, _ accounts.ID) error { return w.Dissolve(ctx, me, id) }, Member,
			[4]error{ErrGroup, ErrMay, ErrMay, ok}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, sqldbtest.Engine{Name: "sqlite"}.Open(t), redistest.Open(t, "embedded"), new(atomic.Int64), Settings{})
				users := w.newUsers(5)
				for role, want := range c.want {
					id := w.newGroup(users[0], users[1:4]...)
					w.appoint(id, users[0], users[2])
					if c.other == Admin {
						w.appoint(id, users[0], users[3])
					}
					if strings.HasSuffix(name, "where admins invite") {
						_, _, err := w.Update(t.Context(), users[0], id, Update{AdminsInvite: to(true)})
						w.must(err)
					}
					me := []accounts.ID{users[4], users[1], users[2], users[0]}[role]
					before := w.dump()
					err := c.try(t.Context(), w, id, me, users[3])
					if !errors.Is(err, want) || want == nil && err != nil {
						t.Errorf("role %d: got %v, want %v", role, err, want)
					}
					if after := w.dump(); want != nil && before != after {
						t.Errorf("role %d: refused, and changed\n%s\nto\n%s", role, before, after)
					}
				}
				w.checkInvariants()
			})
		})
	}
}

// dump returns all rows of groups in SQL.
func (w *world) dump() string {
	w.t.Helper()
	var text strings.Builder
	for _, table := range []string{"chat_groups", "group_members", "group_bans", "group_links", "group_requests", "group_pictures"} {
		rows, err := w.db.QueryContext(w.t.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2")
		w.must(err)
		columns, err := rows.Columns()
		w.must(err)
		for rows.Next() {
			row, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			w.must(rows.Scan(into...))
			fmt.Fprintln(&text, table, row)
		}
		w.must(rows.Err())
	}
	return text.String()
}

func TestGroups_AdmitUsersByTheirRules(t *testing.T) {
	eachEngine(t, Settings{Members: 4}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(6)
		ann, bob, eve, dan, fay := users[0], users[1], users[2], users[3], users[4]
		_, _, err := w.Create(ctx, bob, ids.New[Group](), "Rowing", []accounts.ID{ann, eve})
		w.wantErr("a group with a stranger", err, ErrNotFriend)
		_, _, err = w.Create(ctx, ann, ids.New[Group](), " \n", nil)
		w.wantErr("a group without a name", err, ErrText)
		_, _, err = w.Create(ctx, ann, ids.New[Group](), "Rowing", users[1:])
		w.wantErr("a group of too many", err, ErrFull)
		if text := w.dump(); text != "" {
			t.Errorf("refused calls have stored\n%s", text)
		}
		id := w.newGroup(ann, bob, bob, ann)
		if got, want := w.roles(id), map[accounts.ID]Role{ann: Owner, bob: Member}; !maps.Equal(got, want) {
			t.Errorf("members %v, want %v", got, want)
		}
		_, err = w.Invite(ctx, bob, id, []accounts.ID{eve})
		w.wantErr("a stranger is invited", err, ErrNotFriend)
		added, err := w.Invite(ctx, ann, id, []accounts.ID{bob, eve, eve})
		w.must(err)
		if len(added) != 1 || added[0].User != eve || added[0].Inviter != ann {
			t.Errorf("added %+v", added)
		}
		w.must(w.Ban(ctx, ann, id, dan))
		w.must(w.Ban(ctx, ann, id, dan))
		w.wantErr("ban oneself", w.Ban(ctx, ann, id, ann), ErrSelf)
		w.wantErr("ban an unknown user", w.Ban(ctx, ann, id, ids.New[accounts.User]()), accounts.ErrNoUser)
		_, err = w.Invite(ctx, ann, id, []accounts.ID{fay, dan})
		w.wantErr("a banned user is invited", err, ErrTheyBanned)
		w.must(w.Unban(ctx, ann, id, dan))
		_, err = w.Invite(ctx, ann, id, []accounts.ID{fay, dan})
		w.wantErr("too many are invited", err, ErrFull)
		_, err = w.Invite(ctx, ann, id, []accounts.ID{dan})
		w.must(err)
		w.must(w.Remove(ctx, ann, id, dan))
		_, _, err = w.Update(ctx, ann, id, Update{AdminsInvite: to(true)})
		w.must(err)
		_, err = w.NewLink(ctx, bob, id, ids.New[Link](), time.Hour, 0)
		w.wantErr("a member makes a link where admins invite", err, ErrMay)
		_, err = w.Invite(ctx, bob, id, nil)
		w.wantErr("a member invites where admins invite", err, ErrMay)

		// The group first admits only invited users. Then admins decide, and finally it admits all users at once.
		_, err = w.RequestJoin(ctx, dan, id, "me")
		w.wantErr("a request", err, ErrGroup)
		_, _, err = w.Group(ctx, dan, id)
		w.wantErr("a stranger gets the group", err, ErrGroup)
		_, _, err = w.Update(ctx, ann, id, Update{Joins: to(ByRequest), Question: to("Who are you?"), Announcement: to("A secret")})
		w.must(err)
		g, me, err := w.Group(ctx, dan, id)
		if err != nil || me != nil || g.Question != "Who are you?" || g.Announcement != "" || g.Announced != 0 {
			t.Errorf("a stranger sees %+v, %v, %v", g, me, err)
		}
		r, err := w.RequestJoin(ctx, dan, id, "Dan")
		w.must(err)
		if again, err := w.RequestJoin(ctx, dan, id, "Dan again"); err != nil || again.ID != r.ID || again.Answer != "Dan" {
			t.Errorf("second request: got %+v, %v, want the first one", again, err)
		}
		if list, _, err := w.Requests(ctx, ann, id, "", 10); err != nil || len(list) != 1 || list[0].Answer != "Dan" {
			t.Errorf("requests %+v, %v", list, err)
		}
		w.must(w.Withdraw(ctx, dan, id))
		w.wantErr("withdrawing twice", w.Withdraw(ctx, dan, id), ErrNoRequest)
		w.wantErr("accepting a withdrawn request", w.Decide(ctx, ann, id, r.ID, true), ErrNoRequest)
		r, err = w.RequestJoin(ctx, dan, id, "")
		w.must(err)
		w.must(w.Decide(ctx, ann, id, r.ID, false))
		r, err = w.RequestJoin(ctx, dan, id, "")
		w.must(err)
		w.advance(w.cfg.RequestLife + time.Second)
		w.wantErr("accepting an expired request", w.Decide(ctx, ann, id, r.ID, true), ErrNoRequest)
		second, err := w.RequestJoin(ctx, dan, id, "")
		w.must(err)
		if second.ID == r.ID {
			t.Error("got the expired request, want a new one")
		}
		w.must(w.Decide(ctx, ann, id, second.ID, true))
		_, err = w.RequestJoin(ctx, dan, id, "")
		w.wantErr("a member's request", err, ErrAlready)
		w.must(w.Leave(ctx, dan, id))
		r, err = w.RequestJoin(ctx, fay, id, "")
		w.must(err)
		w.must(w.Ban(ctx, ann, id, fay))
		_, err = w.RequestJoin(ctx, fay, id, "")
		w.wantErr("a banned user's request", err, ErrBanned)
		w.wantErr("accepting a banned user", w.Decide(ctx, ann, id, r.ID, true), ErrNoRequest)
		_, _, err = w.Update(ctx, ann, id, Update{Joins: to(Open)})
		w.must(err)
		if r, err := w.RequestJoin(ctx, dan, id, ""); err != nil || r != nil {
			t.Errorf("open group: got request %v, %v, want none", r, err)
		}
		_, err = w.RequestJoin(ctx, users[5], id, "")
		w.wantErr("a full open group", err, ErrFull)
	})
}

func TestLink_AdmitsUpToItsLimit(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		nodes := []*world{w, w.newNode()}
		users := w.newUsers(12)
		id := w.newGroup(users[0], users[1])
		l, err := w.NewLink(ctx, users[1], id, ids.New[Link](), time.Hour, 3)
		w.must(err)
		g, me, err := w.GroupOfLink(ctx, users[5], l.ID)
		if err != nil || me != nil || g.ID != id {
			t.Errorf("group of the link: got %+v, %v, %v", g, me, err)
		}
		var joined atomic.Int64
		var all sync.WaitGroup
		for i, u := range users[2:] {
			all.Go(func() {
				switch _, _, _, err := nodes[i%2].Join(ctx, u, l.ID, ""); {
				case err == nil:
					joined.Add(1)
				case !errors.Is(err, ErrLink):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := len(w.roles(id)); joined.Load() != 3 || n != 5 {
			t.Errorf("%d joined, and the group has %d members, want 3 and 5", joined.Load(), n)
		}
		_, _, err = w.GroupOfLink(ctx, users[5], l.ID)
		w.wantErr("a link that is used up", err, ErrLink)
		if list, err := w.Links(ctx, users[0], id); err != nil || len(list) != 0 {
			t.Errorf("links %+v, %v", list, err)
		}
		joined.Store(0)
		outside := slices.DeleteFunc(slices.Clone(users), func(u accounts.ID) bool { _, isMember := w.roles(id)[u]; return isMember })
		l, err = w.NewLink(ctx, users[1], id, ids.New[Link](), time.Hour, 0)
		w.must(err)
		own, err := w.NewLink(ctx, users[0], id, ids.New[Link](), time.Hour, 0)
		w.must(err)
		w.wantErr("a member revokes another member's link", w.Revoke(ctx, users[1], id, own.ID), ErrMay)
		if list, err := w.Links(ctx, users[1], id); err != nil || len(list) != 1 || list[0].ID != l.ID {
			t.Errorf("a member's links %+v, %v", list, err)
		}
		_, _, _, err = w.Join(ctx, users[1], l.ID, "")
		w.wantErr("a member", err, ErrAlready)
		w.must(w.Ban(ctx, users[0], id, outside[0]))
		_, _, _, err = w.Join(ctx, outside[0], l.ID, "")
		w.wantErr("a banned user", err, ErrBanned)
		w.must(w.Remove(ctx, users[0], id, users[1]))
		_, _, _, err = w.Join(ctx, outside[1], l.ID, "")
		w.wantErr("the link of a removed member", err, ErrLink)
		_, me2, _, err := w.Join(ctx, outside[1], own.ID, "")
		if err != nil || me2.Inviter != users[0] || me2.Role != Member {
			t.Errorf("joined as %+v, %v", me2, err)
		}
		l, err = w.NewLink(ctx, users[0], id, ids.New[Link](), time.Hour, 0)
		w.must(err)
		w.must(w.Dissolve(ctx, users[0], id))
		_, _, _, err = w.Join(ctx, outside[2], l.ID, "")
		w.wantErr("the link of a dissolved group", err, ErrLink)
	})
}

func TestLink_EndsWithItsCreatorsRight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), new(atomic.Int64), Settings{})
		ctx, other := t.Context(), w.newNode()
		users := w.newUsers(4)
		owner, creator, guest := users[0], users[1], users[2]
		id := w.newGroup(owner, creator)
		link, err := w.NewLink(ctx, creator, id, ids.New[Link](), time.Hour, 0)
		w.must(err)
		card, err := w.DrawCard(ctx, creator, id)
		w.must(err)
		checkAdmitsNone := func(when string) {
			t.Helper()
			for name, l := range map[string]LinkID{"link": link.ID, "card": card.ID} {
				_, _, err := other.GroupOfLink(ctx, guest, l)
				w.wantErr(when+": get the group of the "+name, err, ErrLink)
				_, _, _, err = other.Join(ctx, guest, l, "")
				w.wantErr(when+": join by the "+name, err, ErrLink)
			}
			if links, err := other.Links(ctx, owner, id); err != nil || len(links) != 0 {
				t.Errorf("%s: got links %+v, %v", when, links, err)
			}
		}
		appoint := func(role Role) {
			t.Helper()
			_, err := w.SetMember(ctx, owner, id, creator, MemberUpdate{Role: &role})
			w.must(err)
		}
		_, _, err = w.Update(ctx, owner, id, Update{AdminsInvite: to(true)})
		w.must(err)
		checkAdmitsNone("admins invite")
		appoint(Admin)
		_, _, err = other.GroupOfLink(ctx, guest, link.ID)
		w.must(err)
		appoint(Member)
		checkAdmitsNone("demoted")
		next, err := other.DrawCard(ctx, owner, id)
		w.must(err)
		if next.ID == card.ID {
			t.Error("got the card of a user who may not invite, want a new one")
		}
	})
}

func TestTransfer_LeavesOneOwner(t *testing.T) {
	eachEngine(t, Settings{Admins: 2}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(5)
		id := w.newGroup(users[0], users[1:]...)
		w.appoint(id, users[0], users[1], users[2])
		_, err := w.SetMember(ctx, users[0], id, users[3], MemberUpdate{Role: to(Admin)})
		w.wantErr("too many admins", err, ErrAdmins)
		_, _, err = w.Transfer(ctx, users[0], id, users[0])
		w.wantErr("to oneself", err, ErrSelf)
		other := w.newNode()
		for range 5 {
			var owner accounts.ID
			for u, r := range w.roles(id) {
				if r == Owner {
					owner = u
				}
			}
			var all sync.WaitGroup
			var done atomic.Int64
			for i, u := range users {
				if u == owner {
					continue
				}
				all.Go(func() {
					if _, _, err := []*world{w, other}[i%2].Transfer(ctx, owner, id, u); err == nil {
						done.Add(1)
					} else if !errors.Is(err, ErrMay) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if done.Load() != 1 {
				t.Errorf("%d transfers succeeded, want 1", done.Load())
			}
		}
	})
}

func TestSetOwn_UpdatesTheCallersMembership(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(3)
		ann, bob := users[0], users[1]
		id := w.newGroup(ann, bob)
		_, me, err := w.SetOwn(ctx, bob, id, OwnUpdate{Nickname: to(" Bobby "), Remark: to("Boats"), Notify: to(Mentions), Seen: to(int64(7))})
		w.must(err)
		if me.Nickname != "Bobby" || me.Remark != "Boats" || me.Notify != Mentions || me.Seen != 0 {
			t.Errorf("set %+v", me)
		}
		_, _, err = w.SetOwn(ctx, bob, id, OwnUpdate{Nickname: to(strings.Repeat("x", 41))})
		w.wantErr("a long nickname", err, ErrText)
		for range 2 {
			g, me, err := w.Update(ctx, ann, id, Update{Announcement: to(fmt.Sprint("Tomorrow ", w.dump()[:9], len(w.dump())))})
			if err != nil || me.Seen != g.Announced {
				t.Errorf("the announcing user has seen announcement %d, %v, want %d", me.Seen, err, g.Announced)
			}
		}
		if g, n, err := w.Seen(ctx, ann, id); err != nil || n != 1 || g.Announced != 2 {
			t.Errorf("%d members have seen announcement %d, %v, want 1 and 2", n, g.Announced, err)
		}
		_, me, err = w.SetOwn(ctx, bob, id, OwnUpdate{Seen: to(int64(9))})
		if err != nil || me.Seen != 2 {
			t.Errorf("seen %d, %v", me.Seen, err)
		}
		if _, n, err := w.Seen(ctx, ann, id); err != nil || n != 2 {
			t.Errorf("%d members have seen the announcement, %v, want 2", n, err)
		}
		list, mine, err := w.Groups(ctx, bob)
		if err != nil || len(list) != 1 || mine[0].Remark != "Boats" || mine[0].Nickname != "Bobby" {
			t.Errorf("groups %+v %+v, %v", list, mine, err)
		}
		if _, err := w.SetMember(ctx, ann, id, bob, MemberUpdate{MutedUntil: at(w.db.Now().AddDate(11, 0, 0))}); !errors.Is(err, ErrUntil) {
			t.Errorf("eleven years: %v", err)
		}
		for _, c := range []struct {
			until time.Duration
			want  bool
		}{{time.Hour, true}, {-time.Hour, false}} {
			m, err := w.SetMember(ctx, ann, id, bob, MemberUpdate{MutedUntil: at(w.db.Now().Add(c.until))})
			if err != nil || (m.MutedUntil != 0) != c.want {
				t.Errorf("muted until %d, %v", m.MutedUntil, err)
			}
		}
		w.must(w.Leave(ctx, bob, id))
		w.must(w.Leave(ctx, ann, id))
		if _, _, err := w.Group(ctx, ann, id); !errors.Is(err, ErrGroup) {
			t.Errorf("after the last member left: got %v, want ErrGroup", err)
		}
	})
}

// Two nodes may publish changes in any order. The document with the highest version must equal SQL.
func TestSetOwn_HighestVersionIsTheNewest(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(2)
		ann, bob := users[0], users[1]
		id := w.newGroup(ann, bob)
		sub := w.bus.Subscribe(ctx, bob.String())
		defer sub.Close()
		const writers, each = 4, 5
		nodes := [2]*world{w, w.newNode()}
		var mu sync.Mutex
		var got []api.GroupSelf
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for j := range each {
					u := OwnUpdate{Remark: to(fmt.Sprint(i, " ", j))}
					if j%2 == 1 { // also changes the group's version
						u.Nickname = u.Remark
					}
					g, me, err := nodes[i%2].SetOwn(ctx, bob, id, u)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					got = append(got, *membershipWire(g, &me).Me)
					mu.Unlock()
				}
			})
		}
		all.Wait()
		timeout := time.After(testTimeout)
		for mine := 0; mine < writers*each; {
			select {
			case e := <-sub.C:
				if e.Type != api.EventGroupMine {
					continue
				}
				var m api.GroupMembership
				w.must(json.Unmarshal(e.Data, &m))
				got = append(got, *m.Me)
				mine++
			case <-timeout:
				t.Fatalf("got %d events, want %d", mine, writers*each)
			}
		}
		remarks := map[int64]string{}
		for _, me := range got {
			if other, found := remarks[me.Version]; found && other != me.Remark {
				t.Errorf("version %d has the remarks %q and %q", me.Version, other, me.Remark)
			}
			remarks[me.Version] = me.Remark
		}
		_, me, err := w.Group(ctx, bob, id)
		w.must(err)
		if newest := slices.Max(slices.Collect(maps.Keys(remarks))); newest != me.ownVersion || remarks[newest] != me.Remark {
			t.Errorf("newest document: version %d, %q; want %d, %q", newest, remarks[newest], me.ownVersion, me.Remark)
		}
		before := me.ownVersion
		if _, same, err := w.SetOwn(ctx, bob, id, OwnUpdate{Remark: to(me.Remark)}); err != nil || same.ownVersion != before {
			t.Errorf("without a change: version %d, %v, want %d", same.ownVersion, err, before)
		}
		w.must(w.Leave(ctx, bob, id))
		_, err = w.Invite(ctx, ann, id, []accounts.ID{bob})
		w.must(err)
		_, me, err = w.Group(ctx, bob, id)
		w.must(err)
		if me.Remark != "" || me.ownVersion <= before {
			t.Errorf("joined again: remark %q, version %d, want none and more than %d", me.Remark, me.ownVersion, before)
		}
		_, announced, err := w.Update(ctx, ann, id, Update{Announcement: to("Tomorrow")})
		w.must(err)
		if _, me, err = w.Group(ctx, ann, id); err != nil || me.ownVersion != announced.ownVersion || me.Seen != 1 {
			t.Errorf("announced: seen %d of version %d, %v, want 1 of %d", me.Seen, me.ownVersion, err, announced.ownVersion)
		}
	})
}

func TestRequests_ArePagedAndBounded(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx, users := t.Context(), w.newUsers(3)
		ann, bob, eve := users[0], users[1], users[2]
		id := w.newGroup(ann)
		_, _, err := w.Update(ctx, ann, id, Update{Joins: to(ByRequest)})
		w.must(err)
		_, err = w.RequestJoin(ctx, bob, id, "")
		w.must(err)
		now := w.db.Now()
		w.must(w.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			for range maxPending - 1 {
				r := Request{ID: ids.New[Request](), Group: id, User: ids.New[accounts.User](), Created: now.UnixMilli(),
					Expires: now.Add(time.Hour).UnixMilli()}
				err = errors.Join(err, insertRequest(ctx, tx, r))
			}
			return err
		}))
		_, err = w.RequestJoin(ctx, eve, id, "")
		w.wantErr("one more", err, ErrRequests)
		found := map[accounts.ID]bool{}
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			var list []Request
			list, cursor, err = w.Requests(ctx, ann, id, cursor, 99)
			w.must(err)
			for _, r := range list {
				found[r.User] = true
			}
		}
		if len(found) != maxPending || !found[bob] {
			t.Errorf("the pages have %d requests, want %d", len(found), maxPending)
		}
		_, _, err = w.Requests(ctx, ann, id, "nonsense", 10)
		w.wantErr("a cursor of another list", err, ErrCursor)
		w.must(w.Withdraw(ctx, bob, id))
		w.advance(time.Second)
		_, err = w.RequestJoin(ctx, eve, id, "")
		w.must(err)

		w.must(w.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { // like a version of the program without the limit
			return insertRequest(ctx, tx, Request{ID: ids.New[Request](), Group: id, User: ids.New[accounts.User](), Created: now.UnixMilli(),
				Expires: now.Add(time.Hour).UnixMilli()})
		}))
		last := w.recordEvents(eve)
		w.must(w.Dissolve(ctx, ann, id))
		if got := fmt.Sprint(last.received()); got != "[request_closedwithdrawn]" {
			t.Errorf("the last requester got %s", got)
		}
	})
}

func TestErase_RemovesTheUserFromAllGroups(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(4)
		ann := users[0]
		first, alone, foreign := w.newGroup(ann, users[1:]...), w.newGroup(ann), w.newGroup(users[1], ann)
		w.appoint(first, ann, users[2])
		left := w.newGroup(users[1], ann)
		w.must(w.Leave(ctx, ann, left))
		_, err := w.NewLink(ctx, ann, foreign, ids.New[Link](), time.Hour, 0)
		w.must(err)
		_, _, err = w.Update(ctx, users[1], left, Update{Joins: to(ByRequest)})
		w.must(err)
		_, err = w.RequestJoin(ctx, ann, left, "")
		w.must(err)
		for range 2 {
			w.must(w.Erase(ctx, ann))
		}
		if got := w.roles(first); got[users[2]] != Owner || len(got) != 3 {
			t.Errorf("members after the erasure: %v", got)
		}
		if len(w.roles(alone)) != 0 || len(w.roles(foreign)) != 1 {
			t.Error("the user is still a member")
		}
		var n int
		w.must(w.db.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM group_links WHERE by_id = ?) + (SELECT COUNT(*) FROM group_requests WHERE user_id = ?)
			+ (SELECT COUNT(*) FROM group_members WHERE user_id = ? AND gone = 0)`, ann, ann, ann).Scan(&n))
		if n != 0 {
			t.Errorf("%d rows are left", n)
		}
		w.advance(formerMemberLife + time.Hour)
		w.must(w.prune(ctx))
		w.must(w.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM group_members WHERE user_id = ?", ann).Scan(&n))
		if n != 0 {
			t.Errorf("%d rows of the user are left, want none", n)
		}
		if c, err := w.Changes(ctx, users[1], first, 1, 10); err != nil || !c.Reset {
			t.Errorf("changes since a pruned version: got %+v, %v, want a reset", c, err)
		}
	})
}

// A mute remains if the member leaves and joins again.
func TestMute_SurvivesLeavingAndJoining(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx, users := t.Context(), w.newUsers(2)
		ann, bob := users[0], users[1]
		id := w.newGroup(ann, bob)
		_, _, err := w.Update(ctx, ann, id, Update{Joins: to(Open)})
		w.must(err)
		mute := func(d time.Duration) {
			t.Helper()
			_, err := w.SetMember(ctx, ann, id, bob, MemberUpdate{MutedUntil: at(w.db.Now().Add(d))})
			w.must(err)
		}
		muted := func() error {
			t.Helper()
			member := MemberKey{Group: id, User: bob}
			found, err := Standings(ctx, w.db, []MemberKey{member})
			w.must(err)
			return found[member].MayWrite()
		}
		rejoin := func() {
			t.Helper()
			_, err := w.RequestJoin(ctx, bob, id, "")
			w.must(err)
		}
		mute(24 * time.Hour)
		w.must(w.Leave(ctx, bob, id))
		rejoin()
		w.wantErr("joined again", muted(), ErrMuted)
		w.must(w.Remove(ctx, ann, id, bob))
		_, err = w.Invite(ctx, ann, id, []accounts.ID{bob})
		w.must(err)
		w.wantErr("removed and invited again", muted(), ErrMuted)
		mute(0)
		w.must(w.Leave(ctx, bob, id))
		rejoin()
		w.wantErr("unmuted", muted(), nil)

		mute(formerMemberLife + 24*time.Hour)
		w.must(w.Leave(ctx, bob, id))
		w.advance(formerMemberLife + time.Hour)
		w.must(w.prune(ctx))
		rejoin()
		w.wantErr("joined again after a long time", muted(), ErrMuted)
		w.must(w.Leave(ctx, bob, id))
		w.advance(formerMemberLife + time.Hour)
		w.must(w.prune(ctx))
		count := func() (n int) {
			w.must(w.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM group_members WHERE user_id = ?", bob).Scan(&n))
			return n
		}
		if n := count(); n != 0 {
			t.Errorf("%d rows are stored of a mute that has ended, want none", n)
		}
		rejoin()
		mute(3 * formerMemberLife)
		w.must(w.Leave(ctx, bob, id))
		w.must(w.Erase(ctx, bob))
		w.advance(formerMemberLife + time.Hour)
		w.must(w.prune(ctx))
		if n := count(); n != 0 {
			t.Errorf("%d rows are stored of an erased user, want none", n)
		}
	})
}

// The row of Bob's first leave is pruned after his second leave. A client that lists changes must get the second one.
func TestChanges_HaveALeaveDuringPruning(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx, users := t.Context(), w.newUsers(3)
		ann, bob := users[0], users[1]
		id := w.newGroup(ann, bob, users[2])
		w.must(w.Leave(ctx, bob, id))
		w.advance(formerMemberLife + time.Hour)
		old, err := formerMembersBefore(ctx, w.db, w.db.Now().Add(-formerMemberLife), sweepBatch)
		w.must(err)
		_, err = w.Invite(ctx, ann, id, []accounts.ID{bob})
		w.must(err)
		g, _, err := w.Group(ctx, ann, id)
		w.must(err)
		w.must(w.Leave(ctx, bob, id))
		w.must(w.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) error { return deleteFormerMembers(ctx, tx, id, old[id]) }))
		if c, err := w.Changes(ctx, ann, id, g.Version, 10); err != nil || !c.Reset && !slices.Equal(c.Removed, []accounts.ID{bob}) {
			t.Errorf("changes since Bob's return: got %+v, %v, want his leave or a reset", c, err)
		}
	})
}

// recorder collects the events of a user's devices, in short form.
type recorder struct {
	*world
	user accounts.ID
	sub  *events.Subscription
}

func (w *world) recordEvents(user accounts.ID) recorder {
	w.t.Helper()
	h := recorder{w, user, w.bus.Subscribe(w.t.Context(), user.String())}
	w.t.Cleanup(h.sub.Close)
	h.received()
	return h
}

// received returns the events that have arrived since the last call.
func (h recorder) received() (got []string) {
	h.t.Helper()
	end := events.New("from here", h.user.String(), time.Now(), []byte("1"))
	h.bus.Publish([]events.Event{end})
	timeout := time.After(testTimeout)
	for {
		select {
		case e := <-h.sub.C:
			if e.ID == end.ID {
				slices.Sort(got)
				return got
			}
			var data struct {
				Group      json.RawMessage
				Why, State string
				Changed    []api.GroupMember
				Removed    []string
				Me         *api.GroupSelf
			}
			h.must(json.Unmarshal(e.Data, &data))
			text := strings.TrimPrefix(e.Type, "group.") + data.Why + data.State
			if data.Me != nil {
				text += " " + data.Me.Role
			}
			if e.Type == api.EventGroupChanged {
				text += fmt.Sprintf(" %d+ %d-", len(data.Changed), len(data.Removed))
			}
			got = append(got, text)
		case <-timeout:
			h.t.Fatal("no event arrived in time")
		}
	}
}

func TestEvents_ReachTheirAudience(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(5)
		ann, bob, eve, dan := w.recordEvents(users[0]), w.recordEvents(users[1]), w.recordEvents(users[2]), w.recordEvents(users[3])
		checkEvents := func(name string, want ...string) {
			t.Helper()
			for i, h := range []recorder{ann, bob, eve, dan} {
				if got := fmt.Sprint(h.received()); got != want[i] {
					t.Errorf("%s: user %d got %s, want %s", name, i, got, want[i])
				}
			}
		}
		id := w.newGroup(users[0], users[1])
		checkEvents("created", "[changed 2+ 0- mine owner]", "[changed 2+ 0- mine member]", "[]", "[]")
		_, err := w.Invite(ctx, users[0], id, []accounts.ID{users[2]})
		w.must(err)
		checkEvents("invited", "[changed 1+ 0-]", "[changed 1+ 0-]", "[changed 1+ 0- mine member]", "[]")
		w.appoint(id, users[0], users[1])
		checkEvents("appointed", "[changed 1+ 0-]", "[changed 1+ 0-]", "[changed 1+ 0-]", "[]")
		_, _, err = w.SetOwn(ctx, users[2], id, OwnUpdate{Remark: to("x")})
		w.must(err)
		checkEvents("remark", "[]", "[]", "[mine member]", "[]")
		_, _, err = w.Update(ctx, users[0], id, Update{Joins: to(ByRequest)})
		w.must(err)
		checkEvents("changed", "[changed 0+ 0-]", "[changed 0+ 0-]", "[changed 0+ 0-]", "[]")
		_, _, err = w.Update(ctx, users[0], id, Update{Joins: to(ByRequest)})
		w.must(err)
		checkEvents("not changed", "[]", "[]", "[]", "[]")
		r, err := w.RequestJoin(ctx, users[3], id, "")
		w.must(err)
		checkEvents("requested", "[requestedpending]", "[requestedpending]", "[]", "[requestedpending]")
		w.must(w.Decide(ctx, users[1], id, r.ID, true))
		checkEvents("accepted", "[changed 1+ 0- request_closedaccepted]", "[changed 1+ 0- request_closedaccepted]", "[changed 1+ 0-]",
			"[changed 1+ 0- mine member request_closedaccepted]")
		w.must(w.Remove(ctx, users[1], id, users[3]))
		checkEvents("removed", "[changed 0+ 1-]", "[changed 0+ 1-]", "[changed 0+ 1-]", "[leftremoved]")
		w.must(w.Ban(ctx, users[1], id, users[2]))
		checkEvents("banned", "[changed 0+ 1-]", "[changed 0+ 1-]", "[leftbanned]", "[]")
		_, err = w.RequestJoin(ctx, users[3], id, "")
		w.must(err)
		checkEvents("requested once more", "[requestedpending]", "[requestedpending]", "[]", "[requestedpending]")
		w.must(w.Erase(ctx, users[3]))
		checkEvents("erased", "[request_closedwithdrawn]", "[request_closedwithdrawn]", "[]", "[request_closedwithdrawn]")
		_, err = w.RequestJoin(ctx, users[3], id, "")
		w.must(err)
		checkEvents("requested again", "[requestedpending]", "[requestedpending]", "[]", "[requestedpending]")
		w.must(w.Dissolve(ctx, users[0], id))
		checkEvents("dissolved", "[leftdissolved]", "[leftdissolved]", "[]", "[request_closedwithdrawn]")
	})
}

// A client that got no response retries, perhaps while the first try still runs.
func TestCreate_RetriesCreateOneGroupAndOneLink(t *testing.T) {
	eachEngine(t, Settings{Groups: 1}, func(t *testing.T, w *world) {
		ctx := t.Context()
		nodes := []*world{w, w.newNode()}
		users, id, link := w.newUsers(3), ids.New[Group](), ids.New[Link]()
		var tries sync.WaitGroup
		for i := range 4 {
			tries.Go(func() {
				g, me, err := nodes[i%2].Create(ctx, users[0], id, "Rowing", users[1:2])
				if err != nil || g.ID != id || g.Members != 2 || me.User != users[0] || me.Role != Owner {
					t.Errorf("got %+v, %+v, %v", g, me, err)
				}
			})
		}
		tries.Wait()
		if roles := w.roles(id); len(roles) != 2 {
			t.Errorf("the group has %v", roles)
		}
		for i := range 4 {
			tries.Go(func() {
				l, err := nodes[i%2].NewLink(ctx, users[0], id, link, time.Hour, 3)
				if err != nil || l.ID != link || l.MaxUses != 3 {
					t.Errorf("got %+v, %v", l, err)
				}
			})
		}
		tries.Wait()
		if list, err := w.Links(ctx, users[0], id); err != nil || len(list) != 1 {
			t.Errorf("links %+v, %v", list, err)
		}
		_, _, err := w.Create(ctx, users[2], id, "Rowing", nil)
		w.wantErr("another user's group", err, ErrGroup)
		if _, err := w.NewLink(ctx, users[1], id, link, time.Hour, 3); err == nil {
			t.Error("a member got another member's link")
		}
		w.must(w.Dissolve(ctx, users[0], id))
		_, _, err = w.Create(ctx, users[0], id, "Rowing", nil)
		w.wantErr("a group that was dissolved in the meantime", err, ErrGroup)
	})
}

// unreachable is a social domain without SQL.
type unreachable struct{ Friends }

func (unreachable) AreFriends(context.Context, accounts.ID, []accounts.ID) (map[accounts.ID]bool, error) {
	return nil, errors.Join(social.ErrStore, driver.ErrBadConn)
}

// The OpenAPI description of the operation lists ErrStore.
func TestCreate_ReturnsErrStoreWithoutFriends(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), new(atomic.Int64), Settings{})
		users := w.newUsers(2)
		w.friends = unreachable{w.friends}
		_, _, err := w.Create(t.Context(), users[0], ids.New[Group](), "Rowing", users[1:])
		if e, _ := errors.AsType[*errs.Error](err); e != ErrStore {
			t.Errorf("got %v, want ErrStore", err)
		}
	})
}
