package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/live/livetest"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/lease"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A world is one node's streams with its other packages, on embedded engines and loopback.
type world struct {
	*Service
	t        *testing.T
	accounts *accounts.Service
	redis    *redis.DB
	ahead    *atomic.Int64 // lead of the clock, in ns
	stop     func()        // stops the node regularly
	files    *files
	events   *events.Bus
	outside  *sync.Map // viewers who are in no room
}

// files replaces transfers.
type files struct {
	mu     sync.Mutex
	stored map[string][]byte
	fault  error
	hangs  bool          // until the context ends
	gate   chan struct{} // Store waits until it is closed; nil: Store does not wait
}

func (f *files) Store(ctx context.Context, _ accounts.ID, id, name, media string, size int64, body io.ReaderAt,
	_ time.Duration) (string, error) {
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hangs {
		<-ctx.Done()
		return "", errors.Join(f.fault, ctx.Err())
	}
	if f.fault != nil {
		return "", f.fault
	}
	b, err := io.ReadAll(io.NewSectionReader(body, 0, size))
	if err != nil || int64(len(b)) != size || media != "video/webm" || !strings.HasSuffix(name, ".webm") {
		return "", errors.Join(err, errors.New("not what was announced"))
	}
	f.stored[id] = b
	return id, nil
}

func newWorld(t *testing.T, db *sqldb.DB, rdb *redis.DB, ahead *atomic.Int64, folder string, change func(*Service)) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	node := ids.New[world]().String()
	bus := events.NewBus(rdb, node, log)
	caches := cache.NewRuntime(rdb, bus.Nodes(), cache.Config{Budget: 10 * time.Second})
	people, err := accounts.New(accounts.Config{DB: db, Redis: rdb, Limiter: ratelimit.New(rdb), Caches: caches, Bus: bus,
		Secret: make([]byte, 32), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	f, outside := &files{stored: map[string][]byte{}}, &sync.Map{}
	s, err := New(Config{DB: db, Redis: rdb, Caches: caches, Bus: bus, Node: node, Address: func() string { return "127.0.0.1:1" }, Files: f,
		People: people, MaySubscribe: func(_ context.Context, viewer, _ string) error {
			if _, ok := outside.Load(viewer); ok {
				return errs.New(errs.NotFound, "room.unknown", "There is no such room.")
			}
			return nil
		},
		Folder: folder, Secret: make([]byte, 32), Log: log, Settings: Settings{UDP: "127.0.0.1:0", Owned: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	w := &world{Service: s, t: t, accounts: people, redis: rdb, ahead: ahead, files: f, events: bus, outside: outside}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	ready := make(chan struct{})
	all.Go(func() { _ = bus.Run(ctx, func() {}) })
	all.Go(func() { _ = caches.Run(ctx, func() {}) })
	stopped := make(chan struct{})
	mine, end := context.WithCancel(ctx)
	go func() {
		defer close(stopped)
		if err := s.Run(mine, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	}()
	w.stop = func() { end(); <-stopped }
	t.Cleanup(func() { w.stop(); cancel(); all.Wait() })
	if err := bus.Nodes().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ready
	return w
}

func single(t *testing.T, change func(*Service)) *world {
	ahead := new(atomic.Int64)
	db := sqldbtest.Engine{Name: "sqlite"}.Open(t, func(c *sqldb.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	return newWorld(t, db, redistest.Open(t, "embedded"), ahead, t.TempDir(), change)
}

// neighbour returns another node on the same engines.
func (w *world) neighbour(change func(*Service)) *world {
	w.t.Helper()
	return newWorld(w.t, w.db, w.redis, w.ahead, w.t.TempDir(), change)
}

// login creates a session of a user.
func (w *world) login(user accounts.ID) Caller {
	w.t.Helper()
	tokens, err := w.accounts.SignIn(w.t.Context(), user, accounts.Login{})
	w.must(err)
	c, err := w.accounts.Verify(w.t.Context(), tokens.Access)
	w.must(err)
	return Caller{User: user, Device: c.Device}
}

// room is the room that tests add streams to.
var room = ids.New[world]().String()

// ticket returns a ticket for a stream that its owner has added to the room, for a viewer with a session or a guest.
func (w *world) ticket(st Stream, viewer string, device accounts.DeviceID) (path, token string) {
	w.t.Helper()
	path, token, _, err := w.Ticket(w.t.Context(), st.Owner, st.ID.String(), room, viewer, device)
	w.must(err)
	return path, token
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fails(what string, err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func (w *world) person() accounts.ID {
	w.t.Helper()
	u, err := accounts.NewUser(fmt.Sprintf("%x@example.org", ids.New[world]().String()), "somebody", "UTC")
	w.must(err)
	w.must(w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return accounts.InsertUsers(ctx, tx, []accounts.User{u})
	}))
	return u.ID
}

func to[T any](v T) *T { return &v }

// made creates a stream.
func (w *world) made(owner accounts.ID, u Update) (Stream, StreamKeys) {
	w.t.Helper()
	if u.Title == nil {
		u.Title = to("Sunday match")
	}
	st, keys, err := w.Create(w.t.Context(), owner, ids.New[Stream](), u)
	w.must(err)
	return st, keys
}

// holds returns the caller with this key.
func (w *world) holds(key string) Caller {
	w.t.Helper()
	h, err := w.Verify(w.t.Context(), key)
	w.must(err)
	return Caller{Key: h}
}

func (w *world) publish(by Caller, id ID) (*livetest.Publisher, SessionID, error) {
	w.t.Helper()
	var session SessionID
	p, err := livetest.Publish(w.t.Context(), livetest.Camera{KeyEvery: time.Second},
		func(ctx context.Context, offer string) (answer string, err error) {
			session, answer, err = w.Publish(ctx, by, id, offer)
			return answer, err
		})
	if err == nil {
		w.t.Cleanup(p.Close)
	}
	return p, session, err
}

func (w *world) watch(by Caller, id ID) (*livetest.Viewer, SessionID, error) {
	w.t.Helper()
	var session SessionID
	v, err := livetest.Watch(w.t.Context(), func(ctx context.Context, offer string) (answer string, err error) {
		session, answer, err = w.Watch(ctx, by, id, offer)
		return answer, err
	})
	if err == nil {
		w.t.Cleanup(v.Close)
	}
	return v, session, err
}

// sees waits until a viewer has received new pictures.
func (w *world) sees(what string, v *livetest.Viewer) {
	w.t.Helper()
	n := len(v.Frames())
	eventually.True(w.t, what, func() bool { return len(v.Frames()) > n+3 })
}

func (w *world) shown(user accounts.ID, id ID) Shown {
	w.t.Helper()
	sh, err := w.Get(w.t.Context(), user, id)
	w.must(err)
	return sh
}

func TestStream_OnePublisherAndAllowedViewers(t *testing.T) {
	w := single(t, nil)
	ctx := t.Context()
	ann, bob := w.person(), w.person()
	st, keys := w.made(ann, Update{})
	play, pub := w.holds(keys.Play), w.holds(keys.Publish)
	_, _, err := w.watch(play, st.ID)
	w.fails("watching what is not live", err, ErrOffAir)

	_, session, err := w.publish(pub, st.ID)
	w.must(err)
	_, _, err = w.publish(pub, st.ID)
	w.fails("a second publisher", err, ErrBusy)
	_, _, err = w.publish(Caller{User: ann}, st.ID)
	w.fails("the owner beside the publisher", err, ErrBusy)
	_, _, err = w.publish(play, st.ID)
	w.fails("publishing with the play key", err, ErrMay)
	_, _, err = w.publish(Caller{User: bob}, st.ID)
	w.fails("publishing somebody else's", err, ErrStream)

	v, seat, err := w.watch(play, st.ID)
	w.must(err)
	w.sees("pictures by the play key", v)
	_, _, err = w.watch(pub, st.ID)
	w.fails("watching with the publish key", err, ErrMay)
	_, _, err = w.watch(Caller{User: bob}, st.ID)
	w.fails("watching what needs a key", err, ErrStream)
	_, err = w.Get(ctx, bob, st.ID)
	w.fails("looking at what needs a key", err, ErrStream)
	_, err = w.Update(ctx, ann, st.ID, Update{Access: to(Open)})
	w.must(err)
	v2, _, err := w.watch(Caller{User: bob}, st.ID)
	w.must(err)
	w.sees("pictures by an open stream", v2)

	eventually.True(t, "what is counted to be told", func() bool {
		sh := w.shown(bob, st.ID)
		return sh.OnAir != nil && sh.Stats.Viewers == 2 && sh.Stats.Packets > 0 && sh.Stats.Bytes > 1000 && sh.Stats.Bitrate > 50_000
	})
	if got := w.shown(ann, st.ID).OnAir; got.Node != w.cfg.Node || got.Session != session || got.Formats.Video.Name() != "VP8" {
		t.Errorf("on air: %+v", got)
	}
	list, _, err := w.List(ctx, "", 10)
	if w.must(err); len(list) != 1 || list[0].ID != st.ID {
		t.Errorf("live are %+v", list)
	}
	watching, err := w.Viewers(ctx, ann, st.ID)
	if w.must(err); len(watching) != 2 {
		t.Errorf("they watch: %+v", watching)
	}
	_, err = w.Viewers(ctx, bob, st.ID)
	w.fails("who watches somebody else's", err, ErrStream)

	w.must(w.Leave(ctx, play, st.ID, seat))
	eventually.True(t, "the viewer to be gone", func() bool { return v.Ended() && w.shown(ann, st.ID).Stats.Viewers == 1 })
	w.fails("ending what is no session", w.Unpublish(ctx, pub, st.ID, seat), ErrSession)
	w.fails("ending the publisher with the play key", w.Unpublish(ctx, play, st.ID, session), ErrMay)
	w.fails("ending the publisher as a viewer", w.Leave(ctx, play, st.ID, session), ErrSession)
	w.must(w.Unpublish(ctx, pub, st.ID, session))
	eventually.True(t, "the stream to be off the air", func() bool {
		sh := w.shown(ann, st.ID)
		return sh.OnAir == nil && sh.Since == 0 && sh.Last > 0 && v2.Ended()
	})
	list, _, err = w.List(ctx, "", 10)
	if w.must(err); len(list) != 0 {
		t.Errorf("live are still %+v", list)
	}
	eventually.NoError(t, "the owner to be let in", func() error { // after the lease has expired
		_, _, err := w.publish(Caller{User: ann}, st.ID)
		return err
	})
}

func TestRotateKeys_EndsSessionsOnAllNodes(t *testing.T) {
	w := single(t, nil)
	far := w.neighbour(nil)
	ann := w.person()
	st, keys := w.made(ann, Update{Access: to(Open)})
	_, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	v, _, err := w.watch(w.holds(keys.Play), st.ID)
	w.must(err)
	own, _, err := w.watch(Caller{User: ann}, st.ID)
	w.must(err)
	w.sees("pictures", v)
	fresh, err := far.Rotate(t.Context(), ann, st.ID, KeySet{Play: true})
	w.must(err)
	eventually.True(t, "who came with the old play key to be sent away", func() bool { return v.Ended() })
	w.sees("the owner's pictures to go on", own)
	if _, err := w.Verify(t.Context(), keys.Play); !errors.Is(err, accounts.ErrToken) {
		t.Errorf("the old play key: %v", err)
	}
	again, _, err := w.watch(w.holds(fresh.Play), st.ID)
	w.must(err)
	w.sees("pictures by the new key", again)
	if fresh.Publish != "" {
		t.Error("a publish key was made unasked")
	}
	_, err = far.Rotate(t.Context(), ann, st.ID, KeySet{Publish: true})
	w.must(err)
	eventually.True(t, "the publisher to be sent away", func() bool { return w.shown(ann, st.ID).OnAir == nil && again.Ended() })
	_, err = w.Verify(t.Context(), keys.Publish)
	w.fails("the old publish key", err, accounts.ErrToken)
}

// A worker checks an operator's orders once a second, and a script is faster.
func TestOperator_StopAndRotateBothApply(t *testing.T) {
	w := single(t, nil)
	ann := w.person()
	st, keys := w.made(ann, Update{Access: to(Open)})
	_, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	w.must(EnqueueStop(t.Context(), w.db, st.ID))
	_, err = Rotate(t.Context(), w.db, st.ID, KeySet{Play: true})
	w.must(err)
	asked, err := queue.NewSQL(w.db).Waiting(t.Context(), TopicAsk, 10)
	w.must(err)
	for _, e := range asked {
		var o Order
		w.must(json.Unmarshal(e.Payload, &o))
		w.must(w.Obey(t.Context(), o))
	}
	eventually.True(t, "the publisher to be sent away", func() bool { return w.shown(ann, st.ID).OnAir == nil })
}

// TestPublisher_SupersededChangesNothing suspends a node for longer than its lease. Another node gets a
// publisher, and then the first node resumes.
func TestPublisher_SupersededChangesNothing(t *testing.T) {
	asleep := single(t, func(s *Service) { s.life, s.every = 10*time.Second, time.Hour })
	next := asleep.neighbour(nil)
	ctx := t.Context()
	ann := asleep.person()
	st, keys := asleep.made(ann, Update{})
	old, _, err := asleep.publish(asleep.holds(keys.Publish), st.ID)
	asleep.must(err)
	before, _, err := asleep.watch(asleep.holds(keys.Play), st.ID)
	asleep.must(err)
	p := asleep.found(st.ID).pub
	eventually.True(t, "pictures of the first one", func() bool {
		asleep.must(asleep.round(ctx, p)) // it is suspended only after the first pictures, however long they take
		return len(before.Frames()) > 3
	})
	asleep.must(asleep.redis.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: publisherKeys.At(st.ID).Key}).Err)
	held, err := asleep.leases.Acquire(ctx, leaseKeys(st.ID), asleep.cfg.Node, time.Second)
	asleep.must(err)
	asleep.must(asleep.claim(ctx, p, held.Token))
	p.held.Store(held)

	var session SessionID
	eventually.NoError(t, "the lease to run out", func() (err error) {
		_, session, err = next.publish(next.holds(keys.Publish), st.ID)
		return err
	})
	if p.open() {
		t.Error("the first one's pictures count though another publishes")
	}
	eventually.True(t, "its pictures to be refused", func() bool { return p.src.Counts().Refused > 10 })
	last := before.Frames()[len(before.Frames())-1].Number
	if old.Sent.Load()-last < 3 {
		t.Errorf("picture %d of %d has come", last, old.Sent.Load())
	}
	onAir := func() Shown { return next.shown(ann, st.ID) }
	was := onAir()
	if was.OnAir == nil || was.OnAir.Session != session || was.OnAir.Token <= p.token() {
		t.Fatalf("on air: %+v", was.OnAir)
	}
	// Each write by the first node is refused.
	asleep.fails("a late report", asleep.report(ctx, p), errOvertaken)
	asleep.fails("a late end", asleep.Service.redis.clear(ctx, st.ID, p.token()), errOvertaken)
	asleep.fails("a late claim", asleep.claim(ctx, p, p.token()), ErrBusy)
	asleep.must(asleep.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) error {
		if done, err := unclaim(ctx, tx, st.ID, p.token()); err != nil || done {
			t.Errorf("a late end in SQL: %v %v", done, err)
		}
		return nil
	}))
	asleep.fails("waking up", asleep.round(ctx, p), lease.ErrHeld)
	p.src.Close(nil)
	eventually.True(t, "the first one to be gone", func() bool { return asleep.found(st.ID) == nil && before.Ended() })
	now := onAir()
	if now.OnAir == nil || now.OnAir.Session != session || now.Since != was.Since {
		t.Errorf("after the first one's end: %+v since %d, was %d", now.OnAir, now.Since, was.Since)
	}
	after, _, err := next.watch(next.holds(keys.Play), st.ID)
	asleep.must(err)
	asleep.sees("pictures of the second one", after)
}

func TestLease_LostInRedisIsReacquired(t *testing.T) {
	w := single(t, func(s *Service) { s.every = 50 * time.Millisecond })
	ann := w.person()
	st, keys := w.made(ann, Update{})
	_, session, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	v, _, err := w.watch(w.holds(keys.Play), st.ID)
	w.must(err)
	w.sees("pictures", v)
	token := w.found(st.ID).pub.token()
	w.must(w.redis.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: publisherKeys.At(st.ID).Key,
		More: []keyspace.Key{fenceKeys.At(st.ID).Key, infoKeys.At(st.ID).Key, statsKeys.At(st.ID).Key, subscriberKeys.At(st.ID).Key}}).Err)
	eventually.True(t, "the stream to be on the air again", func() bool {
		sh := w.shown(ann, st.ID)
		return sh.OnAir != nil && sh.OnAir.Session == session && sh.OnAir.Token > token
	})
	w.sees("pictures afterwards", v)
	if v.Ended() {
		t.Error("the viewer was sent away")
	}
}

// A recovering Redis may be so slow at first that its reply is lost: the node has the lease, and does not know it.
func TestLease_UnknownToNodeKeepsPublisher(t *testing.T) {
	w := single(t, func(s *Service) { s.life, s.every = time.Second, time.Hour })
	ctx := t.Context()
	st, keys := w.made(w.person(), Update{})
	_, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	p := w.found(st.ID).pub
	was := p.token()
	w.must(w.redis.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: publisherKeys.At(st.ID).Key}).Err)
	_, err = w.leases.Acquire(ctx, leaseKeys(st.ID), w.cfg.Node, w.life)
	w.must(err)
	eventually.True(t, "the lease to be taken once more", func() bool {
		w.must(w.round(ctx, p))
		return p.open() && p.token() > was
	})
}

func TestStream_OfDeadNodeIsNotLive(t *testing.T) {
	w := single(t, func(s *Service) { s.life, s.every = 400*time.Millisecond, time.Hour })
	ann := w.person()
	st, keys := w.made(ann, Update{Access: to(Open)})
	_, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	eventually.True(t, "the lease to run out", func() bool { return w.shown(ann, st.ID).OnAir == nil })
	if list, _, err := w.List(t.Context(), "", 10); err != nil || len(list) != 0 {
		t.Errorf("live are %+v, %v", list, err)
	}
	w.must(w.tidy(t.Context()))
	if w.shown(ann, st.ID).Since == 0 {
		t.Error("what has just begun was tidied up")
	}
	w.ahead.Store(int64(time.Minute))
	w.must(w.tidy(t.Context()))
	if sh := w.shown(ann, st.ID); sh.Since != 0 || sh.Last == 0 {
		t.Errorf("since %d, last %d", sh.Since, sh.Last)
	}
}

func TestViewers_OfDeadNodeCountForHalfMinute(t *testing.T) {
	w := single(t, nil)
	st, _ := w.made(w.person(), Update{})
	now := w.bus.Time()
	w.must(w.Service.redis.renew(t.Context(), map[ID][]Watching{st.ID: {{Session: ids.New[Session](), Node: "dead"},
		{Session: ids.New[Session](), Node: "dead", User: w.person()}}}, now))
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 2}, {29 * time.Second, 2}, {30*time.Second + time.Millisecond, 0}} {
		list, err := w.Service.redis.viewers(t.Context(), st.ID, now.Add(c.after))
		if w.must(err); len(list) != c.want {
			t.Errorf("after %s: %d, want %d", c.after, len(list), c.want)
		}
	}
}

func TestRecording_BecomesFile(t *testing.T) {
	w := single(t, nil)
	ann := w.person()
	st, keys := w.made(ann, Update{Record: to(true)})
	record := func() *livetest.Publisher {
		t.Helper()
		var p *livetest.Publisher
		eventually.NoError(t, "the publisher to be let in", func() (err error) { // the previous session may still be ending
			p, _, err = w.publish(w.holds(keys.Publish), st.ID)
			return err
		})
		eventually.True(t, "some pictures", func() bool { return p.Sent.Load() > 30 })
		return p
	}
	if record(); !w.shown(ann, st.ID).OnAir.Recording {
		t.Error("it is not said that it is recorded")
	}
	w.must(w.Stop(t.Context(), ann, st.ID))
	var list []Recording
	eventually.True(t, "the recording to be kept", func() bool {
		var err error
		list, _, err = w.Recordings(t.Context(), ann, st.ID, "", mostRecordings)
		w.must(err)
		return len(list) == 1
	})
	if r := list[0]; r.File == "" || r.Fault != "" || r.Bytes < 1000 || r.Duration < 500 || len(w.files.stored[r.File]) != int(r.Bytes) {
		t.Errorf("recorded %+v", r)
	}
	// A permanent error is stored with the recording.
	w.files.mu.Lock()
	w.files.fault = ErrStreams
	w.files.mu.Unlock()
	record()
	w.must(w.Stop(t.Context(), ann, st.ID))
	eventually.True(t, "the fault to be kept", func() bool {
		list, _, err := w.Recordings(t.Context(), ann, st.ID, "", mostRecordings)
		w.must(err)
		return len(list) == 2 && list[0].File == "" && list[0].Fault == ErrStreams.Code
	})
	// A recording that cannot be stored now is stored at the next start.
	w.files.mu.Lock()
	w.files.fault, w.files.hangs = errors.New("the disk is full"), true
	w.files.mu.Unlock()
	record()
	w.stop() // waits for some time
	left, err := filepath.Glob(filepath.Join(w.cfg.Folder, "*.webm"))
	if w.must(err); len(left) != 1 {
		t.Fatalf("left are %q", left)
	}
	next := newWorld(t, w.db, w.redis, w.ahead, w.cfg.Folder, nil)
	eventually.True(t, "what was left to be kept", func() bool {
		list, _, err := next.Recordings(t.Context(), ann, st.ID, "", mostRecordings)
		w.must(err)
		return len(list) == 3 && list[0].File != "" && list[0].Bytes > 1000
	})
	eventually.True(t, "nothing to be left", func() bool { _, err := os.Stat(left[0]); return errors.Is(err, os.ErrNotExist) })
}

func TestRecordings_CursorsReachEach(t *testing.T) {
	w := single(t, nil)
	ann := w.person()
	st, _ := w.made(ann, Update{})
	want := map[SessionID]bool{}
	for i := range 5 {
		r := Recording{ID: ids.New[Session](), Stream: st.ID, Started: int64(i / 2)} // some with the same start
		want[r.ID] = true
		w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return insertRecording(ctx, tx, r) }))
	}
	for cursor, pages := "", 1; ; pages++ {
		list, next, err := w.Recordings(t.Context(), ann, st.ID, cursor, 2)
		w.must(err)
		for _, r := range list {
			if !want[r.ID] {
				t.Errorf("page %d has %+v", pages, r)
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
	_, _, err := w.Recordings(t.Context(), ann, st.ID, "x", 2)
	w.fails("another list's cursor", err, ErrCursor)
}

func TestStart_ReadsLiveStreams(t *testing.T) {
	w := single(t, nil)
	ann := w.person()
	var list []ID
	for since := range 3 { // the first one is not live
		st, _ := w.made(ann, Update{})
		_, err := w.db.ExecContext(t.Context(), "UPDATE streams SET since = ? WHERE id = ?", since, st.ID)
		w.must(err)
		list = append(list, st.ID)
	}
	next := w.neighbour(func(s *Service) { s.cfg.Warm = 10 })
	for _, id := range list[1:] {
		eventually.True(t, "a stream to be there", func() bool { _, ok := next.streams.Peek(id); return ok })
	}
	if _, ok := next.streams.Peek(list[0]); ok {
		t.Error("one that is not live is there")
	}
	idle := w.neighbour(func(s *Service) { s.cfg.Warm = 0 })
	var told [][2]int
	n, err := idle.Warm(t.Context(), 1, func(done, total int) { told = append(told, [2]int{done, total}) })
	if err != nil || n != 1 || len(told) == 0 || told[len(told)-1] != [2]int{1, 1} {
		t.Errorf("%d streams, told %v, %v", n, told, err)
	}
	_, last := idle.streams.Peek(list[2])
	if _, first := idle.streams.Peek(list[1]); first || !last {
		t.Errorf("of two that are live the one that began last is there: %v, the other: %v", last, first)
	}
}

// Storing a recording takes time if the storage is slow, and the stream has no publisher or viewer meanwhile.
func TestRecording_BeingStoredUsesNoSession(t *testing.T) {
	w := single(t, func(s *Service) { s.cfg.Sessions = 1 })
	w.files.gate = make(chan struct{})
	ann := w.person()
	lesson, keys := w.made(ann, Update{Record: to(true)})
	p, session, err := w.publish(w.holds(keys.Publish), lesson.ID)
	w.must(err)
	eventually.True(t, "some pictures", func() bool { return p.Sent.Load() > 30 })
	w.must(w.Unpublish(t.Context(), w.holds(keys.Publish), lesson.ID, session))
	next, _ := w.made(ann, Update{})
	eventually.NoError(t, "the next publisher to be let in", func() error { _, _, err := w.publish(Caller{User: ann}, next.ID); return err })
	close(w.files.gate)
	eventually.True(t, "the recording to be kept", func() bool {
		list, _, err := w.Recordings(t.Context(), ann, lesson.ID, "", mostRecordings)
		w.must(err)
		return len(list) == 1 && list[0].File != ""
	})
}

// A stored recording without a row is not stored a second time.
func TestRecording_StoredOnce(t *testing.T) {
	w := single(t, nil)
	ann := w.person()
	st, keys := w.made(ann, Update{Record: to(true)})
	_, err := w.db.ExecContext(t.Context(), "CREATE TRIGGER away BEFORE INSERT ON stream_recordings BEGIN SELECT RAISE(ABORT, 'away'); END")
	w.must(err)
	p, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	eventually.True(t, "some pictures", func() bool { return p.Sent.Load() > 30 })
	w.stop()
	if len(w.files.stored) != 1 {
		t.Fatalf("stored are %d", len(w.files.stored))
	}
	_, err = w.db.ExecContext(t.Context(), "DROP TRIGGER away")
	w.must(err)
	next := newWorld(t, w.db, w.redis, w.ahead, w.cfg.Folder, nil)
	var list []Recording
	eventually.True(t, "what was left to be kept", func() bool {
		list, _, err = next.Recordings(t.Context(), ann, st.ID, "", mostRecordings)
		w.must(err)
		return len(list) == 1
	})
	if r := list[0]; len(w.files.stored[r.File]) != int(r.Bytes) || r.Bytes == 0 {
		t.Errorf("recorded %+v, stored once more: %d", r, len(next.files.stored))
	}
	eventually.True(t, "nothing to be left", func() bool {
		left, err := filepath.Glob(filepath.Join(w.cfg.Folder, "*"))
		return err == nil && len(left) == 0
	})
}

// A stopping node waits less than its ten seconds for running uploads, and does not treat an error then as permanent.
func TestStop_LeavesRecordingBeingStored(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, func(s *Service) { s.cfg.UDP = Off })
		ann := w.person()
		st, _ := w.made(ann, Update{})
		session := ids.New[Session]()
		path := filepath.Join(w.cfg.Folder, fmt.Sprintf("%s.%s.%d.webm", st.ID, session, time.Now().UnixMilli()))
		w.must(os.WriteFile(path, []byte("pictures and sound"), 0o600))
		w.files.hangs, w.files.fault = true, ErrStreams
		base, end := context.WithCancel(t.Context())
		end()
		began := time.Now()
		w.finishRecording(base, leftoverRecording(path))
		if took := time.Since(began); took == 0 || took > 9*time.Second {
			t.Errorf("a node that stops has waited for %s", took)
		}
		w.files.hangs, w.files.fault = false, nil
		w.finishRecording(t.Context(), leftoverRecording(path))
		list, _, err := w.Recordings(t.Context(), ann, st.ID, "", mostRecordings)
		if w.must(err); len(list) != 1 || list[0].File != session.String() || list[0].Fault != "" {
			t.Errorf("recorded are %+v", list)
		}
	})
}

// A recording that begins right after a node's start is not treated as one of an earlier process.
func TestRecording_AfterStartIsNoLeftover(t *testing.T) {
	w := single(t, nil)
	ann := w.person()
	st, keys := w.made(ann, Update{Record: to(true)})
	by := w.holds(keys.Publish)
	w.stop()
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, stopped := make(chan *livetest.Publisher, 1), make(chan error)
	go func() {
		stopped <- w.Run(ctx, func() {
			p, _, err := w.publish(by, st.ID)
			if err != nil {
				t.Error(err)
			}
			ready <- p
		})
	}()
	p := <-ready
	eventually.True(t, "some pictures", func() bool { return p.Sent.Load() > 30 })
	end()
	w.must(<-stopped)
	list, _, err := w.Recordings(t.Context(), ann, st.ID, "", mostRecordings)
	if w.must(err); len(list) != 1 || list[0].File == "" || list[0].Bytes < 1000 {
		t.Errorf("recorded are %+v", list)
	}
}

// Nodes may share a data folder. A node's running recording is not a leftover for the others.
func TestStart_IgnoresRecordingsOfOtherNodes(t *testing.T) {
	w := single(t, nil)
	ann := w.person()
	st, keys := w.made(ann, Update{Record: to(true)})
	p, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	var size int64
	eventually.True(t, "something to be recorded", func() bool {
		found, err := filepath.Glob(filepath.Join(w.cfg.Folder, "*.webm"))
		w.must(err)
		if len(found) == 1 {
			info, err := os.Stat(found[0])
			w.must(err)
			size = info.Size()
		}
		return size > 0
	})
	next := newWorld(t, w.db, w.redis, w.ahead, w.cfg.Folder, nil)
	next.stop()
	next.recover(t.Context())
	next.work.Wait()
	from := p.Sent.Load()
	eventually.True(t, "more pictures", func() bool { return p.Sent.Load() > from+30 })
	w.stop()
	list, _, err := w.Recordings(t.Context(), ann, st.ID, "", mostRecordings)
	if w.must(err); len(list) != 1 || list[0].Bytes <= size || len(w.files.stored[list[0].File]) != int(list[0].Bytes) ||
		len(next.files.stored) != 0 {
		t.Errorf("recorded are %+v, of which the first %d bytes were there; the other node has stored %d", list, size, len(next.files.stored))
	}
}

// A viewer may end viewers' sessions on any node, but not the publisher's.
func TestViewer_EndsNoPublisher(t *testing.T) {
	w := single(t, nil)
	far := w.neighbour(nil)
	ann := w.person()
	st, keys := w.made(ann, Update{})
	_, session, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	v, seat, err := w.watch(w.holds(keys.Play), st.ID)
	w.must(err)
	w.must(far.Leave(t.Context(), far.holds(keys.Play), st.ID, session))
	w.must(far.Leave(t.Context(), far.holds(keys.Play), st.ID, seat))
	eventually.True(t, "the viewer to be gone", func() bool { return v.Ended() })
	if a := w.found(st.ID); a == nil || a.pub.session != session {
		t.Error("the publisher is gone, too")
	}
}

func TestTicket_EndsByTimeAndRotation(t *testing.T) {
	w := single(t, nil)
	ctx := t.Context()
	ann, bob := w.person(), w.person()
	st, keys := w.made(ann, Update{})
	_, _, err := w.publish(Caller{User: ann}, st.ID)
	w.must(err)
	guest := ids.New[world]().String()
	_, _, _, err = w.Ticket(ctx, bob, st.ID.String(), room, guest, accounts.DeviceID{})
	w.fails("a ticket for what needs a key", err, ErrStream)
	path, token, until, err := w.Ticket(ctx, ann, st.ID.String(), room, guest, accounts.DeviceID{})
	if w.must(err); path != "/v1/streams/"+st.ID.String()+"/whep" || time.Until(until) > ticketLife ||
		time.Until(until) < ticketLife-time.Minute {
		t.Errorf("a ticket for %s until %s", path, until)
	}
	by := w.holds(token)
	v, _, err := w.watch(by, st.ID)
	w.must(err)
	w.sees("pictures by a ticket", v)
	_, _, err = w.publish(by, st.ID)
	w.fails("publishing by a ticket", err, ErrMay)
	other, _ := w.made(ann, Update{})
	for what, bad := range map[string]string{
		"of another stream":          strings.Replace(token, st.ID.String(), other.ID.String(), 1),
		"as one of a node":           strings.Replace(token, Prefix+"t", Prefix+"r", 1),
		"of another room":            strings.Replace(token, room, ids.New[world]().String(), 1),
		"of another viewer":          strings.Replace(token, guest, ids.New[world]().String(), 1),
		"of a version without rooms": w.signer.sign(ticket, st.ID, until, "", st.Play),
		"cut off":                    token[:len(token)-1],
		"of nothing":                 Prefix + "t" + st.ID.String(),
		"a key as a ticket":          strings.Replace(keys.Play, Prefix+"w", Prefix+"t", 1),
		"a key as another":           strings.Replace(keys.Play, Prefix+"w", Prefix+"p", 1),
		"longer":                     keys.Play + "A",
	} {
		if _, err := w.Verify(ctx, bad); !errors.Is(err, accounts.ErrToken) {
			t.Errorf("a token %s: %v", what, err)
		}
	}
	node := w.signer.sign(relay, st.ID, time.Now().Add(relayLife), "", "")
	w.holds(node)
	_, err = w.Verify(ctx, strings.Replace(node, st.ID.String(), other.ID.String(), 1))
	w.fails("a node's token for another stream", err, accounts.ErrToken)
	w.previous, w.signer = w.signer, signer("another secret, which is as long!")
	w.holds(token)
	w.holds(node)
	w.previous, w.signer = nil, w.previous
	w.ahead.Store(int64(ticketLife + time.Second))
	_, err = w.Verify(ctx, node)
	w.fails("a node's token whose time is over", err, accounts.ErrToken)
	_, err = w.Verify(ctx, token)
	w.fails("a ticket whose time is over", err, accounts.ErrToken)
	w.ahead.Store(0)
	_, err = w.Rotate(ctx, ann, st.ID, KeySet{Play: true})
	w.must(err)
	_, err = w.Verify(ctx, token)
	w.fails("a ticket of old keys", err, accounts.ErrToken)
	eventually.True(t, "who came by it to be sent away", func() bool { return v.Ended() })
}

func TestErase_DeletesStreamsOfUser(t *testing.T) {
	w := single(t, nil)
	ctx := t.Context()
	ann, bob := w.person(), w.person()
	st, keys := w.made(ann, Update{Access: to(Open)})
	w.made(ann, Update{})
	kept, _ := w.made(bob, Update{})
	_, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	v, _, err := w.watch(Caller{User: bob}, st.ID)
	w.must(err)
	w.sees("pictures", v)
	w.must(w.Erase(ctx, ann))
	w.must(w.Erase(ctx, ann))
	eventually.True(t, "all to be sent away", func() bool { return v.Ended() && w.found(st.ID) == nil })
	_, err = w.Get(ctx, bob, st.ID)
	w.fails("what is erased", err, ErrStream)
	if list, err := w.Mine(ctx, ann); err != nil || len(list) != 0 {
		t.Errorf("ann has %+v, %v", list, err)
	}
	w.shown(bob, kept.ID)
}

// No user or client network can use all slots of a node, and viewers leave some to publishers and other nodes.
func TestWatch_LeavesSlotsToOthers(t *testing.T) {
	w := single(t, func(s *Service) { s.cfg.Sessions, s.cfg.MaxFrom = 30, 5 })
	ann := w.person()
	st, keys := w.made(ann, Update{Access: to(Open)})
	_, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	// watch watches and waits for a picture: a viewer who does not connect in time loses the slot again.
	watch := func(by Caller) (SessionID, error) {
		v, session, err := w.watch(by, st.ID)
		if err == nil {
			eventually.True(t, "a picture", func() bool { return len(v.Frames()) > 0 })
		}
		return session, err
	}
	bob := Caller{User: w.person()}
	var first SessionID
	for range mostOfUser {
		first, err = watch(bob)
		w.must(err)
	}
	_, err = watch(bob)
	w.fails("one more viewer of a user", err, ErrTooMany)
	_, err = watch(Caller{User: ann})
	w.must(err)
	w.must(w.Leave(t.Context(), bob, st.ID, first))
	eventually.NoError(t, "the user to be let in for the one that ended", func() error { _, err := watch(bob); return err })

	// from watches from a client network.
	from := func(at string) error {
		play, err := w.Verify(context.WithValue(t.Context(), clientnet.Key{}, func() string { return at }), keys.Play)
		w.must(err)
		_, err = watch(Caller{Key: play})
		return err
	}
	for range w.cfg.MaxFrom {
		w.must(from("192.0.2.1"))
	}
	w.fails("one more viewer of a client network", from("192.0.2.1"), ErrTooMany)
	for range 27 - 1 - mostOfUser - 1 - w.cfg.MaxFrom {
		w.must(from("192.0.2.2"))
	}
	w.fails("a viewer in a place of publishers'", from("192.0.2.3"), ErrFull)
	_, err = watch(w.holds(w.signer.sign(relay, st.ID, time.Now().Add(relayLife), "", "")))
	w.must(err)
	for range 2 {
		other, keys := w.made(ann, Update{})
		_, _, err = w.publish(w.holds(keys.Publish), other.ID)
		w.must(err)
	}
	_, _, err = w.publish(Caller{User: ann}, st.ID)
	w.fails("a publisher when all is taken", err, ErrFull)
}

// A school, or all users of a mobile network, may be one client network.
func TestViewers_CountedByUserOrClientNetwork(t *testing.T) {
	w := single(t, func(s *Service) { s.cfg.MaxFrom = 1 })
	a := web.New(web.Config{Auth: keyed{w.Service}, Limiter: ratelimit.New(w.redis)})
	w.Routes(a)
	server := httptest.NewServer(a.Handler())
	defer server.Close()
	ann, bob, eve := w.person(), w.login(w.person()), w.login(w.person())
	st, keys := w.made(ann, Update{})
	_, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	// watch watches with a ticket.
	watch := func(path, token string) int {
		t.Helper()
		v, err := livetest.Watch(t.Context(), livetest.Post(http.DefaultClient, server.URL+path, token, nil))
		if refused, ok := errors.AsType[*livetest.Refused](err); ok {
			return refused.Status
		}
		w.must(err)
		t.Cleanup(v.Close)
		eventually.True(t, "a picture", func() bool { return len(v.Frames()) > 0 }) // a viewer who does not connect in time loses the slot again
		return http.StatusCreated
	}
	guest := ids.New[world]().String()
	for _, c := range []struct {
		what   string
		viewer string
		device accounts.DeviceID
		want   int
	}{
		{"a guest", guest, accounts.DeviceID{}, http.StatusCreated},
		{"another guest of the client network", ids.New[world]().String(), accounts.DeviceID{}, http.StatusTooManyRequests},
		{"a member", bob.User.String(), bob.Device, http.StatusCreated},
		{"another member", eve.User.String(), eve.Device, http.StatusCreated},
	} {
		if got := watch(w.ticket(st, c.viewer, c.device)); got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
	for range mostOfUser - 1 {
		if got := watch(w.ticket(st, bob.User.String(), bob.Device)); got != http.StatusCreated {
			t.Errorf("a member's viewer: %d", got)
		}
	}
	if got := watch(w.ticket(st, bob.User.String(), bob.Device)); got != http.StatusTooManyRequests {
		t.Errorf("one more viewer of a member: %d", got)
	}
}

// keyed authenticates callers with a key of a stream.
type keyed struct{ *Service }

func (k keyed) Authenticate(ctx context.Context, token string) (web.Caller, error) {
	return k.Verify(ctx, token)
}

// A bearer of a room's ticket who uses up its limits does not affect the publisher, other viewers or other nodes.
func TestLimits_PerTokenKindAndClientNetwork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, func(s *Service) { s.cfg.UDP = Off })
		ann := w.person()
		st, keys := w.made(ann, Update{})
		_, guest := w.ticket(st, ids.New[world]().String(), accounts.DeviceID{})
		a := web.New(web.Config{Auth: keyed{w.Service}, Limiter: ratelimit.New(w.redis)})
		w.Routes(a)
		post := func(path, token, from string) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("v=0"))
			r.RemoteAddr = from + ":1"
			r.Header.Set("Content-Type", sdp)
			r.Header.Set("Authorization", "Bearer "+token)
			rec := httptest.NewRecorder()
			a.Handler().ServeHTTP(rec, r)
			return rec.Code
		}
		for path, most := range map[string]int{publishPath(st.ID): publishLimit.Max, watchPath(st.ID): watchLimit.Max} {
			for range most {
				post(path, guest, "192.0.2.1")
			}
			if got := post(path, guest, "192.0.2.1"); got != http.StatusTooManyRequests {
				t.Errorf("%s once more: %d", path, got)
			}
		}
		for what, got := range map[string]int{
			"the publisher": post(publishPath(st.ID), keys.Publish, "192.0.2.1"),
			"a viewer":      post(watchPath(st.ID), keys.Play, "192.0.2.1"),
			"another guest": post(watchPath(st.ID), guest, "192.0.2.2"),
			"a node":        post(watchPath(st.ID), w.signer.sign(relay, st.ID, w.db.Now().Add(relayLife), "", ""), "192.0.2.1"),
		} {
			if got != http.StatusServiceUnavailable { // media are off
				t.Errorf("%s: %d", what, got)
			}
		}
	})
}

func TestWatching_EndsWithItsRightOnAllNodes(t *testing.T) {
	sweeps := func(s *Service) { s.sweep = time.Hour } // sessions end by events only
	w := single(t, sweeps)
	far := w.neighbour(sweeps)
	ann := w.person()
	st, keys := w.made(ann, Update{Access: to(Open)})
	p, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
	device, member, adder := w.login(w.person()), w.login(w.person()), w.person()
	guest, closed := ids.New[world]().String(), ids.New[world]().String()
	stays, _, err := w.watch(w.login(w.person()), st.ID)
	w.must(err)
	ticketOf := func(by accounts.ID, viewer string, device accounts.DeviceID) Caller {
		_, token, _, err := w.Ticket(t.Context(), by, st.ID.String(), room, viewer, device)
		w.must(err)
		return w.holds(token)
	}
	gone := func(on, user, why string) {
		data, err := json.Marshal(api.RoomGone{Room: room, User: user, Why: why})
		w.must(err)
		e := events.New(api.EventRoomGone, user, time.Now(), data)
		e.On = on
		far.events.Publish([]events.Event{e})
	}
	for _, c := range []struct {
		what string
		by   Caller
		end  func()
	}{
		{"a user's login session", device, func() { w.must(far.accounts.Revoke(t.Context(), device.User, device.Device)) }},
		{"the login session behind a ticket", ticketOf(ann, member.User.String(), member.Device), func() {
			w.must(far.accounts.Revoke(t.Context(), member.User, member.Device))
		}},
		{"a place in a room", ticketOf(ann, guest, accounts.DeviceID{}), func() {
			w.outside.Store(guest, true)
			gone("", guest, api.RoomKicked)
		}},
		{"a room", ticketOf(ann, closed, accounts.DeviceID{}), func() {
			w.outside.Store(closed, true)
			gone(api.RoomChannel(room), "", api.RoomClosed)
		}},
		{"the right of the user who added the stream", ticketOf(adder, ids.New[world]().String(), accounts.DeviceID{}), func() {
			_, err := far.Update(t.Context(), ann, st.ID, Update{Access: to(ByKey)})
			w.must(err)
		}},
	} {
		v, _, err := w.watch(c.by, st.ID)
		w.must(err)
		w.sees(c.what, v)
		if c.by.Key == nil {
			w.sees("a viewer whose right goes on", stays)
		}
		c.end()
		eventually.True(t, "the end of "+c.what+" to end watching", v.Ended)
		if _, _, err := w.watch(c.by, st.ID); !errors.Is(err, ErrStream) {
			t.Errorf("watching again after the end of %s: %v", c.what, err)
		}
	}
	w.login(ann) // the end of a session announces the ban
	w.must(far.accounts.Ban(t.Context(), ann, accounts.Forever, ""))
	eventually.True(t, "the ban of the owner to end publishing", p.Ended)
	_, _, err = far.publish(far.holds(keys.Publish), st.ID)
	w.fails("publishing a banned owner's stream", err, ErrStream)
}

func TestCreate_LimitsStreamsPerUser(t *testing.T) {
	w := single(t, nil)
	ann := w.person()
	for range w.cfg.Owned {
		w.made(ann, Update{})
	}
	_, _, err := w.Create(t.Context(), ann, ids.New[Stream](), Update{Title: to("One more")})
	w.fails("one more", err, ErrStreams)
	_, _, err = w.Create(t.Context(), ann, ids.New[Stream](), Update{Title: to(" \x07")})
	w.fails("no title", err, ErrTitle)
}

func TestNode_WithoutPortStillShowsStreams(t *testing.T) {
	w := single(t, func(s *Service) { s.cfg.UDP = "192.0.2.1:9" }) // an address of no machine here
	ann := w.person()
	st, keys := w.made(ann, Update{})
	_, _, err := w.publish(w.holds(keys.Publish), st.ID)
	w.fails("publishing", err, ErrMedia)
	w.shown(ann, st.ID)
}

func TestEngine_OpensPortOnceFree(t *testing.T) {
	other, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	w := single(t, func(s *Service) { s.cfg.UDP = other.LocalAddr().String() })
	st, keys := w.made(w.person(), Update{})
	_, _, err = w.publish(w.holds(keys.Publish), st.ID)
	w.fails("publishing", err, ErrMedia)
	w.must(other.Close())
	w.listen(t.Context(), slog.LevelDebug) // as in every half a minute
	_, _, err = w.publish(w.holds(keys.Publish), st.ID)
	w.must(err)
}

func TestStream_SurvivesFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	s, id := &redisStore{redistest.Open(t, server.URL)}, ids.New[Stream]()
	report := func(bytes int64) {
		t.Helper()
		if _, err := s.report(t.Context(), id, OnAir{Token: 1}, Stats{Bytes: bytes}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	report(1)
	if err := s.db.Do(t.Context(), keyspace.Cmd{Name: "PEXPIRE", Key: infoKeys.At(id).Key, Args: []string{"60000"}}).Err; err != nil {
		t.Fatal(err)
	}
	if _, err := server.Do("CONFIG", "SET", "maxmemory", "1"); err != nil {
		t.Fatal(err)
	}
	report(2)
	if left, err := s.db.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: infoKeys.At(id).Key}).Int(); err != nil ||
		left <= time.Minute.Milliseconds() {
		t.Errorf("where it is published stays for %d ms, %v; want %s", left, err, infoLife)
	}
}

// The response with the keys is lost, and the client retries.
func TestCreate_RetryReturnsSameStreamWithNewKeys(t *testing.T) {
	w := single(t, nil)
	ctx := t.Context()
	ann, id := w.person(), ids.New[Stream]()
	var seen []StreamKeys
	for range 4 { // more than a user may own
		st, keys, err := w.Create(ctx, ann, id, Update{Title: to("Sunday match")})
		w.must(err)
		seen = append(seen, keys)
		now, err := w.stream(ctx, id)
		w.must(err)
		if st.ID != id || st.Owner != ann || now.Publish != hashOf(keys.Publish) || now.Play != hashOf(keys.Play) {
			t.Errorf("got %+v, whose keys are those of %+v", st, now)
		}
	}
	if seen[0] == seen[1] {
		t.Error("a second try got the keys of the first, which were not kept")
	}
	if list, err := w.Mine(ctx, ann); err != nil || len(list) != 1 {
		t.Errorf("streams %+v, %v", list, err)
	}
	_, _, err := w.Create(ctx, w.person(), id, Update{Title: to("Sunday match")})
	w.fails("somebody else's stream", err, ErrStream)
}
