package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
)

// callers is the number of people who make requests at the same time in figure 7.
const callers = 8

// An operation of figure 7. The body of a request is made for each of them.
type operation struct {
	name, method, path string
	body               func(n int) string // nil: none
}

// away measures operations with Redis, and again after its server has ended.
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
	}
	measure := func() (all []awayResult, err error) {
		for _, op := range ops {
			if _, err := b.timed(ctx, s, op, *asked/4); err != nil { // warm-up
				return nil, err
			}
			r, err := b.timed(ctx, s, op, *asked)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		return all, nil
	}
	with, err := measure()
	if err != nil {
		return err
	}
	stop()
	without, err := measure()
	if err != nil {
		return err
	}
	fmt.Printf("7. %d callers with one request in flight each, by HTTP, MariaDB; with Redis, and after its server has ended\n\n", callers)
	const form = "%-18s %10s %10s %8s %10s %10s %10s %12s %12s\n"
	fmt.Printf(form, "", "p50", "away", "p50 ×", "p99", "away", "failed", "server µs", "away")
	for i, op := range ops {
		a, c := with[i], without[i]
		fmt.Printf(form, op.name, at(a.took, .5), at(c.took, .5), fmt.Sprintf("%.2f", float64(quantile(c.took, .5))/float64(quantile(a.took, .5))),
			at(a.took, .99), at(c.took, .99), fmt.Sprint(c.failed), fmt.Sprint(a.work.Microseconds()), fmt.Sprint(c.work.Microseconds()))
	}
	return nil
}

// awayResult is the result of an operation of figure 7.
type awayResult struct {
	took   []time.Duration
	work   time.Duration // of the server's processor, for each request
	failed int           // answered with 503
}

// timed makes n requests of an operation.
func (b *bench) timed(ctx context.Context, s *servers.Program, op operation, n int) (r awayResult, err error) {
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

// request makes one request of a caller, on a kept connection.
func (b *bench) request(ctx context.Context, addr string, caller, n int, op operation) (status int, err error) {
	path := op.path
	var body io.Reader
	if op.body != nil {
		path, body = fmt.Sprintf(path, b.people[senders+caller].id), strings.NewReader(op.body(n))
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
