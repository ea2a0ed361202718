package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// nameTable is a table of users by number.
type nameTable struct {
	mu    sync.Mutex
	names map[int64]string
	asked int
}

func (u *nameTable) load(_ context.Context, id int64) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked++
	name, ok := u.names[id]
	if !ok {
		return "", cache.ErrNotFound
	}
	return name, nil
}

func (u *nameTable) rename(id int64, name string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.names[id] = name
	return nil
}

func decimal(id int64) string { return strconv.FormatInt(id, 10) }

// A complete example in the memory of one process. With a URL in Options.Redis the processes of a program share the
// cached values, and receive each other's changes.
func ExampleOpen() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{}) // cache.Options{Redis: redis.Config{URL: "redis://localhost:6379"}}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()

	table := &nameTable{names: map[int64]string{7: "Ada"}} // your database
	names := cache.Keyed(rt, "user_name", decimal, table.load, cache.TTL(time.Hour))

	name, err := names.Get(ctx, 7)
	fmt.Println(name, err)
	name, err = names.Mutate(ctx, 7, func(context.Context) error { return table.rename(7, "Ada Lovelace") })
	fmt.Println(name, err)
	_, err = names.Get(ctx, 8)
	fmt.Println(errors.Is(err, cache.ErrNotFound))
	// Output:
	// Ada <nil>
	// Ada Lovelace <nil>
	// true
}

func open(t *testing.T, o cache.Options) *cache.Runtime {
	t.Helper()
	rt, err := cache.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func TestKeyed_ProcessesShareValues(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		table := &nameTable{names: map[int64]string{7: "Ada"}}
		var caches []*cache.Cache[int64, string]
		for range 2 {
			rt := open(t, cache.Options{Redis: server.Wire().Config()})
			caches = append(caches, cache.Keyed(rt, "user_name", decimal, table.load))
		}
		for i, c := range caches {
			if name, err := c.Get(t.Context(), 7); name != "Ada" || err != nil {
				t.Errorf("process %d: got %q, %v", i, name, err)
			}
		}
		if table.asked != 1 {
			t.Errorf("the source was asked %d times, want once for both", table.asked)
		}
		if _, err := caches[0].Mutate(t.Context(), 7, func(context.Context) error { return table.rename(7, "Ada Lovelace") }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond) // MaxStale
		if name, err := caches[1].Get(t.Context(), 7); name != "Ada Lovelace" || err != nil {
			t.Errorf("after the change the other process got %q, %v", name, err)
		}
		long := strings.Repeat("x", 500)
		texts := cache.Keyed(open(t, cache.Options{Redis: server.Wire().Config()}), "text", func(s string) string { return s },
			func(_ context.Context, s string) (int, error) { return len(s), nil })
		for _, key := range []string{"", "a:b", "{a}", long, long + "x"} {
			for range 2 {
				if n, err := texts.Get(t.Context(), key); n != len(key) || err != nil {
					t.Errorf("%.10q: got %d, %v; want %d", key, n, err, len(key))
				}
			}
		}
	})
}

func ExampleGet() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	for range 2 {
		title, err := cache.Get(ctx, rt, "title", "chess", func(context.Context) (string, error) {
			fmt.Println("asking the database")
			return "Chess", nil
		}, cache.TTL(time.Hour))
		fmt.Println(title, err)
	}
	// Output:
	// asking the database
	// Chess <nil>
	// Chess <nil>
}

func TestGet_UsesItsOwnLoad(t *testing.T) {
	server := redistest.Server(t)
	open := func() *cache.Runtime {
		rt, err := cache.Open(t.Context(), cache.Options{Redis: redis.Config{URL: server.URL, Prefix: "app"},
			Config: cache.Config{Budget: 5 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rt.Close() })
		return rt
	}
	one, two := open(), open()
	get := func(rt *cache.Runtime, key, value string) string {
		t.Helper()
		v, err := cache.Get(t.Context(), rt, "title", key, func(context.Context) (string, error) { return value, nil })
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if got := get(one, "a", "1") + get(one, "a", "2") + get(one, "b", "3") + get(two, "a", "4") + get(two, "c", "5"); got != "11315" {
		t.Errorf("got %s, want 11315", got)
	}
	if _, err := cache.Get(t.Context(), one, "title", "d", func(context.Context) (string, error) {
		return "", cache.ErrNotFound
	}); !errors.Is(err, cache.ErrNotFound) {
		t.Errorf("a missing value: %v", err)
	}
	if _, err := cache.Get(t.Context(), one, "title", "e", func(context.Context) (string, error) {
		return "", errors.New("unavailable")
	}); err == nil || !strings.Contains(err.Error(), "unavailable") {
		t.Errorf("a source that fails: %v", err)
	}

	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "title of Get") {
			t.Errorf("values of another type: %s", said)
		}
	}()
	_, _ = cache.Get(t.Context(), one, "title", "a", func(context.Context) (int, error) { return 0, nil })
}

func TestGet_ConcurrentCallsShareLoad(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rt, err := cache.Open(t.Context(), cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		var all sync.WaitGroup
		var loads atomic.Int32
		for range 20 {
			all.Go(func() {
				n, err := cache.Get(t.Context(), rt, "number", "x", func(context.Context) (int, error) {
					loads.Add(1)
					bubble.Sleep(100 * time.Millisecond)
					return 7, nil
				})
				if n != 7 || err != nil {
					t.Errorf("got %d, %v", n, err)
				}
			})
		}
		all.Wait()
		if n := loads.Load(); n != 1 {
			t.Errorf("%d loads, want 1", n)
		}
	})
}

func TestOpen_InvalidNodeNameFails(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.InMemory(t).Open(t)
		for name, o := range map[string]cache.Options{"a connection of its own": {Node: "web 1"}, "the program's": {Node: "web 1", DB: db}} {
			rt, err := cache.Open(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), `"web 1"`) {
				t.Errorf("on %s: %v, %v, want an error with the node's name", name, rt, err)
			}
		}
		if err := db.Ping(t.Context()); err != nil {
			t.Errorf("the program's connection afterwards: %v", err)
		}
	})
}

func TestOpen_LeavesOwnConnectionOpen(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.InMemory(t).Open(t)
		rt := open(t, cache.Options{DB: db})
		for range 2 {
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := db.Ping(t.Context()); err != nil {
			t.Errorf("the program's own connection: %v", err)
		}
		table := &nameTable{names: map[int64]string{7: "Ada"}}
		closed := cache.Keyed(rt, "user_name", decimal, table.load)
		time.Sleep(time.Second)
		for range 3 {
			if name, err := closed.Get(t.Context(), 7); name != "Ada" || err != nil {
				t.Errorf("after Close: got %q, %v", name, err)
			}
		}
		if table.asked != 3 {
			t.Errorf("after Close the source was asked %d times for 3 reads", table.asked)
		}
	})
}

func TestOpen_WorksWithoutRedis(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		wire.Refuse()
		began := time.Now()
		rt := open(t, cache.Options{Redis: wire.Config()})
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Open took %s while Redis is away", took)
		}
		table := &nameTable{names: map[int64]string{7: "Ada"}}
		names := cache.Keyed(rt, "user_name", decimal, table.load)
		if name, err := names.Get(t.Context(), 7); name != "Ada" || err != nil {
			t.Errorf("while Redis is away: got %q, %v", name, err)
		}
		wire.Heal()
		time.Sleep(5 * time.Second)
		for range 3 {
			if _, err := names.Get(t.Context(), 7); err != nil {
				t.Error(err)
			}
		}
		if table.asked != 2 {
			t.Errorf("the source was asked %d times, want once while Redis was away and once afterwards", table.asked)
		}
	})
}

// Everything that Open has started ends: the bubble waits for it.
func TestOpen_CanceledContextLeavesNoGoroutines(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		wire.Refuse()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := cache.Open(ctx, cache.Options{Redis: wire.Config()}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}

func TestClose_ReturnsDuringReads(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		rt := open(t, cache.Options{Redis: redistest.InMemory(t).Wire().Config()})
		squares := cache.Keyed(rt, "square", decimal, func(_ context.Context, n int64) (int64, error) {
			time.Sleep(100 * time.Millisecond)
			return n * n, nil
		})
		var last atomic.Int64
		var ended atomic.Bool
		var readers sync.WaitGroup
		for range 2 { // at any time one of them has a load running
			readers.Go(func() {
				for !ended.Load() {
					n := last.Add(1)
					if got, err := squares.Get(t.Context(), n); got != n*n || err != nil {
						t.Errorf("Get(%d) = %d, %v", n, got, err)
					}
				}
			})
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Second)
		closed := make(chan error, 1)
		go func() { closed <- rt.Close() }()
		select {
		case err := <-closed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Second): // LoadTimeout
			t.Error("Close waits for loads that began after it")
		}
		ended.Store(true)
		readers.Wait()
	})
}

func TestOpen_InvalidOptionsFail(t *testing.T) {
	if _, err := cache.Open(t.Context(), cache.Options{Redis: redis.Config{URL: "ftp://somewhere"}}); err == nil {
		t.Error("a URL of another protocol is accepted")
	}
	rt := open(t, cache.Options{})
	cache.Keyed(rt, "one", decimal, (&nameTable{}).load)
	for _, name := range []string{"one", "", "{a}", "a:"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Keyed accepts the name %q", name)
				}
			}()
			cache.Keyed(rt, name, decimal, (&nameTable{}).load)
		}()
	}
}

var (
	clerkSchema = keyspace.New("clerks")
	clerks      = keyspace.Def1[keyspace.Int](clerkSchema, "clerk:{id}", keyspace.CachedOf[clerk](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "clerks of the tests"})
)

type clerk struct{ Name string }

// Each would read values that the other has stored, and JSON often decodes them without an error.
func TestKeyed_OverlappingKeysPanic(t *testing.T) {
	type salary struct{ Amount int }
	rt := open(t, cache.Options{})
	c := cache.New(rt, clerks, cache.Policy{}, cache.Source[keyspace.Int, clerk]{Load: func(context.Context, keyspace.Int) (clerk, error) {
		return clerk{"Ann"}, nil
	}})
	if _, err := c.Get(t.Context(), keyspace.Int{N: 7}); err != nil {
		t.Fatal(err)
	}
	load := func(context.Context) (salary, error) { return salary{100}, nil }
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "clerk:{key} and clerk:{id}") {
			t.Errorf("panic: %q", said)
		}
	}()
	got, err := cache.Get(t.Context(), rt, "clerk", "7", load)
	t.Errorf("a salary of 100 is read as %+v, %v", got, err)
}

func TestOpen_InvalidUsesFail(t *testing.T) {
	db := redistest.Open(t, "embedded")
	if _, err := cache.Open(t.Context(), cache.Options{DB: db, Redis: redis.Config{URL: "redis://127.0.0.1"}}); err == nil {
		t.Error("a DB and a Redis were accepted")
	}
	rt, err := cache.Open(t.Context(), cache.Options{DB: db})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	load := func(context.Context, string) (string, error) { return "", nil }
	for _, name := range []string{"", "a:b", "{a}", "Person Cache", ".hidden"} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, "valid cache name") {
					t.Errorf("%q: %q", name, said)
				}
			}()
			cache.Keyed(rt, name, func(k string) string { return k }, load)
		}()
	}
	cache.Keyed(rt, "app.person-v2", func(k string) string { return k }, load)
}
