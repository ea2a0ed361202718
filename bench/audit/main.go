// Command audit measures how long an audit of a live keyspace takes, and how much it slows other clients. It compares
// SCAN alone, names, every key, and a dump file. The real redis-server on loopback has keys of Stoa's own families and
// a few faults of each kind. Meanwhile another process sends a PING every millisecond.
//
//	go run ./audit [-keys 1000000] [-faults 100]      (in the folder bench)
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	keys   = flag.Int("keys", 1_000_000, "sound keys")
	faulty = flag.Int("faults", 100, "of each kind that are planted")
	rounds = flag.Int("rounds", 3, "of each mode; the median is shown")
	only   = flag.String("only", "", "idle, scan, names, full or rdb; all if empty")
	pinger = flag.String("ping", "", "used by this program for itself")
)

func main() {
	flag.Parse()
	var err error
	if *pinger != "" {
		err = ping(*pinger)
	} else {
		err = run(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
}

// kinds are the kinds of keys on the server, with their shares in per cent.
var kinds = []struct {
	share int
	set   func(i int) []string
}{
	{55, func(i int) []string {
		return []string{"SET", "stoa:user:sign:{" + id(i) + "}:2026", "\x02" + strings.Repeat("\x01", 107), "EX", "3888000"}
	}},
	{25, func(i int) []string {
		return []string{"SET", "stoa:auth:at:{" + id(i) + "}:" + id(i*7), "V0" + strings.Repeat("\x00", 45) + `{"hash":"` +
			strings.Repeat("a", 43) + `","expires":1795312856789}`, "EX", "3600"}
	}},
	{10, func(i int) []string {
		return []string{"SET", "stoa:limit:api:{" + id(i) + "}:checkin.mark", strconv.Itoa(i % 60), "EX", "60"}
	}},
	{10, func(i int) []string {
		return []string{"SET", fmt.Sprintf("stoa:ratelimit:%022d:60", i), strconv.Itoa(i % 60), "EX", "60"}
	}},
}

// plants are the faults; the audit must find each as often as it is planted.
var plants = []struct {
	fault string
	set   func(i int) []string
}{
	{audit.UnknownKey, func(i int) []string { return []string{"SET", "stoa:forgotten:" + strconv.Itoa(i), "x", "EX", "3600"} }},
	{audit.WrongType, func(i int) []string { return []string{"SADD", "stoa:leaderboard:{total_days}", "x"} }},
	{audit.NoLife, func(i int) []string { return []string{"SET", "stoa:user:sign:{" + id(i) + "}:2001", "\x00"} }},
	{audit.LifeTooLong, func(i int) []string {
		return []string{"SET", "stoa:user:sign:{" + id(i) + "}:2002", "\x00", "EX", "3888999"}
	}},
	{audit.ValueTooBig, func(i int) []string {
		return []string{"SET", "stoa:user:sign:{" + id(i) + "}:2003", strings.Repeat("x", 109), "EX", "3600"}
	}},
	{audit.Undecodable, func(i int) []string {
		return []string{"SET", "stoa:limit:login_fail:" + fmt.Sprintf("%022d", i), "x", "EX", "3600"}
	}},
	{audit.KeyTooLong, func(i int) []string {
		return []string{"SET", "stoa:long:" + strconv.Itoa(i) + strings.Repeat("k", 512), "x", "EX", "3600"}
	}},
}

// id returns an identifier of twelve characters.
func id(i int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	b := make([]byte, 12)
	x := uint64(i+1) * 0x9e3779b97f4a7c15
	for j := range b {
		b[j] = alphabet[x&63]
		x = x>>6 | x<<58
	}
	return string(b)
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
	want, err := fill(ctx, db)
	if err != nil {
		return err
	}
	addr := strings.TrimPrefix(url, "redis://")
	dump := filepath.Join(dir, "dump.rdb")
	fmt.Println("| mode | keys | per second | server, audit µs per key | faults found | PING of another client p50 / p99 / max ms |")
	fmt.Println("|---|---|---|---|---|---|")
	for _, mode := range []string{"idle", "scan", "names", "full", "rdb"} {
		if *only != "" && mode != *only {
			continue
		}
		if mode == "rdb" {
			if _, err := servers.Ask(ctx, url, "SAVE"); err != nil { // takes longer than db would wait
				return err
			}
		}
		lines := []line{}
		for range *rounds {
			l, err := measure(ctx, db, addr, mode, dump, want)
			if err != nil {
				return err
			}
			lines = append(lines, l)
		}
		slices.SortFunc(lines, func(a, b line) int { return int(a.rate - b.rate) })
		fmt.Println(lines[len(lines)/2].text)
	}
	return nil
}

// fill writes the keys and returns the expected number of each fault.
func fill(ctx context.Context, db *redis.DB) (map[string]int64, error) {
	owners, err := db.Owners(ctx)
	if err != nil {
		return nil, err
	}
	defer owners[0].Close()
	var batch [][]string
	send := func(cmd []string, flush bool) error {
		if cmd != nil {
			batch = append(batch, cmd)
		}
		if len(batch) < 1000 && !flush {
			return nil
		}
		for _, r := range owners[0].Do(ctx, batch...) {
			if r.Err != nil {
				return r.Err
			}
		}
		batch = batch[:0]
		return nil
	}
	for i := range *keys {
		at := i % 100
		for _, k := range kinds {
			if at -= k.share; at < 0 {
				if err := send(k.set(i), false); err != nil {
					return nil, err
				}
				break
			}
		}
	}
	want := map[string]int64{}
	for _, p := range plants {
		for i := range *faulty {
			if err := send(p.set(i), false); err != nil {
				return nil, err
			}
		}
		want[p.fault] += int64(*faulty)
	}
	want[audit.WrongType] = min(want[audit.WrongType], 1) // there is only one such key
	want[audit.UnknownKey] += want[audit.KeyTooLong]      // no schema declares those either
	return want, send(nil, true)
}

type line struct {
	rate float64
	text string
}

// measure runs one mode, next to the process that sends PINGs.
func measure(ctx context.Context, db *redis.DB, addr, mode, dump string, want map[string]int64) (l line, err error) {
	self, err := os.Executable()
	if err != nil {
		return l, err
	}
	beside := exec.CommandContext(ctx, self, "-ping", addr)
	end, err := beside.StdinPipe()
	if err != nil {
		return l, err
	}
	var told strings.Builder
	beside.Stdout, beside.Stderr = &told, os.Stderr
	if err := beside.Start(); err != nil {
		return l, err
	}
	time.Sleep(200 * time.Millisecond) // until it has begun
	theirs, err := cpu(ctx, db)
	if err != nil {
		return l, err
	}
	before := own()
	r := new(audit.Report)
	switch mode {
	case "idle":
		time.Sleep(2 * time.Second)
	case "scan":
		r, err = scan(ctx, db)
	case "rdb":
		r, err = audit.RunRDB(ctx, dump, app.Keys(), audit.Options{})
	default:
		r, err = audit.Run(ctx, db, app.Keys(), audit.Options{Full: mode == "full"})
	}
	if err := end.Close(); err != nil {
		return l, err
	}
	if err := beside.Wait(); err != nil {
		return l, err
	}
	if err != nil {
		return l, err
	}
	if mode == "idle" {
		return line{text: fmt.Sprintf("| idle | | | | | %s |", told.String())}, nil
	}
	got := map[string]int64{}
	for _, f := range r.Findings {
		got[f.Fault] += f.Count
	}
	found, planted := int64(0), int64(0)
	for _, what := range audit.Faults {
		if mode == "scan" || mode == "names" && what != audit.UnknownKey && what != audit.KeyTooLong {
			continue
		}
		found, planted = found+min(got[what], want[what]), planted+want[what]
		if got[what] > want[what] {
			return l, fmt.Errorf("%s: %s was found %d times and planted %d times", mode, what, got[what], want[what])
		}
	}
	after, err := cpu(ctx, db)
	if err != nil {
		return l, err
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(r.Keys) }
	l.rate = float64(r.Keys) / r.Seconds
	l.text = fmt.Sprintf("| %s | %d | %.0f | %.2f, %.2f | %d of %d | %s |", mode, r.Keys, l.rate, each(after-theirs), each(own()-before),
		found, planted, told.String())
	return l, nil
}

// scan reads all names and checks none: the upper limit of the server.
func scan(ctx context.Context, db *redis.DB) (*audit.Report, error) {
	owners, err := db.Owners(ctx)
	if err != nil {
		return nil, err
	}
	defer owners[0].Close()
	r, began := new(audit.Report), time.Now()
	for cursor := uint64(0); ; {
		page, next, err := owners[0].Scan(ctx, cursor, "stoa:*", 1000)
		if err != nil {
			return nil, err
		}
		r.Keys += int64(len(page))
		if cursor = next; cursor == 0 {
			r.Seconds = time.Since(began).Seconds()
			return r, nil
		}
	}
}

// cpu returns the processor time of the server.
func cpu(ctx context.Context, db *redis.DB) (time.Duration, error) {
	all, err := db.Info(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		s, err := strconv.ParseFloat(all[0].Fields[name], 64)
		if err != nil {
			return 0, err
		}
		sum += s
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// own returns the processor time of this process.
func own() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ping sends PINGs until standard input ends, and writes their durations.
func ping(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	var took []time.Duration
	in := bufio.NewReader(c)
	for next := time.Now(); ; next = next.Add(time.Millisecond) {
		select {
		case <-done:
			slices.Sort(took)
			ms := func(part float64) float64 {
				return float64(took[min(int(part*float64(len(took))), len(took)-1)].Microseconds()) / 1000
			}
			fmt.Printf("%.2f / %.2f / %.1f", ms(.5), ms(.99), ms(1))
			return nil
		default:
		}
		time.Sleep(time.Until(next))
		sent := time.Now()
		if _, err := io.WriteString(c, "PING\r\n"); err != nil {
			return err
		}
		if _, err := in.ReadSlice('\n'); err != nil {
			return err
		}
		took = append(took, time.Since(sent))
	}
}
