// Command people measures a server's most frequent operations, each against its minimal cost, in one run. It starts a
// real redis-server and a real MariaDB:
//
//	1  is this user a friend: against one HGET by the same client
//	2  which of a hundred are friends: against one HMGET
//	3  the profile of a user: against the map in process that caches use
//	4  the user of a token: against one GET
//	5  log-ins per second: against hashes per second
//	6  reads during 200 concurrent log-ins: against the same reads without
//
//	go run ./people [-figure 1,2] [-short]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/bench/turns"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	users    = 1_000 // all fit into the memory of the process
	friends  = 200   // of each of the first hundred
	popular  = 100
	password = "correct horse battery"
)

var (
	rounds  = flag.Int("rounds", 7, "how often each side takes its turn")
	round   = flag.Duration("round", 300*time.Millisecond, "how long a turn takes")
	figures = flag.String("figure", "1,2,3,4,5,6", "which ones")
	short   = flag.Bool("short", false, "some seconds in all; figures of little worth")
	rate    = flag.Int("rate", 500, "reads of each kind in a second, figure 6")
)

// Raw families, for the smallest possible commands of Redis.
var (
	schema  = keyspace.New("bench")
	rawHash = keyspace.Def1[keyspace.Int](schema, "bench:friends:{n}", keyspace.HashOf("friend → json"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "raw"})
	rawValue = keyspace.Def1[keyspace.Int](schema, "bench:session:{n}", keyspace.BytesOf("json"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "raw"})
)

func main() {
	flag.Parse()
	if *short {
		*rounds, *round, *rate = 3, 50*time.Millisecond, 200
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "stoa-bench-people-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	redisURL, stopRedis, err := servers.Redis(ctx, dir)
	if err != nil {
		return err
	}
	defer stopRedis()
	sqlURL, stopSQL, err := servers.MariaDB(ctx, dir)
	if err != nil {
		return err
	}
	defer stopSQL()
	ctx, cancel := context.WithCancel(ctx)
	n, err := open(ctx, sqlURL, redisURL)
	if err != nil {
		cancel()
		return err
	}
	defer func() { cancel(); err = errors.Join(err, n.close()) }()
	if err := n.populate(ctx); err != nil {
		return err
	}
	all := map[string]func(context.Context){"1": n.isFriend, "2": n.areFriends, "3": n.user, "4": n.verify, "5": n.logIns, "6": n.underLogIns}
	for number := range strings.SplitSeq(*figures, ",") {
		if all[number] == nil {
			return fmt.Errorf("there is no figure %q", number)
		}
		all[number](ctx)
		fmt.Println()
	}
	return nil
}

// node has accounts and friends as package app builds them.
type node struct {
	db       *sqldb.DB
	redis    *redis.DB
	redisURL string
	accounts *accounts.Service
	social   *social.Service
	running  sync.WaitGroup

	people  []accounts.ID // each of the first ones is a friend of the next ones
	tokens  []string      // of people, as far as they exist
	hash    string        // of password
	nextOne atomic.Int64  // the next user to log in
}

func open(ctx context.Context, sqlURL, redisURL string) (n *node, err error) {
	n = &node{redisURL: redisURL}
	quiet := slog.New(slog.DiscardHandler)
	if n.db, err = sqldb.Open(ctx, sqldb.Config{URL: sqlURL, Log: quiet}); err != nil {
		return nil, err
	}
	if err := n.db.Migrate(ctx, migrations.FS); err != nil {
		return nil, err
	}
	if n.redis, err = redis.Open(ctx, redis.Config{URL: redisURL, Prefix: "stoa", Log: quiet}); err != nil {
		return nil, err
	}
	bus := events.NewBus(n.redis, "bench", quiet)
	caches := cache.NewRuntime(n.redis, bus.Nodes(), cache.Config{Log: quiet})
	policy := cache.Policy{Entries: 10_000}
	if n.accounts, err = accounts.New(accounts.Config{DB: n.db, Redis: n.redis, Limiter: ratelimit.New(n.redis), Caches: caches, Bus: bus,
		Cache: policy,
		Mail:  mail.NewBox(n.db), Secret: []byte(strings.Repeat("secret of a benchmark", 2)), Settings: accounts.Settings{Devices: 1000},
		Log: quiet}); err != nil {
		return nil, err
	}
	if n.social, err = social.New(social.Config{DB: n.db, Caches: caches, Cache: policy, Bus: bus, People: n.accounts,
		Log: quiet}); err != nil {
		return nil, err
	}
	n.running.Go(func() { _ = bus.Run(ctx, func() {}) })
	ready := make(chan struct{})
	n.running.Go(func() { _ = caches.Run(ctx, func() { close(ready) }) })
	<-ready
	for bus.Nodes().Seen() == 0 { // before that, nothing is cached in process
		if err := pause(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *node) close() error {
	n.running.Wait()
	return errors.Join(n.redis.Close(), n.db.Close())
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// populate writes users and friendships in the form of the server. All users have the same password, whose hash the
// server has computed.
func (n *node) populate(ctx context.Context) error {
	now := n.db.Now().UnixMilli()
	for range users {
		n.people = append(n.people, ids.New[accounts.User]())
	}
	insert := func(hash string) error {
		var rows []string
		var args []any
		for i, id := range n.people {
			rows = append(rows, "(?, ?, ?, ?, ?, 'UTC', '', 0, ?, 'says this of themselves', '', 1, 0, 1, 0, 0, '')")
			args = append(args, id, address(i), address(i), fmt.Sprint("Person ", i), hash, now)
		}
		_, err := n.db.ExecContext(ctx, `INSERT INTO users (id, email, email_key, name, password_hash, zone, zone_next, zone_from, created,
			bio, avatar, find_by_id, find_by_email, requests, erased, banned_until, ban_reason) VALUES `+strings.Join(rows, ", "), args...)
		return err
	}
	cheap, err := argon2id.CreateHash(password, &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		return err
	}
	if err := insert(cheap); err != nil {
		return err
	}
	first, err := n.logIn(ctx)
	if err != nil {
		return err
	}
	if err := n.accounts.ChangePassword(ctx, first.User.ID, first.Device,
		accounts.PasswordChange{Current: password, Password: password}); err != nil {
		return err
	}
	if err := n.db.NewRaw("SELECT password_hash FROM users WHERE id = ?", n.people[0]).Scan(ctx, &n.hash); err != nil {
		return err
	}
	if _, err := n.db.ExecContext(ctx, "UPDATE users SET password_hash = ?", n.hash); err != nil {
		return err
	}
	for i := range popular {
		var rows []string
		var args []any
		for k := range friends {
			rows = append(rows, "(?, ?, 'from school', 'friends', 'card', 0, ?, ?, ?, 0)")
			args = append(args, n.people[i], n.friend(i, k), now, now, k+1)
		}
		_, err := n.db.ExecContext(ctx, "INSERT INTO friends (user_id, friend_id, remark, tag, source, sort, since, updated, version, gone) "+
			"VALUES "+strings.Join(rows, ", "), args...)
		if err != nil {
			return err
		}
	}
	for range popular {
		t, err := n.logIn(ctx)
		if err != nil {
			return err
		}
		n.tokens = append(n.tokens, t.Access)
	}
	return nil
}

func address(i int) string { return fmt.Sprintf("person%d@example.org", i) }

// friend returns the k-th friend of the i-th user.
func (n *node) friend(i, k int) accounts.ID { return n.people[(i+1+k)%users] }

// logIn logs the next user in, from a separate client network.
func (n *node) logIn(ctx context.Context) (accounts.Tokens, error) {
	i := int(n.nextOne.Add(1)-1) % users
	return n.accounts.Login(ctx, accounts.Login{Email: address(i), Password: password, Device: "bench",
		IP: fmt.Sprintf("10.%d.%d.1", i>>8, i&0xff)})
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func want(ok bool, what string) {
	if !ok {
		log.Fatal(what)
	}
}

// rawHashes stores hashes in Redis with the size and fields of those of friends.
func (n *node) rawHashes(ctx context.Context) {
	for i := range popular {
		var cmds []keyspace.Cmd
		for k := range friends {
			cmds = append(cmds, rawHash.At(keyspace.Int{N: int64(i)}).SetCmd(n.friend(i, k).String(),
				fmt.Sprintf(`{"remark":"from school","tag":"friends","source":"card","since":%d,"updated":%d}`, k, k)))
		}
		must(keyspace.FirstErr(n.redis.DoMulti(ctx, cmds)))
	}
}

// commands returns the number of commands in Redis, by name.
func (n *node) commands(ctx context.Context) map[string]int {
	info, err := servers.Info(ctx, n.redisURL, "commandstats")
	must(err)
	out := map[string]int{}
	for name, v := range info {
		calls, _, _ := strings.Cut(strings.TrimPrefix(v, "calls="), ",")
		out[strings.TrimPrefix(name, "cmdstat_")], _ = strconv.Atoi(calls)
	}
	return out
}

// tell prints the commands that all the calls of one send to Redis.
func (n *node) tell(ctx context.Context, times int, one func(i int)) {
	before := n.commands(ctx)
	for i := range times {
		one(i)
	}
	fmt.Printf("  %d of them were to Redis:", times)
	after := n.commands(ctx)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if d := after[name] - before[name]; d > 0 && name != "info" && name != "ping" {
			fmt.Printf(" %s +%d", name, d)
		}
	}
	fmt.Println()
}

func (n *node) isFriend(ctx context.Context) {
	fmt.Println("1. Is she a friend; 100 people with 200 friends each, all in Redis")
	n.rawHashes(ctx)
	ask := func(i int) {
		ok, err := n.social.IsFriend(ctx, n.people[i%popular], n.friend(i%popular, i%friends))
		must(err)
		want(ok, "no friend")
	}
	for i := range popular {
		ask(i)
	}
	n.tell(ctx, 1000, ask)
	raw, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{strings.TrimPrefix(n.redisURL, "redis://")}, DisableCache: true})
	must(err)
	defer raw.Close()
	for _, callers := range []int{1, 64} {
		fmt.Printf("  %d callers:\n", callers)
		r := turns.Compare(*rounds, *round,
			turns.Side{Name: "HGET by the same client", Do: turns.Crowd(callers, func(i int) {
				_, ok, err := n.redis.Do(ctx, keyspace.Cmd{Name: "HGET", Key: rawHash.At(keyspace.Int{N: int64(i % popular)}).Key,
					Args: []string{n.friend(i%popular, i%friends).String()}}).Text()
				must(err)
				want(ok, "no field")
			})},
			turns.Side{Name: "HGET by rueidis as it comes", Do: turns.Crowd(callers, func(i int) {
				key := n.redis.Physical(rawHash.At(keyspace.Int{N: int64(i % popular)}).Key)
				_, err := raw.Do(ctx, raw.B().Hget().Key(key).Field(n.friend(i%popular, i%friends).String()).Build()).ToString()
				must(err)
			})},
			turns.Side{Name: "social.IsFriend", Do: turns.Crowd(callers, ask)})
		fmt.Printf("  => %.2f × by the same client, %.2f × by rueidis as it comes (aim ≤ 1.2)\n", r[2].Nanos/r[0].Nanos, r[2].Nanos/r[1].Nanos)
	}
}

func (n *node) areFriends(ctx context.Context) {
	fmt.Println("2. Which of a hundred are friends")
	n.rawHashes(ctx)
	batch := make([][]accounts.ID, popular)
	fields := make([][]string, popular)
	for i := range batch {
		for k := range 100 { // every second one is a friend
			id := n.friend(i, 2*k)
			if k%2 == 1 {
				id = n.people[(i+1+friends+k)%users]
			}
			batch[i], fields[i] = append(batch[i], id), append(fields[i], id.String())
		}
	}
	ask := func(i int) {
		found, err := n.social.AreFriends(ctx, n.people[i%popular], batch[i%popular])
		must(err)
		want(found[batch[i%popular][0]] && !found[batch[i%popular][1]], "wrong friends")
	}
	for i := range popular {
		ask(i)
	}
	n.tell(ctx, 1000, ask)
	r := turns.Compare(*rounds, *round,
		turns.Side{Name: "HMGET by the same client", Do: turns.Crowd(1, func(i int) {
			list, err := n.redis.Do(ctx, keyspace.Cmd{Name: "HMGET", Key: rawHash.At(keyspace.Int{N: int64(i % popular)}).Key,
				Args: fields[i%popular]}).Items()
			must(err)
			want(len(list) == 100, "no list")
		})},
		turns.Side{Name: "social.AreFriends", Do: turns.Crowd(1, ask)})
	fmt.Printf("  => %.2f ×\n", r[1].Nanos/r[0].Nanos)
}

func (n *node) user(ctx context.Context) {
	fmt.Println("3. Who is this; 1,000 users in process, drawn evenly, one caller")
	raw := otter.Must(&otter.Options[accounts.ID, accounts.User]{MaximumSize: 2 * users, StatsRecorder: stats.NewCounter()})
	for _, id := range n.people {
		u, err := n.accounts.User(ctx, id)
		must(err)
		raw.Set(id, u)
	}
	draw := rand.New(rand.NewPCG(1, 2))
	r := turns.Compare(*rounds, *round,
		turns.Side{Name: "otter with its statistics", Do: func(times int) {
			for range times {
				_, ok := raw.GetIfPresent(n.people[draw.IntN(users)])
				want(ok, "gone")
			}
		}},
		turns.Side{Name: "accounts.User", Do: func(times int) {
			for range times {
				_, err := n.accounts.User(ctx, n.people[draw.IntN(users)])
				must(err)
			}
		}})
	fmt.Printf("  => %.2f × (package cache alone: aim ≤ 1.4, bench-cache)\n", r[1].Nanos/r[0].Nanos)
}

func (n *node) verify(ctx context.Context) {
	fmt.Println("4. Whose token is this; 100 devices in process")
	for i, token := range n.tokens {
		must(rawValue.At(keyspace.Int{N: int64(i)}).Set(ctx, n.redis, strings.Repeat("x", 80)))
		_, err := n.accounts.Verify(ctx, token)
		must(err)
	}
	ask := func(i int) {
		_, err := n.accounts.Verify(ctx, n.tokens[i%len(n.tokens)])
		must(err)
	}
	n.tell(ctx, 1000, ask)
	for _, callers := range []int{1, 64} {
		fmt.Printf("  %d callers:\n", callers)
		r := turns.Compare(*rounds, *round,
			turns.Side{Name: "GET by the same client", Do: turns.Crowd(callers, func(i int) {
				_, ok, err := rawValue.At(keyspace.Int{N: int64(i % len(n.tokens))}).Get(ctx, n.redis)
				must(err)
				want(ok, "no value")
			})},
			turns.Side{Name: "accounts.Verify", Do: turns.Crowd(callers, ask)})
		fmt.Printf("  => 1/%.1f\n", r[0].Nanos/r[1].Nanos)
	}
}

func (n *node) logIns(ctx context.Context) {
	pool := max(1, runtime.GOMAXPROCS(0)/2) // as in accounts
	fmt.Printf("5. Log-ins; %d hashed at a time, 16 callers\n", pool)
	turn := max(*round, time.Second)
	if *short {
		turn = 300 * time.Millisecond
	}
	r := turns.Compare(max(3, *rounds/2), turn,
		turns.Side{Name: "argon2id alone", Do: turns.Crowd(pool, func(int) {
			ok, err := argon2id.ComparePasswordAndHash(password, n.hash)
			must(err)
			want(ok, "wrong password")
		})},
		turns.Side{Name: "accounts.Login", Do: turns.Crowd(16, func(int) {
			_, err := n.logIn(ctx)
			must(err)
		})})
	fmt.Printf("  => %.1f log-ins for %.1f hashes in a second: %.2f × (aim ≥ 0.9)\n", 1e9/r[1].Nanos, 1e9/r[0].Nanos, r[0].Nanos/r[1].Nanos)
}

// underLogIns reads at a fixed rate, even if earlier reads have not ended. It measures each read from the time when it
// was due.
func (n *node) underLogIns(ctx context.Context) {
	fmt.Printf("6. %d reads of each kind in a second, from when they were due, while 200 log in at once\n", *rate)
	lasting := 5 * time.Second
	if *short {
		lasting = time.Second
	}
	n.read(ctx, lasting/5) // warms up
	var calm, busy reads
	for range 3 {
		calm.add(n.read(ctx, lasting))
		crowd, leave := context.WithCancel(ctx)
		var all sync.WaitGroup
		var done atomic.Int64
		for range 200 {
			all.Go(func() {
				for crowd.Err() == nil {
					_, err := n.logIn(crowd)
					switch {
					case err == nil:
						done.Add(1)
					case crowd.Err() != nil:
					case errors.Is(err, accounts.ErrBusy): // more than may wait
						_ = pause(crowd, 100*time.Millisecond)
					default:
						must(err)
					}
				}
			})
		}
		must(pause(ctx, lasting/5))
		busy.add(n.read(ctx, lasting))
		leave()
		all.Wait()
		want(done.Load() > 0, "nobody logged in")
	}
	for _, kind := range []struct {
		name       string
		calm, busy []time.Duration
	}{{"accounts.User, in process", calm.user, busy.user}, {"accounts.Verify, in process", calm.verify, busy.verify},
		{"social.IsFriend, in Redis", calm.friend, busy.friend}} {
		a, b := quantile(kind.calm, 50), quantile(kind.busy, 50)
		fmt.Printf("  %-28s median %8s, with log-ins %8s; p99 %8s, with log-ins %8s\n  => %.2f × (aim ≤ 2)\n",
			kind.name, a, b, quantile(kind.calm, 99), quantile(kind.busy, 99), float64(b)/float64(a))
	}
}

// reads has the durations of each kind of read.
type reads struct{ user, verify, friend []time.Duration }

func (r *reads) add(more reads) {
	r.user, r.verify, r.friend = append(r.user, more.user...), append(r.verify, more.verify...), append(r.friend, more.friend...)
}

func (n *node) read(ctx context.Context, lasting time.Duration) reads {
	total := int(lasting.Seconds() * float64(*rate))
	out := reads{make([]time.Duration, total), make([]time.Duration, total), make([]time.Duration, total)}
	var all sync.WaitGroup
	began := time.Now()
	for i := range total {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(*rate))
		if wait := time.Until(due); wait > 0 {
			must(pause(ctx, wait))
		}
		all.Go(func() {
			_, err := n.accounts.User(ctx, n.people[i%users])
			must(err)
			out.user[i] = time.Since(due)
		})
		all.Go(func() {
			_, err := n.accounts.Verify(ctx, n.tokens[i%len(n.tokens)])
			must(err)
			out.verify[i] = time.Since(due)
		})
		all.Go(func() {
			_, err := n.social.IsFriend(ctx, n.people[i%popular], n.friend(i%popular, i%friends))
			must(err)
			out.friend[i] = time.Since(due)
		})
	}
	all.Wait()
	return out
}

func quantile(ds []time.Duration, percent int) time.Duration {
	slices.Sort(ds)
	return ds[min(len(ds)-1, len(ds)*percent/100)].Round(100 * time.Nanosecond)
}
