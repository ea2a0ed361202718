package notices

import (
	"context"
	"encoding/json"
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
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

type nobody struct{}

func (nobody) Profiles(context.Context, []accounts.ID) (accounts.Profiles, error) { return nil, nil }

func (nobody) ProfilesOrNone(context.Context, ...accounts.ID) accounts.Profiles { return nil }

// world is one node's notices on an engine.
type world struct {
	*Service
	t     testing.TB
	db    *sqldb.DB
	ahead *atomic.Int64 // nanoseconds that the clock is ahead
}

func newWorld(t testing.TB, db *sqldb.DB, ahead *atomic.Int64) *world {
	t.Helper()
	bus := events.NewBus(redistest.Open(t, "embedded"), ids.New[world]().String(), nil)
	s, err := New(Config{DB: db, Bus: bus, People: nobody{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = bus.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); all.Wait() })
	return &world{s, t, db, ahead}
}

// eachEngine runs test on SQLite and on a real MariaDB.
func eachEngine(t *testing.T, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			run := func(t *testing.T) {
				ahead := new(atomic.Int64)
				test(t, newWorld(t, e.Open(t, func(c *sqldb.Config) {
					c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				}), ahead))
			}
			if e.Name == "sqlite" {
				bubble.Test(t, run)
				return
			}
			run(t)
		})
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tell(list ...Entry) {
	w.t.Helper()
	w.must(w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return w.Record(ctx, tx, list...) }))
}

// users creates accounts, in the order of their ids.
func (w *world) users(n int, lang string) []accounts.ID {
	w.t.Helper()
	all := make([]accounts.ID, n)
	for i := range all {
		all[i] = ids.New[accounts.User]()
	}
	slices.SortFunc(all, accounts.ID.Compare)
	for some := range slices.Chunk(all, 500) {
		var args []any
		for _, u := range some {
			args = append(args, u, u.String()+"@example.org", u.String()+"@example.org", "User", "UTC", "", 0, w.db.Now().UnixMilli()-1, lang)
		}
		_, err := w.db.ExecContext(w.t.Context(), "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created, lang) VALUES "+sqldb.Tuples(9, len(some)), args...)
		w.must(err)
	}
	return all
}

func (w *world) list(user accounts.ID) []Notice {
	w.t.Helper()
	all, _, _, err := w.List(w.t.Context(), user, "", 100)
	w.must(err)
	return all
}

// kinds returns a user's notices, newest first, as "seq kind", with a star for unread ones.
func (w *world) kinds(user accounts.ID) string {
	w.t.Helper()
	var said []string
	for _, n := range w.list(user) {
		text := fmt.Sprintf("%d %s", n.Seq, n.Kind)
		if n.Read == 0 {
			text += "*"
		}
		said = append(said, text)
	}
	return strings.Join(said, ", ")
}

func (w *world) unread(user accounts.ID) string {
	w.t.Helper()
	c, err := w.Counts(w.t.Context(), user)
	w.must(err)
	return fmt.Sprint(c.unread(), c.Categories)
}

func wants(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func TestOfOneSourceAUserIsToldOnce(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ann, bob := ids.New[accounts.User](), ids.New[accounts.User]()
		once := Entry{User: ann, Kind: api.NoticeFriendRequested, Source: "request:1", About: bob, Data: api.NoticeOfRequest{V: 1}}
		w.tell(once, Entry{User: bob, Kind: api.NoticeGroupAdded, Source: "request:1"}, Entry{User: ann, Kind: api.NoticeGroupRemoved, Source: "group:1"})
		w.tell(once, Entry{User: ann, Kind: api.NoticeAccountLogin, Source: "account:1"})
		wants(t, "ann's", w.kinds(ann), "4 account.login*, 2 group.removed*, 1 friend.requested*")
		wants(t, "bob's", w.kinds(bob), "1 group.added*")
		wants(t, "ann's red dots", w.unread(ann), "3 map[account:1 friend:1 group:1]")
		w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return w.Withdraw(ctx, tx, Told{ann, "request:1"}, Told{bob, "nothing"})
		}))
		wants(t, "after it was withdrawn", w.kinds(ann), "4 account.login*, 2 group.removed*")
		wants(t, "bob's after it", w.kinds(bob), "1 group.added*")
	})
}

func TestWhatWasRolledBackIsToldNobody(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ann := ids.New[accounts.User]()
		sub := w.bus.Subscribe(t.Context(), ann.String())
		defer sub.Close()
		broken := errors.New("broken")
		err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return errors.Join(w.Record(ctx, tx, Entry{User: ann, Kind: api.NoticeAccountLogin, Source: "a"}), broken)
		})
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		w.tell(Entry{User: ann, Kind: api.NoticeAccountEmail, Source: "b"})
		wants(t, "the list", w.kinds(ann), "1 account.email*")
		var heard api.NoticeNew
		e := <-sub.C
		w.must(json.Unmarshal(e.Data, &heard))
		wants(t, "the event", e.Type+" "+heard.Notice.Kind, "notice.new account.email")
	})
}

func TestTheMarkGoesForwardAndNeverBeyondTheNewest(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ann, ctx := ids.New[accounts.User](), t.Context()
		for i := range 4 {
			w.tell(Entry{User: ann, Kind: api.NoticeGroupAdded, Source: fmt.Sprint(i)})
		}
		_, err := w.Read(ctx, ann, 3)
		w.must(err)
		wants(t, "one was read", w.kinds(ann), "4 group.added*, 3 group.added, 2 group.added*, 1 group.added*")
		_, err = w.Mark(ctx, ann, 2)
		w.must(err)
		wants(t, "two were seen", w.unread(ann), "1 map[group:1]")
		_, err = w.Mark(ctx, ann, 1)
		w.must(err)
		wants(t, "the mark does not go back", w.unread(ann), "1 map[group:1]")
		c, err := w.Mark(ctx, ann, 99)
		w.must(err)
		if c.Seen != 4 || c.unread() != 0 {
			t.Errorf("beyond the newest: %+v", c)
		}
		w.tell(Entry{User: ann, Kind: api.NoticeAccountLogin, Source: "later"})
		wants(t, "what came afterwards is unread", w.unread(ann), "1 map[account:1]")
		if _, err := w.Read(ctx, ann, 77); !errors.Is(err, ErrNotice) {
			t.Errorf("a number of nothing: %v", err)
		}
	})
}

// A number is assigned under the lock of the list. A reader who marks the listed notices as read can therefore never
// mark an unseen one.
func TestNoNoticeAppearsBelowOneThatWasShown(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ann, ctx := ids.New[accounts.User](), t.Context()
		const writers, each = 8, 15
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for j := range each {
					w.tell(Entry{User: ann, Kind: api.NoticeGroupAdded, Source: fmt.Sprintf("%d/%d", i, j)})
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		seen := map[int64]bool{}
		highest := int64(0)
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			list, _, _, err := w.List(ctx, ann, "", 500)
			w.must(err)
			before := highest
			for _, n := range list {
				if !seen[n.Seq] && n.Seq < before {
					t.Fatalf("%d appeared after %d was shown", n.Seq, before)
				}
				seen[n.Seq] = true
				highest = max(highest, n.Seq)
			}
		}
		if len(seen) != writers*each || highest != writers*each {
			t.Errorf("saw %d up to %d", len(seen), highest)
		}
	})
}

// Changes on several connections are published in any order. The counts with the highest version are those of SQL.
func TestCounts_HighestVersionIsTheNewest(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ctx, ann := t.Context(), ids.New[accounts.User]()
		const notices = 12
		for i := range notices {
			w.tell(Entry{User: ann, Kind: api.NoticeAccountLogin, Source: fmt.Sprint("account:", i)})
		}
		before, err := w.Counts(ctx, ann)
		w.must(err)
		sub := w.bus.Subscribe(ctx, ann.String())
		defer sub.Close()
		var all sync.WaitGroup
		var mu sync.Mutex
		unread := map[int64]int{before.Version: before.unread()}
		add := func(version int64, n int) {
			mu.Lock()
			defer mu.Unlock()
			if other, found := unread[version]; found && other != n {
				t.Errorf("version %d has %d and %d unread notices", version, n, other)
			}
			unread[version] = n
		}
		for seq := int64(1); seq <= notices; seq++ {
			all.Go(func() {
				if seq%3 == 0 {
					err := w.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
						return w.Withdraw(ctx, tx, Told{ann, fmt.Sprint("account:", seq-1)})
					})
					if err != nil {
						t.Error(err)
					}
					return
				}
				c, err := w.Read(ctx, ann, seq)
				if err != nil {
					t.Error(err)
				}
				add(c.Version, c.unread())
			})
		}
		all.Wait()
		for range notices {
			var c api.NoticeCounts
			w.must(json.Unmarshal(redistest.Wait(t, sub.C).Data, &c))
			add(c.Version, c.Unread)
		}
		for i := range int64(notices + 1) {
			if n, found := unread[before.Version+i]; !found || n != notices-int(i) {
				t.Errorf("version %d: %d unread notices (%t), want %d", before.Version+i, n, found, notices-i)
			}
		}
		after, err := w.Mark(ctx, ann, notices)
		w.must(err)
		again, err := w.Read(ctx, ann, 1)
		w.must(err)
		w.tell(Entry{User: ann, Kind: api.NoticeAccountLogin, Source: "account:new"})
		last, err := w.Counts(ctx, ann)
		w.must(err)
		if got := []int64{after.Version, again.Version, last.Version}; !slices.Equal(got, []int64{before.Version + notices + 1, after.Version, after.Version + 1}) {
			t.Errorf("versions after mark, a repeated read and a new notice: %d, from %d", got, before.Version+notices)
		}
	})
}

func TestPagesHaveEveryNoticeOnce(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ann := ids.New[accounts.User]()
		for i := range 25 {
			w.tell(Entry{User: ann, Kind: api.NoticeGroupAdded, Source: fmt.Sprint(i)})
		}
		cursor, got := "", []int64{}
		for {
			list, next, _, err := w.List(t.Context(), ann, cursor, 10)
			w.must(err)
			for _, n := range list {
				got = append(got, n.Seq)
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		if len(got) != 25 || got[0] != 25 || got[24] != 1 {
			t.Errorf("pages have %v", got)
		}
		for _, bad := range []string{"0", "-1", "x", "01", "99999999999999999999"} {
			if _, _, _, err := w.List(t.Context(), ann, bad, 10); !errors.Is(err, ErrCursor) {
				t.Errorf("the cursor %q: %v", bad, err)
			}
		}
	})
}

func TestWhatHasExpiredIsNeitherListedNorCountedAndIsRemoved(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ann := ids.New[accounts.User]()
		w.tell(Entry{User: ann, Kind: api.NoticeFriendRequested, Source: "1", Expires: w.db.Now().Add(time.Hour)},
			Entry{User: ann, Kind: api.NoticeGroupAdded, Source: "2"})
		wants(t, "before", w.unread(ann), "2 map[friend:1 group:1]")
		w.ahead.Add(int64(2 * time.Hour))
		wants(t, "after an hour", w.unread(ann)+" "+w.kinds(ann), "1 map[group:1] 2 group.added*")
		w.must(w.prune(t.Context()))
		w.rows(1)
		w.ahead.Add(int64(91 * 24 * time.Hour))
		w.must(w.prune(t.Context()))
		w.rows(0)
	})
}

// rows expects that number of notices in SQL.
func (w *world) rows(want int) {
	w.t.Helper()
	var n int
	w.must(w.db.NewRaw("SELECT COUNT(*) FROM notices").Scan(w.t.Context(), &n))
	if n != want {
		w.t.Errorf("%d rows, want %d", n, want)
	}
}

func TestAnErasedUserLeavesNothing(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ann, bob := ids.New[accounts.User](), ids.New[accounts.User]()
		for i := range 600 {
			w.tell(Entry{User: ann, Kind: api.NoticeGroupAdded, Source: fmt.Sprint(i)})
		}
		w.tell(Entry{User: bob, Kind: api.NoticeGroupAdded, Source: "0"})
		w.must(w.Erase(t.Context(), ann))
		w.must(w.Erase(t.Context(), ann))
		w.rows(1)
		wants(t, "ann's", w.kinds(ann), "")
		wants(t, "bob's", w.kinds(bob), "1 group.added*")
	})
}

var hello = map[string]Wording{"en": {"Hello", "Come in."}, "zh-CN": {"你好", "请进。"}}

func (w *world) announce(d Draft) Announcement {
	w.t.Helper()
	a, err := NewAdmin(w.db).Announce(w.t.Context(), d)
	w.must(err)
	return a
}

func (w *world) announcement(id AnnouncementID) Announcement {
	w.t.Helper()
	a, err := NewAdmin(w.db).Announcement(w.t.Context(), id)
	w.must(err)
	return a
}

func TestAnAnnouncementReachesItsSegmentOnceThoughNodesDie(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		english, chinese := w.users(700, ""), w.users(620, "zh-CN")
		a := w.announce(Draft{Texts: hello, Link: "/#/news", Life: time.Hour})
		if a.Total != 1320 || a.State != Waiting {
			t.Fatalf("made %+v", a)
		}
		late := w.users(1, "")[0] // a user who registered afterwards
		_, err := w.db.ExecContext(ctx, "UPDATE users SET created = ? WHERE id = ?", a.Created.UnixMilli(), late)
		w.must(err)
		w.must(w.deliverSlice(ctx, a.ID)) // and then the node died
		if got := w.announcement(a.ID); got.State != Running || got.Done != slice || got.Delivered != slice {
			t.Errorf("after a slice: %+v", got)
		}
		// A node dies in mid-slice: none of the slice is stored.
		w.pushes = func(context.Context, *sqldb.Tx, []Notice) error { return errors.New("killed") }
		if err := w.deliverSlice(ctx, a.ID); err == nil {
			t.Error("the kill went unnoticed")
		}
		w.pushes = nil
		w.rows(slice)
		// Two others continue at once.
		other := newWorld(t, w.db, w.ahead)
		var both sync.WaitGroup
		for _, node := range []*world{w, other} {
			both.Go(func() {
				if err := node.deliver(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		w.rows(1320)
		if got := w.announcement(a.ID); got.State != Done || got.Done != 1320 || got.Delivered != 1320 || got.Ended.IsZero() {
			t.Errorf("in the end: %+v", got)
		}
		wants(t, "somebody's", w.kinds(english[0])+w.kinds(chinese[619])+w.kinds(late), "1 announcement*1 announcement*")
		w.ahead.Add(int64(2 * time.Hour))
		wants(t, "after its life", w.unread(english[0]), "0 map[]")
	})
}

func TestAnAnnouncementIsInTheLanguageOfItsReader(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ann, li := w.users(1, "")[0], w.users(1, "zh-CN")[0]
		sub := w.bus.Subscribe(t.Context(), li.String())
		defer sub.Close()
		a := w.announce(Draft{Texts: hello})
		w.must(w.deliver(t.Context()))
		var heard api.NoticeNew
		w.must(json.Unmarshal((<-sub.C).Data, &heard))
		if !strings.Contains(string(heard.Notice.Data), "请进") {
			t.Errorf("the event says %s", heard.Notice.Data)
		}
		for _, c := range []struct {
			who    accounts.ID
			header string
			want   string
		}{{ann, "", "Hello"}, {li, "", "你好"}, {ann, "zh;q=0.9, en;q=0.2", "你好"}, {li, "fr", "Hello"}} {
			list := w.list(c.who)
			w.must(w.word(context.WithValue(t.Context(), i18n.Key{}, func() string { return c.header }), list))
			var doc api.Announcement
			w.must(json.Unmarshal(list[0].Data, &doc))
			if doc.Title != c.want || doc.ID != a.ID.String() {
				t.Errorf("%q reads %+v", c.header, doc)
			}
		}
	})
}

// TestWhatIsPendingIsEachUsersOwnAndUnread checks that a notice that was read, or seen in the list, is no longer
// pending.
func TestWhatIsPendingIsEachUsersOwnAndUnread(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.users(4, "")
		w.announce(Draft{Texts: hello, Users: who})
		w.must(w.deliver(ctx))
		var places []Place
		for _, u := range who {
			places = append(places, Place{u, w.list(u)[0].Seq})
		}
		_, err := w.Read(ctx, who[1], places[1].Seq)
		w.must(err)
		_, err = w.Mark(ctx, who[2], places[2].Seq)
		w.must(err)
		found, err := w.Pending(ctx, append(places, Place{who[0], 99}))
		w.must(err)
		if len(found) != 2 || found[places[0]].User != who[0] || found[places[3]].User != who[3] {
			t.Errorf("pending are %+v, want those of the first and the last", found)
		}
		var doc api.Announcement
		w.must(json.Unmarshal(found[places[0]].Data, &doc))
		if doc.Title != "Hello" {
			t.Errorf("it says %+v", doc)
		}
	})
}

func TestAStoppedAnnouncementIsGoneFromEveryList(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		users := w.users(slice+1, "")
		a := w.announce(Draft{Texts: hello, Users: append(users, users[0], ids.New[accounts.User]())})
		if a.Total != slice+1 || !a.Listed {
			t.Errorf("made %+v", a)
		}
		w.must(w.deliverSlice(t.Context(), a.ID))
		wants(t, "before", w.unread(users[0])+" "+w.kinds(users[0]), "1 map[announcement:1] 1 announcement*")
		_, err := NewAdmin(w.db).Stop(t.Context(), a.ID)
		w.must(err)
		w.must(w.deliver(t.Context()))
		w.must(w.deliverSlice(t.Context(), a.ID)) // of a node that had found it before
		wants(t, "after", w.unread(users[0])+" "+w.kinds(users[0])+w.kinds(users[slice]), "0 map[] ")
		if got := w.announcement(a.ID); got.State != Stopped || got.Delivered > slice {
			t.Errorf("stopped: %+v", got)
		}
		var left int
		w.must(w.db.NewRaw("SELECT COUNT(*) FROM announcement_users").Scan(t.Context(), &left))
		if left != 0 {
			t.Errorf("%d users are still named", left)
		}
	})
}

func TestSegmentsAreWhoTheySay(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		english, chinese := w.users(3, ""), w.users(2, "zh-CN")
		_, err := w.db.ExecContext(t.Context(), "UPDATE users SET zone = 'Asia/Shanghai', created = ? WHERE id = ?", w.db.Now().Add(-48*time.Hour).UnixMilli(), chinese[0])
		w.must(err)
		_, err = w.db.ExecContext(t.Context(), "UPDATE users SET erased = 1 WHERE id = ?", english[0])
		w.must(err)
		_, err = w.db.ExecContext(t.Context(), `INSERT INTO sessions (user_id, device_id, name, agent, ip, created, used, access_hash, access_expires, refresh_hash, refresh_expires, prev_refresh_hash, prev_until, nonce)
			VALUES (?, 'abcdefghijkl', '', '', '', 0, ?, '', 0, '', 0, '', 0, '')`, english[1], w.db.Now().UnixMilli())
		w.must(err)
		day := w.db.Now().Add(-24 * time.Hour)
		for what, c := range map[string]struct {
			d    Draft
			want int64
		}{
			"everybody":         {Draft{}, 4},
			"Chinese":           {Draft{Segment: accounts.Segment{Language: i18n.Chinese}}, 2},
			"English":           {Draft{Segment: accounts.Segment{Language: i18n.English}}, 2},
			"zone":              {Draft{Segment: accounts.Segment{Zone: "Asia/Shanghai"}}, 1},
			"registered before": {Draft{Segment: accounts.Segment{RegisteredBefore: day}}, 1},
			"registered from":   {Draft{Segment: accounts.Segment{RegisteredFrom: day, Language: i18n.Chinese}}, 1},
			"active":            {Draft{Segment: accounts.Segment{ActiveSince: day}}, 1},
			"named":             {Draft{Users: []accounts.ID{english[0], english[1], english[1]}}, 1},
		} {
			c.d.Texts = hello
			if n, err := NewAdmin(w.db).Reach(t.Context(), c.d); n != c.want || err != nil {
				t.Errorf("%s: %d, %v, want %d", what, n, err, c.want)
			}
		}
	})
}

func TestADraftThatIsNoneIsRefused(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), new(atomic.Int64))
	w.users(1, "")
	for what, c := range map[string]struct {
		d    Draft
		want error
	}{
		"no text":        {Draft{}, ErrText},
		"no title":       {Draft{Texts: map[string]Wording{"en": {"", "text"}}}, ErrText},
		"no language":    {Draft{Texts: map[string]Wording{"!": {"Hello", ""}}}, ErrText},
		"a long title":   {Draft{Texts: map[string]Wording{"en": {strings.Repeat("x", 101), ""}}}, ErrText},
		"a script":       {Draft{Texts: hello, Link: "javascript:alert(1)"}, ErrLink},
		"plain http":     {Draft{Texts: hello, Link: "http://example.org"}, ErrLink},
		"another server": {Draft{Texts: hello, Link: "//example.org/x"}, ErrLink},
		"a backslash":    {Draft{Texts: hello, Link: "/\\example.org/x"}, ErrLink},
		"too short":      {Draft{Texts: hello, Life: time.Second}, ErrLife},
		"nobody":         {Draft{Texts: hello, Users: []accounts.ID{}}, ErrNobody},
	} {
		if _, err := NewAdmin(w.db).Announce(t.Context(), c.d); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if list, err := NewAdmin(w.db).Announcements(t.Context(), 10); err != nil || len(list) != 0 {
		t.Errorf("made all the same: %v, %v", list, err)
	}
}
