package cachetest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/cachetest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

var (
	schema = keyspace.New("cachetest")
	events = keyspace.DefChannel0(schema, "test:events", keyspace.RawMessages("bus"), keyspace.Doc{})
	log    = keyspace.Def0(schema, "test:events", keyspace.StreamOf("bus"), keyspace.Forever("trimmed"), keyspace.Doc{})
)

// family is declared for each pair of lives that a hazard needs.
func family(life, empty time.Duration) keyspace.F1[keyspace.Text, keyspace.Cached[string]] {
	return keyspace.Def1[keyspace.Text](keyspace.New("rows"), "test:row:{key}", keyspace.CachedOf[string](),
		keyspace.Expire(life).Jitter(life/4).Negative(empty).StaleIfError(time.Hour), keyspace.Doc{})
}

// node is one process with package cache.
type node struct {
	rt   *cache.Runtime
	rows *cache.Cache[keyspace.Text, string]
	fam  keyspace.F1[keyspace.Text, keyspace.Cached[string]]
	db   *redis.DB
	stop context.CancelFunc
	work sync.WaitGroup
}

var stoa = cachetest.Library{Name: "stoa/cache", Open: open, Virtual: true}

var started atomic.Int64

func open(t testing.TB, n cachetest.Node) (cachetest.Adapter, error) {
	return openWith(t, redis.Config{URL: n.Redis, Dial: n.Dial}, n)
}

func openWith(t testing.TB, cfg redis.Config, n cachetest.Node) (cachetest.Adapter, error) {
	cfg.Log = slog.New(slog.DiscardHandler)
	db, err := redis.Open(t.Context(), cfg)
	if err != nil {
		return nil, err
	}
	return openOn(t, db, n)
}

func openOn(t testing.TB, db *redis.DB, n cachetest.Node) (cachetest.Adapter, error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: fmt.Sprint(n.Name, "-", started.Add(1))})
	a := &node{rt: cache.NewRuntime(db, b, cache.Config{}), fam: family(n.Life, n.Empty), db: db, stop: stop}
	policy := cache.Policy{LoadTimeout: n.Load, ChangeTimeout: n.Change}
	if n.Proceed {
		policy.Unfenced = cache.Proceed
	}
	a.rows = cache.New(a.rt, a.fam, policy, cache.Source[keyspace.Text, string]{
		Load: func(ctx context.Context, k keyspace.Text) (string, error) {
			text, err := n.Source.Load(ctx, k.S)
			if errors.Is(err, cachetest.ErrNotFound) {
				err = cache.ErrNotFound
			}
			return text, err
		},
		Tags: func(k keyspace.Text) []cache.Tag {
			tag, _, _ := strings.Cut(k.S, "/")
			return []cache.Tag{cache.TagOf("test", tag)}
		},
	})
	a.work.Go(func() { _ = b.Run(ctx, func() {}) })
	a.work.Go(func() { _ = a.rt.Run(ctx, func() {}) })
	return a, b.Wait(t.Context())
}

func (a *node) Get(ctx context.Context, key string) (string, error) {
	text, err := a.rows.Get(ctx, keyspace.Text{S: key})
	if errors.Is(err, cache.ErrNotFound) {
		err = cachetest.ErrNotFound
	}
	return text, err
}

func (a *node) GetMany(ctx context.Context, keys []string) (map[string]string, error) {
	ks := make([]keyspace.Text, len(keys))
	for i, k := range keys {
		ks[i] = keyspace.Text{S: k}
	}
	found, err := a.rows.GetMany(ctx, ks)
	texts := map[string]string{}
	for k, text := range found {
		texts[k.S] = text
	}
	return texts, err
}

func (a *node) Change(ctx context.Context, key string, commit func(context.Context) error) error {
	_, err := a.rows.Mutate(ctx, keyspace.Text{S: key}, commit)
	return err
}

func (a *node) ChangeTag(ctx context.Context, tag string, commit func(context.Context) error) error {
	return a.rt.Change(ctx, commit, cache.TagOf("test", tag).Target())
}

func (a *node) Drop(ctx context.Context, key string) error {
	return a.rows.Invalidate(ctx, keyspace.Text{S: key})
}

func (a *node) Set(ctx context.Context, key, text string) error {
	return a.rows.Set(ctx, keyspace.Text{S: key}, text)
}

func (a *node) Physical(key string) string { return a.db.Physical(a.fam.At(keyspace.Text{S: key}).Key) }

func (a *node) Close() {
	a.stop()
	_ = a.db.Close()
	a.work.Wait()
}

func TestHistories(t *testing.T) {
	for _, e := range redistest.Engines(t) {
		if e.Name == "spawn" {
			continue // each node has its own standalone server
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			l, cfg := stoa, e.Config(t)
			l.Open = func(t testing.TB, n cachetest.Node) (cachetest.Adapter, error) { return openWith(t, cfg, n) }
			if e.Name == "embedded" {
				db := redistest.OpenConfig(t, cfg) // both nodes are in this process
				l.Open = func(t testing.TB, n cachetest.Node) (cachetest.Adapter, error) { return openOn(t, db, n) }
			}
			cachetest.History(t, l, cfg.URL)
		})
	}
}

func TestHazards(t *testing.T) { cachetest.Run(t, stoa) }

// A wire in memory behaves like one to a real server.
func TestHazardsOfARealNetwork(t *testing.T) {
	t.Parallel()
	l := stoa
	l.OnServers = true
	for _, v := range cachetest.Judge(t, l, "a late command", "the message alone", "a drop that Redis does not take", "under black holes",
		"under resets") {
		if !v.Held {
			t.Errorf("%s: %s", v.Hazard, v.Why)
		}
	}
}

// naive keeps every value that it has read in process forever.
type naive struct {
	mu     sync.Mutex
	texts  map[string]string
	source *cachetest.Source
}

func (a *naive) Get(ctx context.Context, key string) (string, error) {
	a.mu.Lock()
	text := a.texts[key]
	a.mu.Unlock()
	if text == "" {
		var err error
		if text, err = a.source.Load(ctx, key); err != nil {
			return "", err
		}
		a.mu.Lock()
		a.texts[key] = text
		a.mu.Unlock()
	}
	return text, nil
}

func (a *naive) Change(ctx context.Context, key string, commit func(context.Context) error) error {
	err := commit(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.texts, key)
	return err
}

func (a *naive) Close() {}

func TestJudge_DetectsNaiveCache(t *testing.T) {
	t.Parallel()
	l := cachetest.Library{Name: "naive", Virtual: true, MaxStale: 50 * time.Millisecond,
		Open: func(_ testing.TB, n cachetest.Node) (cachetest.Adapter, error) {
			return &naive{texts: map[string]string{}, source: n.Source}, nil
		}}
	wrong := 0
	for _, v := range cachetest.Judge(t, l, "a load overtaken", "alone", "silent", "emptied in", "than it may", "outcome", "resets",
		"what does not exist", "herd", "ignores", "tags") {
		if v.Held || v.Not != strings.HasPrefix(v.Hazard, "tags") {
			t.Errorf("%s: %+v", v.Hazard, v)
		}
		wrong++
	}
	if wrong < 10 {
		t.Errorf("%d hazards", wrong)
	}
}

// TestDelay_OtherNodeSeesChange measures the normal case, two nodes with a working Redis: the time from a commit, and
// from a drop after another program's commit, until the other node reads the new text. STOA_HAZARDS=full produces the
// figures of docs/cache-hazards.md.
func TestDelay_OtherNodeSeesChange(t *testing.T) {
	rounds := 100
	if os.Getenv("STOA_HAZARDS") == "full" {
		rounds = 5000
	}
	s := &cachetest.Source{}
	url := redistest.Server(t).URL
	var nodes [2]*node
	for i := range nodes {
		a, err := open(t, cachetest.Node{Name: fmt.Sprint("n", i), Redis: url, Source: s, Life: time.Hour, Empty: time.Minute,
			Load: 5 * time.Second, Change: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = a.(*node)
		t.Cleanup(a.Close)
	}
	for name, change := range map[string]func(text string, committed *time.Time) error{
		"Mutate": func(text string, committed *time.Time) error {
			return nodes[0].Change(t.Context(), "row", func(context.Context) error {
				s.Set("row", text)
				*committed = time.Now()
				return nil
			})
		},
		"Invalidate": func(text string, committed *time.Time) error {
			s.Set("row", text)
			*committed = time.Now()
			return nodes[0].rows.Invalidate(t.Context(), keyspace.Text{S: "row"})
		},
	} {
		var took []time.Duration
		for n := range rounds {
			text := fmt.Sprint(name, n)
			if _, err := nodes[1].Get(t.Context(), "row"); err != nil && n > 0 {
				t.Fatal(err)
			}
			var committed time.Time
			seen := make(chan time.Time)
			go func() {
				for got := ""; got != text && t.Context().Err() == nil; time.Sleep(20 * time.Microsecond) {
					got, _ = nodes[1].Get(t.Context(), "row")
				}
				seen <- time.Now()
			}()
			err := change(text, &committed)
			for errors.Is(err, cache.ErrUnfenced) { // a stalled machine, not a failing Redis: retry
				err = change(text, &committed)
			}
			if err != nil && !errors.Is(err, cache.ErrQueued) {
				t.Errorf("%s: %v", name, err)
			}
			took = append(took, (<-seen).Sub(committed))
		}
		slices.Sort(took)
		p := func(part int) time.Duration { return took[len(took)*part/1000].Round(10 * time.Microsecond) }
		t.Logf("%s, %d times: p50 %s, p99 %s, p99.9 %s after the commit", name, rounds, p(500), p(990), p(999))
	}
}
