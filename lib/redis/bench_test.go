package redis_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// ladder runs b on the engines that differ on one machine.
func ladder(b *testing.B, run func(*testing.B, *redis.DB)) {
	for _, e := range redistest.Engines(b)[:3] {
		b.Run(e.Name, func(b *testing.B) { run(b, e.Open(b)) })
	}
}

func BenchmarkGetBy64(b *testing.B) {
	ladder(b, func(b *testing.B, db *redis.DB) {
		v := value.At(n(1))
		if err := v.SetFor(b.Context(), db, "0123456789", time.Hour); err != nil {
			b.Fatal(err)
		}
		ctx := b.Context()
		b.SetParallelism(32) // callers per processor
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, _, err := v.Get(ctx, db); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "GET/s")
	})
}

func BenchmarkGetAlone(b *testing.B) {
	ladder(b, func(b *testing.B, db *redis.DB) {
		v := value.At(n(1))
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			v.Get(ctx, db)
		}
	})
}

// The batch of a group commit: SETBIT, PEXPIRE and GET for 32 users.
func BenchmarkDoMulti96(b *testing.B) {
	ladder(b, func(b *testing.B, db *redis.DB) {
		ctx := b.Context()
		var cmds []keyspace.Cmd
		for i := range 32 {
			h := bits.At(n(i))
			cmds = append(cmds, h.SetBitBareCmd(800-i), h.RenewCmd(), h.GetCmd())
		}
		b.SetParallelism(2)
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if err := keyspace.FirstErr(db.DoMulti(ctx, cmds)); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)*96/b.Elapsed().Seconds(), "commands/s")
	})
}

func BenchmarkScript(b *testing.B) {
	ladder(b, func(b *testing.B, db *redis.DB) {
		ctx := b.Context()
		s := redis.NewScript("return redis.call('SET', KEYS[1], ARGV[1])")
		calls := make([]redis.Call, 32)
		for i := range calls {
			calls[i] = redis.Call{Script: s, Keys: []keyspace.Key{value.At(n(i)).Key}, Args: []string{strconv.Itoa(i)}}
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := keyspace.FirstErr(db.RunMulti(ctx, calls)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*32/b.Elapsed().Seconds(), "scripts/s")
	})
}
