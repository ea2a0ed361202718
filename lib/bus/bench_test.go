package bus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}

func BenchmarkSeen(b *testing.B) {
	n := New(redistest.Open(b, "embedded"), keys, Config{Node: "a"})
	for b.Loop() {
		n.Seen()
	}
}

// each runs fn over the engines with published figures.
func each(b *testing.B, fn func(*testing.B, *redis.DB)) {
	for _, e := range redistest.Engines(b) {
		if e.Name == "embedded" || e.Name == "standalone" || e.Name == "cluster" {
			b.Run(e.Name, func(b *testing.B) { fn(b, e.Open(b)) })
		}
	}
}

func BenchmarkBeat(b *testing.B) {
	each(b, func(b *testing.B, db *redis.DB) {
		n := New(db, keys, Config{Node: "a"})
		for b.Loop() {
			if err := n.beat(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	each(b, func(b *testing.B, db *redis.DB) {
		join(b, db, "listener", Config{})
		n := New(db, keys, Config{Node: "a"})
		b.Run("alone", func(b *testing.B) {
			for b.Loop() {
				if err := n.Publish(b.Context(), "topic", "name", "data"); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("by many", func(b *testing.B) {
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := n.Publish(b.Context(), "topic", "name", "data"); err != nil {
						b.Error(err)
					}
				}
			})
		})
		b.Run("passed", func(b *testing.B) {
			for b.Loop() {
				if err := n.Pass(b.Context(), "topic", "name", "data"); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkArrival measures from before Publish until another node's handler is called, at several thousand events a
// second.
func BenchmarkArrival(b *testing.B) {
	for _, e := range redistest.Engines(b) {
		if e.Name != "standalone" && e.Name != "cluster" {
			continue
		}
		b.Run(e.Name, func(b *testing.B) {
			cfg := e.Config(b)
			here, there := redistest.OpenConfig(b, cfg), redistest.OpenConfig(b, cfg)
			var mu sync.Mutex
			var took []time.Duration
			done := make(chan struct{}, 1)
			n := New(there, keys, Config{Node: "there"})
			n.Handle("topic", Handler{Event: func(e Event) {
				var sent Moment
				_, _ = fmt.Sscan(e.Data, &sent)
				mu.Lock()
				took = append(took, time.Duration(Now()-sent))
				mu.Unlock()
				done <- struct{}{}
			}})
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = n.Run(ctx, func() {}) })
			defer running.Wait()
			defer cancel()
			eventually.True(b, "the first beat", func() bool { return n.Seen() != 0 })
			from := New(here, keys, Config{Node: "here"})
			for b.Loop() {
				if err := from.Publish(b.Context(), "topic", "name", fmt.Sprint(int64(Now()))); err != nil {
					b.Fatal(err)
				}
				<-done
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-µs")
		})
	}
}
