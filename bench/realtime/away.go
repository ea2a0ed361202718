package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
)

// callers is the number of users who make requests at the same time in figure 7.
const callers = 8

// An operation of figure 7. Each request gets its own body.
type operation struct {
	name, method, path string
	body               func(n int) string // nil for none
}

// hangFor bounds how long figure 7 measures an operation while Redis hangs.
const hangFor = 20 * time.Second

// away measures operations with Redis, while its process is suspended with open connections, and after it has ended.
func (b *bench) away(ctx context.Context) (err error) {
	redisURL, stopRedis, err := servers.Redis(ctx, b.dir)
	if err != nil {
		return err
	}
	stop := sync.OnceFunc(stopRedis)
	defer stop()
	s, err := b.stoa(redisURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	ops := []operation{
		{name: "chats.list", method: http.MethodGet, path: "/v1/chats?limit=20"},
		{name: "messages.send", method: http.MethodPost, path: "/v1/chats/u:%s/messages", body: func(n int) string {
			return fmt.Sprintf(`{"client_id":"%d-%d","kind":"text","text":"hello"}`, time.Now().UnixNano(), n)
		}},
		{name: "friends.list", method: http.MethodGet, path: "/v1/friends?limit=20"},
		{name: "presence.friends", method: http.MethodGet, path: "/v1/friends/presence"},
		// after the first one, of a signed day
		{name: "checkin.mark", method: http.MethodPost, path: "/v1/checkin", body: func(int) string { return "{}" }},
	}
	measure := func(within time.Duration) (all []awayResult, err error) {
		for _, op := range ops {
			if _, err := b.timed(ctx, s, op, *asked/4, within/4); err != nil { // warms up
				return nil, err
			}
			r, err := b.timed(ctx, s, op, *asked, within)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		return all, nil
	}
	with, err := measure(time.Hour)
	if err != nil {
		return err
	}
	hung, err := b.whileItHangs(ctx, redisURL, func() ([]awayResult, error) { return measure(hangFor) })
	if err != nil {
		return err
	}
	stop()
	without, err := measure(time.Hour)
	if err != nil {
		return err
	}
	fmt.Printf("7. %d callers with one request in flight each, by HTTP, MariaDB; with Redis, while its server hangs (at most %s for each "+
		"operation), and after the server has ended\n\n", callers, hangFor)
	const form = "%-18s %-8s %10s %8s %10s %10s %10s %12s\n"
	fmt.Printf(form, "", "Redis", "p50", "p50 ×", "p99", "requests", "failed", "server µs")
	for i, op := range ops {
		for _, c := range []struct {
			redis string
			awayResult
		}{{"up", with[i]}, {"hangs", hung[i]}, {"ended", without[i]}} {
			fmt.Printf(form, op.name, c.redis, at(c.took, .5),
				fmt.Sprintf("%.2f", float64(quantile(c.took, .5))/float64(quantile(with[i].took, .5))),
				at(c.took, .99), fmt.Sprint(len(c.took)), fmt.Sprint(c.failed), fmt.Sprint(c.work.Microseconds()))
		}
	}
	return nil
}

// whileItHangs measures while the process of a Redis server is suspended. Its connections stay open, and it sends no
// responses.
func (b *bench) whileItHangs(ctx context.Context, url string, measure func() ([]awayResult, error)) (r []awayResult, err error) {
	info, err := servers.Info(ctx, url, "server")
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(info["process_id"])
	if err != nil {
		return nil, err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)) }()
	return measure()
}

// awayResult is the result of an operation of figure 7.
type awayResult struct {
	took   []time.Duration
	work   time.Duration // processor time of the server per request
	failed int           // responses with 503
}

// timed makes n requests of an operation. It begins none later than within from now.
func (b *bench) timed(ctx context.Context, s *servers.Program, op operation, n int, within time.Duration) (r awayResult, err error) {
	end := time.Now().Add(within)
	before, err := s.Processor()
	if err != nil {
		return r, err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	faults := make([]error, callers)
	for i := range callers {
		all.Go(func() {
			for k := range n / callers {
				began := time.Now()
				if k > 0 && began.After(end) {
					return
				}
				status, err := b.request(ctx, s.Addr, i, k, op)
				took := time.Since(began)
				if err != nil {
					faults[i] = err
					return
				}
				mu.Lock()
				r.took = append(r.took, took)
				if status == http.StatusServiceUnavailable {
					r.failed++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := errors.Join(faults...); err != nil {
		return r, err
	}
	after, err := s.Processor()
	r.work = (after - before) / time.Duration(len(r.took))
	return r, err
}

// request sends one request of a caller, on a keep-alive connection.
func (b *bench) request(ctx context.Context, addr string, caller, n int, op operation) (status int, err error) {
	path := op.path
	var body io.Reader
	if op.body != nil {
		path, body = strings.ReplaceAll(path, "%s", b.people[senders+caller].id), strings.NewReader(op.body(n))
	}
	req, err := http.NewRequestWithContext(ctx, op.method, "http://"+addr+path, body)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+b.people[caller].token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := keptAlive.Do(req)
	if err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode >= 300 && resp.StatusCode != http.StatusServiceUnavailable {
		err = fmt.Errorf("%s: got %d: %s", op.name, resp.StatusCode, answer)
	}
	return resp.StatusCode, err
}

var keptAlive = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
