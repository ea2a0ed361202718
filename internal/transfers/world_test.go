package transfers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/transfers/storage"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// testChunk is so small that a file of some kilobytes has many parts.
const testChunk = 4 << 10

// world is one node's transfers with its dependencies. Its first two users are friends.
type world struct {
	*Service
	t       testing.TB
	db      *sqldb.DB
	redis   *redis.DB
	social  *social.Service
	ahead   *atomic.Int64 // lead of the clock, in ns
	dir     string
	users   []accounts.ID
	storage *harmed
}

// harmed is a storage with configurable failures.
type harmed struct {
	storage.Storage
	mu     sync.Mutex
	write  error // of each write to a part
	keep   error // of each kept part, which may be stored or not
	remove error // of each removal
	kept   int   // number of parts
	after  func(kept int)
	hangs  time.Duration // before each removal
	lists  time.Duration // duration of a list of all parts
	opens  atomic.Int64  // number of opened parts
}

func (h *harmed) Open(ctx context.Context, name string, from, n int64) (io.ReadCloser, error) {
	h.opens.Add(1)
	return h.Storage.Open(ctx, name, from, n)
}

func (h *harmed) List(ctx context.Context, each func(name string) error) error {
	h.mu.Lock()
	lists := h.lists
	h.mu.Unlock()
	if lists > 0 {
		<-time.After(lists)
	}
	return h.Storage.List(ctx, each)
}

func (h *harmed) Remove(ctx context.Context, names ...string) error {
	h.mu.Lock()
	hangs, err := h.hangs, h.remove
	h.mu.Unlock()
	if hangs > 0 {
		<-time.After(hangs)
	}
	if err != nil {
		return err
	}
	return h.Storage.Remove(ctx, names...)
}

func (h *harmed) set(write, keep error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.write, h.keep = write, keep
}

func (h *harmed) Create(ctx context.Context, name string) (storage.Writing, error) {
	w, err := h.Storage.Create(ctx, name)
	return &harmedPart{w, h}, err
}

type harmedPart struct {
	storage.Writing
	of *harmed
}

func (p *harmedPart) Write(b []byte) (int, error) {
	p.of.mu.Lock()
	err := p.of.write
	p.of.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return p.Writing.Write(b)
}

func (p *harmedPart) Complete(ctx context.Context) error {
	p.of.mu.Lock()
	err := p.of.keep
	p.of.mu.Unlock()
	if kept := p.Writing.Complete(ctx); kept != nil || err != nil {
		return errors.Join(err, kept)
	}
	p.of.mu.Lock()
	p.of.kept++
	n, after := p.of.kept, p.of.after
	p.of.mu.Unlock()
	if after != nil {
		after(n)
	}
	return nil
}

func newWorld(t testing.TB, db *sqldb.DB, rdb *redis.DB, ahead *atomic.Int64, dir string, settings Settings) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	bus := events.NewBus(rdb, ids.New[world]().String(), log)
	budget := 10 * time.Second
	if bubble.In(t) {
		budget = 0
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
	files, err := storage.Open("folder", dir)
	if err != nil {
		t.Fatal(err)
	}
	kept := &harmed{Storage: files}
	s, err := New(Config{DB: db, Redis: rdb, Bus: bus, People: people, Relations: friends, Secret: []byte("a secret of the test, 32 bytes up"),
		Storage: kept, Log: log, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	s.chunk, s.redis.ahead = testChunk, 2*testChunk
	w := &world{Service: s, t: t, db: db, redis: rdb, social: friends, ahead: ahead, dir: dir, storage: kept}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = bus.Run(ctx, func() {}) })
	all.Go(func() { _ = caches.Run(ctx, func() {}) })
	t.Cleanup(func() {
		cancel()
		all.Wait()
		w.must(s.Close())
	})
	w.must(bus.Nodes().Wait(t.Context()))
	return w
}

// eachEngine runs test in a bubble on the embedded engines, and on a real Redis with a real MariaDB.
func eachEngine(t *testing.T, settings Settings, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		run := func(t *testing.T, cfg redis.Config) {
			ahead := new(atomic.Int64)
			db := e.Open(t, func(c *sqldb.Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
			w := newWorld(t, db, redistest.OpenConfig(t, cfg), ahead, t.TempDir(), settings)
			w.join(3)
			w.befriend(0, 1)
			test(t, w)
			redistest.KeysDeclared(t, w.redis, Keys, accounts.Keys, social.Keys, events.Keys, cache.Keys)
		}
		t.Run(e.Name, func(t *testing.T) {
			if e.Name == "sqlite" {
				bubble.Test(t, func(t *testing.T) { run(t, redis.Config{URL: "embedded"}) })
			} else {
				run(t, redistest.Shared(t))
			}
		})
	}
}

// inBubble runs test on the embedded engines.
func inBubble(t *testing.T, settings Settings, test func(t *testing.T, w *world)) {
	bubble.Test(t, func(t *testing.T) {
		ahead := new(atomic.Int64)
		db := sqldbtest.Engine{Name: "sqlite"}.Open(t, func(c *sqldb.Config) {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		w := newWorld(t, db, redistest.Open(t, "embedded"), ahead, t.TempDir(), settings)
		w.join(3)
		w.befriend(0, 1)
		test(t, w)
	})
}

// neighbour returns another node on the same engines and the same folder.
func (w *world) neighbour() *world {
	w.t.Helper()
	n := newWorld(w.t, w.db, w.redis, w.ahead, w.dir, w.cfg)
	n.users = w.users
	return n
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) join(n int) {
	w.t.Helper()
	var users []accounts.User
	for i := range n {
		u, err := accounts.NewUser(fmt.Sprintf("%x@example.org", ids.New[world]().String()), fmt.Sprint("user ", i), "UTC")
		w.must(err)
		users, w.users = append(users, u), append(w.users, u.ID)
	}
	w.must(w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, users) }))
}

func (w *world) befriend(a, b int) {
	w.t.Helper()
	r, _, err := w.social.SendRequest(w.t.Context(), w.users[a], social.RequestDraft{User: w.users[b]})
	w.must(err)
	_, err = w.social.Accept(w.t.Context(), w.users[b], r.ID, "", "")
	w.must(err)
}

func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// random returns unique bytes.
func random(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte(sha256.New().Sum([]byte(fmt.Sprint(n, rand.Uint64())))[:32]))
	_, _ = r.Read(b)
	return b
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// offer offers a file from the first user to the second.
func (w *world) offer(data []byte) Transfer {
	w.t.Helper()
	t, err := w.Offer(w.t.Context(), w.users[0], Offer{To: w.users[1], Name: "a file.bin", Media: "image/png", Size: int64(len(data)),
		SHA256: sumOf(data)})
	w.must(err)
	return t
}

// begin is offer with the second user's acceptance.
func (w *world) begin(data []byte) Transfer {
	w.t.Helper()
	t, err := w.Accept(w.t.Context(), w.users[1], w.offer(data).ID)
	w.must(err)
	return t
}

// piece returns the piece of data that begins at a byte.
func piece(data []byte, from int64) Piece {
	return Piece{Offset: from, Length: int64(len(data)) - from, Body: bytes.NewReader(data[from:])}
}

func (w *world) send(id ID, p Piece) (Transfer, error) {
	return w.Upload(w.t.Context(), w.users[0], id, p)
}

// current returns the row of a transfer.
func (w *world) current(id ID) Transfer {
	w.t.Helper()
	t, err := w.sql.get(w.t.Context(), id)
	w.must(err)
	return t
}

// fetched returns a file as its receiver gets it.
func (w *world) fetched(id ID) []byte {
	w.t.Helper()
	link, err := w.Link(w.t.Context(), w.users[1], id)
	w.must(err)
	f, err := w.Fetch(w.t.Context(), link.URL[len("/v1/files/"):])
	w.must(err)
	defer f.Content.Close()
	b, err := io.ReadAll(f.Content)
	w.must(err)
	return b
}

// objects returns the names of all parts in the storage.
func (w *world) objects() (names []string) {
	w.t.Helper()
	w.must(w.storage.List(w.t.Context(), func(name string) error {
		if !strings.HasPrefix(name, ownerFolder) {
			names = append(names, name)
		}
		return nil
	}))
	slices.Sort(names)
	return names
}

// sound compares the storage with SQL: it has exactly the parts that count.
func (w *world) sound(id ...ID) {
	w.t.Helper()
	var want []string
	for _, id := range id {
		parts, err := w.sql.parts(w.t.Context(), w.db, id)
		w.must(err)
		for _, p := range parts {
			want = append(want, p.name)
		}
		descriptions, err := w.sql.descriptions(w.t.Context(), w.db, []ID{id})
		w.must(err)
		want = append(want, descriptions[id].names()...)
	}
	slices.Sort(want)
	if !bubble.In(w.t) { // on a stalled machine, the bytes of a cancelled transfer may be deleted later
		eventually.Equal(w.t, "the parts that count", want, w.objects)
		return
	}
	if got := w.objects(); !slices.Equal(got, want) {
		w.t.Errorf("the storage has %d parts, and %d count: %q, %q", len(got), len(want), got, want)
	}
}

// heard has the events that a user received.
type heard struct {
	mu  sync.Mutex
	all []api.Event
	at  []time.Time
}

func (w *world) listen(user int) *heard {
	h := &heard{}
	_, leave := w.bus.Listen(w.t.Context(), w.users[user].String(),
		&events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.all, h.at = append(h.all, api.Event{Type: e.Type, Data: e.Data}), append(h.at, time.Now())
		}})
	w.t.Cleanup(leave)
	return h
}

// statuses returns the published statuses, in order.
func (h *heard) statuses() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.all {
		var t api.Transfer
		if e.Type == api.EventTransferUpdated && json.Unmarshal(e.Data.(json.RawMessage), &t) == nil {
			all = append(all, t.Status)
		}
	}
	return all
}

// slow returns its bytes one piece at a time, with a pause before each.
type slow struct {
	data  []byte
	piece int
	pause time.Duration
}

func (s *slow) Read(b []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	<-time.After(s.pause)
	n := copy(b[:min(len(b), s.piece)], s.data)
	s.data = s.data[n:]
	return n, nil
}

// cutAfter returns a body whose connection breaks.
func cutAfter(b []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(b), failing{})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
