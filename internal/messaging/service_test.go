package messaging

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
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
	"github.com/stoa-dev/stoa/internal/base/leaktest"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/transfers"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// histories is the number of random histories of a test: one long, the others short.
var histories = flag.Int("histories", 6, "random histories")

func TestMain(m *testing.M) {
	flag.Parse()
	leaktest.Main(m, "github.com/redis/rueidis.(*call).DelayDo.func1", // ends by itself
		// One MariaDB serves all tests and ends with the process.
		"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest.(*server).start.func1")
}

// world is the messaging of one node, with the services that it needs.
type world struct {
	*Service
	t        testing.TB
	accounts *accounts.Service
	social   *social.Service
	in       *groups.Service
	uploads  *transfers.Service
	redis    *redis.DB
	dir      string // of files
}

func newWorld(t testing.TB, db *sqldb.DB, rdb *redis.DB, settings Settings) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	bus := events.NewBus(rdb, ids.New[world]().String(), log)
	caches := cache.NewRuntime(rdb, bus.Nodes(), cache.Config{Budget: 10 * time.Second})
	people, err := accounts.New(accounts.Config{DB: db, Redis: rdb, Limiter: ratelimit.New(rdb), Caches: caches, Bus: bus,
		Secret: make([]byte, 32), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	friends, err := social.New(social.Config{DB: db, Caches: caches, Bus: bus, People: people, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	in, err := groups.New(groups.Config{DB: db, Caches: caches, Bus: bus, People: people, Friends: friends, Log: log,
		Settings: groups.Settings{Members: 5000}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	uploads, err := transfers.New(transfers.Config{DB: db, Redis: rdb, Bus: bus, People: people, Relations: friends, Secret: make([]byte, 32),
		Data: dir, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s := New(t.Context(), Config{DB: db, Redis: rdb, Caches: caches, Node: ids.New[world]().String(), Bus: bus, People: people,
		Relations: friends, Groups: in, Files: uploads, Log: log, Settings: settings})
	s.redis.budget = 10 * time.Second // a slow machine must not decide a test
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = bus.Run(ctx, func() {}) })
	all.Go(func() { _ = caches.Run(ctx, func() {}) })
	ready := make(chan struct{})
	all.Go(func() { _ = s.Run(ctx, func() { close(ready) }) })
	t.Cleanup(func() {
		cancel()
		all.Wait()
		if err := uploads.Close(); err != nil {
			t.Error(err)
		}
	})
	<-ready
	eventually.True(t, "Redis to be trusted", s.projection.Up) // the first round may have failed
	return &world{s, t, people, friends, in, uploads, rdb, dir}
}

// eachEngine runs test on both engines of SQL.
func eachEngine(t *testing.T, settings Settings, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, e.Open(t), redistest.Open(t, "embedded"), settings))
		})
	}
}

// join creates users.
func (w *world) join(n int) []accounts.ID {
	w.t.Helper()
	var users []accounts.User
	var list []accounts.ID
	for i := range n {
		u, err := accounts.NewUser(fmt.Sprintf("%x@example.org", ids.New[world]().String()), fmt.Sprint("user ", i), "UTC")
		w.must(err)
		users, list = append(users, u), append(list, u.ID)
	}
	w.must(w.sql.inTx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, users) }))
	return list
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func text(id, s string) api.Send {
	return api.Send{ClientID: id, Content: api.Content{Kind: api.MessageText, Text: s}}
}

// mustSend sends a text that must be accepted.
func (w *world) mustSend(from, to accounts.ID, s string) api.Sent {
	w.t.Helper()
	got, _, err := w.Send(w.t.Context(), from, With(to), text(ids.New[message]().String(), s))
	w.must(err)
	return got
}

// reads returns the texts that a user sees in a chat, "-" for a recalled one.
func (w *world) reads(user, peer accounts.ID) (texts []string) {
	w.t.Helper()
	list, err := w.List(w.t.Context(), user, With(peer), Range{Limit: 200})
	w.must(err)
	for _, m := range list.Messages {
		s := m.Text
		if m.Recalled != nil {
			s = "-"
		}
		for _, r := range m.Reactions {
			s += fmt.Sprintf(" %s%d", r.Emoji, len(r.Users))
		}
		texts = append(texts, s)
	}
	return texts
}

func (w *world) wantReads(user, peer accounts.ID, want ...string) {
	w.t.Helper()
	if got := w.reads(user, peer); !slices.Equal(got, want) {
		w.t.Errorf("got %q, want %q", got, want)
	}
}

func (w *world) chat(user, peer accounts.ID) api.Chat {
	w.t.Helper()
	c, err := w.Chat(w.t.Context(), user, With(peer))
	w.must(err)
	return c
}

// listed reads a user's list of chats until Redis has it. Redis gets no data while it is not trusted.
func (w *world) listed(user accounts.ID) {
	w.t.Helper()
	eventually.NoError(w.t, "chats to be in Redis", func() error {
		if _, err := w.Chats(w.t.Context(), user, "", "", 10); err != nil {
			return err
		}
		_, _, _, err := w.Service.redis.list(w.t.Context(), user, 0, 10, 0)
		return err
	})
}

func wants(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || (want == nil) != (err == nil) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func TestDirectChat_Conversation(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(3)
		ann, bob := who[0], who[1]
		_, err := w.Chat(ctx, ann, With(bob))
		wants(t, "a chat without a message", err, ErrChat)
		if got := w.mustSend(ann, bob, "Hi"); got.Seq != 1 || got.Chat != With(bob).String() {
			t.Errorf("got %+v", got)
		}
		w.mustSend(bob, ann, "Hello")
		w.mustSend(ann, bob, "你好")
		for _, side := range [][2]accounts.ID{{ann, bob}, {bob, ann}} {
			w.wantReads(side[0], side[1], "Hi", "Hello", "你好")
		}
		if c := w.chat(bob, ann); c.Unread != 1 || c.Read != 2 || c.Seq != 3 || c.Last.Text != "你好" || c.PeerRead != 3 {
			t.Errorf("Bob's chat: %+v", c)
		}
		if c := w.chat(ann, bob); c.Unread != 0 || c.PeerRead != 2 {
			t.Errorf("Ann's chat: %+v", c)
		}
		w.must(w.Mark(ctx, bob, With(ann), 3, 0))
		w.must(w.Mark(ctx, bob, With(ann), 1, 0)) // marks do not move back
		wants(t, "a mark in the future", w.Mark(ctx, bob, With(ann), 4, 0), ErrFuture)
		if c := w.chat(ann, bob); c.PeerRead != 3 || c.PeerGot != 3 {
			t.Errorf("after Bob has read: %+v", c)
		}

		_, err = w.Edit(ctx, ann, With(bob), 1, "Hi there")
		w.must(err)
		_, err = w.Edit(ctx, bob, With(ann), 1, "Hm")
		wants(t, "an edit by the other", err, ErrNotYours)
		_, err = w.React(ctx, bob, With(ann), 1, "👍", true)
		w.must(err)
		_, err = w.React(ctx, ann, With(bob), 1, "👍", true)
		w.must(err)
		_, err = w.React(ctx, ann, With(bob), 1, "❤️", true)
		w.must(err)
		w.wantReads(bob, ann, "Hi there 👍2 ❤️1", "Hello", "你好")
		_, err = w.Recall(ctx, bob, With(ann), 2)
		w.must(err)
		w.wantReads(ann, bob, "Hi there 👍2 ❤️1", "-", "你好")
		for range 2 { // repeated after a lost response
			w.must(w.Hide(ctx, ann, With(bob), 3))
		}
		w.wantReads(ann, bob, "Hi there 👍2 ❤️1", "-")
		w.wantReads(bob, ann, "Hi there 👍2 ❤️1", "-", "你好")
		for what, try := range map[string]func() error{
			"hide nothing":        func() error { return w.Hide(ctx, ann, With(bob), 9) },
			"recall a hidden one": func() error { _, err := w.Recall(ctx, ann, With(bob), 3); return err },
			"edit nothing":        func() error { _, err := w.Edit(ctx, ann, With(bob), 9, "x"); return err },
		} {
			wants(t, what, try(), ErrMessage)
		}
		changes, err := w.Changes(ctx, ann, With(bob), 0)
		w.must(err)
		if len(changes.Changed) != 2 || changes.Changed[1].Seq != 2 || !slices.Equal(changes.Hidden, []int64{3}) || changes.Rev != 6 ||
			changes.More {
			t.Errorf("got %+v", changes)
		}
		w.must(w.Clear(ctx, ann, With(bob)))
		w.wantReads(ann, bob)
		if all, err := w.Chats(ctx, ann, "", "", 10); err != nil || len(all.Chats) != 0 {
			t.Errorf("a cleared chat is in the list: %+v, %v", all, err)
		}
		w.mustSend(bob, ann, "Still there?")
		w.wantReads(ann, bob, "Still there?")
		if all, err := w.Chats(ctx, ann, "", "", 10); err != nil || len(all.Chats) != 1 || all.Unread != 1 {
			t.Errorf("got %+v, %v", all, err)
		}
		_, err = w.Chat(ctx, who[2], With(ann))
		wants(t, "a stranger's look", err, ErrChat)
	})
}

func TestSend_RetryIsOneMessage(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		who := w.join(2)
		other := newWorld(t, w.sql.db, w.redis, Settings{MessagesFrom: "everybody"})
		var all sync.WaitGroup
		answers := make([]api.Sent, 24)
		for i := range answers {
			all.Go(func() {
				node := w
				if i%2 == 1 {
					node = other
				}
				got, _, err := node.Send(t.Context(), who[0], With(who[1]), text(fmt.Sprint("m", i/8), "Hi"))
				if err != nil {
					t.Error(err)
				}
				answers[i] = got
			})
		}
		all.Wait()
		for i, a := range answers {
			if a != answers[i/8*8] || a.Seq < 1 || a.Seq > 3 {
				t.Errorf("try %d: got %+v, another try %+v", i, a, answers[i/8*8])
			}
		}
		w.wantReads(who[1], who[0], "Hi", "Hi", "Hi")
		_, _, err := w.Send(t.Context(), who[0], With(who[1]), text("m1", "Ho"))
		wants(t, "another text under the same id", err, ErrReused)
		_, again, err := w.Send(t.Context(), who[1], With(who[0]), text("m1", "Ho"))
		wants(t, "the other's own id", err, nil)
		if again {
			t.Error("the other's message is taken for the first one's")
		}
	})
}

func TestSend_SeqHasNoGaps(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		nodes := []*world{w, newWorld(t, w.sql.db, w.redis, Settings{MessagesFrom: "everybody"})}
		who := w.join(4)
		const each = 20
		var all sync.WaitGroup
		for writer := range 8 {
			all.Go(func() {
				for i := range each {
					from, to := who[writer%2], who[1-writer%2]
					if writer >= 4 {
						from, to = who[2+writer%2], who[3-writer%2]
					}
					if _, _, err := nodes[(writer+i)%2].Send(t.Context(), from, With(to),
						text(fmt.Sprintf("%d-%d", writer, i), fmt.Sprint(i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, side := range [][2]accounts.ID{{who[0], who[1]}, {who[3], who[2]}} {
			list, err := w.List(t.Context(), side[0], With(side[1]), Range{After: new(int64(0)), Limit: 200})
			w.must(err)
			if len(list.Messages) != 4*each {
				t.Fatalf("%d messages, want %d", len(list.Messages), 4*each)
			}
			for i, m := range list.Messages {
				if m.Seq != int64(i+1) || i > 0 && m.At.Before(list.Messages[i-1].At.Time) {
					t.Errorf("message %d has the number %d and the time %v", i, m.Seq, m.At)
				}
			}
		}
	})
}

func TestSend_Rights(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		send := func(from, to accounts.ID) error {
			_, _, err := w.Send(ctx, from, With(to), text(ids.New[message]().String(), "Hi"))
			return err
		}
		befriend := func(a, b accounts.ID) {
			t.Helper()
			r, _, err := w.social.SendRequest(ctx, a, social.RequestDraft{User: b})
			w.must(err)
			if _, err = w.social.Accept(ctx, b, r.ID, "", ""); err != nil {
				t.Fatal(err)
			}
		}
		wants(t, "a stranger", send(ann, bob), ErrRefused)
		wants(t, "oneself", send(ann, ann), ErrSelf)
		wants(t, "nobody", send(ann, ids.New[accounts.User]()), accounts.ErrNoUser)
		befriend(ann, bob)
		wants(t, "a friend", send(ann, bob), nil)
		_, err := w.SetSettings(ctx, bob, api.ChatSettingsUpdate{MessagesFrom: new("nobody"), Receipts: new(true)})
		w.must(err)
		wants(t, "friend of a user who accepts none", send(ann, bob), ErrRefused)
		_, err = w.React(ctx, ann, With(bob), 1, "👍", true)
		wants(t, "reaction to a user who accepts none", err, ErrRefused)
		_, err = w.SetSettings(ctx, bob, api.ChatSettingsUpdate{MessagesFrom: new("everybody"), Receipts: new(false)})
		w.must(err)
		wants(t, "stranger to a user who accepts all", send(eve, bob), nil)
		w.must(w.Mark(ctx, bob, With(ann), 1, 1))
		if c := w.chat(ann, bob); c.PeerRead != 0 || c.PeerGot != 0 {
			t.Errorf("hidden receipts are shown: %+v", c)
		}
		w.must(w.social.Block(ctx, bob, eve))
		wants(t, "user who is blocked", send(eve, bob), ErrRefused)
		_, err = w.Edit(ctx, eve, With(bob), 1, "You cannot get rid of me")
		wants(t, "edit by a blocked user", err, ErrRefused)
		wants(t, "user who blocks", send(bob, eve), ErrYouBlock)
	})
}

func TestSend_InvalidMessageChangesNothing(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	who := w.join(2)
	deep := strings.Repeat("[", 11) + strings.Repeat("]", 11)
	media := func(url string) *api.Media { return &api.Media{URL: url} }
	for name, c := range map[string]api.Content{
		"no kind":               {Text: "x"},
		"unknown kind":          {Kind: "bogus", Text: "x"},
		"no place":              {Kind: api.MessageLocation, Location: &api.Location{Latitude: 91}},
		"many mentioned":        {Kind: api.MessageText, Text: "x", Mentions: slices.Repeat([]string{api.MentionAll}, 51)},
		"no text":               {Kind: api.MessageText},
		"spaces":                {Kind: api.MessageText, Text: " \n "},
		"nothing to see":        {Kind: api.MessageText, Text: "\u200B\u3164\u2800\u00AD\uFE0F"},
		"too long":              {Kind: api.MessageText, Text: strings.Repeat("あ", 4001)},
		"control character":     {Kind: api.MessageText, Text: "a\x1bb"},
		"picture without media": {Kind: api.MessageImage},
		"text with media":       {Kind: api.MessageText, Text: "x", Media: media("https://example.org/x.png")},
		"javascript":            {Kind: api.MessageImage, Media: media("javascript:alert(1)")},
		"data":                  {Kind: api.MessageImage, Media: media("data:text/html,x")},
		"no host":               {Kind: api.MessageImage, Media: media("https:///x")},
		"another path":          {Kind: api.MessageImage, Media: media("/v1/../../../x")},
		"another path, encoded": {Kind: api.MessageImage, Media: media("/v1/%2e%2e/x")},
		"no path of the API":    {Kind: api.MessageImage, Media: media("/x")},
		"other host":            {Kind: api.MessageImage, Media: media("//example.org/v1/x")},
		"a card of no user":     {Kind: api.MessageCard, Card: &api.CardRef{User: "x"}},
		"deep":                  {Kind: api.MessageCustom, Custom: &api.Custom{Type: "x", Data: []byte(deep)}},
		"large":                 {Kind: api.MessageCustom, Custom: &api.Custom{Type: "x", Data: []byte(`"` + strings.Repeat("x", 8<<10) + `"`)}},
		"a mention of no user":  {Kind: api.MessageText, Text: "x", Mentions: []string{"x"}},
	} {
		_, _, err := w.Send(t.Context(), who[0], With(who[1]), api.Send{ClientID: "x", Content: c})
		if !errors.Is(err, ErrContent) && errs.KindOf(err) != errs.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	in := text("two words", "x")
	_, _, err := w.Send(t.Context(), who[0], With(who[1]), in)
	wants(t, "client id", err, ErrClientID)
	in = text("x", "x")
	in.ReplyTo = 1
	_, _, err = w.Send(t.Context(), who[0], With(who[1]), in)
	wants(t, "a reply to nothing", err, ErrReply)
	w.mustSend(who[0], who[1], "first")
	for _, emoji := range []string{"", "x", "ⒻⓊⒸⓀ", "🇫🇺🇨🇰", "👍👍👍👍👍👍👍👍", "👍🏽🏽", "㈱", "👍\u200D"} {
		_, err = w.React(t.Context(), who[0], With(who[1]), 1, emoji, true)
		wants(t, fmt.Sprintf("reaction %q", emoji), err, ErrEmoji)
	}
	if c := w.chat(who[1], who[0]); c.Seq != 1 || c.Rev != 0 {
		t.Errorf("something has changed: %+v", c)
	}
}

func TestChange_TooLateIsRefused(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"),
		Settings{MessagesFrom: "everybody", EditFor: time.Nanosecond, RecallFor: time.Nanosecond})
	who := w.join(2)
	w.mustSend(who[0], who[1], "Hi")
	if _, err := w.sql.db.ExecContext(t.Context(), "UPDATE messages SET at = at - 1000"); err != nil {
		t.Fatal(err)
	}
	_, err := w.Edit(t.Context(), who[0], With(who[1]), 1, "Ho")
	wants(t, "an edit", err, ErrTooLate)
	_, err = w.Recall(t.Context(), who[0], With(who[1]), 1)
	wants(t, "a recall", err, ErrTooLate)
}

// A transaction that needs a second connection may hold the last one itself.
func TestChange_UsesOneConnection(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.MaxConns = 1 })
	w := newWorld(t, db, redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody", EditFor: time.Hour, RecallFor: time.Hour})
	who := w.join(2)
	w.mustSend(who[0], who[1], "Hi")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it would wait forever
	defer cancel()
	chat := With(who[1])
	for _, c := range []struct { // clear is last: no message is left then
		what   string
		change func() error
	}{
		{"draft", func() error { _, err := w.Set(ctx, who[0], chat, api.ChatChange{Draft: new("soon")}); return err }},
		{"reaction", func() error { _, err := w.React(ctx, who[0], chat, 1, "👍", true); return err }},
		{"edit", func() error { _, err := w.Edit(ctx, who[0], chat, 1, "Ho"); return err }},
		{"hide", func() error { return w.Hide(ctx, who[1], With(who[0]), 1) }},
		{"clear", func() error { return w.Clear(ctx, who[1], With(who[0])) }},
	} {
		if err := c.change(); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// replica is a client that keeps its copy of one chat by listing what is newer than seq and rev.
type replica struct {
	seq, rev int64
	messages map[int64]api.Message
}

func (r *replica) sync(w *world, user, peer accounts.ID) {
	w.t.Helper()
	if r.messages == nil {
		r.messages = map[int64]api.Message{}
	}
	c, err := w.Chat(w.t.Context(), user, With(peer))
	if errors.Is(err, ErrChat) {
		return
	}
	w.must(err)
	rev := c.Rev // before the messages are read: later changes are read again
	for more := true; more; {
		list, err := w.List(w.t.Context(), user, With(peer), Range{After: &r.seq, Limit: 7})
		w.must(err)
		for _, m := range list.Messages {
			r.messages[m.Seq], r.seq = m, m.Seq
		}
		if more = list.More; !more {
			r.seq = max(r.seq, list.Seq)
		}
	}
	for more := r.rev < rev; more; {
		changes, err := w.Changes(w.t.Context(), user, With(peer), r.rev)
		w.must(err)
		for _, m := range changes.Changed {
			r.messages[m.Seq] = m
		}
		for _, seq := range changes.Hidden {
			delete(r.messages, seq)
		}
		r.rev, more = changes.Rev, changes.More
	}
	for seq := range r.messages {
		if seq <= c.Cleared {
			delete(r.messages, seq)
		}
	}
}

// TestSync_ClientsAgreeWithServer runs random actions of two users. Clients that synchronise from time to time are
// compared with a fresh read, and a fresh read with a simple model.
func TestSync_ClientsAgreeWithServer(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		for seed := range uint64(*histories) {
			r := rand.New(rand.NewPCG(seed, 3))
			steps := 400
			if seed >= 1 {
				steps = 5 + r.IntN(40)
			}
			who := w.join(2)
			var clients [2]replica
			model := newModel(who)
			for range steps {
				side := r.IntN(2)
				user, peer := who[side], who[1-side]
				seq := int64(1 + r.IntN(max(1, len(model.messages)+1)))
				switch r.IntN(13) {
				case 0, 1, 2, 3, 4:
					s := fmt.Sprint("text ", r.IntN(1000))
					_, _, err := w.Send(t.Context(), user, With(peer), text(fmt.Sprint(seed, "-", len(model.messages), "-", r.Uint64()), s))
					model.wants(t, "send", err, model.send(side, s))
				case 5:
					s := fmt.Sprint("edited ", r.IntN(1000))
					_, err := w.Edit(t.Context(), user, With(peer), seq, s)
					model.wants(t, "edit", err, model.edit(side, seq, s))
				case 6:
					_, err := w.Recall(t.Context(), user, With(peer), seq)
					model.wants(t, "recall", err, model.recall(side, seq))
				case 7, 8:
					emoji, on := []string{"👍", "❤️", "😀"}[r.IntN(3)], r.IntN(3) > 0
					_, err := w.React(t.Context(), user, With(peer), seq, emoji, on)
					model.wants(t, "react", err, model.react(side, seq, emoji, on))
				case 9:
					err := w.Hide(t.Context(), user, With(peer), seq)
					model.wants(t, "hide", err, model.hide(side, seq))
				case 10:
					err := w.Mark(t.Context(), user, With(peer), seq, seq)
					model.wants(t, "mark", err, model.mark(side, seq))
				case 11:
					block := r.IntN(3) == 0
					switch {
					case block && !model.blocks[side]:
						w.must(w.social.Block(t.Context(), user, peer))
					case !block && model.blocks[side]:
						w.must(w.social.Unblock(t.Context(), user, peer))
					}
					model.blocks[side] = block
				case 12:
					if r.IntN(20) == 0 {
						model.wants(t, "clear", w.Clear(t.Context(), user, With(peer)), model.clear(side))
					}
					clients[side].sync(w, user, peer)
				}
			}
			for side := range clients {
				if len(model.messages) == 0 {
					break // there is no chat
				}
				user, peer := who[side], who[1-side]
				clients[side].sync(w, user, peer)
				list, err := w.List(t.Context(), user, With(peer), Range{Limit: 1000})
				w.must(err)
				fresh := map[int64]api.Message{}
				var texts []string
				for _, m := range list.Messages {
					fresh[m.Seq] = m
					texts = append(texts, describe(m))
				}
				if !reflect.DeepEqual(clients[side].messages, fresh) {
					for seq, m := range fresh {
						if got := clients[side].messages[seq]; !reflect.DeepEqual(got, m) {
							t.Errorf("seed %d: a client has %+v, and there is %+v", seed, got, m)
						}
					}
					t.Errorf("seed %d: a client has %d messages, and there are %d", seed, len(clients[side].messages), len(fresh))
				}
				if want := model.sees(side); !slices.Equal(texts, want) {
					t.Errorf("seed %d: there is %q, want %q", seed, texts, want)
				}
				if got, want := w.chat(user, peer).Unread, model.unread(side); got != want {
					t.Errorf("seed %d: %d unread, want %d", seed, got, want)
				}
			}
		}
	})
}

func TestReactions_HaveOneOrder(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		who := w.join(2)
		ann, bob := who[0], who[1]
		_, _, err := w.Send(t.Context(), ann, With(bob), text("1", "Hello"))
		w.must(err)
		for _, r := range []struct {
			user, peer accounts.ID
			emoji      string
			on         bool
		}{{ann, bob, "❤️", true}, {ann, bob, "😀", true}, {bob, ann, "❤️", true}, {ann, bob, "❤️", false}, {ann, bob, "👍", true},
			{bob, ann, "👍", true}} {
			got, err := w.React(t.Context(), r.user, With(r.peer), 1, r.emoji, r.on)
			w.must(err)
			list, err := w.List(t.Context(), r.user, With(r.peer), Range{Limit: 10})
			w.must(err)
			conv, err := w.between(t.Context(), ann, bob)
			w.must(err)
			inSQL, err := w.sql.latest(t.Context(), conversation{id: conv, seq: 1}, 10)
			w.must(err)
			want := fmt.Sprint(inSQL[0].wire(r.user, With(r.peer).String()).Reactions)
			if now, listed := fmt.Sprint(got.Reactions), fmt.Sprint(list.Messages[0].Reactions); now != want || listed != want {
				t.Errorf("after %s %v: answered %s, listed %s, want %s", r.emoji, r.on, now, listed, want)
			}
		}
	})
}

func describe(m api.Message) string {
	s := m.Text
	if m.Recalled != nil {
		s = "-"
	}
	var more []string
	for _, r := range m.Reactions {
		for _, u := range r.Users {
			more = append(more, r.Emoji+u)
		}
	}
	slices.Sort(more)
	return fmt.Sprint(m.Seq, " ", s, more)
}

// model is a simple implementation of messaging.
type model struct {
	who      []accounts.ID
	messages []*modelMessage
	read     [2]int64
	gone     [2]int64

	blocks [2]bool
}

type modelMessage struct {
	side     int
	text     string
	recalled bool
	hidden   [2]bool
	reacted  map[string]bool
}

func newModel(who []accounts.ID) *model { return &model{who: who} }

func (m *model) wants(t testing.TB, what string, err, want error) {
	t.Helper()
	wants(t, what, err, want)
}

// mayWrite returns the reason why a side may not write to the other.
func (m *model) mayWrite(side int) error {
	switch {
	case m.blocks[side]:
		return ErrYouBlock
	case m.blocks[1-side]:
		return ErrRefused
	}
	return nil
}

func (m *model) send(side int, text string) error {
	if err := m.mayWrite(side); err != nil {
		return err
	}
	m.messages = append(m.messages, &modelMessage{side: side, text: text, reacted: map[string]bool{}})
	m.read[side] = int64(len(m.messages))
	return nil
}

// at returns a message that a side sees.
func (m *model) at(side int, seq int64) (*modelMessage, error) {
	switch {
	case len(m.messages) == 0:
		return nil, ErrChat
	case seq > int64(len(m.messages)) || seq <= m.gone[side] || m.messages[seq-1].hidden[side]:
		return nil, ErrMessage
	}
	return m.messages[seq-1], nil
}

func (m *model) edit(side int, seq int64, text string) error {
	if err := m.mayWrite(side); err != nil {
		return err
	}
	s, err := m.at(side, seq)
	switch {
	case err != nil:
		return err
	case s.side != side:
		return ErrNotYours
	case s.recalled:
		return ErrRecalled
	}
	s.text = text
	return nil
}

func (m *model) recall(side int, seq int64) error {
	s, err := m.at(side, seq)
	switch {
	case err != nil:
		return err
	case s.side != side:
		return ErrNotYours
	}
	s.recalled, s.reacted = true, map[string]bool{}
	return nil
}

func (m *model) react(side int, seq int64, emoji string, on bool) error {
	if err := m.mayWrite(side); err != nil && on {
		return err
	}
	s, err := m.at(side, seq)
	switch {
	case err != nil:
		return err
	case s.recalled:
		return ErrRecalled
	case on:
		s.reacted[emoji+m.who[side].String()] = true
	default:
		delete(s.reacted, emoji+m.who[side].String())
	}
	return nil
}

func (m *model) hide(side int, seq int64) error {
	if seq > 0 && seq <= int64(len(m.messages)) && m.messages[seq-1].hidden[side] {
		return nil
	}
	s, err := m.at(side, seq)
	if err == nil {
		s.hidden[side] = true
	}
	return err
}

func (m *model) mark(side int, seq int64) error {
	switch {
	case len(m.messages) == 0:
		return ErrChat
	case seq > int64(len(m.messages)):
		return ErrFuture
	}
	m.read[side] = max(m.read[side], seq)
	return nil
}

func (m *model) clear(side int) error {
	if len(m.messages) == 0 {
		return ErrChat
	}
	m.gone[side], m.read[side] = int64(len(m.messages)), int64(len(m.messages))
	return nil
}

func (m *model) unread(side int) (n int64) {
	for i, s := range m.messages {
		if int64(i) >= max(m.read[side], m.gone[side]) && !s.recalled && !s.hidden[side] {
			n++
		}
	}
	return n
}

func (m *model) sees(side int) (out []string) {
	for i, s := range m.messages {
		if int64(i+1) <= m.gone[side] || s.hidden[side] {
			continue
		}
		text := s.text
		if s.recalled {
			text = "-"
		}
		var more []string
		for r := range s.reacted {
			more = append(more, r)
		}
		slices.Sort(more)
		out = append(out, fmt.Sprint(i+1, " ", text, more))
	}
	return out
}

// A response may have been lost before a block.
func TestSend_StoredMessageIsAcknowledgedAgain(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		first, _, err := w.Send(ctx, ann, With(bob), text("1", "taken"))
		w.must(err)
		w.must(w.social.Block(ctx, bob, ann))
		again, was, err := w.Send(ctx, ann, With(bob), text("1", "taken"))
		if err != nil || !was || again != first {
			t.Errorf("sent again it is %+v, %v, %v; want %+v", again, was, err, first)
		}
		for _, other := range []api.Send{text("1", "another"), text("2", "taken")} {
			_, _, err = w.Send(ctx, ann, With(bob), other)
			wants(t, other.ClientID+other.Text, err, ErrRefused)
		}
		w.wantReads(bob, ann, "taken")
	})
}

// The event has the message's present state, as its rev states.
func TestSend_RetryPublishesReactions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
		ctx := t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		first, _, err := w.Send(ctx, ann, With(bob), text("1", "Hi"))
		w.must(err)
		_, err = w.React(ctx, bob, With(ann), first.Seq, "👍", true)
		w.must(err)
		bubble.Sleep(time.Second)
		var received atomic.Value
		_, leave := w.bus.Listen(ctx, bob.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
			if e.Type == api.EventMessageNew {
				received.Store(string(e.Data))
			}
		}})
		defer leave()
		_, again, err := w.Send(ctx, ann, With(bob), text("1", "Hi"))
		if err != nil || !again {
			t.Fatalf("sent again: %t, %v", again, err)
		}
		bubble.Sleep(time.Second)
		list, err := w.List(ctx, bob, With(ann), Range{Limit: 1})
		w.must(err)
		want, err := json.Marshal(list.Messages[0])
		w.must(err)
		if got := received.Load(); got != string(want) || len(list.Messages[0].Reactions) != 1 {
			t.Errorf("got event %v, want %s", got, want)
		}
	})
}

// If the message changes, the user gets only the chat's progress.
func TestHide_HiddenMessageIsNotPublished(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
		ctx := t.Context()
		who := w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		g := w.founded(bob, ann, eve)
		w.mustSend(bob, ann, "secret")
		w.mustSend(bob, ann, "secret")
		first, second := w.mustSendIn(bob, g, "secret").Seq, w.mustSendIn(bob, g, "secret").Seq
		w.must(w.Hide(ctx, ann, With(bob), 1))
		w.must(w.Hide(ctx, ann, In(g), first))
		bubble.Sleep(2 * time.Second) // these events are published

		var mu sync.Mutex
		received := map[string]string{}
		for name, channel := range map[string]string{"ann": ann.String(), "bob": bob.String(), "eve": eve.String(),
			"open": api.GroupChannel(g.String())} {
			_, leave := w.bus.Listen(ctx, channel, &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				if e.Type == api.EventChatStands || strings.Contains(string(e.Data), "secret") {
					mu.Lock()
					defer mu.Unlock()
					received[name] += e.Type + " "
				}
				var reached api.ChatStands
				if e.Type == api.EventChatStands && json.Unmarshal(e.Data, &reached) == nil && reached.Seq < 2 {
					t.Errorf("%s: the newest message is %d", name, reached.Seq)
				}
			}})
			defer leave()
		}
		wants := func(what string, want map[string]string) {
			t.Helper()
			bubble.Sleep(2 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if !maps.Equal(received, want) {
				t.Errorf("%s: got %v, want %v", what, received, want)
			}
			clear(received)
		}
		reacts := func(by accounts.ID, chat ChatRef, seq int64, emoji string) {
			t.Helper()
			_, err := w.React(ctx, by, chat, seq, emoji, true)
			w.must(err)
		}
		ofTwo := map[string]string{"ann": "chat.stands ", "bob": "message.changed "}
		wantInGroup := map[string]string{"ann": "chat.stands ", "bob": "message.changed ", "eve": "message.changed "}
		reacts(bob, With(ann), 1, "👍")
		wants("a reaction to what ann has deleted", ofTwo)
		reacts(eve, In(g), first, "👍")
		wants("a reaction to what ann has deleted in a group", wantInGroup)
		reacts(bob, With(ann), 2, "👍")
		wants("a reaction to what ann sees", map[string]string{"ann": "message.changed ", "bob": "message.changed "})
		reacts(eve, In(g), second, "👍")
		wants("a reaction to what all see", map[string]string{"ann": "message.changed ", "bob": "message.changed ", "eve": "message.changed ",
			"open": "message.changed "})
		w.must(w.Clear(ctx, ann, With(bob)))
		wants("a chat that ann clears", nil)
		reacts(bob, With(ann), 2, "🎉")
		wants("a reaction in a chat that ann has cleared", ofTwo)
	})
}

// An event that reports earlier messages must not reveal it either.
func TestReceipts_HiddenMarksAreNotPublished(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
		ctx := t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		for range 3 {
			w.mustSend(ann, bob, "Hi")
		}
		var mu sync.Mutex
		received := map[accounts.ID]string{}
		for _, user := range who {
			_, leave := w.bus.Listen(ctx, user.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				var mark api.ChatMark
				if e.Type == api.EventChatMarked && json.Unmarshal(e.Data, &mark) == nil {
					mu.Lock()
					defer mu.Unlock()
					received[user] += fmt.Sprintf("%d of %d, ", mark.Read, mark.Delivered)
				}
			}})
			defer leave()
		}
		marks := func(read, delivered int64) {
			t.Helper()
			w.must(w.Mark(ctx, bob, With(ann), read, delivered))
			bubble.Sleep(time.Second)
		}
		_, err := w.SetSettings(ctx, bob, api.ChatSettingsUpdate{Receipts: new(false)})
		w.must(err)
		marks(0, 1)
		marks(1, 0)
		marks(2, 0)
		st, err := w.stateOf(ctx, bob, With(ann))
		w.must(err)
		w.must(w.publishMissed(ctx, []change{{conv: st.id, kind: direct, users: []accounts.ID{bob}, ownOnly: true}}))
		marks(0, 3)
		_, err = w.SetSettings(ctx, bob, api.ChatSettingsUpdate{Receipts: new(true)})
		w.must(err)
		marks(3, 0)
		mu.Lock()
		defer mu.Unlock()
		if got, want := received[ann], "3 of 3, "; got != want {
			t.Errorf("the other user got %q, want %q", got, want)
		}
		if got, want := received[bob], "0 of 1, 1 of 1, 2 of 2, 2 of 2, 2 of 3, 3 of 3, "; got != want {
			t.Errorf("the reader's own devices got %q, want %q", got, want)
		}
	})
}

// Line ends of all systems are stored alike.
func TestSend_NormalizesLineEnds(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	who := w.join(2)
	w.mustSend(who[0], who[1], "One\r\n\ttwo\r\n")
	w.wantReads(who[1], who[0], "One\n\ttwo")
	_, err := w.Edit(t.Context(), who[0], With(who[1]), 1, "One\r\nthree")
	w.must(err)
	w.wantReads(who[1], who[0], "One\nthree")
}

// The user's other devices get the event even if the device that changed the settings has disconnected.
func TestSet_PublishedAfterCallerDisconnects(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		w := newWorld(t, sqldbtest.SQLite(t), redistest.OpenConfig(t, wire.Config()), Settings{MessagesFrom: "everybody"})
		who := w.join(2)
		w.mustSend(who[0], who[1], "Hi")
		var received atomic.Int64
		_, leave := w.bus.Listen(t.Context(), who[0].String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
			if e.Type == api.EventChatUpdated {
				received.Add(1)
			}
		}})
		defer leave()
		bubble.Sleep(time.Second)
		wire.Delay(50 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond) // after the commit, before Redis has it
		defer cancel()
		if _, err := w.Set(ctx, who[0], With(who[1]), api.ChatChange{Pinned: new(true)}); err != nil {
			t.Errorf("what was committed is called a failure: %v", err)
		}
		bubble.Sleep(time.Second)
		if n := received.Load(); n != 1 {
			t.Errorf("the user's other devices got %d events", n)
		}
	})
}

func TestSetSettings_AbsentFieldsStay(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		ctx := t.Context()
		ann := w.join(1)[0]
		var mu sync.Mutex
		var received []api.ChatSettings
		_, leave := w.bus.Listen(ctx, ann.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
			var to api.ChatSettings
			if e.Type == api.EventChatSettings && json.Unmarshal(e.Data, &to) == nil {
				mu.Lock()
				defer mu.Unlock()
				received = append(received, to)
			}
		}})
		defer leave()
		var want []api.ChatSettings
		for _, step := range []struct {
			update api.ChatSettingsUpdate
			want   api.ChatSettings
		}{
			{api.ChatSettingsUpdate{Receipts: new(false)}, api.ChatSettings{MessagesFrom: "everybody", Version: 1}},
			{api.ChatSettingsUpdate{MessagesFrom: new("friends")}, api.ChatSettings{MessagesFrom: "friends", Version: 2}},
			{api.ChatSettingsUpdate{Receipts: new(true)}, api.ChatSettings{MessagesFrom: "friends", Receipts: true, Version: 3}},
			{api.ChatSettingsUpdate{}, api.ChatSettings{MessagesFrom: "friends", Receipts: true, Version: 3}},
		} {
			got, err := w.SetSettings(ctx, ann, step.update)
			w.must(err)
			stored, err := w.Settings(ctx, ann)
			w.must(err)
			if got != step.want || stored != step.want {
				t.Errorf("got %+v and then %+v, want %+v", got, stored, step.want)
			}
			want = append(want, step.want)
		}
		eventually.Equal(t, "the events of her devices", fmt.Sprint(want), func() string {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(received)
		})
	})
}

func TestErase_KeepsSeqWithoutContent(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		w.mustSend(ann, bob, "secret")
		w.mustSend(bob, ann, "kept")
		_, err := w.Edit(ctx, ann, With(bob), 1, "secret two")
		w.must(err)
		_, err = w.React(ctx, ann, With(bob), 2, "👍", true)
		w.must(err)
		_, err = w.SetSettings(ctx, ann, api.ChatSettingsUpdate{MessagesFrom: new("everybody"), Receipts: new(false)})
		w.must(err)
		_, err = w.Set(ctx, ann, With(bob), api.ChatChange{Draft: new("soon")}) // her row has a version
		w.must(err)
		w.listed(bob)
		for range 2 {
			w.must(w.Erase(ctx, ann))
		}
		if !w.projection.Up() {
			t.Error("Redis is not trusted after the erasure")
		}
		w.wantReads(bob, ann, "-", "kept")
		if got, _, err := w.readOne(ctx, bob, With(ann)); err != nil || got.last == nil || got.last.body.Text != "kept" || got.rev < 2 {
			t.Errorf("Bob's chat is %+v, %v", got, err)
		}
		for table, condition := range map[string]string{"messages": "body LIKE '%secret%'", "message_edits": "1 = 1", "reactions": "1 = 1",
			"chat_members": "user_id = '" + ann.String() + "'", "chat_settings": "1 = 1"} {
			var n int
			w.must(w.sql.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table+" WHERE "+condition).Scan(&n))
			if n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
	})
}

// With more messages than one page.
func TestErase_SyncListsEachMessage(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		who := w.join(2)
		ann, bob := who[0], who[1]
		const sent = maxChanges + 20
		for range sent {
			w.mustSend(ann, bob, "secret")
		}
		w.mustSend(bob, ann, "kept")
		_, err := w.React(t.Context(), ann, With(bob), sent+1, "👍", true)
		w.must(err)
		var client replica
		client.sync(w, bob, ann)
		w.must(w.Erase(t.Context(), ann))
		client.sync(w, bob, ann)
		left := 0
		for _, m := range client.messages {
			if m.Text == "secret" {
				left++
			}
		}
		if m := client.messages[sent+1]; left != 0 || len(client.messages) != sent+1 || len(m.Reactions) != 0 {
			t.Errorf("a client that syncs still has %d of %d messages of the erased user, and on another message the reactions %v", left, sent,
				m.Reactions)
		}
	})
}

// Also if the message that it forwards no longer exists.
func TestForward_RetryIsSameMessage(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		g := w.founded(ann, bob)
		inGroup := w.mustSendIn(ann, g, "in the group")
		for what, source := range map[string]struct {
			from api.MessageRef
			end  func()
		}{
			"recalled": {api.MessageRef{Chat: With(ann).String(), Seq: w.mustSend(ann, bob, "one").Seq}, func() {
				_, err := w.Recall(ctx, ann, With(bob), 1)
				w.must(err)
			}},
			"deleted for the sender": {api.MessageRef{Chat: With(ann).String(), Seq: w.mustSend(ann, bob, "two").Seq}, func() {
				w.must(w.Hide(ctx, bob, With(ann), 2))
			}},
			"in a group that was left": {api.MessageRef{Chat: In(g).String(), Seq: inGroup.Seq}, func() { w.must(w.in.Leave(ctx, bob, g)) }},
		} {
			in := api.Send{ClientID: ids.New[message]().String(), Forward: &source.from}
			want, _, err := w.Send(ctx, bob, With(eve), in)
			w.must(err)
			source.end()
			got, again, err := w.Send(ctx, bob, With(eve), in) // the first response was lost
			if err != nil || got != want || !again {
				t.Errorf("a message that was %s, sent on again: got %+v, %v, %v; want %+v", what, got, again, err, want)
			}
			in.ClientID += "x"
			if _, _, err = w.Send(ctx, bob, With(eve), in); err == nil {
				t.Errorf("a message that was %s is sent on", what)
			}
		}
		wants(t, "a message of a chat that is none", func() error {
			_, _, err := w.Send(ctx, bob, With(eve), api.Send{ClientID: "none", Forward: &api.MessageRef{Chat: "x", Seq: 1}})
			return err
		}(), ErrChat)
	})
}

// Notified listeners load the state at once, and another node may serve it from Redis.
func TestNew_BusDelaysEpochsWhileBehind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		rdb := redistest.OpenConfig(t, wire.Config())
		w := newWorld(t, sqldbtest.SQLite(t), server.Open(t), Settings{})
		here := events.NewBus(rdb, "here", nil)
		s := New(t.Context(), Config{DB: w.sql.db, Redis: rdb, Caches: cache.NewRuntime(rdb, here.Nodes(), cache.Config{}), Node: "here",
			Bus: here, People: w.accounts, Relations: w.social, Groups: w.in, Files: w.uploads, Log: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { _ = here.Run(ctx, func() {}) })
		var lost atomic.Int64
		w.bus.Listen(ctx, "ann", &events.Listener{Lost: func() { lost.Add(1) }, Event: func(events.Event, events.Position) {}})
		bubble.Sleep(time.Second)
		s.projection.Begin(time.Now())
		s.projection.Missed(time.Now(), change{}) // the projection does not run
		wire.Refuse()
		here.Publish([]events.Event{events.New(api.EventChatStands, "ann", time.Now(), []byte("{}"))})
		bubble.Sleep(time.Second)
		wire.Heal()
		bubble.Sleep(time.Minute)
		if n := lost.Load(); n != 0 {
			t.Errorf("%d new epochs while Redis lacks a message", n)
		}
	})
}
