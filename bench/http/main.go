// Command http measures the path of a request. It compares a stoa in its own process, with a real redis-server and
// SQLite, with a bare net/http handler. The handler returns the same JSON and also has its own process. The callers are
// in this process: 64 keep-alive connections that write prepared bytes, so that they cost little. Linux only: it reads
// /proc.
//
//	go run ./http      (in the folder bench)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
)

var (
	short  = flag.Bool("short", false, "take seconds, only to see that everything runs")
	rounds = flag.Int("rounds", 3, "how many turns each side gets")
	turn   = flag.Duration("turn", 3*time.Second, "how long a turn lasts")
	bare   = flag.Bool("bare", false, "serve the bare handler; the program starts itself so")
)

// reply is the response to GET /v1/checkin, and that of the bare handler.
const reply = `{"day":"2026-11-23","today":true,"yesterday":false,"streak":1,"longest":1,"total":1,"freezes":0,"freezes_used":0}` + "\n"

func main() {
	flag.Parse()
	if *short {
		*rounds, *turn = 1, 300*time.Millisecond
	}
	do := run
	if *bare {
		do = serveBare
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

// side is one row of the table.
type side struct {
	name    string
	server  *servers.Program
	ratioTo *side // the bare row with the same method
	status  int
	request func(n int) []byte

	rate, own, redis []float64 // one value per turn
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "stoa-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := servers.Build(ctx, dir)
	if err != nil {
		return err
	}
	redisURL, stopRedis, err := servers.Redis(ctx, dir)
	if err != nil {
		return err
	}
	defer stopRedis()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	plain, err := servers.Start(exec.Command(self, "-bare"))
	if err != nil {
		return err
	}
	defer plain.Stop()
	var both [2]*servers.Program
	var tokens [2][]string
	for i, limits := range []string{"--no-limits", "--limits"} {
		data := filepath.Join(dir, limits)
		if tokens[i], err = people(ctx, data); err != nil {
			return err
		}
		both[i], err = servers.Start(exec.Command(binary, "serve", "--addr", "127.0.0.1:0", "--data", data, "--sql",
			"sqlite:"+filepath.Join(data, "stoa.db"), "--redis", redisURL, "--key-prefix", strings.Trim(limits, "-"), "--log", "error", "--dev",
			limits))
		if err != nil {
			return err
		}
		defer both[i].Stop()
	}

	bareGet := &side{name: "bare net/http, GET", server: plain, status: 200, request: get(tokens[0], "/v1/checkin")}
	barePost := &side{name: "bare net/http, POST", server: plain, status: 200, request: post(tokens[0], false)}
	off, on := both[0], both[1]
	sides := []*side{
		bareGet,
		{name: "GET /healthz: route, headers, metrics", server: off, ratioTo: bareGet, status: 200, request: get(tokens[0], "/healthz")},
		{name: "GET /v1/checkin/calendar/1: and the token, and a refusal", server: off, ratioTo: bareGet, status: 422,
			request: get(tokens[0], "/v1/checkin/calendar/1")},
		{name: "GET /v1/checkin, limits off", server: off, ratioTo: bareGet, status: 200, request: get(tokens[0], "/v1/checkin")},
		{name: "GET /v1/checkin, limits on", server: on, ratioTo: bareGet, status: 200, request: get(tokens[1], "/v1/checkin")},
		barePost,
		{name: "POST /v1/checkin, limits off", server: off, ratioTo: barePost, status: 200, request: post(tokens[0], false)},
		{name: "POST /v1/checkin, limits on", server: on, ratioTo: barePost, status: 200, request: post(tokens[1], false)},
		{name: "POST /v1/checkin, limits off, Idempotency-Key", server: off, ratioTo: barePost, status: 200, request: post(tokens[0], true)},
		{name: "POST /v1/checkin, limits on, Idempotency-Key", server: on, ratioTo: barePost, status: 200, request: post(tokens[1], true)},
	}
	for round := range *rounds + 1 {
		for _, s := range sides {
			if err := s.measure(ctx, redisURL, round == 0); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	fmt.Printf("%-58s %9s %8s %10s %9s\n", "64 connections", "per s", "× bare", "server µs", "redis µs")
	for _, s := range sides {
		ratio := ""
		if s.ratioTo != nil {
			ratio = fmt.Sprintf("%.2f", median(s.rate)/median(s.ratioTo.rate))
		}
		fmt.Printf("%-58s %9.0f %8s %10.1f %9.1f\n", s.name, median(s.rate), ratio, median(s.own), median(s.redis))
	}
	return nil
}

// measure runs one turn; the first one of each side only warms up.
func (s *side) measure(ctx context.Context, redisURL string, warm bool) error {
	before, err1 := s.server.Processor()
	redisBefore, err2 := redisProcessor(ctx, redisURL)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	n, took, err := load(s.server.Addr, *turn, s.status, s.request)
	if err != nil {
		return err
	}
	after, err1 := s.server.Processor()
	redisAfter, err2 := redisProcessor(ctx, redisURL)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !warm {
		s.rate = append(s.rate, float64(n)/took.Seconds())
		s.own = append(s.own, float64((after-before).Microseconds())/float64(n))
		s.redis = append(s.redis, float64((redisAfter-redisBefore).Microseconds())/float64(n))
	}
	return nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// redisProcessor returns the processor time that redis-server reports.
func redisProcessor(ctx context.Context, url string) (d time.Duration, err error) {
	info, err := servers.Ask(ctx, url, "INFO", "cpu")
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, e := strconv.ParseFloat(value, 64)
			d, err = d+time.Duration(seconds*float64(time.Second)), errors.Join(err, e)
		}
	}
	return d, err
}

// serveBare returns the same JSON to every request, after reading its body.
func serveBare() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("bare ready on http://%s\n", ln.Addr())
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/checkin", func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	mux.HandleFunc("POST /v1/checkin", takeAndAnswer)
	err = http.Serve(ln, mux)
	return err
}
