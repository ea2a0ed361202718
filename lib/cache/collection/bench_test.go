package collection_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache/collection"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// The cost of a question compared with the same from a plain hash, set or sorted set by the same client.
func BenchmarkCollection(b *testing.B) {
	db := redistest.Open(b, redistest.Server(b).URL)
	s := newTables()
	var names []string
	var numbers []int64
	s.pending[1] = map[string]float64{}
	plain := map[string][]string{}
	for i := range 200 {
		name := fmt.Sprintf("V1StGXR8_%03d", i)
		names, numbers = append(names, name), append(numbers, int64(1e9+i))
		s.befriend(1, name, friend{"a remark", 1736344200000})
		s.blocked[1] = append(s.blocked[1], numbers[i])
		s.pending[1][name] = float64(i)
		plain["HSET"] = append(plain["HSET"], name, `{"remark":"a remark","since":1736344200000}`)
		plain["SADD"] = append(plain["SADD"], fmt.Sprint(numbers[i]))
		plain["ZADD"] = append(plain["ZADD"], fmt.Sprint(i), name)
	}
	n := relate(b, db, s, collection.Policy{MaxStale: time.Minute})
	ctx, k := b.Context(), id(1)
	raw := map[string]keyspace.Key{"HSET": friends.At(id(2)).Key, "SADD": blocked.At(id(2)).Key, "ZADD": pending.At(id(2)).Key}
	for name, args := range plain {
		must(b, db.Do(ctx, keyspace.Cmd{Name: name, Key: raw[name], Args: args}).Err)
	}
	ask := func(name string, key keyspace.Key, args ...string) func() error {
		return func() error { return db.Do(ctx, keyspace.Cmd{Name: name, Key: key, Args: args}).Err }
	}
	decoded := func() error { // as a caller would
		replies, err := db.Do(ctx, keyspace.Cmd{Name: "HMGET", Key: raw["HSET"], Args: names[:100]}).Items()
		out := make(map[string]friend, len(replies))
		for i, r := range replies {
			var f friend
			if err := json.Unmarshal([]byte(r.Str), &f); err != nil {
				return err
			}
			out[names[i]] = f
		}
		return err
	}
	text := make([]string, 100)
	for i := range text {
		text[i] = fmt.Sprint(numbers[i])
	}
	for _, pair := range []struct {
		name     string
		raw, our func() error
	}{
		{"hash Has", ask("HGET", raw["HSET"], names[50]), func() error { _, err := n.friends.Has(ctx, k, names[50]); return err }},
		{"hash Get", ask("HGET", raw["HSET"], names[50]), func() error { _, _, err := n.friends.Get(ctx, k, names[50]); return err }},
		{"hash HasMany of 100", ask("HMGET", raw["HSET"], names[:100]...), func() error {
			_, err := n.friends.HasMany(ctx, k, names[:100])
			return err
		}},
		{"hash GetMany of 100", decoded, func() error { _, err := n.friends.GetMany(ctx, k, names[:100]); return err }},
		{"set Has", ask("SISMEMBER", raw["SADD"], text[50]), func() error { _, err := n.blocked.Has(ctx, k, numbers[50]); return err }},
		{"set HasMany of 100", ask("SMISMEMBER", raw["SADD"], text...), func() error {
			_, err := n.blocked.HasMany(ctx, k, numbers[:100])
			return err
		}},
		{"zset Score", ask("ZSCORE", raw["ZADD"], names[50]), func() error { _, _, err := n.pending.Score(ctx, k, names[50]); return err }},
		{"zset Page of 20", ask("ZREVRANGE", raw["ZADD"], "0", "19", "WITHSCORES"), func() error {
			_, _, err := n.pending.Page(ctx, k, "", 20)
			return err
		}},
	} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/%d callers", pair.name, callers), func(b *testing.B) {
				// In turns, so that other load on the machine affects both.
				const turn = 4096
				each := func(do func() error) time.Duration {
					began := time.Now()
					var wg sync.WaitGroup
					for range callers {
						wg.Go(func() {
							for range turn / callers {
								if err := do(); err != nil {
									b.Error(err)
								}
							}
						})
					}
					wg.Wait()
					return time.Since(began)
				}
				var raw, our time.Duration
				for b.Loop() {
					raw += each(pair.raw)
					our += each(pair.our)
				}
				b.ReportMetric(float64(raw.Nanoseconds())/float64(b.N*turn), "ns/raw")
				b.ReportMetric(float64(our.Nanoseconds())/float64(b.N*turn), "ns/ours")
				b.ReportMetric(our.Seconds()/raw.Seconds(), "ratio")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
	if stats := n.friends.Stats(); stats.Loads > 3 {
		b.Errorf("%+v", stats)
	}
}
