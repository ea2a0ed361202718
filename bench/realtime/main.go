// Command realtime measures sockets. It compares a stoa in its own process, with a real redis-server and a real
// MariaDB, with a bare echo server in its own process. The echo server uses the same library of sockets as stoa. The
// clients are in this process.
//
//	1  memory for each idle connection that is logged in and has its channel, and connections per second
//	2  messages from 64 senders, each with one in flight: by socket, by HTTP, and paced
//	3  clients that reconnect after a restart with messages missed: until all have all messages
//	4  one message to 1,000 open sockets, against the library's publish alone
//	5  messages into a group of 5,000 with 1,000 online: when they are acknowledged
//	6  members who join two groups of 5,000 by a backend's import
//	7  operations while Redis hangs and while it is unavailable, against the same with Redis
//
//	go run ./realtime [-figure 1,2] [-short]      (in the folder bench)
//
// Linux only: it reads /proc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

var (
	figures = flag.String("figure", "1,2,3,4,5,6,7", "which ones")
	short   = flag.Bool("short", false, "take seconds, only to see that everything runs")
	idle    = flag.Int("idle", 10_000, "connections of figure 1")
	// An idle Go program collects the garbage of its connections every two minutes, and then releases the memory.
	settle = flag.Duration("settle", 150*time.Second,
		"how long a server of figure 1 rests before its memory is looked at, without connections and with them")
	turn   = flag.Duration("turn", 10*time.Second, "how long a turn of figure 2 lasts")
	rounds = flag.Int("rounds", 3, "how many turns by socket and by HTTP figure 2 has")
	pace   = flag.Int("pace", 500, "messages in a second of the paced turn")
	back   = flag.Int("back", 5_000, "clients of figure 3")
	missed = flag.Int("missed", 20, "messages that each of them has missed")
	reach  = flag.Int("reach", 1_000, "sockets that a message reaches in figures 4 and 5, more than the 200 members up to whom each is "+
		"sent messages")
	crowdOf = flag.Int("crowd", 5_000, "members of the group of figure 5, and of each of the two of figure 6, at most 5,000")
	spread  = flag.Int("spread", 200, "messages of a turn of figure 4, and of figure 5")
	asked   = flag.Int("asked", 4_000, "requests of each operation of figure 7, with Redis and without; at most 20 s while it hangs")
	bare    = flag.String("bare", "", "serve the bare echo in this form: library, small, gws or fan; the program starts itself so")
)

func main() {
	flag.Parse()
	if *short {
		*idle, *settle, *turn, *rounds, *pace, *back, *missed, *reach, *crowdOf, *spread, *asked = 200, time.Second, 500*time.Millisecond, 1, 100,
			100, 3, 250, 300, 10, 80
	}
	do := run
	if *bare != "" {
		do = serveBare
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

// bench has the shared parts of all figures.
type bench struct {
	dir, binary   string
	redis, sqlURL string
	db            *sqldb.DB
	people        []person
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	need := uint64(max(*idle, *back, *reach) + 500)
	if err := files(need); err != nil {
		return err
	}
	b := &bench{}
	setup, end, err := servers.NewSetup(ctx, "realtime", "--maxclients", "1000")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	b.dir, b.binary, b.redis, b.sqlURL = setup.Dir, setup.Binary, setup.Redis, setup.SQL
	if b.db, err = sqldb.Open(ctx, sqldb.Config{URL: b.sqlURL}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.db.Close()) }()
	if err := b.populate(ctx, max(*idle, *back+senders, 2*senders, 2**crowdOf, *reach+1)); err != nil {
		return err
	}
	all := map[string]func(context.Context) error{"1": b.idle, "2": b.messages, "3": b.comeBack, "4": b.fanOut, "5": b.crowded, "6": b.imports,
		"7": b.away}
	for number := range strings.SplitSeq(*figures, ",") {
		if all[number] == nil {
			return fmt.Errorf("there is no figure %q", number)
		}
		if err := all[number](ctx); err != nil {
			return fmt.Errorf("figure %s: %w", number, err)
		}
		fmt.Println()
	}
	return nil
}

// files lets this process and its children have so many open files.
func files(need uint64) error {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil {
		return err
	}
	have.Max = max(have.Max, need)
	have.Cur = have.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &have); err != nil {
		return fmt.Errorf("%d open files are needed, and ulimit -n cannot be raised: %w", need, err)
	}
	return nil
}

// stoa starts the server. All clients are on this machine. With a trusted proxy they do not count as one client
// network, which may have fewer connections.
func (b *bench) stoa(redisURL string) (*servers.Program, error) {
	return servers.Start(exec.Command(b.binary, "serve", "--addr", "127.0.0.1:0", "--data", b.dir, "--sql", b.sqlURL, "--redis", redisURL,
		"--log", "error", "--dev", "--no-limits",
		"--trust-proxy", "127.0.0.0/8", "--gateway-max-from", "50000", "--groups-members", "5000"))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// at returns a quantile as text in milliseconds.
func at(times []time.Duration, q float64) string {
	if len(times) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f ms", float64(quantile(times, q).Microseconds())/1000)
}

func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}
