// Command checkin measures a durable check-in through Stoa's service, boards
// and events included, against two other ways, in one run on one real
// redis-server and one real MariaDB with innodb_flush_log_at_trx_commit=1:
//
//	origin  nine Redis calls one after another and a queue entry; not durable
//	sql     a SELECT and two UPDATEs in one transaction; no Redis at all
//
// All use the same Redis client, the same pool of connections to MariaDB and
// prepared statements. Both servers are children of this program.
//
//	go run ./checkin
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/mail"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/migrations"
	"github.com/stoa-dev/stoa/ratelimit"
	"github.com/stoa-dev/stoa/redis"
)

var (
	callers = flag.Int("callers", 64, "callers at once")
	users   = flag.Int("users", 20_000, "users who check in")
	lasting = flag.Duration("for", 5*time.Second, "how long each side runs in each round")
	rounds  = flag.Int("rounds", 3, "rounds; the sides take turns, the median counts")
	conns   = flag.Int("conns", 16, "connections to MariaDB")
	profile = flag.String("cpuprofile", "", "write a CPU profile of Stoa's side to this file, and measure nothing else")
)

// registry has what Stoa's service says of itself.
var registry = prometheus.NewRegistry()

// stages prints the means of Stoa's batches over the whole run.
func stages(w io.Writer) error {
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	mean := map[string]float64{}
	for _, f := range families {
		if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() > 0 {
			mean[f.GetName()] = h.GetSampleSum() / float64(h.GetSampleCount())
		}
	}
	_, err = fmt.Fprintf(w, "\nstoa's batches: %.0f check-ins, %.2f ms to commit, %.2f ms to apply to Redis\n",
		mean["stoa_checkin_batch_size"], 1000*mean["stoa_checkin_commit_seconds"], 1000*mean["stoa_checkin_apply_seconds"])
	return err
}

// side is one way to check in. do is called from many goroutines; n counts up
// over all of them, so that no user checks in twice on one day.
type side struct {
	name string
	do   func(ctx context.Context, n int) error
}

func main() {
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	// The process is far smaller than a server; with the default its collector
	// would run many times a second, on every side.
	debug.SetGCPercent(400)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "stoa-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
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

	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	db, err := sqldb.Open(ctx, sqldb.Config{URL: sqlURL, MaxConns: *conns, Log: quiet})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(ctx, migrations.FS); err != nil {
		return err
	}
	rdb, err := redis.Open(ctx, redis.Config{URL: redisURL, Log: quiet})
	if err != nil {
		return err
	}
	defer rdb.Close()

	people := make([]accounts.ID, *users)
	for i := range people {
		people[i] = ids.New[accounts.User]()
	}
	stoa, stop, err := throughStoa(ctx, db, rdb, people, quiet)
	if err != nil {
		return err
	}
	defer stop()
	alone, err := throughSQL(ctx, db.Writer(), people)
	if err != nil {
		return err
	}
	sides := []side{{"stoa, durable", stoa}, {"origin: 9 Redis calls + queue, not durable", throughOrigin(rdb, people)}, {"SQL alone, durable", alone}}

	if *profile != "" {
		return profiled(ctx, sides[0])
	}
	results := make([][]result, len(sides))
	next := make([]atomic.Int64, len(sides))
	for round := range *rounds + 1 {
		for i, s := range sides {
			for rdb.Ping(ctx) != nil {
			}
			r, err := measure(ctx, s, &next[i])
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if round > 0 { // the first warms up
				results[i] = append(results[i], r)
			}
		}
	}
	fmt.Printf("%d callers, %d users, %d connections, %d cores, median of %d rounds of %s\n\n", *callers, *users, *conns, runtime.NumCPU(), *rounds, *lasting)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "side\tper second\tp50 ms\tp99 ms\tstoa is\t")
	base := median(results[0])
	for i, s := range sides {
		m := median(results[i])
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t%.2f ×\t\n", s.name, m.rate, ms(m.p50), ms(m.p99), base.rate/m.rate)
	}
	return errors.Join(w.Flush(), stages(os.Stdout))
}

func profiled(ctx context.Context, s side) error {
	var next atomic.Int64
	if _, err := measure(ctx, s, &next); err != nil { // warms up
		return err
	}
	f, err := os.Create(*profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	r, err := measure(ctx, s, &next)
	pprof.StopCPUProfile()
	fmt.Printf("%.0f per second\n", r.rate)
	return errors.Join(err, f.Close(), stages(os.Stdout))
}

type result struct {
	rate     float64
	p50, p99 time.Duration
}

func median(rs []result) result {
	slices.SortFunc(rs, func(a, b result) int { return int(a.rate - b.rate) })
	return rs[len(rs)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func measure(ctx context.Context, s side, next *atomic.Int64) (result, error) {
	runtime.GC()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	took := make([][]time.Duration, *callers)
	start := time.Now()
	var wg sync.WaitGroup
	for c := range *callers {
		wg.Go(func() {
			for time.Since(start) < *lasting {
				began := time.Now()
				if err := s.do(ctx, int(next.Add(1))); err != nil {
					cancel(err)
					return
				}
				took[c] = append(took[c], time.Since(began))
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	if err := context.Cause(ctx); err != nil {
		return result{}, err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return result{float64(len(all)) / elapsed.Seconds(), all[len(all)/2], all[len(all)*99/100]}, nil
}

// day is the date on which the n-th check-in falls: everybody's next one when
// all have had their turn.
func day(n, people int) time.Time {
	return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, n/people)
}

func throughStoa(ctx context.Context, db *sqldb.DB, rdb *redis.DB, people []accounts.ID, log *slog.Logger) (func(context.Context, int) error, func(), error) {
	acc, err := accounts.New(accounts.Config{DB: db, Redis: rdb, Limiter: ratelimit.New(rdb), Mail: mail.NewBox(db), Secret: make([]byte, 32), Log: log})
	if err != nil {
		return nil, nil, err
	}
	bus := events.NewBus(rdb, "bench", log)
	// One clock for all: a check-in of the next day begins when the last of
	// this day has been handed out.
	var today atomic.Int64
	today.Store(day(0, len(people)).UnixNano())
	s := checkin.New(checkin.Config{DB: db, Redis: rdb, Users: acc, Bus: bus, Node: "bench", Metrics: registry, Log: log,
		Now: func() time.Time { return time.Unix(0, today.Load()) }})
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	ready := make(chan struct{})
	wg.Go(func() { _ = s.Run(ctx, func() { close(ready) }) })
	wg.Go(func() { _ = bus.Run(ctx, func() {}) })
	<-ready
	clock := civil.Clock{Zone: "Asia/Shanghai"}
	do := func(ctx context.Context, n int) error {
		if at := day(n, len(people)).UnixNano(); at > today.Load() {
			today.Store(at)
		}
		_, err := s.Mark(ctx, people[n%len(people)], clock, checkin.Activity{Words: 10, Minutes: 5}, rand.Uint64())
		return err
	}
	return do, func() { cancel(); wg.Wait() }, nil
}

// throughSQL is a check-in without Redis as the origin had it before: the
// month's calendar and the statistics are rows that are read and updated.
func throughSQL(ctx context.Context, db *sql.DB, people []accounts.ID) (func(context.Context, int) error, error) {
	for _, ddl := range []string{
		"CREATE TABLE user_calendar (user_id VARCHAR(12) NOT NULL PRIMARY KEY, sign_days BIGINT NOT NULL)",
		"CREATE TABLE user_stats (user_id VARCHAR(12) NOT NULL PRIMARY KEY, streak_days INT NOT NULL, max_streak_days INT NOT NULL, total_days INT NOT NULL, last_sign_date INT NOT NULL)",
	} {
		if _, err := db.ExecContext(ctx, ddl); err != nil {
			return nil, err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, p := range people {
		if _, err := tx.ExecContext(ctx, "INSERT INTO user_calendar VALUES (?, 0)", p.String()); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO user_stats VALUES (?, 0, 0, 0, 0)", p.String()); err != nil {
			return nil, err
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	read, err := db.PrepareContext(ctx, "SELECT streak_days, max_streak_days, last_sign_date FROM user_stats WHERE user_id = ?")
	if err != nil {
		return nil, err
	}
	calendar, err := db.PrepareContext(ctx, "UPDATE user_calendar SET sign_days = sign_days | ? WHERE user_id = ?")
	if err != nil {
		return nil, err
	}
	stats, err := db.PrepareContext(ctx, "UPDATE user_stats SET streak_days = ?, max_streak_days = ?, total_days = total_days + 1, last_sign_date = ? WHERE user_id = ?")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, n int) error {
		user, today := people[n%len(people)].String(), int(civil.DayOf(day(n, len(people)).Date()))
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		var streak, longest, last int
		if err := tx.StmtContext(ctx, read).QueryRowContext(ctx, user).Scan(&streak, &longest, &last); err != nil {
			return err
		}
		if last != today-1 {
			streak = 0
		}
		streak++
		if _, err := tx.StmtContext(ctx, calendar).ExecContext(ctx, int64(1)<<(today%31), user); err != nil {
			return err
		}
		if _, err := tx.StmtContext(ctx, stats).ExecContext(ctx, streak, max(longest, streak), today, user); err != nil {
			return err
		}
		return tx.Commit()
	}, nil
}
