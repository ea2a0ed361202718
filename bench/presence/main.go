// Command presence counts the cost of presence in Redis: 100,000 users on ten nodes, in one process, on a real
// redis-server that it starts.
//
//	go run ./presence [-users 100000] [-nodes 10]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/presence"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	users = flag.Int("users", 100_000, "who are on line")
	count = flag.Int("nodes", 10, "on which they are")
)

const (
	friends = 200
	counted = 20 * time.Second // how long heartbeats are counted
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// node is a node with connections.
type node struct {
	*presence.Service
	social *social.Service
	redis  *redis.DB
	die    func()
}

func open(ctx context.Context, db *sqldb.DB, url string) (*node, error) {
	r, err := redis.Open(ctx, redis.Config{URL: url, Prefix: "stoa"})
	if err != nil {
		return nil, err
	}
	id, quiet := ids.New[cluster.Node](), slog.New(slog.DiscardHandler)
	bus := events.NewBus(r, id.String(), quiet)
	nodes := cluster.New(cluster.Config{Redis: r, Bus: bus, Node: id, Metrics: prometheus.NewRegistry(), Log: quiet})
	caches := cache.NewRuntime(r, bus.Nodes(), cache.Config{})
	people, err := accounts.New(accounts.Config{DB: db, Redis: r, Limiter: ratelimit.New(r), Caches: caches, Bus: bus,
		Secret: make([]byte, 32), Log: quiet})
	if err != nil {
		return nil, err
	}
	n := &node{redis: r}
	if n.social, err = social.New(social.Config{DB: db, Caches: caches, Bus: bus, People: people, Log: quiet}); err != nil {
		return nil, err
	}
	n.Service = presence.New(presence.Config{DB: db, Redis: r, Bus: bus, Node: id, Nodes: nodes, People: people, Friends: n.social,
		Metrics: prometheus.NewRegistry(), Log: quiet})
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, run := range []func(context.Context, func()) error{bus.Run, nodes.Run, caches.Run, n.Run} {
		running.Go(func() { _ = run(ctx, func() {}) })
	}
	// Without Redis it cannot sign off.
	n.die = sync.OnceFunc(func() { _ = r.Close(); cancel(); running.Wait() })
	return n, bus.Nodes().Wait(ctx)
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "stoa-bench-presence-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	url, stopRedis, err := servers.Redis(ctx, dir)
	if err != nil {
		return err
	}
	defer stopRedis()
	db, err := sqldb.Open(ctx, sqldb.Config{URL: "sqlite", Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Migrate(ctx, migrations.FS); err != nil {
		return err
	}
	ask, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{strings.TrimPrefix(url, "redis://")}, DisableCache: true})
	if err != nil {
		return err
	}
	defer ask.Close()
	var nodes []*node
	for range *count {
		n, err := open(ctx, db, url)
		if err != nil {
			return err
		}
		defer n.die()
		nodes = append(nodes, n)
	}
	all, err := people(ctx, db, nodes[0].social)
	if err != nil {
		return err
	}

	// One user on each node, so that all nodes renew their connections.
	for i, n := range nodes {
		enter(n, all[i], i)
	}
	time.Sleep(5 * time.Second)
	few, err := commands(ctx, ask, counted)
	if err != nil {
		return err
	}
	began := time.Now()
	for i, u := range all[len(nodes):] {
		enter(nodes[i%len(nodes)], u, i+len(nodes))
	}
	for {
		_, _, online, err := online(ctx, nodes[1], all[len(all)-1:])
		if err != nil {
			return err
		}
		if online == 1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(began)
	for stats := (map[string]int{"publish": 1}); stats["publish"]+stats["evalsha"] > 0; { // until all friends have the event
		if stats, err = commands(ctx, ask, 3*time.Second); err != nil {
			return err
		}
	}
	fmt.Printf("%d users on %d nodes: on line after %s\n\n", len(all), len(nodes), took.Round(time.Millisecond))
	report, err := audit.Run(ctx, nodes[0].redis, []*keyspace.Schema{presence.Keys}, audit.Options{Full: true})
	if err != nil {
		return err
	}
	for _, f := range report.Families {
		fmt.Printf("%-28s %9d keys, %7.1f bytes for each user (MEMORY USAGE)\n", f.Family, f.Keys, float64(f.Bytes)/float64(len(all)))
	}
	fmt.Println()

	many, err := commands(ctx, ask, counted)
	if err != nil {
		return err
	}
	fmt.Printf("commands in a second for each node, all that a node does by itself:\n%-12s %12s %12s\n", "", fmt.Sprint(len(nodes), " users"),
		fmt.Sprint(len(all), " users"))
	each := func(n int) float64 { return float64(n) / counted.Seconds() / float64(len(nodes)) }
	for _, name := range slices.Sorted(maps.Keys(many)) {
		fmt.Printf("%-12s %12.2f %12.2f\n", name, each(few[name]), each(many[name]))
	}

	if _, err := commandStats(ctx, ask, true); err != nil {
		return err
	}
	list, _, err := nodes[1].OnlineFriends(ctx, all[0]) // caches the users in this process
	if err != nil || len(list) != friends {
		return fmt.Errorf("%d friends are on line, %w", len(list), err)
	}
	first, err := commandStats(ctx, ask, true)
	if err != nil {
		return err
	}
	if _, _, err := nodes[1].OnlineFriends(ctx, all[0]); err != nil {
		return err
	}
	second, err := commandStats(ctx, ask, true)
	if err != nil {
		return err
	}
	fmt.Printf("\nMGETs for the list of %d friends: %d the first time on a node, %d from then on\n", friends, first["mget"], second["mget"])

	dead := nodes[len(nodes)-1]
	began = time.Now()
	dead.die()
	var off time.Duration
	for {
		if err := nodes[0].Jobs()[0].Run(ctx); err != nil {
			return err
		}
		asked, _, online, err := online(ctx, nodes[1], held(all, len(nodes)-1, len(nodes)))
		if err != nil {
			return err
		}
		if online == 0 && off == 0 {
			off = time.Since(began)
			stats, err := commandStats(ctx, ask, true)
			if err != nil {
				return err
			}
			fmt.Printf("\na node died: its %d users are off line after %s; DELs until then: %d\n", asked, off.Round(10*time.Millisecond),
				stats["del"])
		}
		if stats, err := commandStats(ctx, ask, false); err != nil {
			return err
		} else if off != 0 && stats["del"] >= asked {
			fmt.Printf("all of them are taken out after %s\n", time.Since(began).Round(10*time.Millisecond))
			return nil
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// held returns the users of one node.
func held(all []accounts.ID, node, nodes int) (some []accounts.ID) {
	for i := node; i < len(all); i += nodes {
		some = append(some, all[i])
	}
	return some
}

// enter opens a connection of a user.
func enter(n *node, user accounts.ID, number int) {
	n.Watch(presence.Socket).Opened(user.String(), ids.New[accounts.Session]().String(), strconv.Itoa(number))
}

// online counts the users who are online, as each of them sees it.
func online(ctx context.Context, n *node, users []accounts.ID) (asked, rounds, online int, err error) {
	for _, u := range users[max(0, len(users)-presence.MaxUsers):] {
		status, _, _, err := n.Own(ctx, u)
		if err != nil {
			return 0, 0, 0, err
		}
		if rounds++; status != presence.Offline {
			online++
		}
	}
	return len(users), rounds, online, nil
}

// people creates the accounts; the first user is a friend of the next ones.
func people(ctx context.Context, db *sqldb.DB, s *social.Service) (all []accounts.ID, err error) {
	rows := make([]accounts.User, *users)
	for i := range rows {
		if rows[i], err = accounts.NewUser(fmt.Sprintf("user%d@example.org", i), "User", "UTC"); err != nil {
			return nil, err
		}
		all = append(all, rows[i].ID)
	}
	if err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, rows) }); err != nil {
		return nil, err
	}
	for _, other := range all[1 : friends+1] {
		if _, _, err := s.SendRequest(ctx, other, social.RequestDraft{User: all[0]}); err != nil {
			return nil, err
		}
		r, _, err := s.SendRequest(ctx, all[0], social.RequestDraft{User: other})
		if err != nil {
			return nil, err
		}
		if r.State != social.Accepted {
			return nil, fmt.Errorf("a request is %s", r.State)
		}
	}
	return all, nil
}

// commands counts the commands of Redis during a time.
func commands(ctx context.Context, c rueidis.Client, d time.Duration) (map[string]int, error) {
	if _, err := commandStats(ctx, c, true); err != nil {
		return nil, err
	}
	time.Sleep(d)
	return commandStats(ctx, c, false)
}

// commandStats returns the number of calls of each command. With reset it then resets the counters.
func commandStats(ctx context.Context, c rueidis.Client, reset bool) (map[string]int, error) {
	text, err := c.Do(ctx, c.B().Arbitrary("INFO", "commandstats").Build()).ToString()
	if err != nil {
		return nil, err
	}
	stats := map[string]int{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if ok && name != "info" && !strings.HasPrefix(name, "config") {
			calls, _, _ := strings.Cut(rest, ",")
			if stats[name], err = strconv.Atoi(calls); err != nil {
				return nil, err
			}
		}
	}
	if reset {
		err = c.Do(ctx, c.B().Arbitrary("CONFIG", "RESETSTAT").Build()).Error()
	}
	return stats, err
}
