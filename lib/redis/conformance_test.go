package redis_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/redis/redistest/conformance"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

var (
	keys = keyspace.New("redistest")

	value = keyspace.Def1[keyspace.Int](keys, "value:{{n}}", keyspace.BytesOf("text"), keyspace.UpTo(time.Hour), keyspace.Doc{})
	bits  = keyspace.Def1[keyspace.Int](keys, "bits:{{n}}", keyspace.BitmapOf("days"), keyspace.Expire(time.Hour), keyspace.Doc{})

	news = keyspace.DefChannel1[keyspace.Int](keys, "news:{{n}}", keyspace.RawMessages("text"), keyspace.Doc{})
)

func n(i int) keyspace.Int { return keyspace.Int{N: int64(i)} }

// must fails the test if r is an error, and returns it.
func must(t *testing.T, r keyspace.Reply) keyspace.Reply {
	t.Helper()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r
}

func TestConformance_EveryEngine(t *testing.T) {
	for _, e := range redistest.SharedEngines(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := e.Open(t)
			if got := db.Mode(); got != e.Name {
				t.Errorf("Mode() = %q, want %q", got, e.Name)
			}
			conformance.Run(t, db)
		})
	}
}

func TestSubscribe_FollowsMovedSlot(t *testing.T) {
	conformance.Resharded(t, func(t *testing.T, addrs []string) *redis.DB {
		return redistest.Open(t, "redis-cluster://"+strings.Join(addrs, ","))
	})
}

func TestSubscribe_SubscribedPrecedesMessages(t *testing.T) {
	db := redistest.Open(t, "embedded")
	ch := news.At(n(1))
	// Another subscriber makes the server send messages all the time over their shared connection.
	go db.Subscribe(t.Context(), ch, redis.Handler{Message: func(string) {}})
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				db.Publish(t.Context(), ch, "x")
			}
		}
	}()
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		up := false
		db.Subscribe(ctx, ch, redis.Handler{
			Subscribed: func() { up = true },
			Message: func(string) {
				if !up {
					t.Error("a message came before Subscribed")
				}
				cancel()
			},
		})
		cancel()
	}
	close(stop)
	<-stopped
}

func TestPrefix_SeparatesPrograms(t *testing.T) {
	url := redistest.Server(t).URL
	var dbs []*redis.DB
	for i, p := range []string{"a", "a2", "a.b", "a-b_c"} {
		db := redistest.OpenConfig(t, redis.Config{URL: url, Prefix: p})
		if err := value.At(n(1)).SetFor(t.Context(), db, strconv.Itoa(i), time.Minute); err != nil {
			t.Fatal(err)
		}
		dbs = append(dbs, db)
	}
	for i, db := range dbs {
		if got, _, err := value.At(n(1)).Get(t.Context(), db); got != strconv.Itoa(i) || err != nil {
			t.Errorf("db %d reads %q, %v", i, got, err)
		}
		found := []string{}
		db.Scan(t.Context(), func(k string) error { found = append(found, k); return nil })
		if want := []string{db.Physical(value.At(n(1)).Key)}; !slices.Equal(found, want) {
			t.Errorf("db %d scans %q, want %q", i, found, want)
		}
	}
}

func Example() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	// Declare families once, in a package's keys.go.
	schema := keyspace.New("greeting")
	greeting := keyspace.Def1[keyspace.Text](schema, "greeting:{{name}}", keyspace.BytesOf("text"),
		keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "what to say to whom"})

	ada := greeting.At(keyspace.Text{S: "Ada"})
	if err := ada.Set(ctx, db, "Good morning"); err != nil {
		fmt.Println(err)
	}

	shout := redis.NewScript(`
-- KEYS[1] the greeting; ARGV[1] what to append; returns the text in capitals
return string.upper(redis.call('GET', KEYS[1]) .. ARGV[1])`)
	replies := db.DoMulti(ctx, []keyspace.Cmd{
		{Name: "STRLEN", Key: ada.Key},
		shout.Cmd([]keyspace.Key{ada.Key}, ", Ada!"),
	})
	length, _ := replies[0].Int()
	text, _, _ := replies[1].Text()
	fmt.Println(length, text, db.Physical(ada.Key))
	// Output: 12 GOOD MORNING, ADA! stoa:greeting:{Ada}
}

// Expiry runs concurrently with a slow script, and not within it.
func TestEmbedded_SlowScript(t *testing.T) {
	db := redistest.Open(t, "embedded")
	slow := redis.NewScript(`
local from = redis.call('TIME')
repeat
	local now = redis.call('TIME')
until (now[1] - from[1]) * 1000000 + now[2] - from[2] > 120000
return redis.call('GET', KEYS[1])`)
	eventually.NoError(t, "a script of 120 ms", func() error {
		return slow.Run(t.Context(), db, []keyspace.Key{value.At(n(1)).Key}).Err
	})
}

func TestEmbedded_KeysExpireInTime(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		db := redistest.Open(t, "embedded")
		short := value.At(n(3))
		if err := short.SetFor(t.Context(), db, "x", 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		eventually.True(t, "the key expires", func() bool {
			_, ok, err := short.Get(t.Context(), db)
			return !ok && err == nil
		})
		// The clock advances in steps of 50 ms.
		if d := time.Since(began); d < 50*time.Millisecond || d > 175*time.Millisecond {
			t.Errorf("a key with a life of 100 ms expired after %s", d)
		}
	})
}
