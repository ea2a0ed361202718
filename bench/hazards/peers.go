// Package hazards runs other caches with the suite of package cachetest, each in the best way that its documentation
// shows. It is a separate module, so that no other module has their dependencies.
//
//	go test -v -timeout 30m . -run TestPeers > peers.txt
package hazards

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	rediscache "github.com/go-redis/cache/v9"
	"github.com/maypok86/otter/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/viccon/sturdyc"
	"github.com/zeromicro/go-zero/core/logx"
	zero "github.com/zeromicro/go-zero/core/stores/cache"
	zeroredis "github.com/zeromicro/go-zero/core/stores/redis"
	"github.com/zeromicro/go-zero/core/syncx"
	"golang.org/x/sync/singleflight"

	"github.com/stoa-dev/stoa/lib/cache/cachetest"
)

// peers are the libraries.
var peers = []cachetest.Library{
	{Name: "go-redis/cache v9.0.0", Open: openGoRedis(true)},
	{Name: "go-redis/cache v9.0.0, Redis alone", Open: openGoRedis(false)},
	{Name: "go-zero cache v1.10.3", Open: openZero},
	{Name: "sturdyc v1.1.5", Open: openSturdyc},
	{Name: "rueidis v1.0.79, client-side caching", Open: openRueidis},
	{Name: "by hand: otter + go-redis + pub/sub", Open: openByHand},
}

// client connects with the defaults of go-redis.
func client(n cachetest.Node) (redis.UniversalClient, error) {
	addrs, ok := strings.CutPrefix(n.Redis, "redis://")
	if ok {
		return redis.NewClient(&redis.Options{Addr: addrs}), nil
	}
	if addrs, ok = strings.CutPrefix(n.Redis, "redis-sentinel://"); ok {
		addrs, name, _ := strings.Cut(addrs, "/")
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: name, SentinelAddrs: strings.Split(addrs, ",")}), nil
	}
	addrs = strings.TrimPrefix(n.Redis, "redis-cluster://")
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(addrs, ",")}), nil
}

// goRedis follows its README: Once, with a local TinyLFU of a minute or without.
type goRedis struct {
	n   cachetest.Node
	rdb redis.UniversalClient
	c   *rediscache.Cache
}

func openGoRedis(local bool) func(testing.TB, cachetest.Node) (cachetest.Adapter, error) {
	return func(_ testing.TB, n cachetest.Node) (cachetest.Adapter, error) {
		rdb, err := client(n)
		if err != nil {
			return nil, err
		}
		opt := &rediscache.Options{Redis: rdb}
		if local {
			opt.LocalCache = rediscache.NewTinyLFU(10_000, min(time.Minute, n.Life))
		}
		return &goRedis{n, rdb, rediscache.New(opt)}, nil
	}
}

func (a *goRedis) Get(ctx context.Context, key string) (text string, err error) {
	err = a.c.Once(&rediscache.Item{Ctx: ctx, Key: key, Value: &text, TTL: a.n.Life,
		Do: func(*rediscache.Item) (any, error) { return a.n.Source.Load(ctx, key) }})
	return text, err
}

func (a *goRedis) Change(ctx context.Context, key string, commit func(context.Context) error) error {
	return errors.Join(commit(ctx), a.c.Delete(ctx, key))
}

func (a *goRedis) Drop(ctx context.Context, key string) error { return a.c.Delete(ctx, key) }

func (a *goRedis) Set(ctx context.Context, key, text string) error {
	return a.c.Set(&rediscache.Item{Ctx: ctx, Key: key, Value: text, TTL: a.n.Life})
}

func (a *goRedis) Physical(key string) string { return key }
func (a *goRedis) Close()                     { a.rdb.Close() }

// zeroCache is core/stores/cache, which uses only Redis.
type zeroCache struct {
	n cachetest.Node
	c zero.Cache
}

func openZero(_ testing.TB, n cachetest.Node) (cachetest.Adapter, error) {
	addr, ok := strings.CutPrefix(n.Redis, "redis://")
	kind := zeroredis.NodeType
	if !ok {
		if addr, ok = strings.CutPrefix(n.Redis, "redis-cluster://"); !ok {
			return nil, cachetest.ErrNotOffered
		}
		kind = zeroredis.ClusterType
	}
	logx.Disable()
	rdb, err := zeroredis.NewRedis(zeroredis.RedisConf{Host: addr, Type: kind, PingTimeout: time.Second})
	if err != nil {
		return nil, err
	}
	return &zeroCache{n, zero.NewNode(rdb, syncx.NewSingleFlight(), zero.NewStat(n.Name), cachetest.ErrNotFound,
		zero.WithExpiry(n.Life), zero.WithNotFoundExpiry(n.Empty))}, nil
}

func (a *zeroCache) Get(ctx context.Context, key string) (text string, err error) {
	err = a.c.TakeCtx(ctx, &text, key, func(v any) error {
		found, err := a.n.Source.Load(ctx, key)
		*v.(*string) = found
		return err
	})
	return text, err
}

func (a *zeroCache) Change(ctx context.Context, key string, commit func(context.Context) error) error {
	return errors.Join(commit(ctx), a.c.DelCtx(ctx, key))
}

func (a *zeroCache) Drop(ctx context.Context, key string) error { return a.c.DelCtx(ctx, key) }

func (a *zeroCache) Set(ctx context.Context, key, text string) error {
	return a.c.SetCtx(ctx, key, text)
}

func (a *zeroCache) Physical(key string) string { return key }
func (a *zeroCache) Close()                     {}

// sturdy is sturdyc with Redis as its distributed storage.
type sturdy struct {
	n   cachetest.Node
	rdb redis.UniversalClient
	c   *sturdyc.Client[string]
}

func openSturdyc(_ testing.TB, n cachetest.Node) (cachetest.Adapter, error) {
	rdb, err := client(n)
	if err != nil {
		return nil, err
	}
	a := &sturdy{n: n, rdb: rdb}
	a.c = sturdyc.New[string](10_000, 10, n.Life, 10,
		sturdyc.WithMissingRecordStorage(),
		sturdyc.WithEarlyRefreshes(n.Life*7/10, n.Life*9/10, n.Life*19/20, 10*time.Millisecond),
		sturdyc.WithDistributedStorage(redisStorage{a}))
	return a, nil
}

func (a *sturdy) Get(ctx context.Context, key string) (string, error) {
	text, err := a.c.GetOrFetch(ctx, key, func(ctx context.Context) (string, error) {
		text, err := a.n.Source.Load(ctx, key)
		if errors.Is(err, cachetest.ErrNotFound) {
			err = sturdyc.ErrNotFound
		}
		return text, err
	})
	if errors.Is(err, sturdyc.ErrMissingRecord) || errors.Is(err, sturdyc.ErrNotFound) {
		err = cachetest.ErrNotFound
	}
	return text, err
}

func (a *sturdy) Change(ctx context.Context, key string, commit func(context.Context) error) error {
	err := commit(ctx)
	err = errors.Join(err, a.rdb.Del(ctx, key).Err())
	a.c.Delete(key)
	return err
}

func (a *sturdy) Drop(ctx context.Context, key string) error {
	err := a.rdb.Del(ctx, key).Err()
	a.c.Delete(key)
	return err
}

func (a *sturdy) Set(ctx context.Context, key, text string) error {
	stored, err := json.Marshal(map[string]any{"created_at": time.Now(), "value": text}) // as the library writes a fetched value
	if err == nil {
		err = a.rdb.Set(ctx, key, stored, a.n.Life).Err()
	}
	a.c.Set(key, text)
	return err
}

func (a *sturdy) Physical(key string) string { return key }
func (a *sturdy) Close()                     { a.rdb.Close() }

// redisStorage is the sturdyc.DistributedStorage.

var _ sturdyc.DistributedStorage = redisStorage{}

type redisStorage struct{ *sturdy }

func (s redisStorage) Get(ctx context.Context, key string) ([]byte, bool) {
	b, err := s.rdb.Get(ctx, key).Bytes()
	return b, err == nil
}
func (s redisStorage) Set(ctx context.Context, key string, value []byte) {
	s.rdb.Set(ctx, key, value, s.n.Life)
}
func (s redisStorage) GetBatch(ctx context.Context, keys []string) map[string][]byte {
	found := map[string][]byte{}
	for _, k := range keys {
		if b, ok := s.Get(ctx, k); ok {
			found[k] = b
		}
	}
	return found
}
func (s redisStorage) SetBatch(ctx context.Context, records map[string][]byte) {
	for k, b := range records {
		s.Set(ctx, k, b)
	}
}

// csc is server-assisted client-side caching (RESP3 CLIENT TRACKING).
type csc struct {
	n cachetest.Node
	c rueidis.Client
}

func openRueidis(_ testing.TB, n cachetest.Node) (cachetest.Adapter, error) {
	opt := rueidis.ClientOption{}
	addrs, ok := strings.CutPrefix(n.Redis, "redis://")
	if !ok {
		if addrs, ok = strings.CutPrefix(n.Redis, "redis-sentinel://"); ok {
			addrs, opt.Sentinel.MasterSet, _ = strings.Cut(addrs, "/")
		} else {
			addrs = strings.TrimPrefix(n.Redis, "redis-cluster://")
		}
	}
	opt.InitAddress = strings.Split(addrs, ",")
	c, err := rueidis.NewClient(opt)
	return &csc{n, c}, err
}

func (a *csc) Get(ctx context.Context, key string) (string, error) {
	text, err := a.c.DoCache(ctx, a.c.B().Get().Key(key).Cache(), a.n.Life).ToString()
	if err == nil {
		return text, nil
	}
	if text, err = a.n.Source.Load(ctx, key); err == nil {
		a.c.Do(ctx, a.c.B().Set().Key(key).Value(text).Px(a.n.Life).Build())
	}
	return text, err
}

func (a *csc) Change(ctx context.Context, key string, commit func(context.Context) error) error {
	return errors.Join(commit(ctx), a.c.Do(ctx, a.c.B().Del().Key(key).Build()).Error())
}

func (a *csc) Drop(ctx context.Context, key string) error {
	return a.c.Do(ctx, a.c.B().Del().Key(key).Build()).Error()
}

func (a *csc) Set(ctx context.Context, key, text string) error {
	return a.c.Do(ctx, a.c.B().Set().Key(key).Value(text).Px(a.n.Life).Build()).Error()
}

func (a *csc) Physical(key string) string { return key }
func (a *csc) Close()                     { a.c.Close() }

// byHand is the code that most projects write. It has a cache in process and Redis, one load at a time in each process,
// and a channel that broadcasts the keys to drop.
type byHand struct {
	n      cachetest.Node
	rdb    redis.UniversalClient
	near   *otter.Cache[string, string]
	flight singleflight.Group
	stop   context.CancelFunc
	work   sync.WaitGroup
}

const channel = "dropped"

func openByHand(t testing.TB, n cachetest.Node) (cachetest.Adapter, error) {
	rdb, err := client(n)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	a := &byHand{n: n, rdb: rdb, stop: stop,
		near: otter.Must(&otter.Options[string, string]{MaximumSize: 10_000,
			ExpiryCalculator: otter.ExpiryWriting[string, string](min(time.Minute, n.Life))})}
	sub := rdb.Subscribe(ctx, channel)
	if _, err := sub.Receive(ctx); err != nil {
		return nil, err
	}
	a.work.Go(func() {
		defer sub.Close()
		for {
			select {
			case m, ok := <-sub.Channel():
				if !ok {
					return
				}
				a.near.Invalidate(m.Payload)
			case <-ctx.Done():
				return
			}
		}
	})
	return a, nil
}

func (a *byHand) Get(ctx context.Context, key string) (string, error) {
	if text, ok := a.near.GetIfPresent(key); ok {
		return text, nil
	}
	v, err, _ := a.flight.Do(key, func() (any, error) {
		text, err := a.rdb.Get(ctx, key).Result()
		if err != nil {
			if text, err = a.n.Source.Load(ctx, key); err != nil {
				return "", err
			}
			a.rdb.Set(ctx, key, text, a.n.Life)
		}
		a.near.Set(key, text)
		return text, nil
	})
	text, _ := v.(string)
	return text, err
}

func (a *byHand) Change(ctx context.Context, key string, commit func(context.Context) error) error {
	err := errors.Join(commit(ctx), a.rdb.Del(ctx, key).Err(), a.rdb.Publish(ctx, channel, key).Err())
	a.near.Invalidate(key)
	return err
}

func (a *byHand) Drop(ctx context.Context, key string) error {
	return a.Change(ctx, key, func(context.Context) error { return nil })
}

func (a *byHand) Set(ctx context.Context, key, text string) error {
	err := errors.Join(a.rdb.Set(ctx, key, text, a.n.Life).Err(), a.rdb.Publish(ctx, channel, key).Err())
	a.near.Set(key, text)
	return err
}

func (a *byHand) Physical(key string) string { return key }
func (a *byHand) Close()                     { a.stop(); a.rdb.Close(); a.work.Wait() }
