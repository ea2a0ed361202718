package push

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestDial_OnlyPublicAddresses(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "142.250.1.1": true, "2a00:1450:4001::1": true,
		"127.0.0.1": false, "127.9.9.9": false, "0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "172.16.0.1": false,
		"172.31.255.255": false,
		"192.168.1.1":    false, "169.254.169.254": false, "100.64.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false,
		"198.18.0.1": false,
		"::":         false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd12::1": false, "ff02::1": false,
		"fec0::1":          false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false, "2001::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %t, want %t", text, got, want)
		}
	}
}

// The address of a host name is checked when it is dialled.
func TestEndpoint_InPrivateNetworkIsNotDialled(t *testing.T) {
	reached := new(atomic.Int32)
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		res, err := newPoster(nil, false).Get("https://" + host + ":" + port + "/")
		if err == nil {
			res.Body.Close()
		}
		if !errors.Is(err, errPrivate) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("it was reached %d times", n)
	}
	// The setting for closed networks allows it; the certificate is unknown all the same.
	res, err := newPoster(nil, true).Get(server.URL)
	if err == nil {
		res.Body.Close()
	}
	if err == nil || errors.Is(err, errPrivate) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("in a closed network: %v", err)
	}
}

func TestContact_IsSettingOrPageOrMailSender(t *testing.T) {
	for _, tt := range []struct{ contact, page, sender, want string }{
		{"a@b.example", "https://stoa.example", "no-reply@example.org", "a@b.example"},
		{"mailto:a@b.example", "", "", "a@b.example"},
		{"https://b.example/contact", "", "", "https://b.example/contact"},
		{"", "https://stoa.example", "no-reply@example.org", "https://stoa.example"},
		{"", "http://127.0.0.1:8080", "no-reply@example.org", "no-reply@example.org"},
		{"", "", "", "nobody@localhost"},
	} {
		c := Settings{Contact: tt.contact}
		if got := c.contact(tt.page, tt.sender); got != tt.want || c.Validate() != nil {
			t.Errorf("%+v: got %q, %v", tt, got, c.Validate())
		}
	}
	for _, contact := range []string{"Stoa <a@b.example>", "@", "mailto:", "http://b.example"} {
		if err := (Settings{Contact: contact}).Validate(); err == nil {
			t.Errorf("%q is a contact", contact)
		}
	}
}

func TestSend_DoesNotFollowRedirect(t *testing.T) {
	followed := new(atomic.Int32)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			followed.Add(1)
			return
		}
		http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	res, err := newPoster(server.Client().Transport, false).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusTemporaryRedirect || followed.Load() != 0 {
		t.Errorf("status %d, followed %d times", res.StatusCode, followed.Load())
	}
}

func TestKeys_DependOnSeedAndSecretOnly(t *testing.T) {
	secret := []byte(strings.Repeat("s", 32))
	k := keysOf(secret, "seed")
	if k != keysOf(secret, "seed") || k == keysOf(secret, "another") || k == keysOf([]byte(strings.Repeat("t", 32)), "seed") {
		t.Error("the keys are not those of seed and secret")
	}
	private, err := base64.RawURLEncoding.DecodeString(k.private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdh.P256().NewPrivateKey(private)
	if err != nil || base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()) != k.public {
		t.Errorf("they are no pair: %v", err)
	}
}

func TestHost_FastClockDoesNotExtendRest(t *testing.T) {
	h, now := hosts{until: map[string]time.Time{}}, time.Now()
	h.pause("a", now.Add(8*time.Hour), pauseTime)
	until, resting := h.pausedUntil("a", now)
	if !resting || until.After(now.Add(maxPause)) {
		t.Errorf("it rests: %t, for %s", resting, until.Sub(now))
	}
	if _, resting := h.pausedUntil("a", until); resting {
		t.Error("it rests on")
	}
}

func TestHost_RestingIsRetriedByOnePush(t *testing.T) {
	h, now := hosts{until: map[string]time.Time{}}, time.Now()
	if _, resting := h.pausedUntil("a", now); resting {
		t.Error("a host that nobody knows rests")
	}
	until := h.pause("a", now, time.Hour)
	if until != now.Add(maxPause) {
		t.Errorf("it rests for %s", until.Sub(now))
	}
	if _, resting := h.pausedUntil("a", now.Add(time.Minute)); !resting {
		t.Error("it does not rest")
	}
	if _, resting := h.pausedUntil("a", until); resting {
		t.Error("nobody finds out how it is")
	}
	if _, resting := h.pausedUntil("a", until); !resting {
		t.Error("two find out how it is")
	}
	h.well("a")
	if _, resting := h.pausedUntil("a", until); resting {
		t.Error("it rests although it is well")
	}
}

// hanging is a push service that does not respond, and counts the requests that wait.
type hanging struct{ asked atomic.Int32 }

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked.Add(1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// Pushes that wait for a hanging host are retried together with those that timed out.
func TestHost_HangingDelaysBatchOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), new(atomic.Int64), false)
		host := &hanging{}
		w.http = newPoster(host, false)
		key, err := ecdh.P256().GenerateKey(rand.Reader)
		w.must(err)
		const n = 100
		list, attempts, answers := make([]delivery, n), make([]int, n), make([]error, n)
		for i := range list {
			list[i] = delivery{at: i, sub: Subscription{Endpoint: "https://hangs.example/" + rand.Text(),
				P256DH: base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()), Auth: base64.RawURLEncoding.EncodeToString(make([]byte, 16))}}
		}
		began := time.Now()
		w.deliver(t.Context(), list, attempts, answers)
		if took := time.Since(began); took >= 2*requestTime || host.asked.Load() != perHost {
			t.Errorf("it was asked %d times, and the batch took %s", host.asked.Load(), took)
		}
		for i, err := range answers {
			if l, ok := errors.AsType[later](err); !ok || !l.at.After(time.Now()) {
				t.Fatalf("answer %d is %v", i, err)
			}
		}
		// After the rest, one request tests the host.
		bubble.Sleep(pauseTime)
		if _, resting := w.hosts.pausedUntil("hangs.example", time.Now()); resting {
			t.Fatal("it rests on")
		}
		w.deliver(t.Context(), list[:1], attempts, answers)
		if host.asked.Load() != perHost+1 {
			t.Errorf("it was asked %d times", host.asked.Load())
		}
	})
}

// world is one node's pushes on an engine. The test sets which users are online and which messages wait.
type world struct {
	*Service
	t       testing.TB
	db      *sqldb.DB
	ahead   *atomic.Int64 // nanoseconds that the clock is ahead
	online  map[accounts.ID]bool
	partial bool
	unknown accounts.ID   // a check who is online fails if it includes this user
	looked  []accounts.ID // the users of checks who is online
	told    []string      // the calls of the hook
	read    bool          // all notices are read
	seq     int64         // of the newest message that waits
	mention int64         // the seq of the newest one that mentions
	asked   int           // the number of reads of other domains for the contents of pushes
}

func (w *world) Online(_ context.Context, users []accounts.ID) (map[accounts.ID]bool, bool, error) {
	w.looked = append(w.looked, users...)
	if !w.unknown.IsZero() && slices.Contains(users, w.unknown) {
		return nil, false, context.DeadlineExceeded
	}
	return w.online, w.partial, nil
}

func (w *world) Profiles(context.Context, []accounts.ID) (accounts.Profiles, error) {
	return nil, nil
}

func (w *world) UnreadChats(_ context.Context, places []messaging.Place) (map[messaging.Place]messaging.UnreadChat, error) {
	w.asked++
	all := map[messaging.Place]messaging.UnreadChat{}
	for _, p := range places {
		all[p] = messaging.UnreadChat{Chat: messaging.In(groups.ID(p.Conv)), Title: "Rowing", Unread: 2, Seq: w.seq, MentionedAt: w.mention,
			Newest: api.Message{Content: api.Content{Text: "hello"}}}
	}
	return all, nil
}

func (w *world) Pending(_ context.Context, places []notices.SeqKey) (map[notices.SeqKey]notices.Notice, error) {
	w.asked++
	all := map[notices.SeqKey]notices.Notice{}
	for _, p := range places {
		if w.read {
			continue
		}
		all[p] = notices.Notice{User: p.User, Seq: p.Seq, Kind: api.NoticeAccountLogin}
	}
	return all, nil
}

func newWorld(t testing.TB, db *sqldb.DB, ahead *atomic.Int64, hook bool) *world {
	t.Helper()
	w := &world{t: t, db: db, ahead: ahead, online: map[accounts.ID]bool{}, seq: 2, mention: 2}
	cfg := Config{DB: db, People: w, Presence: w, Chats: w, Notices: w, Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)}
	if hook {
		cfg.Offline = func(_ context.Context, user accounts.ID, p api.Push) error {
			w.told = append(w.told, fmt.Sprint(user, " ", p.Chat, " ", p.Unread, " ", p.Title, ": ", p.Body))
			return nil
		}
	}
	var err error
	if w.Service, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return w
}

func eachEngine(t *testing.T, hook bool, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			ahead, began := new(atomic.Int64), time.Now()
			test(t, newWorld(t, e.Open(t, func(c *sqldb.Config) {
				c.Now = func() time.Time { return began.Add(time.Duration(ahead.Load())) } // only the test advances it
			}), ahead, hook))
		})
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exec(query string, args ...any) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), query, args...)
	w.must(err)
}

// member creates a user in a conversation who is logged in on a device with a subscription.
func (w *world) member(conv messaging.ConversationID) accounts.ID {
	w.t.Helper()
	user, device := ids.New[accounts.User](), ids.New[accounts.Session]()
	w.exec("INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES (?, ?, ?, 'User', 'UTC', '', 0, 1)",
		user, user, user)
	w.exec(`INSERT INTO sessions (user_id, device_id, name, agent, ip, created, used, access_hash, access_expires, refresh_hash, refresh_expires, prev_refresh_hash, prev_until, nonce)
		VALUES (?, ?, '', '', '', 0, 0, '', 0, '', ?, '', 0, '')`, user, device, w.db.Now().AddDate(1, 0, 0).UnixMilli())
	w.exec("INSERT INTO chat_members (user_id, conversation, peer, read_seq, delivered_seq, cleared_seq, pinned, muted, draft, changed) "+
		"VALUES (?, ?, '', 0, 0, 0, 0, 0, '', 0)", user, conv)
	w.exec("INSERT INTO push_subscriptions (user_id, device_id, endpoint, hash, p256dh, auth, created) VALUES (?, ?, "+
		"'https://push.example', ?, '', '', 0)", user, device, user)
	return user
}

// conversation creates a conversation of two users.
func (w *world) conversation() messaging.ConversationID {
	w.t.Helper()
	conv := messaging.ConversationID(ids.New[groups.Group]())
	w.exec("INSERT INTO conversations (id, kind, seq, rev, last_at, changed) VALUES (?, 1, 0, 0, 0, 0)", conv)
	return conv
}

// says moves a conversation to a message, as of some time ago.
func (w *world) says(conv messaging.ConversationID, seq int64, ago time.Duration) {
	w.t.Helper()
	at := w.db.Now().Add(-ago).UnixMilli()
	w.exec("UPDATE conversations SET seq = ?, last_at = ?, changed = ? WHERE id = ?", seq, at, at, conv)
}

// waits returns the users with pushes in the outbox, once for each push.
func (w *world) waits() string {
	w.t.Helper()
	list, err := queue.NewSQL(w.db).List(w.t.Context(), queue.Filter{Limit: 1000})
	w.must(err)
	var all []string
	for _, e := range list {
		shown, err := queue.NewSQL(w.db).Show(w.t.Context(), e.ID)
		w.must(err)
		var j job
		w.must(json.Unmarshal(shown.Payload, &j))
		all = append(all, j.User.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// take empties the outbox, as a node that sends does.
func (w *world) take() { w.exec("DELETE FROM outbox") }

// sends calls the hook with the due messages of the outbox.
func (w *world) sends() {
	w.t.Helper()
	const due = "FROM outbox WHERE topic = ? AND due <= ?"
	now := w.db.Now().UnixMilli()
	payloads, err := sqldb.Column[[]byte](w.db.QueryContext(w.t.Context(), "SELECT payload "+due+" ORDER BY id", TopicOffline, now))
	w.must(err)
	w.exec("DELETE "+due, TopicOffline, now)
	var ds []queue.Delivery
	for _, p := range payloads {
		ds = append(ds, queue.Delivery{Topic: TopicOffline, Attempt: 1, Payload: p})
	}
	if len(ds) > 0 {
		w.must(errors.Join(w.offlineAll(w.t.Context(), ds)...))
	}
}

func (w *world) follows() {
	w.t.Helper()
	w.must(w.follow(w.t.Context()))
}

func names(users ...accounts.ID) string {
	all := make([]string, len(users))
	for i, u := range users {
		all[i] = u.String()
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (w *world) wants(what, want string) {
	w.t.Helper()
	if got := w.waits(); got != want {
		w.t.Errorf("%s: pushes for %q, want %q", what, got, want)
	}
}

func TestFollower_KilledLosesAndRepeatsNone(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		conv := w.conversation()
		ann, bob := w.member(conv), w.member(conv)
		w.says(conv, 1, 10*time.Minute) // before the first start
		w.follows()
		w.wants("the first look", "")
		w.says(conv, 2, 0)
		// It dies before it has committed.
		ctx, kill := context.WithCancel(t.Context())
		kill()
		if err := w.follow(ctx); err == nil {
			t.Error("the kill went unnoticed")
		}
		w.wants("after a kill", "")
		// It dies after the commit, before the mark is written: its successor checks the messages again.
		said, err := messaging.ActiveSince(t.Context(), w.db, time.UnixMilli(0), messaging.ActiveConversation{}, 10)
		w.must(err)
		list, _, err := messaging.UndeliveredIn(t.Context(), w.db, said, 10, subscribed)
		w.must(err)
		if enqueued, err := w.enqueuePushes(t.Context(), list); err != nil || !enqueued {
			t.Fatal(enqueued, err)
		}
		w.wants("committed", names(ann, bob))
		w.take()
		successor := newWorld(t, w.db, w.ahead, false)
		successor.follows()
		successor.wants("looked at again", "")
		// For an hour, no node follows.
		w.ahead.Add(int64(time.Hour))
		w.says(conv, 3, 50*time.Minute)
		third := newWorld(t, w.db, w.ahead, false)
		third.follows()
		third.wants("after an hour", names(ann, bob))
		// Two follow at once.
		w.follows()
		successor.follows()
		w.wants("three nodes", names(ann, bob))
	})
}

// TestMark_MovesAfterPushesAreQueued checks that the next node repeats a check that failed or was not complete.
func TestMark_MovesAfterPushesAreQueued(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		conv := w.conversation()
		ann := w.member(conv)
		w.follows()
		before, err := readMark(t.Context(), w.db)
		w.must(err)
		marked := func(what string) {
			t.Helper()
			if at, err := readMark(t.Context(), w.db); err != nil || !at.Equal(before) {
				t.Errorf("%s the mark is %s (%v), want %s", what, at, err, before)
			}
			if !w.mark.at.Equal(before) {
				t.Errorf("%s this node has come to %s, want %s", what, w.mark.at, before)
			}
		}
		w.ahead.Add(int64(5 * time.Minute))
		w.says(conv, 1, 4*time.Minute)
		w.exec("ALTER TABLE outbox RENAME TO outbox_away")
		if err := w.follow(t.Context()); err == nil {
			t.Error("a push that cannot be queued is no error")
		}
		marked("after pushes that could not be queued")
		w.exec("ALTER TABLE outbox_away RENAME TO outbox")
		w.partial = true
		w.follows()
		marked("while nobody knows who is on line")
		w.partial = false
		successor := newWorld(t, w.db, w.ahead, false) // it has the mark only
		successor.follows()
		successor.wants("looked at again", names(ann))
	})
}

// TestFollower_ResumesInterruptedCheck checks that no part of an interrupted check is repeated, however often it is
// interrupted.
func TestFollower_ResumesInterruptedCheck(t *testing.T) {
	ahead := new(atomic.Int64)
	w := newWorld(t, sqldbtest.SQLite(t, func(c *sqldb.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}), ahead, false)
	w.follows()
	w.ahead.Add(int64(15 * time.Minute))
	var all []accounts.ID
	for i := range chatsPerStatement + 1 {
		conv := w.conversation()
		all = append(all, w.member(conv))
		w.says(conv, 1, 10*time.Minute-time.Duration(i)*2*lately)
	}
	w.unknown = all[chatsPerStatement]
	for range 3 {
		if err := w.follow(t.Context()); err == nil {
			t.Error("that nobody is known to be on line is no error")
		}
		w.wants("a look that is cut off", names(all[:chatsPerStatement]...))
		w.ahead.Add(int64(time.Minute))
	}
	w.unknown, w.looked = accounts.ID{}, nil
	w.follows()
	w.wants("the look that goes on", names(all...))
	if want := all[chatsPerStatement-1:]; !slices.Equal(w.looked, want) {
		t.Errorf("looked at %d, want the %d with whom the other looks ended", len(w.looked), len(want))
	}
}

// TestMark_FastClockDelaysNoPush checks a mark of this node and one of another node.
func TestMark_FastClockDelaysNoPush(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		conv := w.conversation()
		ann := w.member(conv)
		w.ahead.Add(int64(8 * time.Hour))
		w.follows()
		w.ahead.Add(int64(-8 * time.Hour))
		w.says(conv, 1, deep/2)
		for range 3 {
			w.follows()
		}
		w.wants("after this node's clock was set back", names(ann))
		w.take()
		w.ahead.Add(int64(time.Minute))
		w.must(writeMark(t.Context(), w.db, w.db.Now().Add(time.Hour)))
		w.says(conv, 2, 0)
		w.follows()
		w.wants("after another node's clock was ahead", names(ann))
		w.take()
		w.ahead.Add(int64(time.Minute))
		w.must(writeMark(t.Context(), w.db, w.db.Now().Add(time.Hour)))
		w.says(conv, 3, 0)
		successor := newWorld(t, w.db, w.ahead, false)
		successor.follows()
		successor.wants("on a node that has just started", names(ann))
		if at, err := readMark(t.Context(), w.db); err != nil || at.After(w.db.Now()) {
			t.Errorf("the mark is %s (%v), want one that has come", at, err)
		}
	})
}

// TestChat_FastClockDelaysNoPush checks a chat that got a push meanwhile. Its next push comes at once, and later
// ones wait.
func TestChat_FastClockDelaysNoPush(t *testing.T) {
	eachEngine(t, true, func(t *testing.T, w *world) {
		conv := w.conversation()
		w.member(conv)
		w.exec("DELETE FROM push_subscriptions")
		w.follows()
		said := func(what string, seq int64, want int) {
			t.Helper()
			w.told, w.seq = nil, seq
			w.says(conv, seq, 0)
			w.follows()
			if w.sends(); len(w.told) != want {
				t.Errorf("%s: told %q, want %d", what, w.told, want)
			}
		}
		w.ahead.Add(int64(8 * time.Hour))
		said("while the clock is ahead", 1, 1)
		w.ahead.Add(int64(-8 * time.Hour))
		said("once it is right", 2, 1)
		said("soon after that", 3, 0)
		w.ahead.Add(int64(w.cfg.Pause))
		said("after the pause", 4, 1)
	})
}

// TestPush_FastClockDelaysNoDelivery checks a push with a delay.
func TestPush_FastClockDelaysNoDelivery(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ahead := new(atomic.Int64)
		w := newWorld(t, sqldbtest.SQLite(t, func(c *sqldb.Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}), ahead, true)
		conv := w.conversation()
		w.member(conv)
		w.exec("DELETE FROM push_subscriptions")
		w.follows()
		w.ahead.Add(int64(8 * time.Hour))
		w.says(conv, 1, 0)
		w.follows()
		w.partial = true // it is unknown who is online, so the push has to wait
		w.sends()
		w.partial = false
		w.ahead.Add(int64(-8 * time.Hour))
		c, err := queue.NewConsumer(queue.NewSQL(w.db), nil, w.Batches(), queue.Config{})
		w.must(err)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		w.must(c.Run(ctx))
		if len(w.told) != 1 {
			t.Errorf("told %q, want one", w.told)
		}
	})
}

// answering is a push service that returns one status for all requests, and records their endpoints.
type answering struct {
	status int
	asked  []string
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r.URL.String())
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// TestSend_DeletesOnlyGoneSubscriptions checks that other responses do not change a subscription.
func TestSend_DeletesOnlyGoneSubscriptions(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), new(atomic.Int64), false)
	conv := w.conversation()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	w.must(err)
	for status, want := range map[int]bool{http.StatusCreated: true, http.StatusBadRequest: true, http.StatusForbidden: true,
		http.StatusNotFound: false, http.StatusGone: false, http.StatusTooManyRequests: true, http.StatusInternalServerError: true} {
		user := w.member(conv)
		subs, err := selectSubscriptions(t.Context(), w.db, []accounts.ID{user})
		w.must(err)
		w.must(w.Subscribe(t.Context(), Subscription{User: user, Device: subs[0].Device, Endpoint: "https://push.example/" + user.String(),
			P256DH: base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()), Auth: base64.RawURLEncoding.EncodeToString(make([]byte, 16))}))
		host := &answering{status: status}
		w.http = newPoster(host, false)
		payload, err := json.Marshal(job{User: user, Device: subs[0].Device, Conv: conv, At: w.db.Now().UnixMilli()})
		w.must(err)
		w.sendAll(t.Context(), []queue.Delivery{{Topic: TopicSend, Attempt: 1, Payload: payload}})
		subs, err = selectSubscriptions(t.Context(), w.db, []accounts.ID{user})
		w.must(err)
		if len(host.asked) != 1 || (len(subs) == 1) != want {
			t.Errorf("after the answer %d to %d requests the subscription is there: %t, want %t", status, len(host.asked), len(subs) == 1, want)
		}
		w.hosts.well("push.example")
	}
}

func TestSubscribe_TakesOverAnEndpointOnlyWithItsKeys(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		ctx := t.Context()
		conv := w.conversation()
		ann, bob := w.member(conv), w.member(conv)
		subs, err := selectSubscriptions(ctx, w.db, []accounts.ID{ann, bob})
		w.must(err)
		device := map[accounts.ID]accounts.DeviceID{subs[0].User: subs[0].Device, subs[1].User: subs[1].Device}
		subscription := func(user accounts.ID, auth byte) Subscription {
			key, err := ecdh.P256().NewPrivateKey(append(make([]byte, 31), 1))
			w.must(err)
			return Subscription{User: user, Device: device[user], Endpoint: "https://push.example/browser",
				P256DH: base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()),
				Auth:   base64.RawURLEncoding.EncodeToString(append(make([]byte, 15), auth))}
		}
		owners := func() (list []accounts.ID) {
			subs, err := selectSubscriptions(ctx, w.db, []accounts.ID{ann, bob})
			w.must(err)
			for _, s := range subs {
				if s.Endpoint == "https://push.example/browser" {
					list = append(list, s.User)
				}
			}
			return list
		}
		w.must(w.Subscribe(ctx, subscription(ann, 1)))
		if err := w.Subscribe(ctx, subscription(bob, 2)); !errors.Is(err, ErrKeys) {
			t.Errorf("with other keys: got %v, want ErrKeys", err)
		}
		if got := owners(); !slices.Equal(got, []accounts.ID{ann}) {
			t.Errorf("the endpoint is of %v, want %v", got, ann)
		}
		w.must(w.Subscribe(ctx, subscription(ann, 3)))
		w.must(w.Subscribe(ctx, subscription(bob, 3)))
		if got := owners(); !slices.Equal(got, []accounts.ID{bob}) {
			t.Errorf("the endpoint is of %v, want %v", got, bob)
		}
	})
}

// TestSubscription_OnlyOfItsDevice checks that a user changes no subscription of another user or device, except for
// one with the same endpoint.
func TestSubscription_OnlyOfItsDevice(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		ctx := t.Context()
		conv := w.conversation()
		ann, bob := w.member(conv), w.member(conv)
		w.exec("UPDATE push_subscriptions SET endpoint = CONCAT('https://push.example/', user_id), hash = user_id")
		subs, err := selectSubscriptions(ctx, w.db, []accounts.ID{ann, bob})
		w.must(err)
		of := map[accounts.ID]Subscription{subs[0].User: subs[0], subs[1].User: subs[1]}
		w.must(w.Unsubscribe(ctx, bob, of[ann].Device))
		w.must(w.Unsubscribe(ctx, ann, of[bob].Device))
		if subs, err = selectSubscriptions(ctx, w.db, []accounts.ID{ann, bob}); err != nil || len(subs) != 2 {
			t.Errorf("a user has ended another's: %+v, %v", subs, err)
		}
		// A push goes only to the device that it was queued for, and only while that user has the device.
		list, answers := w.prepared(ctx, []job{{User: bob, Device: of[ann].Device, Conv: conv, At: w.db.Now().UnixMilli()},
			{User: ann, Device: of[ann].Device, Conv: conv, At: w.db.Now().UnixMilli()}})
		w.must(errors.Join(answers...))
		if len(list) != 1 || list[0].sub.User != ann || list[0].sub.Device != of[ann].Device {
			t.Errorf("deliveries: %+v", list)
		}
	})
}

func TestDeepCheck_FindsLateCommit(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		conv := w.conversation()
		ann := w.member(conv)
		w.follows()
		w.ahead.Add(int64(10 * time.Second))
		w.follows()
		w.says(conv, 1, 8*time.Second) // its transaction had begun before
		w.follows()
		w.wants("a look at the last seconds", "")
		w.ahead.Add(int64(10 * time.Second))
		w.follows()
		w.wants("a deep look", names(ann))
	})
}

func TestPush_SentOnceConnectionIsDead(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		conv := w.conversation()
		ann, bob := w.member(conv), w.member(conv)
		w.follows()
		w.online = map[accounts.ID]bool{ann: true}
		w.says(conv, 1, 0)
		w.follows()
		w.wants("one is on line", names(bob))
		w.online = nil
		w.ahead.Add(int64(30 * time.Second))
		w.follows()
		w.wants("the connection was dead", names(ann, bob))
		w.take()
		w.partial = true // Redis is away
		w.says(conv, 2, 0)
		w.ahead.Add(int64(5 * time.Minute))
		w.follows()
		w.wants("nobody knows who is on line", "")
		w.partial = false
		w.follows()
		w.wants("Redis is back", names(ann, bob))
	})
}

// TestDeepCheck_SkipsChatsWithoutReceivers checks that a deep check reads only the chats with a member who seemed
// online.
func TestDeepCheck_SkipsChatsWithoutReceivers(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		quiet, open := w.conversation(), w.conversation()
		ann, bob := w.member(quiet), w.member(open)
		w.follows()
		w.online = map[accounts.ID]bool{bob: true}
		deeply := func(what string, want ...accounts.ID) {
			t.Helper()
			w.ahead.Add(int64(deepEvery))
			w.looked = nil
			w.follows()
			if names(w.looked...) != names(want...) {
				t.Errorf("%s: looked at %q, want %q", what, names(w.looked...), names(want...))
			}
		}
		w.says(quiet, 1, 0)
		w.says(open, 1, 0)
		deeply("the first time", ann, bob)
		deeply("the second time", bob)
		w.says(quiet, 2, deepEvery/2) // committed late
		deeply("after another message", ann, bob)
		w.wants("those told", names(ann))
		w.online = nil
		deeply("once a connection is known to be dead", bob)
		deeply("afterwards")
		w.wants("in the end", names(ann, bob))
		w.ahead.Add(int64(2 * deep))
		deeply("later")
		if len(w.done) != 0 {
			t.Errorf("%d conversations are remembered for longer than a minute", len(w.done))
		}
	})
}

func TestPush_SkipsReadMutedAndOff(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		conv := w.conversation()
		read, got, muted, left, off, ann := w.member(conv), w.member(conv), w.member(conv), w.member(conv), w.member(conv), w.member(conv)
		w.exec("UPDATE chat_members SET read_seq = 1 WHERE user_id = ?", read)
		w.exec("UPDATE chat_members SET delivered_seq = 1 WHERE user_id = ?", got)
		w.exec("UPDATE chat_members SET muted = ? WHERE user_id = ?", w.db.Now().Add(time.Hour).UnixMilli(), muted)
		w.exec("UPDATE chat_members SET gone = 1 WHERE user_id = ?", left)
		w.must(w.Choose(t.Context(), off, Update{Messages: new(bool)}))
		w.follows()
		w.says(conv, 1, 0)
		w.follows()
		w.wants("a message", names(ann))
	})
}

// Members are read by pages, and a conversation with more than a page of members gets all pushes.
func TestPush_ReachesAllOfManyMembers(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), new(atomic.Int64), false)
	conv := w.conversation()
	var all []accounts.ID
	for range 2*membersPerStatement + 1 {
		all = append(all, w.member(conv))
	}
	w.follows()
	w.says(conv, 1, 0)
	w.follows()
	w.wants("a message", names(all...))
}

// TestFollower_ReadsEachMemberOnce checks that the next page does not read the former ones again, with any number of
// members. MariaDB counts the rows.
func TestFollower_ReadsEachMemberOnce(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.MaxConns = 1 }), new(atomic.Int64), false)
	const conversations, each = 3, 4 * membersPerStatement
	for range conversations {
		conv := w.conversation()
		var members, subscriptions []any
		for range each {
			user := ids.New[accounts.User]()
			w.online[user] = true
			members = append(members, user, conv, "", 0, 0, 0, 0, 0, "", 0)
			subscriptions = append(subscriptions, user, ids.New[accounts.Session](), "https://push.example", user, "", "", 0)
		}
		w.exec("INSERT INTO chat_members (user_id, conversation, peer, read_seq, delivered_seq, cleared_seq, pinned, muted, draft, changed) "+
			"VALUES "+sqldb.Tuples(10, each), members...)
		w.exec("INSERT INTO push_subscriptions (user_id, device_id, endpoint, hash, p256dh, auth, created) VALUES "+sqldb.Tuples(7, each),
			subscriptions...)
		w.says(conv, 1, 0)
	}
	w.exec("ANALYZE TABLE chat_members, push_subscriptions") // otherwise the query plan is random
	n := sqldbtest.RowsRead(t, w.db, func() {
		if _, whole, _, err := w.notifySince(t.Context(), w.db.Now().Add(-time.Minute)); err != nil || !whole {
			t.Error(whole, err)
		}
	})
	if len(w.looked) != conversations*each || n > 10*len(w.looked) {
		t.Errorf("%d rows are read of %d members, want %d members and some rows for each", n, len(w.looked), conversations*each)
	}
}

// The hook of a backend with its own pushes also gets users without a subscription.
func TestHook_GetsOfflineUsers(t *testing.T) {
	eachEngine(t, true, func(t *testing.T, w *world) {
		conv := w.conversation()
		ann := w.member(conv)
		w.exec("DELETE FROM push_subscriptions")
		w.follows()
		w.says(conv, 1, 0)
		w.follows()
		w.wants("a message", ann.String())
		payload, err := json.Marshal(job{User: ann, Conv: conv, At: w.db.Now().UnixMilli()})
		w.must(err)
		ds := []queue.Delivery{{Topic: TopicOffline, Attempt: 1, Payload: payload}, {Topic: TopicOffline, Attempt: 1, Payload: []byte("{")}}
		answers := w.offlineAll(t.Context(), ds)
		if answers[0] != nil || !errors.Is(answers[1], queue.ErrGiveUp) {
			t.Errorf("answers %v", answers)
		}
		if want := ann.String() + " g:" + conv.String() + " 2 Rowing: Somebody: hello"; len(w.told) != 1 || w.told[0] != want {
			t.Errorf("told %q, want %q", w.told, want)
		}
		w.online = map[accounts.ID]bool{ann: true}
		w.offlineAll(t.Context(), ds[:1])
		if len(w.told) != 1 {
			t.Errorf("told of who is on line: %q", w.told)
		}
	})
}

// TestSettings_ConcurrentChangesBothApply checks that neither change overwrites the other with an older value.
func TestSettings_ConcurrentChangesBothApply(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		for range 30 {
			user := ids.New[accounts.User]()
			var both sync.WaitGroup
			for _, u := range []Update{{Messages: new(bool)}, {Requests: new(bool)}} {
				both.Go(func() {
					if err := w.Choose(t.Context(), user, u); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
			st, err := w.Status(t.Context(), user)
			w.must(err)
			if want := (Choice{Notices: true}); st.Choice != want {
				t.Fatalf("after two changes it is %+v, want %+v", st.Choice, want)
			}
		}
	})
}

// TestMention_PushedOnce checks a user who wants notifications of mentions only. Later messages cause no push, unless
// none was sent yet.
func TestMention_PushedOnce(t *testing.T) {
	eachEngine(t, true, func(t *testing.T, w *world) {
		conv := w.conversation()
		ann := w.member(conv)
		w.exec("DELETE FROM push_subscriptions")
		w.exec(`INSERT INTO group_members (group_id, user_id, role, nickname, muted, joined, inviter, remark, notify, seen, version, gone)
			VALUES (?, ?, 0, '', 0, 0, '', '', ?, 0, 1, 0)`, conv, ann, int(groups.Mentions))
		w.seq, w.mention = 0, 0
		w.follows()
		said := func(mentions bool) {
			w.ahead.Add(int64(time.Minute))
			w.seq++
			if mentions {
				w.mention = w.seq
			}
			w.says(conv, w.seq, 0)
			w.follows()
		}
		for _, one := range []struct {
			what     string
			mentions bool
			want     int
		}{{"a message", false, 0}, {"a mention", true, 1}, {"a message after it", false, 0}, {"another mention", true, 1}} {
			w.told = nil
			said(one.mentions)
			if w.sends(); len(w.told) != one.want {
				t.Errorf("%s: told %q, want %d", one.what, w.told, one.want)
			}
		}
		w.told = nil
		said(true)
		w.partial = true // it is unknown who is online, so the push has to wait
		w.sends()
		w.partial = false
		said(false)
		if w.sends(); len(w.told) != 1 {
			t.Errorf("a message after a mention that waits: told %q, want one", w.told)
		}
	})
}

// TestNotice_PushedWhileLastDeviceDisconnects checks that a user who seemed online is rechecked once.
func TestNotice_PushedWhileLastDeviceDisconnects(t *testing.T) {
	eachEngine(t, true, func(t *testing.T, w *world) {
		ann := w.member(w.conversation())
		w.exec("DELETE FROM push_subscriptions")
		for i, one := range []struct {
			what         string
			online, read bool // a minute later
			want         int
		}{{"has left", false, false, 1}, {"is on line", true, false, 0}, {"has left, and has read it", false, true, 0}} {
			w.told, w.read, w.online = nil, false, map[accounts.ID]bool{ann: true}
			w.must(inTx(t.Context(), w.db, func(ctx context.Context, tx *sqldb.Tx) error {
				return EnqueueNotices(true)(ctx, tx, []notices.Notice{{User: ann, Seq: int64(i + 1), At: tx.Now().UnixMilli()}})
			}))
			w.sends()
			if len(w.told) != 0 {
				t.Errorf("who looks on line is told %q", w.told)
			}
			w.read, w.online[ann] = one.read, one.online
			w.ahead.Add(int64(deep))
			w.sends()
			if len(w.told) != one.want {
				t.Errorf("who %s a minute later is told %q, want %d", one.what, w.told, one.want)
			}
			w.wants("afterwards", "")
		}
	})
}

// TestBatch_NeedsStatementsOfOnePush checks that a batch has as many statements as one push; MariaDB counts them.
func TestBatch_NeedsStatementsOfOnePush(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t), new(atomic.Int64), true)
	conv := w.conversation()
	var jobs []job
	for i := range 60 {
		user := w.member(conv)
		jobs = append(jobs, job{User: user, Conv: conv, At: w.db.Now().UnixMilli()},
			job{User: user, Notice: int64(i + 1), At: w.db.Now().UnixMilli()})
	}
	cost := func(jobs []job) (statements, asked int) {
		count := func() (n int) {
			var name string
			w.must(w.db.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n))
			return n
		}
		w.asked = 0
		before := count()
		list, answers := w.prepared(t.Context(), jobs)
		statements = count() - before
		for _, err := range answers {
			w.must(err)
		}
		if len(list) != len(jobs) {
			t.Fatalf("%d of %d are to be sent", len(list), len(jobs))
		}
		return statements, w.asked
	}
	one, askedOne := cost(jobs[:2])
	many, askedMany := cost(jobs)
	t.Logf("2 pushes: %d statements; %d: %d", one, len(jobs), many)
	if many != one || askedMany != askedOne || askedMany != 2 {
		t.Errorf("%d pushes cost %d statements and %d questions to other domains, 2 cost %d and %d", len(jobs), many, askedMany, one, askedOne)
	}
}

func TestCleanup_DeletesOldAndOrphanedSubscriptions(t *testing.T) {
	eachEngine(t, false, func(t *testing.T, w *world) {
		ctx := t.Context()
		conv := w.conversation()
		ann, bob := w.member(conv), w.member(conv)
		w.follows()
		w.says(conv, 1, 0)
		w.follows()
		w.exec("DELETE FROM sessions WHERE user_id = ?", bob)
		w.must(prune(ctx, w.db, w.db.Now().Add(-time.Hour)))
		count := func(table string) (n int) {
			w.must(w.db.NewRaw("SELECT COUNT(*) FROM "+table).Scan(ctx, &n))
			return n
		}
		if count("push_chats") != 2 || count("push_subscriptions") != 1 {
			t.Errorf("left: %d chats, %d subscriptions", count("push_chats"), count("push_subscriptions"))
		}
		w.must(prune(ctx, w.db, w.db.Now().Add(time.Hour)))
		w.must(w.Erase(ctx, ann))
		if count("push_chats")+count("push_subscriptions") != 0 {
			t.Error("something is left")
		}
	})
}

// Messages of other nodes are found within a second or so, in the first second of a follower and after hours without
// messages.
func TestFollow_StartsSoonAfterAMessage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), new(atomic.Int64), false)
		conv := w.conversation()
		pool, err := worker.NewPool(worker.PoolConfig{DB: w.db}, w.Jobs()...)
		w.must(err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { _ = pool.Run(ctx) })
		defer sqldbtest.Watch(t, w.db)()
		seq := int64(0)
		for _, rest := range []time.Duration{sqldb.WatchWithin, time.Second, 3 * time.Hour, 10 * time.Second} {
			bubble.Sleep(rest)
			user := w.member(conv)
			seq++
			w.says(conv, seq, 0)
			bubble.Sleep(sqldb.WatchWithin + time.Second)
			w.wants(fmt.Sprint("after a rest of ", rest), user.String())
			w.take()
			w.exec("DELETE FROM chat_members")
		}
	})
}
