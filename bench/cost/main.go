// Command cost prints what each common operation costs. It runs one node in its own process, with a real redis-server
// and a real MariaDB. The operations run one after another. For each operation it prints
//
//   - SQL: the statements of MariaDB, as its counter Questions has them;
//   - scripts: the scripts that Redis executed (EVALSHA);
//   - commands: the commands that the node sent to Redis, without scripts and INFO;
//   - inside: the commands that scripts called;
//   - µs: the processor time of the node, MariaDB and Redis.
//
// Work after the response also counts. The cost of the same time without operations is subtracted. Redis has one
// counter for commands and inside; the output of MONITOR during more calls of the operation separates them. Before the
// operations, the program prints what an idle node costs in a second, for each role.
//
//	go run ./cost [-short]      (in the folder bench)
//
// Linux only: it reads the clocks of other processes.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit/costs"
)

var (
	short = flag.Bool("short", false, "take seconds, only to see that everything runs")
	calls = flag.Int("calls", 100, "how often each operation runs; the group of one of them gets as many members")
	rest  = flag.Duration("rest", 10*time.Second, "how long an idle node is measured")
	after = flag.Duration("after", 300*time.Millisecond, "how long the work after the last response of a turn may take")
)

const (
	warm    = 3  // calls before those that count; they load the scripts
	turns   = 5  // the calls that count are made in so many turns, and the medians of the turns are printed
	watched = 20 // calls after those that count, for the share of commands in scripts
)

func main() {
	flag.Parse()
	if *short {
		*calls, *rest = 10, time.Second
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// bench has the servers.
type bench struct {
	dir, binary, redis, sqlURL string
	redisPID, sqlPID           int

	db      *sqldb.DB
	counter *costs.Counter
	people  []api.Tokens
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{}
	setup, end, err := servers.NewSetup(ctx, "cost")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	b.dir, b.binary, b.redis, b.sqlURL = setup.Dir, setup.Binary, setup.Redis, setup.SQL
	if b.db, err = sqldb.Open(ctx, sqldb.Config{URL: b.sqlURL}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.db.Close()) }()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, roles := range []string{"api", "gateway", "worker"} {
		if err := b.idle(ctx, roles); err != nil {
			return fmt.Errorf("idle %s: %w", roles, err)
		}
	}
	return b.operations(ctx)
}

// prepare finds the processes of the servers, and inserts the users.
func (b *bench) prepare(ctx context.Context) (err error) {
	server, err := servers.Info(ctx, b.redis, "server")
	if err != nil {
		return err
	}
	if b.redisPID, err = strconv.Atoi(server["process_id"]); err != nil {
		return err
	}
	var path string
	if err := b.db.QueryRowContext(ctx, "SELECT @@pid_file").Scan(&path); err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if b.sqlPID, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		return err
	}
	b.counter = &costs.Counter{SQL: b.db, Stats: func(ctx context.Context) (string, error) {
		return servers.Ask(ctx, b.redis, "INFO", "commandstats")
	}}
	if err := b.db.Migrate(ctx, migrations.FS); err != nil {
		return err
	}
	b.people, err = costs.People(ctx, b.db, costs.PeopleFor(warm+*calls+watched))
	return err
}

func (b *bench) node(roles string) (*servers.Program, error) {
	return servers.Start(exec.Command(b.binary, "serve", "--addr", "127.0.0.1:0", "--data", b.dir, "--sql", b.sqlURL, "--redis", b.redis,
		"--log", "error", "--dev", "--no-limits", "--gateway-max-from", "50000", "--roles", roles))
}

// cost is a cost so far, a cost between two times, or its rate in a second.
type cost struct {
	sql, scripts, sent, inside, infos float64
	node, mariadb, redis              float64 // µs of processor time
	seconds                           float64
}

// add returns c + k × d.
func (c cost) add(k float64, d cost) cost {
	return cost{c.sql + k*d.sql, c.scripts + k*d.scripts, c.sent + k*d.sent, c.inside + k*d.inside, c.infos + k*d.infos, c.node + k*d.node,
		c.mariadb + k*d.mariadb, c.redis + k*d.redis, c.seconds + k*d.seconds}
}

// times returns k × c.
func (c cost) times(k float64) cost { return cost{}.add(k, c) }

// read returns the cost so far, with all commands in sent.
func (b *bench) read(ctx context.Context, s *servers.Program) (c cost, err error) {
	counts, err := b.counter.Read(ctx)
	if err != nil {
		return c, err
	}
	c = cost{sql: float64(counts.Statements), scripts: float64(counts.Scripts), sent: float64(counts.Commands), infos: float64(counts.Infos)}
	for pid, into := range map[int]*float64{s.PID(): &c.node, b.sqlPID: &c.mariadb, b.redisPID: &c.redis} {
		if *into, err = processor(pid); err != nil {
			return c, err
		}
	}
	return c, nil
}

// processor returns the processor time of a process in µs.
func processor(pid int) (float64, error) {
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|2), &t) // see clock_getcpuclockid(3)
	return float64(t.Nano()) / 1000, err
}

// between returns the cost of do and of the time after it.
func (b *bench) between(ctx context.Context, s *servers.Program, rest time.Duration, do func() error) (c cost, err error) {
	before, err := b.read(ctx, s)
	if err != nil {
		return c, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return c, err
	}
	time.Sleep(rest)
	now, err := b.read(ctx, s)
	c = now.add(-1, before)
	c.seconds = time.Since(began).Seconds()
	return c, err
}

// monitor counts the commands in scripts until stop is called.
func (b *bench) monitor(ctx context.Context) (inside *atomic.Int64, stop func(), err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(b.redis, "redis://"))
	if err != nil {
		return nil, nil, err
	}
	inside, ended := new(atomic.Int64), make(chan struct{})
	stop = func() { _ = conn.Close(); <-ended }
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	r := bufio.NewReader(conn)
	if ok, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(ok, "+OK") {
		return nil, nil, errors.Join(fmt.Errorf("MONITOR: %q", ok), err, conn.Close())
	}
	go func() {
		defer close(ended)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if where, _, _ := strings.Cut(line, "]"); strings.HasSuffix(where, " lua") {
				inside.Add(1)
			}
		}
	}()
	return inside, stop, nil
}

// inside returns the median of the commands in scripts of each call of do.
func (b *bench) inside(ctx context.Context, do func(n int) error) (float64, error) {
	count, stop, err := b.monitor(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	var each []float64
	for range watched {
		before := count.Load()
		if err := do(1); err != nil {
			return 0, err
		}
		time.Sleep(30 * time.Millisecond) // the work after the response
		each = append(each, float64(count.Load()-before))
	}
	return median(each), nil
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

const (
	head = "%-36s %7s %8s %9s %8s %8s %8s %8s %8s\n"
	row  = "%-36s %7.1f %8.1f %9.1f %8.1f %8.1f %8.0f %8.0f %8.0f\n"
)

func (c cost) print(name string) {
	values := []any{name}
	for _, v := range []float64{c.sql, c.scripts, c.sent, c.inside, c.infos, c.node, c.mariadb, c.redis} {
		values = append(values, math.Round(10*v)/10+0) // + 0 prints -0 as 0
	}
	fmt.Printf(row, values...)
}

// rate returns the cost of a second without operations.
func (b *bench) rate(ctx context.Context, s *servers.Program) (cost, error) {
	time.Sleep(min(*rest, 5*time.Second)) // what a start leaves to do
	c, err := b.between(ctx, s, *rest, func() error { return nil })
	if err != nil {
		return c, err
	}
	count, stop, err := b.monitor(ctx)
	if err != nil {
		return c, err
	}
	defer stop()
	began := time.Now()
	time.Sleep(*rest / 2)
	return c.times(1 / c.seconds).separate(float64(count.Load()) / time.Since(began).Seconds()), nil
}

// medians returns the median of each value.
func medians(all []cost) cost {
	of := func(value func(cost) float64) float64 {
		var values []float64
		for _, c := range all {
			values = append(values, value(c))
		}
		return median(values)
	}
	return cost{
		sql:     of(func(c cost) float64 { return c.sql }),
		scripts: of(func(c cost) float64 { return c.scripts }),
		sent:    of(func(c cost) float64 { return c.sent }),
		infos:   of(func(c cost) float64 { return c.infos }),
		node:    of(func(c cost) float64 { return c.node }),
		mariadb: of(func(c cost) float64 { return c.mariadb }),
		redis:   of(func(c cost) float64 { return c.redis }),
	}
}

// separate moves the commands in scripts out of sent.
func (c cost) separate(inside float64) cost {
	c.sent, c.inside = c.sent-inside, inside
	return c
}

func (b *bench) idle(ctx context.Context, roles string) (err error) {
	s, err := b.node(roles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c, err := b.rate(ctx, s)
	if err != nil {
		return err
	}
	if roles == "api" {
		fmt.Printf(head, "an idle node, each second", "SQL", "scripts", "commands", "inside", "INFO", "node µs", "SQL µs", "Redis µs")
	}
	c.print("role " + roles)
	return nil
}

// operations measures the operations on a node with all roles.
func (b *bench) operations(ctx context.Context) (err error) {
	s, err := b.node("api,gateway,worker")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	w, err := costs.NewWorld(ctx, "http://"+s.Addr, &http.Client{}, b.people)
	if err != nil {
		return err
	}
	defer w.Close()
	idle, err := b.rate(ctx, s)
	if err != nil {
		return err
	}
	idle.print("all roles, two sockets")
	total := idle // as between returns it
	total.sent, total.inside = idle.sent+idle.inside, 0
	fmt.Printf("\n"+head, fmt.Sprintf("an operation, %d calls", *calls), "SQL", "scripts", "commands", "inside", "INFO", "node µs", "SQL µs",
		"Redis µs")
	for _, o := range w.Operations() {
		if o.Prepare != nil {
			if err := o.Prepare(ctx, warm+*calls+watched); err != nil {
				return fmt.Errorf("before %q: %w", o.Name, err)
			}
		}
		next := 0
		do := func(n int) error {
			for range n {
				if err := o.Do(ctx, next); err != nil {
					return fmt.Errorf("%s, call %d: %w", o.Name, next, err)
				}
				next++
			}
			return nil
		}
		if err := do(warm); err != nil {
			return err
		}
		time.Sleep(*after)
		var all []cost
		for range turns {
			n := *calls / turns
			c, err := b.between(ctx, s, *after, func() error { return do(n) })
			if err != nil {
				return err
			}
			all = append(all, c.add(-c.seconds, total).times(1/float64(n)))
		}
		inside, err := b.inside(ctx, do)
		if err != nil {
			return err
		}
		medians(all).separate(inside).print(o.Name)
	}
	fmt.Println(`
SQL: statements, with BEGIN and COMMIT. scripts: EVALSHA. commands: others that the node sends. inside: those that scripts call; Redis'
commandstats contains them too, and MONITOR shows which they are. A presence beat belongs to a node, not to a client: it is in
the rows of idle nodes. Processor times on a machine with other work are upper bounds.`)
	return nil
}
