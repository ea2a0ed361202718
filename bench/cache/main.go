// Command cache compares package cache with its own building blocks and with other ways. All run once on a real
// redis-server that the command starts:
//
//	go run ./cache [-figure 1,2,3,4,5,7,8,9] [-rounds 7] [-round 200ms]
//
// The sides of a figure take turns and the median of each counts, so that other load on the machine affects all of
// them.
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
	"github.com/prometheus/client_golang/prometheus"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/bench/turns"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

type profile struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Avatar string `json:"avatar"`
	Bio    string `json:"bio"`
	Year   int    `json:"year"`
}

func of(id int64) profile {
	return profile{fmt.Sprintf("u%011d", id), fmt.Sprint("name of ", id), "https://example.org/a/" + fmt.Sprint(id) + ".webp",
		strings.Repeat("x", 100), 1990}
}

var (
	schema   = keyspace.New("bench")
	profiles = keyspace.Def1[keyspace.Int](schema, "bench:profile:{id}", keyspace.CachedOf[profile](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(5*time.Minute).StaleIfError(time.Hour), keyspace.Doc{Purpose: "profiles"})
	remarks = keyspace.Def1[keyspace.Int](schema, "bench:remarks:{id}", keyspace.CachedHashOf[string, profile](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a collection"})
	plain = keyspace.Def1[keyspace.Int](schema, "bench:plain:{id}", keyspace.HashOf("text → json"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "the same without a cache"})
	channel = keyspace.DefChannel0(schema, "bench:events", keyspace.RawMessages("bus"), keyspace.Doc{Purpose: "bus"})
	stream  = keyspace.Def0(schema, "bench:events", keyspace.StreamOf("bus"), keyspace.Forever("trimmed"), keyspace.Doc{Purpose: "bus"})
)

var (
	figures = flag.String("figure", "1,2,3,4,5,7,8,9", "which ones")
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
		case "5":
			figure5(ctx, addr)
		case "7":
			figure7(ctx, addr)
		case "8":
			figure8(ctx, addr)
		case "9":
			figure9(ctx)
		}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

var boots atomic.Int64

// patient prevents that caches load from their sources because a busy machine stops Redis for a while. It is for
// figures that do not measure that.
var patient = cache.Config{Budget: time.Second}

// open returns a cache on its own connections; if load is nil, it loads from the table of profiles.
func open(ctx context.Context, addr string, p cache.Policy,
	load func(context.Context, keyspace.Int) (profile, error)) (*cache.Cache[keyspace.Int, profile], *cache.Runtime) {
	rt, _, run := node(ctx, addr, cache.Config{})
	defer run()
	return cached(rt, p, load), rt
}

func cached(rt *cache.Runtime, p cache.Policy, load func(context.Context,
	keyspace.Int) (profile, error)) *cache.Cache[keyspace.Int, profile] {
	if load == nil {
		load = func(_ context.Context, id keyspace.Int) (profile, error) { return of(id.N), nil }
	}
	return cache.New(rt, profiles, p, cache.Source[keyspace.Int, profile]{Load: load})
}

// node returns a node on its own connections. It works after run was called.
func node(ctx context.Context, addr string, cfg cache.Config) (rt *cache.Runtime, db *redis.DB, run func()) {
	db, err := redis.Open(ctx, redis.Config{URL: "redis://" + addr, Prefix: "bench"})
	must(err)
	b := bus.New(db, bus.Keys{Events: channel.At(), Log: stream.At()}, bus.Config{Node: fmt.Sprint("n", boots.Add(1))})
	rt = cache.NewRuntime(db, b, cfg)
	return rt, db, func() {
		go func() { _ = b.Run(ctx, func() {}) }() // both end with the program
		go func() { _ = rt.Run(ctx, func() {}) }()
		for b.Seen() == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// compare lets the sides take turns.
func compare(sides ...turns.Side) []turns.Result { return turns.Compare(*rounds, *round, sides...) }

const known = 10_000

func figure1(ctx context.Context, addr string) {
	fmt.Println("1. A value that is in process: 10,000 of them, drawn evenly, one caller")
	raw := otter.Must(&otter.Options[keyspace.Int, profile]{MaximumSize: 2 * known, StatsRecorder: stats.NewCounter()})
	plain := otter.Must(&otter.Options[keyspace.Int, profile]{MaximumSize: 2 * known})
	c, _ := open(ctx, addr, cache.Policy{Entries: 2 * known, MaxStale: time.Minute}, nil)
	rt, _, run := node(ctx, addr, cache.Config{Hooks: obs.NewCaches(prometheus.NewRegistry()).Hooks()})
	watched := cached(rt, cache.Policy{Entries: 2 * known, MaxStale: time.Minute}, nil)
	run()
	peer := gocache.New(&gocache.Options{Redis: goredis.NewClient(&goredis.Options{Addr: addr}),
		LocalCache: gocache.NewTinyLFU(2*known, time.Hour), StatsEnabled: true})
	names := make([]string, known)
	for i := range known {
		p := of(int64(i))
		raw.Set(keyspace.Int{N: int64(i)}, p)
		plain.Set(keyspace.Int{N: int64(i)}, p)
		_, err := c.Get(ctx, keyspace.Int{N: int64(i)})
		must(err)
		_, err = watched.Get(ctx, keyspace.Int{N: int64(i)})
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
		turns.Side{Name: "the same, and the server's metrics of ages", Do: func(n int) {
			for range n {
				if _, err := watched.Get(ctx, keyspace.Int{N: draw.Int64N(known)}); err != nil {
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
	fmt.Printf("  => %.2f × otter with statistics, with metrics %.2f × (aim ≤ 1.4), %.1f × faster than go-redis/cache (aim ≥ 8); %d hits, "+
		"%d from Redis, %d loads\n\n",
		r[2].Nanos/r[1].Nanos, r[3].Nanos/r[1].Nanos, r[4].Nanos/r[2].Nanos, s.Hits, s.RedisHits, s.Loads)
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
	rt, _, run := node(ctx, addr, patient)
	c := cached(rt, cache.Policy{Entries: -1, Renew: -1, MaxStale: time.Minute}, nil)
	run()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, AlwaysPipelining: true,
		AlwaysRESP2: true})
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
	fmt.Printf("  %d reads: GET +%d, scripts +%d, loads +%d\n", counted, gets["get"]-before["get"], gets["evalsha"]-before["evalsha"],
		c.Stats().Loads-loads)
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
		fmt.Printf("  => %.2f ×, %.2f × the work (aim ≤ 1.2)\n", r[1].Nanos/r[0].Nanos, r[1].Work/r[0].Work)
	}
	s := c.Stats()
	fmt.Printf("  of %d reads Redis failed %d, and %d were loads\n\n", s.RedisHits+s.Loads, s.Failed, s.Loads-loads)
}

// commands returns the number of calls of each command so far.
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

// figure4 reads cold keys while Redis refuses every connection, or sends no responses.
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
		time.Sleep(2 * time.Second) // the breaker is open by then if there are calls
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
		fmt.Printf("  %-10s first reads p99 %s; then p50 %s, p99 %s, of which the source p50 %s, p99 %s\n", how, p(first, 99), p(then, 50),
			p(then, 99), p(loadNanos, 50), p(loadNanos, 99))
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

// proxy is a proxy between the cache and Redis.
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
			continue // accepted without any response
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

// figure5 changes values that another node caches in process. It measures the time from the acknowledgement of the
// change to the last old value on the other node.
func figure5(ctx context.Context, addr string) {
	fmt.Println("5. From an acknowledged change to the last old answer of another node, which reads all the time; 1,000 times each")
	var source atomic.Int64
	load := func(_ context.Context, id keyspace.Int) (profile, error) {
		p := of(id.N)
		p.Year = int(source.Load())
		return p, nil
	}
	join := func() *cache.Cache[keyspace.Int, profile] {
		rt, _, run := node(ctx, addr, patient)
		defer run()
		return cached(rt, cache.Policy{}, load)
	}
	here, there := join(), join()
	id := keyspace.Int{N: 5_000_000} // no other figure has stored it
	for _, way := range []struct {
		name   string
		change func(year int64)
	}{
		{"Invalidate", func(year int64) {
			source.Store(year)
			must(here.Invalidate(ctx, id))
		}},
		{"Mutate", func(year int64) {
			_, err := here.Mutate(ctx, id, func(context.Context) error {
				source.Store(year)
				return nil
			})
			must(err)
		}},
	} {
		var acks, late []time.Duration
		old := 0
		for range 1000 {
			before := int(source.Load())
			for { // so that the other node caches it
				e, err := there.Lookup(ctx, id)
				must(err)
				if e.Tier == cache.Process && e.Value.Year == before {
					break
				}
			}
			last := make(chan time.Time)
			go func() {
				var at time.Time // start of the last read that returned the old value
				for {
					now := time.Now()
					e, err := there.Lookup(ctx, id)
					must(err)
					if e.Value.Year != before {
						last <- at
						return
					}
					at = now
					time.Sleep(20 * time.Microsecond)
				}
			}()
			began := time.Now()
			way.change(int64(before + 1))
			done := time.Now()
			acks = append(acks, done.Sub(began))
			d := max((<-last).Sub(done), 0)
			if late = append(late, d); d > 0 {
				old++
			}
		}
		fmt.Printf("  %-10s took p50 %s, p99 %s; after it an old answer in %d of %d, p50 %s, p99 %s, the last after %s (aim: p99 < 5 ms)\n",
			way.name, p(acks, 50), p(acks, 99), old, len(late), p(late, 50), p(late, 99), p(late, 100))
	}
	fmt.Println()
}

// figure8 checks single members in collections of 200.
func figure8(ctx context.Context, addr string) {
	fmt.Println("8. Is it in a collection of 200, in Redis as all of them are")
	const collections, members = 100, 200
	rt, db, run := node(ctx, addr, patient)
	var names []string
	all, fields := map[string]profile{}, []string{}
	for i := range members {
		text, err := json.Marshal(of(int64(i)))
		must(err)
		names = append(names, fmt.Sprintf("member-of-a-collection-%03d", i))
		all[names[i]] = of(int64(i))
		fields = append(fields, names[i], string(text))
	}
	c := collection.NewHash(rt, remarks, collection.Policy{MaxStale: time.Minute}, collection.HashSource[keyspace.Int, string, profile]{
		Load: func(context.Context, keyspace.Int) (map[string]profile, error) { return all, nil },
	})
	run()
	for i := range collections {
		must(db.Do(ctx, keyspace.Cmd{Name: "HSET", Key: plain.At(keyspace.Int{N: int64(i)}).Key, Args: fields}).Err)
		_, err := c.Has(ctx, keyspace.Int{N: int64(i)}, names[0])
		must(err)
	}
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	must(err)
	defer raw.Close()
	of := func(i int) keyspace.Int { return keyspace.Int{N: int64(i % collections)} }
	for _, callers := range []int{1, 64} {
		fmt.Printf("  %d callers:\n", callers)
		r := compare(
			turns.Side{Name: "HGET by rueidis as it comes", Do: turns.Crowd(callers, func(i int) {
				_, err := raw.Do(ctx, raw.B().Hget().Key(db.Physical(plain.At(of(i)).Key)).Field(names[i%members]).Build()).ToString()
				must(err)
			})},
			turns.Side{Name: "HGET by the same client", Do: turns.Crowd(callers, func(i int) {
				_, ok, err := db.Do(ctx, keyspace.Cmd{Name: "HGET", Key: plain.At(of(i)).Key, Args: []string{names[i%members]}}).Text()
				must(err)
				if !ok {
					log.Fatal("no field")
				}
			})},
			turns.Side{Name: "HMGET of two fields by the same client", Do: turns.Crowd(callers, func(i int) {
				list, err := db.Do(ctx, keyspace.Cmd{Name: "HMGET", Key: plain.At(of(i)).Key, Args: []string{"none", names[i%members]}}).Items()
				must(err)
				if len(list) != 2 || list[1].Nil() {
					log.Fatal("no field")
				}
			})},
			turns.Side{Name: "Hash.Has", Do: turns.Crowd(callers, func(i int) {
				ok, err := c.Has(ctx, of(i), names[i%members])
				must(err)
				if !ok {
					log.Fatal("no member")
				}
			})},
		)
		of := func(i int) string {
			return fmt.Sprintf("%.2f × (work %.2f ×)", r[3].Nanos/r[i].Nanos, r[3].Work/r[i].Work)
		}
		fmt.Printf("  => %s HGET by rueidis, %s HGET by the same client, %s HMGET\n", of(0), of(1), of(2))
	}
	s := c.Stats()
	fmt.Printf("  of %d reads Redis failed %d\n\n", s.RedisHits+s.Failed, s.Failed)
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
