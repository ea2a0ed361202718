package cache_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func BenchmarkHit(b *testing.B) {
	db := redistest.OpenConfig(b, redis.Config{})
	s := &table{}
	n := start(b, db, s, cache.Policy{MaxStale: time.Minute})
	for i := range int64(5000) {
		s.set(i, user{"ada", 36})
		_, err := n.users.Get(b.Context(), keyspace.Int{N: i})
		must(b, err)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.users.Get(b.Context(), keyspace.Int{N: draw.Int64N(5000)}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		bus.Now()
	}
}

func BenchmarkTimeNow(b *testing.B) {
	for b.Loop() {
		time.Now()
	}
}

func BenchmarkRand(b *testing.B) {
	for b.Loop() {
		rand.Uint32()
	}
}

func thirtyTwo(b *testing.B) (n *node, ids []keyspace.Int) {
	db := redistest.OpenConfig(b, redis.Config{})
	s := &table{}
	n = start(b, db, s, cache.Policy{MaxStale: time.Minute})
	for i := range int64(32) {
		s.set(i, user{"ada", 36})
		ids = append(ids, keyspace.Int{N: i})
		_, err := n.users.Get(b.Context(), keyspace.Int{N: i})
		must(b, err)
	}
	return n, ids
}

func BenchmarkGetMany(b *testing.B) {
	n, ids := thirtyTwo(b)
	b.ReportAllocs()
	for b.Loop() {
		if m, err := n.users.GetMany(b.Context(), ids); err != nil || len(m) != 32 {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetAll(b *testing.B) {
	n, ids := thirtyTwo(b)
	b.ReportAllocs()
	for b.Loop() {
		if all, err := n.users.GetAll(b.Context(), ids); err != nil || all[31] == nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMap32(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		m := make(map[keyspace.Int]user, 32)
		for i := range int64(32) {
			m[keyspace.Int{N: i}] = user{"ada", 36}
		}
	}
}
