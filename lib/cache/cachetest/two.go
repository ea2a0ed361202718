package cachetest

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// NothingStale makes two programs, each with its own client to one Redis, change and read one value in turns. A change
// by one is seen by the other, and no reader sees an older value after a newer one.
func NothingStale(t *testing.T, clients [2]*redis.DB) {
	t.Helper()
	var truth atomic.Int64
	load := func(context.Context, int) (int64, error) { return truth.Load(), nil }
	var nodes []*cache.Cache[int, int64]
	for _, db := range clients {
		rt, err := cache.Open(t.Context(), cache.Options{DB: db})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rt.Close() })
		nodes = append(nodes, cache.Keyed(rt, "truth", strconv.Itoa, load, cache.TTL(time.Hour)))
	}
	for i := range int64(200) {
		writer, reader := nodes[i%2], nodes[1-i%2]
		if _, err := reader.Get(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		var v int64
		var err error
		eventually.True(t, "Redis accepts the fence of a change", func() bool { // a stalled machine may cause a refusal
			v, err = writer.Mutate(t.Context(), 1, func(context.Context) error { truth.Add(1); return nil })
			return !errors.Is(err, cache.ErrUnfenced)
		})
		if v != i+1 || err != nil {
			t.Fatalf("change %d: %d, %v", i+1, v, err)
		}
		eventually.True(t, "the other program sees the change", func() bool {
			v, err := reader.Get(t.Context(), 1)
			if err != nil || v > i+1 {
				t.Fatalf("after change %d: %d, %v", i+1, v, err)
			}
			return v == i+1
		})
	}
}
