package queue_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// BenchmarkQueue measures messages of 100 bytes from Publish, 100 at a time, to their acknowledgement: one by one with
// eight workers, and in batches of up to 100.
func BenchmarkQueue(b *testing.B) {
	stores := []struct {
		name string
		open func() queue.Store
	}{
		{"sqlite", func() queue.Store { return queue.NewSQL(sqldbtest.SQLite(b)) }},
		{"mariadb", func() queue.Store {
			return queue.NewSQL(sqldbtest.Open(b, sqldb.Config{URL: sqldbtest.OwnServer(b, sqldbtest.Options{Durable: true}).URL}))
		}},
		{"redis", func() queue.Store { return queue.NewRedis(redistest.Open(b, redistest.Server(b).URL)) }},
	}
	ms := make([]queue.Message, 100)
	for i := range ms {
		ms[i] = queue.Message{Topic: "bench", Payload: make([]byte, 100)}
	}
	for _, st := range stores {
		s := st.open()
		for _, batched := range []bool{false, true} {
			name := st.name + "/one by one"
			if batched {
				name = st.name + "/batches"
			}
			b.Run(name, func(b *testing.B) {
				var all sync.WaitGroup
				all.Add(b.N)
				handlers := map[string]queue.Handler{"bench": func(context.Context, queue.Delivery) error { all.Done(); return nil }}
				var batches []queue.Batch
				if batched {
					handlers = nil
					batches = append(batches, queue.Batch{Topics: []string{"bench"}, Handle: func(_ context.Context, ds []queue.Delivery) []error {
						all.Add(-len(ds))
						return nil
					}})
				}
				c, err := queue.NewConsumer(s, handlers, batches, queue.Config{})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = c.Run(ctx) }) // it returns nil
				for left := b.N; left > 0; left -= len(ms) {
					if err := s.Publish(b.Context(), ms[:min(left, len(ms))]...); err != nil {
						b.Fatal(err)
					}
				}
				all.Wait()
				b.StopTimer()
				cancel()
				running.Wait()
			})
		}
	}
}

// BenchmarkWaiting measures an empty result of Waiting while 100,000 messages of another topic wait.
func BenchmarkWaiting(b *testing.B) {
	for _, e := range sqldbtest.Engines(b) {
		db := e.Open(b)
		other := make([]sqldb.Message, 1000)
		for i := range other {
			other[i] = sqldb.Message{Topic: "other", Payload: make([]byte, 100)}
		}
		for range 100 {
			if err := db.Tx(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return tx.Enqueue(ctx, other...) }); err != nil {
				b.Fatal(err)
			}
		}
		s := queue.NewSQL(db)
		b.Run(e.Name, func(b *testing.B) {
			for b.Loop() {
				if es, err := s.Waiting(b.Context(), "drop", 500); err != nil || len(es) != 0 {
					b.Fatal(es, err)
				}
			}
		})
	}
}
