package cachetest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/cache"
	"github.com/stoa-dev/stoa/cache/cachetest"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
)

var (
	schema = keyspace.New("cachetest")
	events = keyspace.DefChannel0(schema, "test:events", "bus", keyspace.Doc{})
	log    = keyspace.Def0(schema, "test:events", keyspace.StreamOf("bus"), keyspace.Forever("trimmed"), keyspace.Doc{})
)

// family is declared anew for each life that a hazard asks for.
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

var stoa = cachetest.Library{Name: "stoa/cache", Open: open}

var started atomic.Int64

func open(t testing.TB, n cachetest.Node) (cachetest.Adapter, error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	db, err := redis.Open(ctx, redis.Config{URL: n.Redis, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		stop()
		return nil, err
	}
	b := bus.New(db, bus.Keys{Events: events.At(), Log: log.At()}, bus.Config{Node: fmt.Sprint(n.Name, "-", started.Add(1))})
	a := &node{rt: cache.NewRuntime(db, b, cache.Config{}), fam: family(n.Life, n.Empty), db: db, stop: stop}
	a.rows = cache.New(a.rt, a.fam, cache.Policy{LoadTimeout: n.Load, ChangeTimeout: n.Change}, cache.Source[keyspace.Text, string]{
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
	for end := time.Now().Add(20 * time.Second); b.Seen() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return nil, errors.New("the bus does not come up")
		}
	}
	return a, nil
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

func (a *node) Physical(key string) string { return a.db.Physical(a.fam.At(keyspace.Text{S: key}).Key) }

func (a *node) Close() {
	a.stop()
	_ = a.db.Close()
	a.work.Wait()
}

func TestHazards(t *testing.T) { cachetest.Run(t, stoa) }
