// Command checkin compares check-in through Stoa's service with other ways. All run once on a real redis-server and a
// real MariaDB with innodb_flush_log_at_trx_commit=1, both children of this program:
//
//	1  a durable check-in, with boards and events: many callers, paced, over HTTP, cold
//	3  reading a user's status, and calendars
//	5  memory of 100,000 users
//	6  SQL statements of a day
//	7  boards while Redis is away, and after it was emptied
//
// Number 2, the Redis part alone, is no longer measured. Number 4, boards of a million, is bench/boards. All sides use
// the same Redis client, the same number of connections to MariaDB and prepared statements. They take turns, and
// medians count. Each figure has an aim.
//
//	go run ./checkin [-figure 1,3] [-mode redis] [-mysql] [-short] [-json]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin"
)

// tolerable bounds the part of the machine that the kernel's threads and an idle system's services may use, in per
// cent.
const tolerable = 15

// bench is one run.
type bench struct {
	users, known, active int
	lasting              time.Duration
	rounds, conns        int
	repeats              int // repeats of a disturbed measurement
	dir                  string
	sqlURL, redisURL     string
	mysql                bool   // instead of MariaDB
	mode                 string // a second one, in addition to durable
	firstURL             string // the Redis of mode redis, while it runs

	node   *node
	people []accounts.ID
	others float64 // largest part of the machine that others used during a measurement, in per cent
	crowd  *crowd  // started by the first figure that needs it
}

func main() {
	b := &bench{}
	flag.IntVar(&b.users, "users", 20_000, "users who check in")
	flag.IntVar(&b.known, "known", 100_000, "users of figures 5, 6 and 7; one in ten is active")
	flag.DurationVar(&b.lasting, "for", 3*time.Second, "how long each side runs in each round")
	flag.IntVar(&b.rounds, "rounds", 3, "rounds; the sides take turns, the median counts")
	flag.IntVar(&b.repeats, "repeats", 2, "how often a measurement is repeated while others use much of the machine")
	flag.IntVar(&b.conns, "conns", 16, "connections to MariaDB")
	flag.StringVar(&b.dir, "dir", "", "where the servers keep their data; a temporary folder when empty")
	figures := flag.String("figure", "1,3,5,6,7", "which figures")
	short := flag.Bool("short", false, "some seconds in all: fewer users, one short round; figures of little worth")
	flag.StringVar(&b.mode, "mode", "", "redis: figure 1 has redis-first mode, too")
	flag.BoolVar(&b.mysql, "mysql", false, "MySQL in place of MariaDB; scripts/mysql.sh fetches one")
	asJSON := flag.Bool("json", false, "print one JSON document")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the service to this file, with -callers, and measure nothing else")
	callers := flag.Int("callers", 64, "callers at once, for -cpuprofile")
	flag.Parse()
	if *short {
		b.users, b.known, b.lasting, b.rounds, b.repeats = 2000, 10_000, 300*time.Millisecond, 1, 0
	}
	b.active = b.known / 10
	// The process is far smaller than a server. With the default, its collector would run many times a second, on every
	// side.
	debug.SetGCPercent(400)
	var err error
	if *profile != "" {
		err = b.run(func(ctx context.Context, _ machine) error { return b.profiled(ctx, *profile, *callers) })
	} else {
		err = b.run(func(ctx context.Context, m machine) error { return b.measure(ctx, m, *figures, *asJSON) })
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run calls do with running servers and a node.
func (b *bench) run(do func(context.Context, machine) error) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // so that servers and folder are removed
	defer stop()
	if b.dir, err = os.MkdirTemp(b.dir, "stoa-bench-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	m, err := lookAround(b.dir)
	if err != nil {
		return err
	}
	redisURL, stopRedis, err := servers.Redis(ctx, b.dir)
	if err != nil {
		return err
	}
	defer stopRedis()
	start := servers.MariaDB
	if b.mysql {
		start = servers.MySQL
	}
	sqlURL, stopSQL, err := start(ctx, b.dir)
	if err != nil {
		return err
	}
	defer stopSQL()
	b.sqlURL, b.redisURL = sqlURL, redisURL
	if b.node, err = b.open(ctx, sqlURL, redisURL, "stoa", checkin.New); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.node.close()) }()
	defer func() {
		if b.crowd != nil {
			err = errors.Join(err, b.crowd.stop())
		}
	}()
	b.people = newPeople(b.users)
	info, err := servers.Info(ctx, redisURL, "server")
	if err != nil {
		return err
	}
	m.Redis = info["redis_version"]
	if err := b.node.db.Writer().QueryRowContext(ctx, "SELECT VERSION()").Scan(&m.SQL); err != nil {
		return err
	}
	return do(ctx, m)
}

func (b *bench) measure(ctx context.Context, m machine, wanted string, asJSON bool) error {
	all := map[int]func(context.Context, *figure) error{1: b.durable, 3: b.reads, 5: b.memory, 6: b.statements, 7: b.recovery}
	r := report{Machine: m, Setting: fmt.Sprintf("%d users, %d connections to SQL, medians of %d rounds of %s, sides in turns", b.users,
		b.conns, b.rounds, b.lasting)}
	if !asJSON {
		r.printHead(os.Stdout)
	}
	for name := range strings.SplitSeq(wanted, ",") {
		number, err := strconv.Atoi(name)
		if err != nil || all[number] == nil {
			return fmt.Errorf("there is no figure %q", name)
		}
		f := &figure{Number: number}
		b.others = 0
		if err := all[number](ctx, f); err != nil {
			return fmt.Errorf("figure %d: %w", number, err)
		}
		if b.others > tolerable {
			f.note("OTHERS used up to %.0f %% of the machine: compare the work, not the rates.", b.others)
		}
		if r.Figures = append(r.Figures, f); !asJSON {
			if err := f.print(os.Stdout); err != nil {
				return err
			}
		}
	}
	if asJSON {
		return r.printJSON(os.Stdout)
	}
	return nil
}
