// Command cache measures package cache against what it is made of and against
// other ways, in one run, on a real redis-server that it starts itself:
//
//	go run ./cache [-figure 1,2,3,4,7] [-rounds 7] [-round 200ms]
//
// The sides of a figure take turns, and the median of each counts, so that what
// else the machine does meets all of them.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	gocache "github.com/go-redis/cache/v9"
	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/bench/turns"
	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/cache"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
)

type profile struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Avatar string `json:"avatar"`
	Bio    string `json:"bio"`
	Year   int    `json:"year"`
}

func of(id int64) profile {
	return profile{fmt.Sprintf("u%011d", id), fmt.Sprint("name of ", id), "https://example.org/a/" + fmt.Sprint(id) + ".webp", strings.Repeat("x", 100), 1990}
}

var (
	schema   = keyspace.New("bench")
	profiles = keyspace.Def1[keyspace.Int](schema, "bench:profile:{id}", keyspace.CachedOf[profile](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(5*time.Minute).StaleIfError(time.Hour), keyspace.Doc{Purpose: "profiles"})
	channel = keyspace.DefChannel0(schema, "bench:events", keyspace.RawMessages("bus"), keyspace.Doc{Purpose: "bus"})
	stream  = keyspace.Def0(schema, "bench:events", keyspace.StreamOf("bus"), keyspace.Forever("trimmed"), keyspace.Doc{Purpose: "bus"})
)

var (
	figures = flag.String("figure", "1,2,3,4,7", "which ones")
	rounds  = flag.Int("rounds", 7, "how often each side takes its turn")
	round   = flag.Duration("round", 200*time.Millisecond, "how long a turn takes")
)

func main() {
	flag.Parse()
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	defer stop()
	dir, err := os.MkdirTemp("", "bench-cache")
	must(err)
	defer os.RemoveAll(dir)
	url, end, err := servers.Redis(ctx, dir)
	must(err)
	defer end()
	addr := strings.TrimPrefix(url, "redis://")
	for _, f := range strings.Split(*figures, ",") {
		switch f {
		case "1":
			figure1(ctx, addr)
		case "2":
			figure2(ctx, addr)
		case "3":
			figure3(ctx, addr)
		case "4":
			figure4(ctx, addr)
		case "7":
			figure7(ctx, addr)
		}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

var boots atomic.Int64

// open returns a cache on its own connections; load nil is the table of profiles.
func open(ctx context.Context, addr string, p cache.Policy, load func(context.Context, keyspace.Int) (profile, error)) (*cache.Cache[keyspace.Int, profile], *cache.Runtime) {
	db, err := redis.Open(ctx, redis.Config{URL: "redis://" + addr, Prefix: "bench"})
	must(err)
	b := bus.New(db, bus.Keys{Events: channel.At(), Log: stream.At()}, bus.Config{Node: fmt.Sprint("n", boots.Add(1))})
	rt := cache.NewRuntime(db, b, cache.Config{})
	if load == nil {
		load = func(_ context.Context, id keyspace.Int) (profile, error) { return of(id.N), nil }
	}
	c := cache.New(rt, profiles, p, cache.Source[keyspace.Int, profile]{Load: load})
	go func() { _ = b.Run(ctx, func() {}) }() // both end with the program
	go func() { _ = rt.Run(ctx, func() {}) }()
	for b.Seen() == 0 {
		time.Sleep(time.Millisecond)
	}
	return c, rt
}

// compare lets the sides take turns.
func compare(sides ...turns.Side) []turns.Result { return turns.Compare(*rounds, *round, sides...) }

const known = 10_000

func figure1(ctx context.Context, addr string) {
	fmt.Println("1. A value that is in process: 10,000 of them, drawn evenly, one caller")
	raw := otter.Must(&otter.Options[keyspace.Int, profile]{MaximumSize: 2 * known, StatsRecorder: stats.NewCounter()})
	plain := otter.Must(&otter.Options[keyspace.Int, profile]{MaximumSize: 2 * known})
	c, _ := open(ctx, addr, cache.Policy{Entries: 2 * known, MaxStale: time.Minute}, nil)
	peer := gocache.New(&gocache.Options{Redis: goredis.NewClient(&goredis.Options{Addr: addr}), LocalCache: gocache.NewTinyLFU(2*known, time.Hour), StatsEnabled: true})
	names := make([]string, known)
	for i := range known {
		p := of(int64(i))
		raw.Set(keyspace.Int{N: int64(i)}, p)
		plain.Set(keyspace.Int{N: int64(i)}, p)
		_, err := c.Get(ctx, keyspace.Int{N: int64(i)})
		must(err)
		names[i] = fmt.Sprint("peer:", i)
		must(peer.Set(&gocache.Item{Ctx: ctx, Key: names[i], Value: &p, TTL: time.Hour}))
	}
	draw := rand.New(rand.NewPCG(1, 2))
	r := compare(
		turns.Side{Name: "otter, no statistics", Do: func(n int) {
			for range n {
				if _, ok := plain.GetIfPresent(keyspace.Int{N: draw.Int64N(known)}); !ok {
					log.Fatal("gone")
				}
			}
		}},
		turns.Side{Name: "otter with its statistics", Do: func(n int) {
			for range n {
				if _, ok := raw.GetIfPresent(keyspace.Int{N: draw.Int64N(known)}); !ok {
					log.Fatal("gone")
				}
			}
		}},
		turns.Side{Name: "cache, statistics always on", Do: func(n int) {
			for range n {
				if _, err := c.Get(ctx, keyspace.Int{N: draw.Int64N(known)}); err != nil {
					log.Fatal(err)
				}
			}
		}},
		turns.Side{Name: "go-redis/cache with local TinyLFU", Do: func(n int) {
			var p profile
			for range n {
				if err := peer.Get(ctx, names[draw.Int64N(known)], &p); err != nil {
					log.Fatal(err)
				}
			}
		}},
	)
	s := c.Stats()
	fmt.Printf("  => %.2f × otter with statistics (aim ≤ 1.4), %.1f × faster than go-redis/cache (aim ≥ 8); %d hits, %d from Redis, %d loads\n\n",
		r[2].Nanos/r[1].Nanos, r[3].Nanos/r[2].Nanos, s.Hits, s.RedisHits, s.Loads)
}

func figure2(ctx context.Context, addr string) {
	fmt.Println("2. A batch of 32 that are in process")
	c, _ := open(ctx, addr, cache.Policy{MaxStale: time.Minute}, nil)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	must(err)
	defer client.Close()
	ids, names := make([]keyspace.Int, 32), make([]string, 32)
	for i := range ids {
		ids[i], names[i] = keyspace.Int{N: int64(i)}, fmt.Sprint("near:", i)
		text, err := json.Marshal(of(int64(i)))
		must(err)
		must(client.Do(ctx, client.B().Set().Key(names[i]).Value(string(text)).Build()).Error())
	}
	r := compare(
		turns.Side{Name: "cache: GetMany", Do: func(n int) {
			for range n {
				if m, err := c.GetMany(ctx, ids); err != nil || len(m) != 32 {
					log.Fatal(len(m), err)
				}
			}
		}},
		turns.Side{Name: "cache: GetAll", Do: func(n int) {
			for range n {
				if all, err := c.GetAll(ctx, ids); err != nil || all[31] == nil {
					log.Fatal(all, err)
				}
			}
		}},
		turns.Side{Name: "rueidis.MGetCache, not decoded", Do: func(n int) {
			for range n {
				if m, err := rueidis.MGetCache(client, ctx, time.Hour, names); err != nil || len(m) != 32 {
					log.Fatal(len(m), err)
				}
			}
		}},
	)
	fmt.Printf("  => a map %.1f µs, 1/%.1f of MGetCache; a slice %.1f µs, 1/%.1f (aim ≤ 4 µs or ≤ 1/6)\n\n",
		r[0].Nanos/1000, r[2].Nanos/r[0].Nanos, r[1].Nanos/1000, r[2].Nanos/r[1].Nanos)
}

func figure3(ctx context.Context, addr string) {
	fmt.Println("3. A value that is in Redis only")
	c, rt := open(ctx, addr, cache.Policy{Entries: -1, Renew: -1, MaxStale: time.Minute}, nil)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, AlwaysPipelining: true, AlwaysRESP2: true})
	must(err)
	defer client.Close()
	names := make([]string, known)
	for i := range known {
		_, err := c.Get(ctx, keyspace.Int{N: int64(i)})
		must(err)
		names[i] = fmt.Sprint("raw:", i)
		text, err := json.Marshal(of(int64(i)))
		must(err)
		must(client.Do(ctx, client.B().Set().Key(names[i]).Value(string(text)).Build()).Error())
	}
	before, loads := commands(ctx, client), c.Stats().Loads
	const counted = 10_000
	for i := range counted {
		_, err := c.Get(ctx, keyspace.Int{N: int64(i % known)})
		must(err)
	}
	gets := commands(ctx, client)
	fmt.Printf("  %d reads: GET +%d, scripts +%d, loads +%d\n", counted, gets["get"]-before["get"], gets["evalsha"]-before["evalsha"], c.Stats().Loads-loads)
	for _, callers := range []int{1, 64} {
		fmt.Printf("  %d callers:\n", callers)
		r := compare(
			turns.Side{Name: "rueidis GET and json.Unmarshal", Do: turns.Crowd(callers, func(i int) {
				s, err := client.Do(ctx, client.B().Get().Key(names[i*7919%known]).Build()).ToString()
				if err != nil {
					log.Fatal(err)
				}
				var p profile
				if err := json.Unmarshal([]byte(s), &p); err != nil {
					log.Fatal(err)
				}
			})},
			turns.Side{Name: "cache", Do: turns.Crowd(callers, func(i int) {
				if _, err := c.Get(ctx, keyspace.Int{N: int64(i * 7919 % known)}); err != nil {
					log.Fatal(err)
				}
			})},
		)
		fmt.Printf("  => %.2f × (aim ≤ 1.2)\n", r[1].Nanos/r[0].Nanos)
	}
	_ = rt
	fmt.Println()
}

// commands returns the calls of each command so far.
func commands(ctx context.Context, c rueidis.Client) map[string]int64 {
	info, err := c.Do(ctx, c.B().Info().Section("commandstats").Build()).ToString()
	must(err)
	out := map[string]int64{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if ok {
			var n int64
			_, _ = fmt.Sscanf(rest, "%d", &n)
			out[name] = n
		}
	}
	return out
}

// figure4 reads cold keys while Redis refuses, or swallows, every connection.
func figure4(ctx context.Context, addr string) {
	fmt.Println("4. Cold keys while Redis is away; the source takes 1 ms; 16 callers")
	for _, how := range []string{"refused", "black hole"} {
		proxy := newProxy(addr)
		const slow = time.Millisecond
		var loadNanos []time.Duration
		var mu sync.Mutex
		c, _ := open(ctx, proxy.addr(), cache.Policy{}, func(_ context.Context, id keyspace.Int) (profile, error) {
			began := time.Now()
			time.Sleep(slow)
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			loadNanos = append(loadNanos, took)
			return of(id.N), nil
		})
		proxy.fail(how)
		time.Sleep(2 * time.Second) // the breaker is open by then, if somebody asks
		read := func(n int, from int64) (took []time.Duration) {
			var all sync.WaitGroup
			var mu sync.Mutex
			for w := range 16 {
				all.Go(func() {
					for i := range n / 16 {
						began := time.Now()
						_, err := c.Get(ctx, keyspace.Int{N: from + int64(w*n+i)})
						d := time.Since(began)
						must(err)
						mu.Lock()
						took = append(took, d)
						mu.Unlock()
					}
				})
			}
			all.Wait()
			return took
		}
		first := read(160, 1_000_000)
		loadNanos = nil
		then := read(16_000, 2_000_000)
		fmt.Printf("  %-10s first reads p99 %s; then p50 %s, p99 %s, of which the source p50 %s, p99 %s\n", how, p(first, 99), p(then, 50), p(then, 99), p(loadNanos, 50), p(loadNanos, 99))
		fmt.Printf("  => p99 %s over the source's (aim ≤ 5 ms)\n", p(then, 99)-p(loadNanos, 99))
		proxy.close()
	}
	fmt.Println()
}

func p(ds []time.Duration, percent int) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.SortFunc(ds, cmp.Compare)
	return ds[min(len(ds)-1, len(ds)*percent/100)].Round(10 * time.Microsecond)
}

// proxy stands between the cache and Redis.
type proxy struct {
	l    net.Listener
	to   string
	mu   sync.Mutex
	open []net.Conn
	how  string
}

func newProxy(to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	p := &proxy{l: l, to: to}
	go p.serve()
	return p
}

func (p *proxy) addr() string { return p.l.Addr().String() }

func (p *proxy) serve() {
	for {
		a, err := p.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		must(err)
		p.mu.Lock()
		how := p.how
		p.open = append(p.open, a)
		p.mu.Unlock()
		switch how {
		case "refused":
			a.Close()
			continue
		case "black hole":
			continue // accepted, and never answered
		}
		b, err := net.Dial("tcp", p.to)
		must(err)
		p.mu.Lock()
		p.open = append(p.open, b)
		p.mu.Unlock()
		pipe := func(to, from net.Conn) {
			buf := make([]byte, 64<<10)
			for {
				n, err := from.Read(buf)
				if err != nil {
					to.Close()
					return
				}
				p.mu.Lock()
				swallow := p.how == "black hole"
				p.mu.Unlock()
				if !swallow {
					if _, err := to.Write(buf[:n]); err != nil {
						return
					}
				}
			}
		}
		go pipe(a, b)
		go pipe(b, a)
	}
}

func (p *proxy) fail(how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.how = how
	if how == "refused" {
		p.l.Close()
		for _, c := range p.open {
			c.Close()
		}
	}
}

func (p *proxy) close() {
	p.l.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Close()
	}
}

func figure7(ctx context.Context, addr string) {
	fmt.Println("7. After loading as many keys as the process may keep")
	for _, entries := range []int{1_000, 10_000, 100_000} {
		c, _ := open(ctx, addr, cache.Policy{Entries: entries, MaxStale: time.Minute}, nil)
		for i := range entries {
			_, err := c.Get(ctx, keyspace.Int{N: int64(i)})
			must(err)
		}
		before := c.Stats().Hits
		for i := range entries {
			_, err := c.Get(ctx, keyspace.Int{N: int64(i)})
			must(err)
		}
		fmt.Printf("  %6d: %.2f %% are in process (aim ≥ 99)\n", entries, 100*float64(c.Stats().Hits-before)/float64(entries))
	}
	fmt.Println()
}
