package rooms

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/password"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// longBudget replaces the production budget, so that a stalled machine does not look like an unavailable Redis.
const longBudget = 10 * time.Second

// A world is a node's Service with its other services and engines.
type world struct {
	*Service
	t        testing.TB
	accounts *accounts.Service
	social   *social.Service
	redis    *redis.DB
	ahead    *atomic.Int64 // lead of the clock, in ns
	live     *sync.Map     // nodes
}

// noFiles implements Files without any file.
type noFiles struct{}

func (noFiles) ForViewer(url, _, _ string) (string, error) { return url, nil }

func (noFiles) RoomFile(context.Context, accounts.ID, string) (string, time.Time, error) {
	return "", time.Time{}, ErrItem
}

func newWorld(t testing.TB, db *sqldb.DB, rdb *redis.DB, ahead *atomic.Int64, live *sync.Map, settings Settings) *world {
	t.Helper()
	return newWorldOn(t, db, rdb, rdb, ahead, live, settings)
}

// newWorldOn is newWorld with a separate connection for data outside the caches: registers and viewers.
func newWorldOn(t testing.TB, db *sqldb.DB, rdb, own *redis.DB, ahead *atomic.Int64, live *sync.Map, settings Settings) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	node := ids.New[world]().String()
	bus := events.NewBus(rdb, node, log)
	budget := longBudget
	if bubble.In(t) {
		budget = 0 // the default of production
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
	cheap := password.OWASP
	cheap.Memory, cheap.Iterations = 64, 1
	s, err := New(context.WithoutCancel(t.Context()), Config{DB: db, Redis: own, Caches: caches, Bus: bus, Node: node, People: people,
		Blocks: friends, Files: noFiles{}, Passwords: password.NewHasher(1, cheap), Log: log, Settings: settings,
		Nodes: func(context.Context) (names []string, _ error) {
			live.Range(func(name, _ any) bool { names = append(names, name.(string)); return true })
			return names, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	live.Store(node, true)
	w := &world{s, t, people, friends, rdb, ahead, live}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = bus.Run(ctx, func() {}) })
	all.Go(func() { _ = caches.Run(ctx, func() {}) })
	all.Go(func() { _ = s.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); all.Wait() })
	if err := bus.Nodes().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// singleNode returns a node on embedded engines.
func singleNode(t *testing.T, settings Settings) *world {
	ahead := new(atomic.Int64)
	return newWorld(t, sqldbtest.Engine{Name: "sqlite"}.Open(t, byClock(ahead)), redistest.Open(t, "embedded"), ahead, new(sync.Map), settings)
}

// byClock makes a database use a clock with this lead, in ns.
func byClock(ahead *atomic.Int64) func(*sqldb.Config) {
	return func(c *sqldb.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
}

// newNode returns another node on the same engines.
func (w *world) newNode() *world {
	w.t.Helper()
	return newWorld(w.t, w.db, w.redis, w.ahead, w.live, w.cfg.Settings)
}

// eachEngine runs test in a bubble on the embedded engines, and on a real Redis with a real MariaDB.
func eachEngine(t *testing.T, settings Settings, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		run := func(t *testing.T, cfg redis.Config) {
			ahead := new(atomic.Int64)
			w := newWorld(t, e.Open(t, byClock(ahead)), redistest.OpenConfig(t, cfg), ahead, new(sync.Map), settings)
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

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// wantErr fails the test if err is not want.
func (w *world) wantErr(name string, err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		w.t.Errorf("%s: got %v, want %v", name, err, want)
	}
}

// newUsers creates n accounts.
func (w *world) newUsers(n int) (all []accounts.ID) {
	w.t.Helper()
	var users []accounts.User
	for i := range n {
		u, err := accounts.NewUser(fmt.Sprintf("%x@example.org", ids.New[world]().String()), fmt.Sprint("user ", i), "UTC")
		w.must(err)
		users, all = append(users, u), append(all, u.ID)
	}
	w.must(w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, users) }))
	return all
}

func to[T any](v T) *T { return &v }

// newRoom creates a room with open access that admits guests, and adds members.
func (w *world) newRoom(owner accounts.ID, members ...accounts.ID) ID {
	w.t.Helper()
	r, _, err := w.Create(w.t.Context(), owner, ids.New[Room](), Update{Name: to("Film night"), Access: to(Open), Guests: to(true)})
	w.must(err)
	for _, u := range members {
		_, _, err := w.Join(w.t.Context(), u, r.ID, Admission{})
		w.must(err)
	}
	return r.ID
}

func (w *world) newGuest(id ID) ParticipantID {
	w.t.Helper()
	_, m, _, err := w.JoinAsGuest(w.t.Context(), "here", id, "Visitor", Admission{})
	w.must(err)
	return m.User
}

func (w *world) appoint(id ID, owner, user accounts.ID) {
	w.t.Helper()
	_, _, err := w.SetMember(w.t.Context(), ParticipantID(owner), id, ParticipantID(user), MemberUpdate{Role: to(Admin)})
	w.must(err)
}

// checkInvariants checks the invariants of the package in SQL.
func (w *world) checkInvariants() {
	w.t.Helper()
	for name, query := range map[string]string{
		"rooms without one owner": "SELECT COUNT(*) FROM rooms r WHERE r.closed = 0 AND 1 <> (SELECT COUNT(*) FROM room_members m " +
			"WHERE m.room_id = r.id AND m.role = 3)",
		"rooms with a wrong member count": "SELECT COUNT(*) FROM rooms r WHERE r.members <> (SELECT COUNT(*) FROM room_members m WHERE " +
			"m.room_id = r.id)",
		"members who are banned": "SELECT COUNT(*) FROM room_members m JOIN room_bans b ON b.room_id = m.room_id AND b.user_id " +
			"= m.user_id",
		"links used above their limit": "SELECT COUNT(*) FROM room_links WHERE most > 0 AND uses > most",
		"guests of higher roles":       "SELECT COUNT(*) FROM room_members WHERE (role = 0) <> (expires > 0)",
		"rooms behind their newest line": "SELECT COUNT(*) FROM rooms r WHERE r.said < (SELECT COALESCE(MAX(seq), 0) FROM room_lines l " +
			"WHERE l.room_id = r.id)",
	} {
		var n int
		w.must(w.db.QueryRowContext(w.t.Context(), query).Scan(&n))
		if n != 0 {
			w.t.Errorf("%d %s, want none", n, name)
		}
	}
}

// Each case is an act in a room, with the result for the roles stranger, guest, member, admin and owner. The other user
// is a member unless the case has another role.
func TestRoles_AllowTheirOperationsOnly(t *testing.T) {
	type try func(ctx context.Context, w *world, id ID, me, other ParticipantID) error
	ok := error(nil)
	update := func(u Update) try {
		return func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, _, err := w.Update(ctx, me, id, u)
			return err
		}
	}
	setMember := func(u MemberUpdate) try {
		return func(ctx context.Context, w *world, id ID, me, other ParticipantID) error {
			_, _, err := w.SetMember(ctx, me, id, other, u)
			return err
		}
	}
	command := func(verb playback.Verb) try {
		return func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			state, err := w.state(ctx, id)
			if err == nil {
				_, err = w.Command(ctx, me, id, playback.Command{Generation: state.Generation, Version: state.Version, Verb: verb, Rate: 1500})
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		try   try
		other Role
		want  [5]error
	}{
		"rename":              {update(Update{Name: to("Sailing")}), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"close the door":      {update(Update{Access: to(Invited)}), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"set a password":      {update(Update{Password: to("swordfish")}), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"mute words":          {update(Update{Words: to([]string{"Spoiler"})}), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"let members control": {update(Update{MemberMay: to(forMembers | Control)}), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"play":                {command(playback.Play), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"pause":               {command(playback.Pause), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"seek":                {command(playback.Seek), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"change the rate":     {command(playback.SetRate), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"stop":                {command(playback.Load), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"see the playback": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, err := w.Playback(ctx, me, id)
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"see the scene": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, err := w.Scene(ctx, me, id)
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"listen": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			return w.MaySubscribe(ctx, me.String(), "room/"+id.String())
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"see the members": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, _, _, err := w.Members(ctx, me, id, "", 10)
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"see who is on line": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, err := w.Online(ctx, me, id)
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"wait for data": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			return w.Buffering(ctx, me, id, true)
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"say": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, err := w.SendLine(ctx, me, id, ids.New[Line](), "Hi")
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"read the chat": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, _, err := w.Lines(ctx, me, id, 0, 10)
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"shoot": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, err := w.SendDanmaku(ctx, me, id, Comment{Text: "Wow"})
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"read danmaku": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, _, err := w.Comments(ctx, me, id, "", 0, 1000, "", 10)
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"clear danmaku": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			return w.ClearDanmaku(ctx, me, id)
		}, Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"add to the playlist": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, err := w.Add(ctx, me, id, Item{Source: "https://example.org/film.mp4"})
			return err
		}, Ordinary, [5]error{ErrRoom, ErrMay, ok, ok, ok}},
		"read the playlist": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, err := w.Playlist(ctx, me, id)
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"take off the playlist": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			return w.Remove(ctx, me, id, ids.New[Item]())
		}, Ordinary, [5]error{ErrRoom, ErrMay, ErrItem, ErrItem, ErrItem}},
		"order the playlist": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			return w.Move(ctx, me, id, ids.New[Item](), ItemID{})
		}, Ordinary, [5]error{ErrRoom, ErrMay, ErrItem, ErrItem, ErrItem}},
		"make a link": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, err := w.NewLink(ctx, me, id, ids.New[Link](), time.Hour, 0)
			return err
		}, Ordinary, [5]error{ErrRoom, ErrMay, ok, ok, ok}},
		"see links": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, err := w.Links(ctx, me, id)
			return err
		}, Ordinary, [5]error{ErrRoom, ok, ok, ok, ok}},
		"revoke no link": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			return w.Revoke(ctx, me, id, ids.New[Link]())
		}, Ordinary, [5]error{ErrRoom, ErrLink, ErrLink, ErrLink, ErrLink}},
		"mute a member": {setMember(MemberUpdate{MutedUntil: to(time.Now().Add(time.Hour))}), Ordinary,
			[5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"mute a guest": {setMember(MemberUpdate{MutedUntil: to(time.Now().Add(time.Hour))}), Guest, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"mute an admin": {setMember(MemberUpdate{MutedUntil: to(time.Now().Add(time.Hour))}), Admin,
			[5]error{ErrRoom, ErrMay, ErrMay, ErrRank, ok}},
		"permit a member": {setMember(MemberUpdate{May: to(Chat | Control)}), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"appoint":         {setMember(MemberUpdate{Role: to(Admin)}), Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ErrMay, ok}},
		"appoint a guest": {setMember(MemberUpdate{Role: to(Admin)}), Guest, [5]error{ErrRoom, ErrMay, ErrMay, ErrMay, ErrGuest}},
		"depose":          {setMember(MemberUpdate{Role: to(Ordinary)}), Admin, [5]error{ErrRoom, ErrMay, ErrMay, ErrMay, ok}},
		"kick a member": {func(ctx context.Context, w *world, id ID, me, other ParticipantID) error {
			return w.Kick(ctx, me, id, other)
		}, Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"kick a guest": {func(ctx context.Context, w *world, id ID, me, other ParticipantID) error {
			return w.Kick(ctx, me, id, other)
		}, Guest, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"kick an admin": {func(ctx context.Context, w *world, id ID, me, other ParticipantID) error {
			return w.Kick(ctx, me, id, other)
		}, Admin, [5]error{ErrRoom, ErrMay, ErrMay, ErrRank, ok}},
		"ban a member": {func(ctx context.Context, w *world, id ID, me, other ParticipantID) error {
			return w.Ban(ctx, me, id, other)
		}, Ordinary,
			[5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"ban an admin": {func(ctx context.Context, w *world, id ID, me, other ParticipantID) error {
			return w.Ban(ctx, me, id, other)
		}, Admin,
			[5]error{ErrRoom, ErrMay, ErrMay, ErrRank, ok}},
		"lift no ban": {func(ctx context.Context, w *world, id ID, me, other ParticipantID) error {
			return w.Unban(ctx, me, id, other)
		}, Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ErrNoBan, ErrNoBan}},
		"see the bans": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error {
			_, _, err := w.Bans(ctx, me, id, "", 10)
			return err
		}, Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ok, ok}},
		"hand it over": {func(ctx context.Context, w *world, id ID, me, other ParticipantID) error {
			_, _, err := w.Transfer(ctx, me, id, other)
			return err
		}, Ordinary, [5]error{ErrRoom, ErrMay, ErrMay, ErrMay, ok}},
		"hand it to a guest": {func(ctx context.Context, w *world, id ID, me, other ParticipantID) error {
			_, _, err := w.Transfer(ctx, me, id, other)
			return err
		}, Guest, [5]error{ErrRoom, ErrMay, ErrMay, ErrMay, ErrGuest}},
		"leave": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error { return w.Leave(ctx, me, id) }, Ordinary,
			[5]error{ErrRoom, ok, ok, ok, ErrOwner}},
		"close it": {func(ctx context.Context, w *world, id ID, me, _ ParticipantID) error { return w.Close(ctx, me, id) }, Ordinary,
			[5]error{ErrRoom, ErrMay, ErrMay, ErrMay, ok}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := singleNode(t, Settings{})
				users := w.newUsers(5)
				for role, want := range c.want {
					id := w.newRoom(users[0], users[1], users[2], users[3])
					w.appoint(id, users[0], users[2])
					other := ParticipantID(users[3])
					switch c.other {
					case Admin:
						w.appoint(id, users[0], users[3])
					case Guest:
						other = w.newGuest(id)
					}
					me := []ParticipantID{ParticipantID(users[4]), w.newGuest(id), ParticipantID(users[1]), ParticipantID(users[2]),
						ParticipantID(users[0])}[role]
					before := w.dump()
					w.wantErr(fmt.Sprint("role ", role-1), c.try(t.Context(), w, id, me, other), want)
					if after := w.dump(); want != nil && before != after {
						t.Errorf("role %d: refused, and changed\n%s\nto\n%s", role-1, before, after)
					}
				}
				w.checkInvariants()
			})
		})
	}
}

func TestCommand_LoadsOnlyItemsOfTheRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		owner := w.newUsers(1)[0]
		me := ParticipantID(owner)
		for name, want := range map[string]error{"its own": nil, "another room's": ErrItem} {
			id := w.newRoom(owner)
			of := id
			if want != nil {
				of = w.newRoom(owner)
			}
			it, err := w.Add(ctx, me, of, Item{Source: "https://example.org/film.mp4"})
			w.must(err)
			state, err := w.Playback(ctx, me, id)
			w.must(err)
			_, err = w.Command(ctx, me, id, playback.Command{Generation: state.Generation, Version: state.Version, Verb: playback.Load,
				Item: it.ID.String()})
			w.wantErr(name, err, want)
		}
	})
}

// A member without the control permission cannot skip an item by reporting its end.
func TestEnded_FollowsTheSharedClock(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(2)
		owner, member := ParticipantID(users[0]), ParticipantID(users[1])
		for _, c := range []struct {
			name     string
			duration int64 // ms; 0: unknown
			after    time.Duration
			user     ParticipantID
			follows  bool
		}{
			{"a member, at once", 100_000, 0, member, false},
			{"a member, near its end", 100_000, 98 * time.Second, member, true},
			{"a member, with an unknown duration", 0, 98 * time.Second, member, false},
			{"the owner, at once", 100_000, 0, owner, true},
		} {
			id := w.newRoom(users[0], users[1])
			var items [2]Item
			for i := range items {
				var err error
				items[i], err = w.Add(ctx, owner, id, Item{Source: "https://example.org/film.mp4", Duration: c.duration})
				w.must(err)
			}
			state, err := w.Playback(ctx, owner, id)
			w.must(err)
			state, err = w.Command(ctx, owner, id, playback.Command{Generation: state.Generation, Version: state.Version, Verb: playback.Load,
				Item: items[0].ID.String()})
			w.must(err)
			time.Sleep(c.after)
			now, err := w.Ended(ctx, c.user, id, state.Generation, state.Version)
			w.must(err)
			if follows := now.Item == items[1].ID.String(); follows != c.follows {
				t.Errorf("%s: the next item follows: %t, want %t", c.name, follows, c.follows)
			}
		}
	})
}

// The room's settings grant each permission of members separately.
func TestMemberMay_GrantsEachPermission(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(2)
		id, me := w.newRoom(users[0], users[1]), ParticipantID(users[1])
		for of, try := range map[Permission]func() error{
			Chat:     func() error { _, err := w.SendLine(ctx, me, id, ids.New[Line](), "Hi"); return err },
			Danmaku:  func() error { _, err := w.SendDanmaku(ctx, me, id, Comment{Text: "Wow"}); return err },
			Playlist: func() error { _, err := w.Add(ctx, me, id, Item{Source: "https://example.org/film.mp4"}); return err },
			Invite:   func() error { _, err := w.NewLink(ctx, me, id, ids.New[Link](), time.Hour, 1); return err },
			Control: func() error {
				state, err := w.state(ctx, id)
				if err == nil {
					_, err = w.Command(ctx, me, id, playback.Command{Generation: state.Generation, Version: state.Version, Verb: playback.Play})
				}
				return err
			},
		} {
			for may, want := range map[Permission]error{of: nil, everything &^ (Moderate | Configure | of): ErrMay} {
				_, _, err := w.Update(ctx, ParticipantID(users[0]), id, Update{MemberMay: to(may)})
				w.must(err)
				w.wantErr(fmt.Sprint(of.names(), " if members have ", may.names()), try(), want)
			}
		}
	})
}

// A member who may change settings cannot grant to all members more than their own permissions, because they would get
// them as well.
func TestChange_GrantsOnlyTheCallersPermissions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(2)
		id, owner, me := w.newRoom(users[0], users[1]), ParticipantID(users[0]), ParticipantID(users[1])
		_, _, err := w.SetMember(ctx, owner, id, me, MemberUpdate{May: to(Chat | Control | Configure)})
		w.must(err)
		for name, c := range map[string]struct {
			u    Update
			want error
		}{
			"a permission that they have":        {Update{MemberMay: to(forMembers | Control)}, nil},
			"a permission that they lack":        {Update{MemberMay: to(forMembers | Moderate)}, ErrMay},
			"fewer permissions":                  {Update{MemberMay: to(Chat)}, nil},
			"the present permissions":            {Update{GuestMay: to(Chat | Danmaku)}, nil},
			"guests a permission that they have": {Update{GuestMay: to(Chat)}, nil},
			"guests a permission that they lack": {Update{GuestMay: to(Danmaku)}, ErrMay},
			"only the name":                      {Update{Name: to("Sailing")}, nil},
		} {
			_, _, err := w.Update(ctx, owner, id, Update{MemberMay: to(forMembers), GuestMay: to(forGuests)})
			w.must(err)
			if name == "guests a permission that they lack" {
				_, _, err := w.Update(ctx, owner, id, Update{GuestMay: to(Chat)})
				w.must(err)
			}
			_, _, err = w.Update(ctx, me, id, c.u)
			w.wantErr(name, err, c.want)
			w.wantErr(name+": clear danmaku then", w.ClearDanmaku(ctx, me, id), ErrMay)
		}
	})
}

func TestSetMember_DismissesAndPermitsTogether(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(2)
		id := w.newRoom(users[0], users[1])
		w.appoint(id, users[0], users[1])
		r, m, err := w.SetMember(t.Context(), ParticipantID(users[0]), id, ParticipantID(users[1]),
			MemberUpdate{Role: to(Ordinary), May: to(Chat | Control)})
		w.must(err)
		if got := m.may(r); m.Role != Ordinary || got != Chat|Control {
			t.Errorf("the member is %v and may %q", m.Role, got.names())
		}
	})
}

// dump returns the rows of rooms, without registers, because reads may rebuild those.
func (w *world) dump() string {
	w.t.Helper()
	out := ""
	for _, query := range []string{"SELECT id || name || password || access || member_may || words || members || said || closed FROM " +
		"rooms ORDER BY id", "SELECT room_id || user_id || role || more || less || muted FROM room_members ORDER BY room_id, user_id",
		"SELECT room_id || user_id FROM room_bans ORDER BY room_id, user_id",
		"SELECT room_id || user_id || muted || less FROM room_restrictions ORDER BY room_id, user_id",
		"SELECT id || uses FROM room_links ORDER BY id", "SELECT id || place FROM room_items ORDER BY id",
		"SELECT room_id || seq FROM room_lines ORDER BY room_id, seq", "SELECT id FROM room_danmaku ORDER BY id"} {
		rows, err := sqldb.Column[string](w.db.QueryContext(w.t.Context(), query))
		w.must(err)
		out += fmt.Sprintln(rows)
	}
	return out
}

func TestJoin_AdmitsUsersByTheirRules(t *testing.T) {
	eachEngine(t, Settings{Members: 4}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(7)
		r, _, err := w.Create(ctx, users[0], ids.New[Room](), Update{Name: to("Film night"), Access: to(Open), Password: to("swordfish")})
		w.must(err)
		id, owner := r.ID, ParticipantID(users[0])
		join := func(user accounts.ID, key Admission) error {
			_, _, err := w.Join(ctx, user, id, key)
			return err
		}
		w.wantErr("without the password", join(users[1], Admission{}), ErrPassword)
		w.wantErr("with another one", join(users[1], Admission{Password: "Swordfish"}), ErrPassword)
		w.wantErr("with the password", join(users[1], Admission{Password: "swordfish"}), nil)
		w.wantErr("again", join(users[1], Admission{}), nil)
		w.ahead.Add(int64(time.Second)) // so that later members have a later time
		_, _, _, err = w.JoinAsGuest(ctx, "here", id, "Visitor", Admission{Password: "swordfish"})
		w.wantErr("a guest in a room without guests", err, ErrGuests)

		link, err := w.NewLink(ctx, ParticipantID(users[1]), id, ids.New[Link](), time.Hour, 1)
		w.must(err)
		elsewhere := w.newRoom(users[0])
		_, _, err = w.Join(ctx, users[2], elsewhere, Admission{Link: &link.ID})
		w.wantErr("by a link of another room", err, ErrLink)
		w.wantErr("by a link", join(users[2], Admission{Link: &link.ID}), nil)
		w.wantErr("by a link that is used up", join(users[3], Admission{Link: &link.ID}), ErrLink)
		link, err = w.NewLink(ctx, owner, id, ids.New[Link](), time.Hour, 0)
		w.must(err)
		w.must(w.Ban(ctx, owner, id, ParticipantID(users[2])))
		w.wantErr("banned, by a link", join(users[2], Admission{Link: &link.ID}), ErrBanned)
		w.wantErr("ban oneself", w.Ban(ctx, owner, id, owner), ErrSelf)
		_, _, err = w.Update(ctx, owner, id, Update{Access: to(Invited), Guests: to(true)})
		w.must(err)
		w.wantErr("a stranger in a room for the invited", join(users[3], Admission{Password: "swordfish"}), ErrRoom)
		if _, _, err := w.Room(ctx, ParticipantID(users[3]), id); !errors.Is(err, ErrRoom) {
			t.Errorf("a stranger gets a room for the invited: %v", err)
		}
		_, guest, token, err := w.JoinAsGuest(ctx, "here", id, "Visitor", Admission{Link: &link.ID})
		w.must(err)
		if v, err := w.Verify(ctx, token); err != nil || v.User != guest.User || v.Room != id {
			t.Errorf("the guest's token: got %+v, %v", v, err)
		}
		for name, bad := range map[string]string{"of another secret": token[:len(token)-1] + string(token[len(token)-1]^1),
			"of a user": GuestPrefix + id.String() + users[1].String() + token[len(token)-secretLen:], "cut": token[:40], "none": ""} {
			if _, err := w.Verify(ctx, bad); !errors.Is(err, accounts.ErrToken) {
				t.Errorf("a token %s: %v", name, err)
			}
		}
		w.wantErr("a fourth one", join(users[3], Admission{Link: &link.ID}), nil)
		w.wantErr("one too many", join(users[4], Admission{Link: &link.ID}), ErrFull)
		w.ahead.Add(int64(13 * time.Hour))
		if _, err := w.Verify(ctx, token); !errors.Is(err, accounts.ErrToken) {
			t.Errorf("an expired guest: got %v, want ErrToken", err)
		}
		w.must(w.tidy(ctx))
		link, err = w.NewLink(ctx, owner, id, ids.New[Link](), time.Hour, 0)
		w.must(err)
		w.wantErr("after a guest has expired", join(users[4], Admission{Link: &link.ID}), nil)
		w.must(w.Erase(ctx, users[0]))
		if _, m, err := w.roomAndMember(ctx, id, ParticipantID(users[1])); err != nil || m.Role != Owner {
			t.Errorf("the successor of the owner: got %+v, %v", m, err)
		}
		if _, err := w.room(ctx, elsewhere); !errors.Is(err, ErrRoom) {
			t.Errorf("a room without members: got %v, want ErrRoom", err)
		}
	})
}

func TestEntries_AreCheckedStoredAndTidied(t *testing.T) {
	eachEngine(t, Settings{KeepLines: 10, KeepDanmaku: 5}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(3)
		id := w.newRoom(users[0], users[1], users[2])
		owner, ann, bob := ParticipantID(users[0]), ParticipantID(users[1]), ParticipantID(users[2])
		_, _, err := w.Update(ctx, owner, id, Update{Words: to([]string{"Spoiler", "ß", "葛城"})})
		w.must(err)
		_, err = w.SendLine(ctx, ann, id, ids.New[Line](), "a SPOILER!")
		w.wantErr("a muted word", err, ErrWord)
		_, err = w.SendDanmaku(ctx, ann, id, Comment{Text: "groSS"})
		w.wantErr("a muted word of another case", err, ErrWord)
		_, err = w.SendLine(ctx, ann, id, ids.New[Line](), "葛\U000e0100城")
		w.wantErr("a muted word in another shape", err, ErrWord)
		_, err = w.SendLine(ctx, owner, id, ids.New[Line](), "no spoilers, please")
		w.wantErr("a muted word of a moderator", err, nil)
		_, _, err = w.SetMember(ctx, owner, id, ann, MemberUpdate{MutedUntil: to(w.db.Now().Add(time.Hour))})
		w.must(err)
		_, err = w.SendLine(ctx, ann, id, ids.New[Line](), "Hi")
		w.wantErr("muted", err, ErrMuted)
		w.ahead.Add(int64(2 * time.Hour))
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				_, err := w.SendLine(ctx, ann, id, ids.New[Line](), fmt.Sprint("line ", i))
				_, shotErr := w.SendDanmaku(ctx, bob, id, Comment{Text: "Wow", Position: int64(i * 100)})
				if err := errors.Join(err, shotErr); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.must(w.tidy(ctx))
		lines, more, err := w.Lines(ctx, bob, id, 0, 4)
		if err != nil || !more || len(lines) != 4 || lines[3].Seq != 31 || lines[0].Seq != 28 {
			t.Errorf("lines %+v, %v, %v", lines, more, err)
		}
		if lines, more, err = w.Lines(ctx, bob, id, 0, 100); err != nil || more || len(lines) != 10 || lines[0].Name == "" {
			t.Errorf("stored lines: got %d, %v, %v, want 10", len(lines), more, err)
		}
		w.must(w.social.Block(ctx, users[2], users[1]))
		if lines, _, err = w.Lines(ctx, bob, id, 0, 100); err != nil || len(lines) != 0 {
			t.Errorf("lines of a blocked user: got %+v, %v, want none", lines, err)
		}
		_, err = w.SendLine(ctx, owner, id, ids.New[Line](), "Quiet, please")
		w.must(err)
		for range 5 {
			_, err = w.SendLine(ctx, ann, id, ids.New[Line](), "never")
			w.must(err)
		}
		if lines, more, err = w.Lines(ctx, bob, id, 0, 5); err != nil || more || len(lines) != 1 || lines[0].Text != "Quiet, please" {
			t.Errorf("a page before lines of a blocked user: got %+v, %t, %v", lines, more, err)
		}
		if hidden, err := w.Hidden(ctx, bob.String(), ""); err != nil || !slices.Equal(hidden, []string{ann.String()}) {
			t.Errorf("hidden: %v, %v", hidden, err)
		}
		page, next, err := w.Comments(ctx, owner, id, "", 0, 10_000, "", 3)
		w.must(err)
		rest, _, err := w.Comments(ctx, owner, id, "", 0, 10_000, next, 100)
		if err != nil || len(page) != 3 || len(rest) < 2 || page[2].Position > rest[0].Position {
			t.Errorf("danmaku %d and %d, %v", len(page), len(rest), err)
		}
		w.must(w.ClearDanmaku(ctx, owner, id))
		if page, _, err = w.Comments(ctx, owner, id, "", 0, 10_000, "", 3); err != nil || len(page) != 0 {
			t.Errorf("cleared: %+v, %v", page, err)
		}
		w.must(w.Close(ctx, owner, id))
		w.ahead.Add(int64(time.Hour))
		w.must(w.tidy(ctx))
		for _, table := range append(childTables, "rooms") {
			var n int
			w.must(w.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n))
			if n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
	})
}

func TestRestrictions_SurviveLeavingAndJoining(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(4)
		id := w.newRoom(users[0], users[1], users[2], users[3])
		owner, ann, bob, eve := ParticipantID(users[0]), ParticipantID(users[1]), ParticipantID(users[2]), ParticipantID(users[3])
		send := func(user ParticipantID) error { _, err := w.SendLine(ctx, user, id, ids.New[Line](), "Hi"); return err }
		set := func(user ParticipantID, u MemberUpdate) {
			t.Helper()
			_, _, err := w.SetMember(ctx, owner, id, user, u)
			w.must(err)
		}
		rejoin := func(user ParticipantID) {
			t.Helper()
			w.must(w.Leave(ctx, user, id))
			_, _, err := w.Join(ctx, accounts.ID(user), id, Admission{})
			w.must(err)
		}
		set(ann, MemberUpdate{MutedUntil: to(w.db.Now().Add(time.Hour))})
		rejoin(ann)
		w.wantErr("muted, and joined again", send(ann), ErrMuted)
		rejoin(ann)
		w.wantErr("muted, and joined once more", send(ann), ErrMuted)
		w.must(w.Kick(ctx, owner, id, ann))
		_, _, err := w.Join(ctx, users[1], id, Admission{})
		w.must(err)
		w.wantErr("muted and kicked", send(ann), ErrMuted)
		set(ann, MemberUpdate{MutedUntil: to(w.db.Now())})
		rejoin(ann)
		w.wantErr("unmuted, and joined again", send(ann), nil)

		set(bob, MemberUpdate{May: to(Danmaku | Control)})
		rejoin(bob)
		if r, m, err := w.roomAndMember(ctx, id, bob); err != nil || m.may(r) != Danmaku {
			t.Errorf("permissions after joining again: got %q, %v, want only danmaku", m.may(r).names(), err)
		}
		w.wantErr("without the chat permission", send(bob), ErrMay)

		set(eve, MemberUpdate{MutedUntil: to(w.db.Now().Add(time.Hour))})
		w.must(w.Leave(ctx, eve, id))
		w.ahead.Add(int64(2 * time.Hour))
		w.must(w.tidy(ctx))
		rejoin(ann)
		restrictions := func() []string {
			t.Helper()
			list, err := sqldb.Column[string](w.db.QueryContext(ctx, "SELECT user_id FROM room_restrictions"))
			w.must(err)
			return list
		}
		if got := restrictions(); !slices.Equal(got, []string{bob.String()}) {
			t.Errorf("stored restrictions: got those of %v, want only bob's, %s", got, bob)
		}
		w.must(w.Erase(ctx, users[2]))
		if got := restrictions(); len(got) != 0 {
			t.Errorf("restrictions of erased users are stored: %v", got)
		}
	})
}

// Each of these characters folds to three.
func TestSearchRooms_FindsNamesThatFoldLonger(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		name := strings.Repeat("\u0390", 60)
		r, _, err := w.Create(t.Context(), w.newUsers(1)[0], ids.New[Room](), Update{Name: &name, Access: to(Open), Listed: to(true)})
		w.must(err)
		if found, err := searchRooms(t.Context(), w.db, "\u0390", 10); err != nil || len(found) != 1 || found[0].room.ID != r.ID ||
			found[0].room.Name != name {
			t.Errorf("found %+v, %v", found, err)
		}
	})
}

func TestPlaylist_KeepsItsOrder(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		owner := w.newUsers(1)[0]
		id, me := w.newRoom(owner), ParticipantID(owner)
		var list []ItemID
		for i := range 4 {
			it, err := w.Add(ctx, me, id, Item{Source: fmt.Sprintf("https://example.org/%d.mp4", i), Title: fmt.Sprint(i), Duration: 60_000})
			w.must(err)
			list = append(list, it.ID)
		}
		for _, bad := range []Item{{Source: "http://example.org/"}, {Source: "https://user@example.org/"}, {Source: "javascript:alert(1)"},
			{Source: "https://"}, {Source: "/v1/me"}, {Kind: HLS, Source: api.RoomSample}, {Kind: Live, Source: "x"},
			{Kind: File, Source: "V1StGXR8_Z5j"},
			{Source: "https://example.org/" + strings.Repeat("字", 300)}} { // each needs nine characters in a URL
			_, err := w.Add(ctx, me, id, bad)
			w.wantErr(bad.Source, err, ErrSource)
		}
		if sample, err := w.Add(ctx, me, id, Item{Source: api.RoomSample, Title: "sample"}); err != nil || sample.Source != api.RoomSample {
			t.Errorf("the sample has the source %q, %v", sample.Source, err)
		} else {
			w.must(w.Remove(ctx, me, id, sample.ID))
		}
		order := func(want string) {
			t.Helper()
			got, err := w.Playlist(ctx, me, id)
			w.must(err)
			text := ""
			for _, it := range got {
				text += it.Title
			}
			if text != want {
				t.Errorf("the playlist is %s, want %s", text, want)
			}
		}
		order("0123")
		w.must(w.Move(ctx, me, id, list[3], ItemID{}))
		order("3012")
		w.must(w.Move(ctx, me, id, list[3], list[1]))
		order("0132")
		w.must(w.Remove(ctx, me, id, list[1]))
		order("032")
		if src, err := w.Source(ctx, me, accounts.DeviceID{}, id, list[3]); err != nil || src.URL != "https://example.org/3.mp4" {
			t.Errorf("the source: got %+v, %v", src, err)
		}
		_, err := w.Source(ctx, me, accounts.DeviceID{}, id, list[1])
		w.wantErr("the source of a removed item", err, ErrItem)
		s, err := w.Playback(ctx, me, id)
		w.must(err)
		_, err = w.Command(ctx, me, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Load,
			Item: list[1].String()})
		w.wantErr("loading a removed item", err, ErrItem)
		s, err = w.Command(ctx, me, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Load,
			Item: list[0].String()})
		w.must(err)
		next, err := w.Ended(ctx, me, id, s.Generation, s.Version)
		if err != nil || next.Item != list[3].String() {
			t.Errorf("after the first item: got %+v, %v", next, err)
		}
		again, err := w.Ended(ctx, me, id, s.Generation, s.Version)
		if err != nil || again != next {
			t.Errorf("second report: got %+v, %v, want %+v", again, err, next)
		}
		for _, it := range []ItemID{list[0], list[2], list[3]} { // including the last one
			w.must(w.Remove(ctx, me, id, it))
		}
		order("")
	})
}

// A changed password excludes users with the old one, even if their join is in progress. Members remain.
func TestChange_PasswordExcludesPendingJoins(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(4)
		r, _, err := w.Create(ctx, users[0], ids.New[Room](), Update{Name: to("Film night"), Access: to(Open), Guests: to(true),
			Password: to("swordfish")})
		w.must(err)
		join := func(user accounts.ID, text string) error {
			_, _, err := w.Join(ctx, user, r.ID, Admission{Password: text})
			return err
		}
		visit := func(text string) error {
			_, _, _, err := w.JoinAsGuest(ctx, "here", r.ID, "Visitor", Admission{Password: text})
			return err
		}
		w.must(join(users[1], "swordfish"))

		// Both joins have compared their password when the owner's change commits.
		tries := map[string]func() error{"a user": func() error { return join(users[2], "swordfish") }, "a guest": func() error {
			return visit("swordfish")
		}}
		results := make(chan error, len(tries))
		hash, err := w.cfg.Passwords.Hash(ctx, users[0].String(), "herring")
		w.must(err)
		w.must(w.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			room, err := selectRoom(ctx, tx, r.ID, tx.Dialect().ForUpdate())
			if err != nil {
				return err
			}
			room.hash = hash
			if err := updateRoom(ctx, tx, room); err != nil {
				return err
			}
			for _, try := range tries {
				go func() { results <- try() }()
			}
			bubble.Sleep(100 * time.Millisecond)
			if n := len(results); n > 0 {
				t.Errorf("%d did not wait for the transaction", n)
			}
			return nil
		}))
		for range tries {
			w.wantErr("a pending join with the old password", <-results, ErrPassword)
		}

		_, _, err = w.Update(ctx, ParticipantID(users[0]), r.ID, Update{Password: to("trout")})
		w.must(err)
		for _, old := range []string{"", "swordfish", "herring"} {
			w.wantErr("a user with "+old, join(users[2], old), ErrPassword)
			w.wantErr("a guest with "+old, visit(old), ErrPassword)
		}
		if _, _, err := w.Room(ctx, ParticipantID(users[1]), r.ID); err != nil {
			t.Errorf("a member: %v", err)
		}
		w.wantErr("a member joins again", join(users[1], ""), nil)
		w.wantErr("a member joins again with the old password", join(users[1], "swordfish"), nil)
		w.wantErr("a user with the new one", join(users[2], "trout"), nil)
		w.wantErr("a guest with the new one", visit("trout"), nil)
		_, _, err = w.Update(ctx, ParticipantID(users[0]), r.ID, Update{Password: to("")})
		w.must(err)
		w.wantErr("without a password, after its removal", join(users[3], ""), nil)
		w.checkInvariants()
	})
}

func TestRooms_CursorsReachEachRoom(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ann := w.newUsers(1)[0]
		want := map[ID]bool{}
		for range 5 {
			want[w.newRoom(ann)] = true
		}
		for cursor, pages := "", 1; ; pages++ {
			list, mine, next, err := w.Rooms(t.Context(), ParticipantID(ann), cursor, 2)
			w.must(err)
			for i, r := range list {
				if !want[r.ID] || mine[i].User != ParticipantID(ann) {
					t.Errorf("page %d has %+v, %+v", pages, r, mine[i])
				}
				delete(want, r.ID)
			}
			if cursor = next; next == "" {
				if len(want) > 0 || pages != 3 {
					t.Errorf("%d pages lack %v", pages, want)
				}
				break
			}
		}
		_, _, _, err := w.Rooms(t.Context(), ParticipantID(ann), "x", 2)
		w.wantErr("another list's cursor", err, ErrCursor)
	})
}

func TestWarm_LoadsActiveRooms(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{Warm: 10})
		ann := w.newUsers(1)[0]
		list := []ID{w.newRoom(ann), w.newRoom(ann)}
		next := w.newNode()
		for _, id := range list {
			eventually.True(t, "a room to be loaded", func() bool { _, ok := next.copies.rooms.Peek(id); return ok })
			eventually.True(t, "a playlist to be loaded", func() bool { _, ok := next.copies.playlists.Peek(id); return ok })
		}
		var progress [][2]int
		n, err := w.Warm(t.Context(), 10, func(done, total int) { progress = append(progress, [2]int{done, total}) })
		if err != nil || n != 2 || len(progress) == 0 || progress[len(progress)-1] != [2]int{4, 4} {
			t.Errorf("%d rooms, progress %v, %v", n, progress, err)
		}
	})
}

// expiringFile is a file whose link is valid for this time.
type expiringFile time.Duration

func (expiringFile) ForViewer(url, _, _ string) (string, error) { return url, nil }

func (l expiringFile) RoomFile(context.Context, accounts.ID, string) (string, time.Time, error) {
	return "https://files.example.org/film.mp4", time.Now().Add(time.Duration(l)), nil
}

// Viewers who join later get the same link and need time to play with it.
func TestSource_CachedForHalfOfItsLife(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ann := w.newUsers(1)[0]
		id := w.newRoom(ann)
		for good, want := range map[time.Duration]time.Duration{5 * time.Minute: 150 * time.Second, 10 * time.Hour: time.Hour,
			time.Second: time.Second} {
			w.cfg.Files = expiringFile(good)
			it, err := w.Add(t.Context(), ParticipantID(ann), id, Item{Kind: File, Source: ids.New[Item]().String()})
			w.must(err)
			_, err = w.copies.sources.Get(t.Context(), it.ID)
			w.must(err)
			left, err := w.redis.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: sourceKeys.At(it.ID).Key}).Int()
			if got := time.Duration(left) * time.Millisecond; err != nil || got > want || got < want*9/10 {
				t.Errorf("a link for %s is cached for %s, %v; want %s", good, got, err, want)
			}
		}
	})
}

// A client that got no response retries, perhaps while the first try still runs.
func TestCreate_RetriesCreateOneOfEach(t *testing.T) {
	eachEngine(t, Settings{Owned: 1}, func(t *testing.T, w *world) {
		ctx := t.Context()
		nodes := []*world{w, w.newNode()}
		users, id, link, item, comment := w.newUsers(2), ids.New[Room](), ids.New[Link](), ids.New[Item](), ids.New[Comment]()
		ann, bob := ParticipantID(users[0]), ParticipantID(users[1])
		repeat := func(try func(n *world) error) {
			t.Helper()
			var tries sync.WaitGroup
			for i := range 4 {
				tries.Go(func() {
					if err := try(nodes[i%2]); err != nil {
						t.Error(err)
					}
				})
			}
			tries.Wait()
		}
		repeat(func(n *world) error {
			r, me, err := n.Create(ctx, users[0], id, Update{Name: to("Film night"), Access: to(Open)})
			if err == nil && (r.ID != id || r.Name != "Film night" || me.User != ann || me.Role != Owner) {
				t.Errorf("got %+v, %+v", r, me)
			}
			return err
		})
		if list, _, _, err := w.Rooms(ctx, ann, "", 500); err != nil || len(list) != 1 {
			t.Errorf("rooms %+v, %v", list, err)
		}
		repeat(func(n *world) error {
			l, err := n.NewLink(ctx, ann, id, link, time.Hour, 2)
			if err == nil && l.ID != link {
				t.Errorf("got %+v", l)
			}
			return err
		})
		if list, err := w.Links(ctx, ann, id); err != nil || len(list) != 1 {
			t.Errorf("links %+v, %v", list, err)
		}
		repeat(func(n *world) error {
			it, err := n.Add(ctx, ann, id, Item{ID: item, Source: "https://example.org/film.mp4"})
			if err == nil && (it.ID != item || it.Added == 0) {
				t.Errorf("got %+v", it)
			}
			return err
		})
		if list, err := w.Playlist(ctx, ann, id); err != nil || len(list) != 1 {
			t.Errorf("playlist %+v, %v", list, err)
		}
		repeat(func(n *world) error {
			c, err := n.SendDanmaku(ctx, ann, id, Comment{ID: comment, Text: "Wow", Position: 5})
			if err == nil && (c.ID != comment || c.From != ann || c.At == 0 || c.Position != 5) {
				t.Errorf("got %+v", c)
			}
			return err
		})
		if list, _, err := w.Comments(ctx, ann, id, "", 0, 100, "", 10); err != nil || len(list) != 1 {
			t.Errorf("danmaku %+v, %v", list, err)
		}
		line := ids.New[Line]()
		repeat(func(n *world) error {
			l, err := n.SendLine(ctx, ann, id, line, "Popcorn?")
			if err == nil && (l.ID != line || l.Seq != 1 || l.From != ann || l.Text != "Popcorn?") {
				t.Errorf("got %+v", l)
			}
			return err
		})
		if list, _, err := w.Lines(ctx, ann, id, 0, 10); err != nil || len(list) != 1 {
			t.Errorf("lines %+v, %v", list, err)
		}
		_, _, err := w.Create(ctx, users[1], id, Update{Name: to("Film night")})
		w.wantErr("another user's room", err, ErrRoom)
		_, _, err = w.Join(ctx, users[1], id, Admission{})
		w.must(err)
		if c, err := w.SendDanmaku(ctx, bob, id, Comment{ID: comment, Text: "Wow"}); err == nil {
			t.Errorf("bob got ann's danmaku %+v", c)
		}
		_, err = w.SendLine(ctx, bob, id, line, "Popcorn?")
		w.wantErr("another user's line", err, ErrRoom)
		w.must(w.Close(ctx, ann, id))
		_, _, err = w.Create(ctx, users[0], id, Update{Name: to("Film night")})
		w.wantErr("a room that was closed in the meantime", err, ErrRoom)
	})
}

// unreachable implements Blocks without SQL.
type unreachable struct{ Blocks }

func (unreachable) Blocked(context.Context, accounts.ID, []accounts.ID) (map[accounts.ID]bool, error) {
	return nil, errors.Join(social.ErrStore, driver.ErrBadConn)
}

func (unreachable) BlockedIDs(context.Context, accounts.ID) ([]accounts.ID, error) {
	return nil, errors.Join(social.ErrStore, driver.ErrBadConn)
}

// The OpenAPI description of the operation lists ErrStore.
func TestLines_ReturnsErrStoreWithoutBlocks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(1)
		id, owner := w.newRoom(users[0]), ParticipantID(users[0])
		_, err := w.SendLine(t.Context(), owner, id, ids.New[Line](), "Hi")
		w.must(err)
		w.cfg.Blocks = unreachable{w.cfg.Blocks}
		_, _, err = w.Lines(t.Context(), owner, id, 0, 10)
		if e, _ := errors.AsType[*errs.Error](err); e != ErrStore {
			t.Errorf("got %v, want ErrStore", err)
		}
	})
}
