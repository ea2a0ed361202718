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
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

type noProfiles struct{}

func (noProfiles) Profiles(context.Context, []accounts.ID) (accounts.Profiles, error) {
	return nil, nil
}

func (noProfiles) ProfilesOrNone(context.Context, ...accounts.ID) accounts.Profiles { return nil }

// world has the Service of one node.
type world struct {
	*Service
	t           testing.TB
	db          *sqldb.DB
	clockOffset *atomic.Int64 // nanoseconds between the clock of the database and the system clock
}

func newWorld(t testing.TB, db *sqldb.DB, clockOffset *atomic.Int64) *world {
	t.Helper()
	bus := events.NewBus(redistest.Open(t, "embedded"), ids.New[world]().String(), nil)
	s, err := New(Config{DB: db, Bus: bus, People: noProfiles{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = bus.Run(ctx, func() {}) })
	t.Cleanup(func() { cancel(); all.Wait() })
	return &world{s, t, db, clockOffset}
}

// testEachEngine runs test on every SQL engine.
func testEachEngine(t *testing.T, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			run := func(t *testing.T) {
				clockOffset := new(atomic.Int64)
				test(t, newWorld(t, e.Open(t, func(c *sqldb.Config) {
					c.Now = func() time.Time { return time.Now().Add(time.Duration(clockOffset.Load())) }
				}), clockOffset))
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

func (w *world) record(list ...Entry) {
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
	for chunk := range slices.Chunk(all, 500) {
		var args []any
		for _, u := range chunk {
			args = append(args, u, u.String()+"@example.org", u.String()+"@example.org", "User", "UTC", "", 0, w.db.Now().UnixMilli()-1, lang)
		}
		_, err := w.db.ExecContext(w.t.Context(), "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created, lang) "+
			"VALUES "+sqldb.Tuples(9, len(chunk)), args...)
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

// kinds returns a user's notices, newest first, as "seq kind". Unread notices have a star.
func (w *world) kinds(user accounts.ID) string {
	w.t.Helper()
	var entries []string
	for _, n := range w.list(user) {
		text := fmt.Sprintf("%d %s", n.Seq, n.Kind)
		if n.Read == 0 {
			text += "*"
		}
		entries = append(entries, text)
	}
	return strings.Join(entries, ", ")
}

func (w *world) unread(user accounts.ID) string {
	w.t.Helper()
	c, err := w.Counts(w.t.Context(), user)
	w.must(err)
	return fmt.Sprint(c.unread(), c.Categories)
}

func checkText(t testing.TB, name, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", name, got, want)
	}
}

func TestRecord_OneNoticePerSource(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ann, bob := ids.New[accounts.User](), ids.New[accounts.User]()
		requested := Entry{User: ann, Kind: api.NoticeFriendRequested, Source: "request:1", About: bob, Data: api.NoticeOfRequest{V: 1}}
		w.record(requested, Entry{User: bob, Kind: api.NoticeGroupAdded, Source: "request:1"},
			Entry{User: ann, Kind: api.NoticeGroupRemoved, Source: "group:1"})
		w.record(requested, Entry{User: ann, Kind: api.NoticeAccountLogin, Source: "account:1"})
		checkText(t, "ann's list", w.kinds(ann), "4 account.login*, 2 group.removed*, 1 friend.requested*")
		checkText(t, "bob's list", w.kinds(bob), "1 group.added*")
		checkText(t, "ann's unread counts", w.unread(ann), "3 map[account:1 friend:1 group:1]")
		w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return w.Withdraw(ctx, tx, SourceKey{ann, "request:1"}, SourceKey{bob, "nothing"})
		}))
		checkText(t, "ann's list after the withdrawal", w.kinds(ann), "4 account.login*, 2 group.removed*")
		checkText(t, "bob's list after the withdrawal", w.kinds(bob), "1 group.added*")
	})
}

func TestRecord_RollbackPublishesNothing(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
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
		w.record(Entry{User: ann, Kind: api.NoticeAccountEmail, Source: "b"})
		checkText(t, "the list", w.kinds(ann), "1 account.email*")
		var received api.NoticeNew
		e := <-sub.C
		w.must(json.Unmarshal(e.Data, &received))
		checkText(t, "the event", e.Type+" "+received.Notice.Kind, "notice.new account.email")
	})
}

func TestMark_MovesForwardUpToNewest(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ann, ctx := ids.New[accounts.User](), t.Context()
		for i := range 4 {
			w.record(Entry{User: ann, Kind: api.NoticeGroupAdded, Source: fmt.Sprint(i)})
		}
		_, err := w.Read(ctx, ann, 3)
		w.must(err)
		checkText(t, "after one was read", w.kinds(ann), "4 group.added*, 3 group.added, 2 group.added*, 1 group.added*")
		_, err = w.Mark(ctx, ann, 2)
		w.must(err)
		checkText(t, "with the mark at 2", w.unread(ann), "1 map[group:1]")
		_, err = w.Mark(ctx, ann, 1)
		w.must(err)
		checkText(t, "the mark does not go back", w.unread(ann), "1 map[group:1]")
		c, err := w.Mark(ctx, ann, 99)
		w.must(err)
		if c.ReadUpTo != 4 || c.unread() != 0 {
			t.Errorf("with a mark beyond the newest: %+v", c)
		}
		w.record(Entry{User: ann, Kind: api.NoticeAccountLogin, Source: "later"})
		checkText(t, "after a later notice", w.unread(ann), "1 map[account:1]")
		if _, err := w.Read(ctx, ann, 77); !errors.Is(err, ErrNotice) {
			t.Errorf("an unknown number: %v", err)
		}
	})
}

// A number is assigned under the lock of the list. A reader who marks the listed notices as read therefore never marks
// a notice that was not listed.
func TestList_NewNoticesHaveHigherNumbers(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ann, ctx := ids.New[accounts.User](), t.Context()
		const writers, each = 8, 15
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for j := range each {
					w.record(Entry{User: ann, Kind: api.NoticeGroupAdded, Source: fmt.Sprintf("%d/%d", i, j)})
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
			t.Errorf("listed %d notices, the highest number is %d", len(seen), highest)
		}
	})
}

// Changes on several connections are published in any order. The counts with the highest version are equal to those in
// SQL.
func TestCounts_HighestVersionIsTheNewest(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ctx, ann := t.Context(), ids.New[accounts.User]()
		const notices = 12
		for i := range notices {
			w.record(Entry{User: ann, Kind: api.NoticeAccountLogin, Source: fmt.Sprint("account:", i)})
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
						return w.Withdraw(ctx, tx, SourceKey{ann, fmt.Sprint("account:", seq-1)})
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
		for received := 0; received < notices; {
			var c api.NoticeCounts
			w.must(json.Unmarshal(redistest.Wait(t, sub.C).Data, &c))
			if c.Version > before.Version { // otherwise it is a late event of the new notices
				add(c.Version, c.Unread)
				received++
			}
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
		w.record(Entry{User: ann, Kind: api.NoticeAccountLogin, Source: "account:new"})
		last, err := w.Counts(ctx, ann)
		w.must(err)
		if got := []int64{after.Version, again.Version, last.Version}; !slices.Equal(got,
			[]int64{before.Version + notices + 1, after.Version, after.Version + 1}) {
			t.Errorf("versions after mark, a repeated read and a new notice: %d, from %d", got, before.Version+notices)
		}
	})
}

func TestList_PagesHaveEveryNoticeOnce(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ann := ids.New[accounts.User]()
		for i := range 25 {
			w.record(Entry{User: ann, Kind: api.NoticeGroupAdded, Source: fmt.Sprint(i)})
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
				t.Errorf("cursor %q: %v", bad, err)
			}
		}
	})
}

func TestExpiredNotice_IsHiddenAndPruned(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ann := ids.New[accounts.User]()
		w.record(Entry{User: ann, Kind: api.NoticeFriendRequested, Source: "1", Expires: w.db.Now().Add(time.Hour)},
			Entry{User: ann, Kind: api.NoticeGroupAdded, Source: "2"})
		checkText(t, "before", w.unread(ann), "2 map[friend:1 group:1]")
		w.clockOffset.Add(int64(2 * time.Hour))
		checkText(t, "after an hour", w.unread(ann)+" "+w.kinds(ann), "1 map[group:1] 2 group.added*")
		w.must(w.prune(t.Context()))
		w.rows(1)
		w.clockOffset.Add(int64(91 * 24 * time.Hour))
		w.must(w.prune(t.Context()))
		w.rows(0)
	})
}

// rows checks the number of notices in SQL.
func (w *world) rows(want int) {
	w.t.Helper()
	var n int
	w.must(w.db.NewRaw("SELECT COUNT(*) FROM notices").Scan(w.t.Context(), &n))
	if n != want {
		w.t.Errorf("%d rows, want %d", n, want)
	}
}

func TestErase_DeletesAllNotices(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ann, bob := ids.New[accounts.User](), ids.New[accounts.User]()
		for i := range 600 {
			w.record(Entry{User: ann, Kind: api.NoticeGroupAdded, Source: fmt.Sprint(i)})
		}
		w.record(Entry{User: bob, Kind: api.NoticeGroupAdded, Source: "0"})
		w.must(w.Erase(t.Context(), ann))
		w.must(w.Erase(t.Context(), ann))
		w.rows(1)
		checkText(t, "ann's", w.kinds(ann), "")
		checkText(t, "bob's", w.kinds(bob), "1 group.added*")
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

func TestDeliver_ReachesSegmentOnceDespiteKills(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		english, chinese := w.users(700, ""), w.users(620, "zh-CN")
		a := w.announce(Draft{Texts: hello, Link: "/#/news", Lifetime: time.Hour})
		if a.Total != 1320 || a.State != Waiting {
			t.Fatalf("created %+v", a)
		}
		late := w.users(1, "")[0] // a user who registered afterwards
		_, err := w.db.ExecContext(ctx, "UPDATE users SET created = ? WHERE id = ?", a.Created.UnixMilli(), late)
		w.must(err)
		w.must(w.deliverSlice(ctx, a.ID)) // the node dies after it
		if got := w.announcement(a.ID); got.State != Running || got.Passed != sliceSize || got.Delivered != sliceSize {
			t.Errorf("after a slice: %+v", got)
		}
		// A node dies within a slice. None of the slice is stored.
		w.enqueuePushes = func(context.Context, *sqldb.Tx, []Notice) error { return errors.New("killed") }
		if err := w.deliverSlice(ctx, a.ID); err == nil {
			t.Error("got no error from a killed delivery")
		}
		w.enqueuePushes = nil
		w.rows(sliceSize)
		// Two other nodes continue at the same time.
		other := newWorld(t, w.db, w.clockOffset)
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
		if got := w.announcement(a.ID); got.State != Done || got.Passed != 1320 || got.Delivered != 1320 || got.Ended.IsZero() {
			t.Errorf("after the delivery: %+v", got)
		}
		checkText(t, "lists of three users", w.kinds(english[0])+w.kinds(chinese[619])+w.kinds(late), "1 announcement*1 announcement*")
		w.clockOffset.Add(int64(2 * time.Hour))
		checkText(t, "after its expiry", w.unread(english[0]), "0 map[]")
	})
}

// A command in another process creates the announcement.
func TestDeliver_StartsSoonAfterAnAnnouncement(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), new(atomic.Int64))
		w.users(1, "")
		pool, err := worker.NewPool(worker.PoolConfig{DB: w.db}, w.Jobs()...)
		w.must(err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { _ = pool.Run(ctx) })
		defer sqldbtest.Watch(t, w.db)()
		bubble.Sleep(3*time.Hour + 30*time.Second)
		a := w.announce(Draft{Texts: hello})
		bubble.Sleep(sqldb.WatchWithin)
		if got := w.announcement(a.ID); got.State != Done {
			t.Errorf("after %s the announcement is %s, want %s", sqldb.WatchWithin, got.State, Done)
		}
	})
}

func TestAnnouncement_UsesLanguageOfReader(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ann, li := w.users(1, "")[0], w.users(1, "zh-CN")[0]
		sub := w.bus.Subscribe(t.Context(), li.String())
		defer sub.Close()
		a := w.announce(Draft{Texts: hello})
		w.must(w.deliver(t.Context()))
		var received api.NoticeNew
		w.must(json.Unmarshal((<-sub.C).Data, &received))
		if !strings.Contains(string(received.Notice.Data), "请进") {
			t.Errorf("the event has %s", received.Notice.Data)
		}
		for _, c := range []struct {
			reader accounts.ID
			header string
			want   string
		}{{ann, "", "Hello"}, {li, "", "你好"}, {ann, "zh;q=0.9, en;q=0.2", "你好"}, {li, "fr", "Hello"}} {
			list := w.list(c.reader)
			w.must(w.fillAnnouncements(context.WithValue(t.Context(), i18n.Key{}, func() string { return c.header }), list))
			var doc api.Announcement
			w.must(json.Unmarshal(list[0].Data, &doc))
			if doc.Title != c.want || doc.ID != a.ID.String() {
				t.Errorf("%q reads %+v", c.header, doc)
			}
		}
	})
}

// A notice is no longer pending if it was read, or if the mark has passed it.
func TestPending_ReturnsUnreadNotices(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.users(4, "")
		w.announce(Draft{Texts: hello, Users: users})
		w.must(w.deliver(ctx))
		var keys []SeqKey
		for _, u := range users {
			keys = append(keys, SeqKey{u, w.list(u)[0].Seq})
		}
		_, err := w.Read(ctx, users[1], keys[1].Seq)
		w.must(err)
		_, err = w.Mark(ctx, users[2], keys[2].Seq)
		w.must(err)
		found, err := w.Pending(ctx, append(keys, SeqKey{users[0], 99}))
		w.must(err)
		if len(found) != 2 || found[keys[0]].User != users[0] || found[keys[3]].User != users[3] {
			t.Errorf("got %+v, want the notices of the first and the last user", found)
		}
		var doc api.Announcement
		w.must(json.Unmarshal(found[keys[0]].Data, &doc))
		if doc.Title != "Hello" {
			t.Errorf("the document is %+v", doc)
		}
	})
}

func TestStop_RemovesAnnouncementFromLists(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		users := w.users(sliceSize+1, "")
		a := w.announce(Draft{Texts: hello, Users: append(users, users[0], ids.New[accounts.User]())})
		if a.Total != sliceSize+1 || !a.Named {
			t.Errorf("created %+v", a)
		}
		w.must(w.deliverSlice(t.Context(), a.ID))
		checkText(t, "before", w.unread(users[0])+" "+w.kinds(users[0]), "1 map[announcement:1] 1 announcement*")
		_, err := NewAdmin(w.db).Stop(t.Context(), a.ID)
		w.must(err)
		w.must(w.deliver(t.Context()))
		w.must(w.deliverSlice(t.Context(), a.ID)) // on a node that selected it before the stop
		checkText(t, "after", w.unread(users[0])+" "+w.kinds(users[0])+w.kinds(users[sliceSize]), "0 map[] ")
		if got := w.announcement(a.ID); got.State != Stopped || got.Delivered > sliceSize {
			t.Errorf("stopped: %+v", got)
		}
		var left int
		w.must(w.db.NewRaw("SELECT COUNT(*) FROM announcement_users").Scan(t.Context(), &left))
		if left != 0 {
			t.Errorf("%d users are still listed", left)
		}
	})
}

func TestCountRecipients_CountsSegments(t *testing.T) {
	testEachEngine(t, func(t *testing.T, w *world) {
		english, chinese := w.users(3, ""), w.users(2, "zh-CN")
		_, err := w.db.ExecContext(t.Context(), "UPDATE users SET zone = 'Asia/Shanghai', created = ? WHERE id = ?",
			w.db.Now().Add(-48*time.Hour).UnixMilli(), chinese[0])
		w.must(err)
		_, err = w.db.ExecContext(t.Context(), "UPDATE users SET erased = 1 WHERE id = ?", english[0])
		w.must(err)
		_, err = w.db.ExecContext(t.Context(), `INSERT INTO sessions (user_id, device_id, name, agent, ip, created, used, access_hash, access_expires, refresh_hash, refresh_expires, prev_refresh_hash, prev_until, nonce)
			VALUES (?, 'abcdefghijkl', '', '', '', 0, ?, '', 0, '', 0, '', 0, '')`, english[1], w.db.Now().UnixMilli())
		w.must(err)
		day := w.db.Now().Add(-24 * time.Hour)
		for name, c := range map[string]struct {
			d    Draft
			want int64
		}{
			"all users":         {Draft{}, 4},
			"Chinese":           {Draft{Segment: accounts.Segment{Language: i18n.Chinese}}, 2},
			"English":           {Draft{Segment: accounts.Segment{Language: i18n.English}}, 2},
			"zone":              {Draft{Segment: accounts.Segment{Zone: "Asia/Shanghai"}}, 1},
			"registered before": {Draft{Segment: accounts.Segment{RegisteredBefore: day}}, 1},
			"registered from":   {Draft{Segment: accounts.Segment{RegisteredFrom: day, Language: i18n.Chinese}}, 1},
			"active":            {Draft{Segment: accounts.Segment{ActiveSince: day}}, 1},
			"named":             {Draft{Users: []accounts.ID{english[0], english[1], english[1]}}, 1},
		} {
			c.d.Texts = hello
			if n, err := NewAdmin(w.db).CountRecipients(t.Context(), c.d); n != c.want || err != nil {
				t.Errorf("%s: %d, %v, want %d", name, n, err, c.want)
			}
		}
	})
}

func TestAnnounce_RefusesInvalidDrafts(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), new(atomic.Int64))
	w.users(1, "")
	for name, c := range map[string]struct {
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
		"too short":      {Draft{Texts: hello, Lifetime: time.Second}, ErrLifetime},
		"no users":       {Draft{Texts: hello, Users: []accounts.ID{}}, ErrNoRecipients},
	} {
		if _, err := NewAdmin(w.db).Announce(t.Context(), c.d); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if list, err := NewAdmin(w.db).Announcements(t.Context(), 10); err != nil || len(list) != 0 {
		t.Errorf("a refused draft was stored: %v, %v", list, err)
	}
}
