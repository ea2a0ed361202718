// Command boards measures the cost of both kinds of board on a real redis-server. It measures the server's time for a
// read, next to a plain ZREVRANGE of ten on a small set, without scores and with the scores that a board needs. It also
// measures the time of an update, memory, and the longest command of a load, of a midnight's sweep and of the end of a
// season. All compared figures are from one run.
//
//	go run ./boards [-members 1000000] [-zones 4]      (in the folder bench)
package main

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"log"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	members = flag.Int("members", 1_000_000, "on each board")
	only    = flag.String("only", "", "exact or compact; both if empty")
	zones   = flag.Int("zones", 4, "time zones of the members; each has two midnights ahead")
)

var (
	schema = keyspace.New("bench-boards")

	scores = keyspace.Def1[keyspace.Text](schema, "exact:{{name}}", keyspace.ZSetOf("member → value and time"), forever, doc)
	deaths = keyspace.Def1[keyspace.Text](schema, "exact:{{name}}:deaths", keyspace.ZSetOf("member → Unix ms"), forever, doc)
	loaded = keyspace.Def1[keyspace.Text](schema, "exact:{{name}}:loaded", keyspace.BytesOf("state and token"), forever, doc)
	states = keyspace.Def1[keyspace.Text](schema, "compact:{{name}}", keyspace.HashOf("a compact board"), forever, doc)
	logs   = keyspace.Def1[keyspace.Text](schema, "compact:{{name}}:log", keyspace.ListOf("changes"), forever, doc)
	helds  = keyspace.Def1[keyspace.Text](schema, "compact:{{name}}:held", keyspace.ListOf("changes"), forever, doc)
	plain  = keyspace.Def0(schema, "plain", keyspace.ZSetOf("member → number"), forever, doc)

	forever = keyspace.Forever("ends with the benchmark")
	doc     = keyspace.Doc{Purpose: "to be measured"}

	timeMax int64 = 1<<32 - 1 // of the scores of a board

	noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// A kind is one of the two kinds of board, with the key families that it uses.
type kind struct {
	name string
	make func(db *redis.DB, name string, mortal bool) (leaderboard.Board, []keyspace.Key)
}

var kinds = []kind{
	{"exact", func(db *redis.DB, name string, mortal bool) (leaderboard.Board, []keyspace.Key) {
		n := keyspace.Text{S: name}
		k := leaderboard.Keys{Scores: scores.At(n), Loaded: loaded.At(n)}
		keys := []keyspace.Key{k.Scores.Key, k.Loaded.Key}
		if mortal {
			k.Deaths = deaths.At(n)
			keys = append(keys, k.Deaths.Key)
		}
		return leaderboard.Exact(db, k), keys
	}},
	{"compact", func(db *redis.DB, name string, _ bool) (leaderboard.Board, []keyspace.Key) {
		n := keyspace.Text{S: name}
		k := leaderboard.CompactKeys{State: states.At(n), Log: logs.At(n), Held: helds.At(n)}
		return leaderboard.Compact(db, k), []keyspace.Key{k.State.Key}
	}},
}

func main() {
	flag.Parse()
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "stoa-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	url, stop, err := servers.Redis(ctx, dir)
	if err != nil {
		return err
	}
	defer stop()
	db, err := redis.Open(ctx, redis.Config{URL: url})
	if err != nil {
		return err
	}
	defer db.Close()
	for db.Ping(ctx) != nil {
		time.Sleep(time.Millisecond)
	}
	s := server{ctx, db}
	s.must("CONFIG", "SET", "slowlog-log-slower-than", "1000")
	s.must("CONFIG", "SET", "slowlog-max-len", "10000")

	fmt.Println("Both boards of 100,000 members, by streak and by total days")
	for _, k := range kinds {
		bytes := int64(0)
		for _, name := range []string{"streak", "total"} {
			board, keys := k.make(db, "small-"+name, name == "streak")
			if err := board.Load(ctx, noon, crowd(100_000, name == "streak")); err != nil {
				return err
			}
			for _, key := range keys {
				bytes += s.do("MEMORY", "USAGE", db.Physical(key), "SAMPLES", "0").N
			}
		}
		fmt.Printf("  %-8s %7.3f MB\n", k.name, float64(bytes)/1e6)
	}

	args := []string{}
	for i := range 200 { // too many for a list
		args = append(args, strconv.FormatInt(int64(i)<<32|timeMax-199_000_000, 10), fmt.Sprintf("u%011d", i))
	}
	if err := db.Do(ctx, keyspace.Cmd{Name: "ZADD", Key: plain.At().Key, Args: args}).Err; err != nil {
		return err
	}
	reference := func(args ...string) func(int) error {
		return func(int) error {
			return db.Do(ctx, keyspace.Cmd{Name: "ZREVRANGE", Key: plain.At().Key, Args: args}).Err
		}
	}

	fmt.Printf("A board by streak of %d members, %d deaths ahead\n", *members, 2**zones)
	for _, k := range kinds {
		if *only != "" && *only != k.name {
			continue
		}
		board, keys := k.make(db, "big", true)
		fmt.Printf(" %s\n", k.name)
		s.slowest()
		began := time.Now()
		if err := s.beside(board, func() error { return board.Load(ctx, noon, crowd(*members, true)) }); err != nil {
			return err
		}
		fmt.Printf("  load                 %8.2f s, traffic beside; longest command %s\n", time.Since(began).Seconds(), s.slowest())

		// A quiet board; the requested members have all ranks.
		if _, err := board.Sweep(ctx, noon); err != nil {
			return err
		}
		one := func(i int) leaderboard.Entry { return person(i*7919%*members, true) }
		first, err := board.Top(ctx, noon, 1)
		if err != nil {
			return err
		}
		var refs []float64
		for _, c := range []struct {
			name string
			read func(int) error
		}{
			{"ZREVRANGE 0 9", reference("0", "9")},
			{"the same with scores", reference("0", "9", "WITHSCORES")},
			{"top 10", func(int) error { _, err := board.Top(ctx, noon, 10); return err }},
			{"my rank", func(i int) error { _, _, err := board.Rank(ctx, noon, one(i)); return err }},
			{"top 10 and my rank", func(i int) error { _, _, _, err := board.Read(ctx, noon, 10, one(i)); return err }},
			{"around me, 5", func(i int) error { _, err := board.Around(ctx, noon, one(i), 5); return err }},
			{"rank of one of the best", func(int) error { _, _, err := board.Rank(ctx, noon, of(first[0])); return err }},
			{"the same, not seen yet", func(int) error { // by this node since the last fold
				board, _ := k.make(db, "big", true)
				_, _, err := board.Rank(ctx, noon, of(first[0]))
				return err
			}},
			{"around the same, 5", func(int) error { _, err := board.Around(ctx, noon, of(first[0]), 5); return err }},
		} {
			us, wall, err := s.measure(5, 2000, c.read)
			if err != nil {
				return err
			}
			if len(refs) < 2 {
				refs = append(refs, us)
				fmt.Printf("  %-23s %5.1f µs on the server\n", c.name, us)
				continue
			}
			fmt.Printf("  %-23s %5.1f µs on the server, %4.1f times that with scores, %4.1f times that without; %5.1f µs in all\n", c.name, us,
				us/refs[1], us/refs[0], wall)
		}

		n := 0
		us, _, err := s.measure(1, 2000, func(int) error {
			batch := make([]leaderboard.Entry, 32)
			for j := range batch {
				batch[j] = next(person(n, true))
				n = (n + 1) % *members
			}
			err := keyspace.FirstErr(db.DoMulti(ctx, board.Update(batch)))
			if err == nil && n/32%64 == 63 { // as in a busy second
				_, err = board.Sweep(ctx, noon)
			}
			return err
		})
		if err != nil {
			return err
		}
		fmt.Printf("  update, batches of 32   %5.2f µs on the server for each member\n", us/32)

		s.slowest()
		began = time.Now()
		removed, err := board.Sweep(ctx, noon.AddDate(0, 0, 2))
		if err != nil {
			return err
		}
		fmt.Printf("  sweep of %-9d    %8.3f s; longest command %s\n", removed, time.Since(began).Seconds(), s.slowest())

		if err := board.Load(ctx, noon, crowd(*members, true)); err != nil {
			return err
		}
		bytes := int64(0)
		for _, key := range keys {
			bytes += s.do("MEMORY", "USAGE", db.Physical(key)).N
		}
		s.slowest()
		if err := board.Drop(ctx); err != nil {
			return err
		}
		fmt.Printf("  a season ends, %6.1f MB go; longest command %s\n", float64(bytes)/1e6, s.slowest())
	}
	return nil
}

// person returns one of the members: few have long streaks, and half of them have checked in today.
func person(i int, mortal bool) leaderboard.Entry {
	u := (float64(i*7919%1_000_003) + 1) / 1_000_004
	e := leaderboard.Entry{Member: fmt.Sprintf("u%011d", i), Value: 1 + int64(-60*math.Log(u)),
		At: noon.Add(-time.Duration(i%86_400) * time.Second)}
	if mortal {
		e.Dies = noon.Add(time.Duration(12+24*(i%2)+i/2%*zones) * time.Hour)
	}
	return e
}

func of(r leaderboard.Ranked) leaderboard.Entry {
	return leaderboard.Entry{Member: r.Member, Value: r.Value}
}

// next returns an entry after its next check-in.
func next(e leaderboard.Entry) leaderboard.Entry {
	return leaderboard.Entry{Member: e.Member, Value: e.Value + 1, At: noon, Dies: e.Dies.AddDate(0, 0, 1),
		From: leaderboard.Standing{Value: e.Value, Dies: e.Dies}}
}

func crowd(n int, mortal bool) iter.Seq2[leaderboard.Entry, error] {
	return func(yield func(leaderboard.Entry, error) bool) {
		for i := range n {
			if !yield(person(i, mortal), nil) {
				return
			}
		}
	}
}

type server struct {
	ctx context.Context
	db  *redis.DB
}

func (s server) do(name string, args ...string) keyspace.Reply {
	return s.db.Do(s.ctx, keyspace.Cmd{Name: name, Args: args})
}

func (s server) must(name string, args ...string) keyspace.Reply {
	r := s.do(name, args...)
	if r.Err != nil {
		log.Fatal(name, ": ", r.Err)
	}
	return r
}

// beside runs fn while other members check in, 32 at a time.
func (s server) beside(board leaderboard.Board, fn func() error) error {
	ctx, cancel := context.WithCancel(s.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i += 32 {
			batch := make([]leaderboard.Entry, 32)
			for j := range batch {
				e := person(i+j, true)
				e.Member = "x" + e.Member
				batch[j] = e
			}
			if err := keyspace.FirstErr(s.db.DoMulti(s.ctx, board.Update(batch))); err != nil {
				log.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	err := fn()
	cancel()
	<-done
	return err
}

// measure calls fn in rounds and returns the best round's time for each call: the time of all commands on the server,
// and the total time.
func (s server) measure(rounds, calls int, fn func(i int) error) (us, wall float64, err error) {
	us, wall = math.Inf(1), math.Inf(1)
	for range rounds {
		s.must("CONFIG", "RESETSTAT")
		began := time.Now()
		for i := range calls {
			if err := fn(i); err != nil {
				return 0, 0, err
			}
		}
		took := float64(time.Since(began).Nanoseconds()) / 1e3
		us, wall = min(us, s.worked(calls)/float64(calls)), min(wall, took/float64(calls))
	}
	return us, wall, nil
}

// worked returns the server's working time on commands since the last reset of its counters, in microseconds. The
// commands of a script are counted twice: as the script's and as their own. If each of so many calls was one script,
// only the scripts count.
func (s server) worked(calls int) (total float64) {
	for line := range strings.Lines(s.must("INFO", "commandstats").Str) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || strings.HasPrefix(name, "config") || name == "info" {
			continue
		}
		n, _, _ := strings.Cut(rest, ",")
		_, rest, _ = strings.Cut(rest, "usec=")
		text, _, _ := strings.Cut(rest, ",")
		us, err := strconv.ParseFloat(text, 64)
		if err != nil {
			log.Fatal(err)
		}
		if name == "evalsha" && n == strconv.Itoa(calls) {
			return us
		}
		total += us
	}
	return total
}

// slowest returns the longest command since its last call, by the clock. On a busy machine, the clock mostly shows
// other work. The scripts' mean is therefore next to it.
func (s server) slowest() string {
	worst, name := int64(0), ""
	for _, e := range s.must("SLOWLOG", "GET", "-1").List {
		if us, n := e.List[2].N, e.List[3].List[0].Str; us > worst && n != "SLOWLOG" && n != "MEMORY" {
			worst, name = us, n // except our own commands
		}
	}
	s.must("SLOWLOG", "RESET")
	mean := ""
	for line := range strings.Lines(s.must("INFO", "commandstats").Str) {
		if strings.HasPrefix(line, "cmdstat_evalsha:") {
			_, rest, _ := strings.Cut(line, "usec_per_call=")
			mean, _, _ = strings.Cut(rest, ",")
			mean = ", scripts " + mean + " µs on average"
		}
	}
	s.must("CONFIG", "RESETSTAT")
	if worst == 0 {
		return "below 1 ms" + mean
	}
	return fmt.Sprintf("%.1f ms (%s)%s", float64(worst)/1e3, name, mean)
}
