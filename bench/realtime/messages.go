package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
)

// said has the fields of an event that a benchmark needs. The text of a message is the time when it was due, in
// nanoseconds.
type said struct {
	Type string
	Data struct {
		Seq  int64
		Text string
	}
}

// crowd is the senders and, for each, a receiver with a socket.
type crowd struct {
	bench   *bench
	server  *servers.Program
	sockets []*socket // of the senders
	conns   []*conn   // of the senders, for HTTP
	ids     atomic.Int64

	mu     sync.Mutex
	shown  []time.Duration // from the due time of a message until its receiver's socket delivered it
	heard  chan struct{}   // has one value for each received message
	closed []func()
}

// conn is a keep-alive connection of HTTP.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func (b *bench) gather(ctx context.Context, s *servers.Program) (c *crowd, err error) {
	c = &crowd{bench: b, server: s, heard: make(chan struct{}, 1<<20)}
	for i := range senders {
		receiver, _, err := connect(ctx, s.Addr, b.people[senders+i], nil, c.hear)
		if err != nil {
			return c, err
		}
		sender, _, err := connect(ctx, s.Addr, b.people[i], nil, nil)
		if err != nil {
			return c, err
		}
		tcp, err := net.Dial("tcp", s.Addr)
		if err != nil {
			return c, err
		}
		c.sockets, c.conns = append(c.sockets, sender), append(c.conns, &conn{tcp, bufio.NewReader(tcp)})
		c.closed = append(c.closed, receiver.close, sender.close, func() { _ = tcp.Close() })
	}
	return c, nil
}

func (c *crowd) leave() {
	for _, end := range c.closed {
		end()
	}
}

func (c *crowd) hear(data []byte) {
	var e said
	if json.Unmarshal(data, &e) != nil || e.Type != "message.new" {
		return
	}
	due, err := strconv.ParseInt(e.Data.Text, 10, 64)
	if err != nil {
		return
	}
	took := time.Since(time.Unix(0, due))
	c.mu.Lock()
	c.shown = append(c.shown, took)
	c.mu.Unlock()
	c.heard <- struct{}{}
}

func (c *crowd) body(due time.Time) string {
	return fmt.Sprintf(`{"client_id":"%d","kind":"text","text":"%d"}`, c.ids.Add(1), due.UnixNano())
}

func (c *crowd) bySocket(ctx context.Context, i int, due time.Time) error {
	_, err := c.sockets[i].call(ctx, "chats.send", `{"path":{"chat":"u:`+c.bench.people[senders+i].id+`"},"body":`+c.body(due)+`}`)
	return err
}

func (c *crowd) byHTTP(_ context.Context, i int, due time.Time) error {
	body := c.body(due)
	_, err := fmt.Fprintf(c.conns[i], "POST /v1/chats/u:%s/messages HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s",
		c.bench.people[senders+i].id, c.bench.people[i].token, len(body), body)
	if err != nil {
		return err
	}
	resp, err := http.ReadResponse(c.conns[i].r, nil)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("got %d: %s", resp.StatusCode, answer)
	}
	return err
}

// result is the result of a turn.
type result struct {
	rate          float64 // acknowledged per second
	acked, shown  []time.Duration
	work, elapsed time.Duration // processor time of the server; duration of the turn
}

// turn lets all senders send for a while. Each sends its next message after the previous one is acknowledged. With a
// pace above zero, all senders together send so many per second by a schedule, and each message is timed from its
// scheduled time. The turn ends when every receiver has all acknowledged messages.
func (c *crowd) turn(ctx context.Context, long time.Duration, pace int,
	send func(ctx context.Context, i int, due time.Time) error) (r result, err error) {
	c.mu.Lock()
	c.shown = nil
	c.mu.Unlock()
	before, err := c.server.Processor()
	if err != nil {
		return r, err
	}
	var all sync.WaitGroup
	acked, faults := make([][]time.Duration, senders), make([]error, senders)
	began := time.Now()
	for i := range senders {
		all.Go(func() {
			next := began
			step := time.Duration(0)
			if pace > 0 {
				step = time.Duration(float64(time.Second) * senders / float64(pace))
				next = began.Add(time.Duration(rand.Float64() * float64(step)))
			}
			for time.Since(began) < long && faults[i] == nil {
				due := time.Now()
				if pace > 0 {
					due = next
					next = next.Add(step)
					if due.Sub(began) >= long {
						return
					}
					time.Sleep(time.Until(due))
				}
				faults[i] = send(ctx, i, due)
				acked[i] = append(acked[i], time.Since(due))
			}
		})
	}
	all.Wait()
	r.elapsed = time.Since(began)
	if err := errors.Join(faults...); err != nil {
		return r, err
	}
	for _, times := range acked {
		r.acked = append(r.acked, times...)
	}
	r.rate = float64(len(r.acked)) / r.elapsed.Seconds()
	for n := range r.acked {
		select {
		case <-c.heard:
		case <-time.After(30 * time.Second):
			return r, fmt.Errorf("of %d messages that were acknowledged %d reached nobody within 30 s", len(r.acked), len(r.acked)-n)
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
	after, err := c.server.Processor()
	r.work = after - before
	c.mu.Lock()
	defer c.mu.Unlock()
	r.shown = c.shown
	return r, err
}

// messages lets 64 users write to 64 others who are online.
func (b *bench) messages(ctx context.Context) (err error) {
	s, err := b.stoa(b.redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c, err := b.gather(ctx, s)
	defer func() { c.leave() }()
	if err != nil {
		return err
	}
	fmt.Printf("2. %d senders with one message in flight each, their receivers on line, MariaDB; every message acknowledged and delivered\n\n",
		senders)
	const form = "%-22s %10s %12s %12s %14s %14s\n"
	fmt.Printf(form, "", "per s", "ack p50", "ack p99", "screen p99", "server µs each")
	show := func(name string, rate float64, r result) {
		fmt.Printf(form, name, fmt.Sprintf("%.0f", rate), at(r.acked, .5), at(r.acked, .99), at(r.shown, .99),
			fmt.Sprint(r.work.Microseconds()/int64(max(1, len(r.acked)))))
	}
	sides := []struct {
		name  string
		send  func(context.Context, int, time.Time) error
		rates []float64
		last  result
	}{{name: "by socket", send: c.bySocket}, {name: "by HTTP, kept alive", send: c.byHTTP}}
	for round := range *rounds + 1 { // the first one warms up
		for i := range sides {
			side := &sides[i]
			long := *turn
			if round == 0 {
				long /= 5
			}
			r, err := c.turn(ctx, long, 0, side.send)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			if round > 0 {
				side.rates, side.last = append(side.rates, r.rate), r
			}
		}
	}
	for _, side := range sides {
		show(side.name, median(side.rates), side.last)
	}
	r, err := c.turn(ctx, *turn, *pace, c.bySocket)
	if err != nil {
		return err
	}
	show(fmt.Sprintf("by socket, %d a second", *pace), r.rate, r)
	fmt.Printf("\nper second are medians of %d turns, times those of the last; paced, they count from the moment for which a message was "+
		"due.\nper second, by socket against HTTP: %.2f ×; paced, screen p50 %s\n",
		*rounds, median(sides[0].rates)/median(sides[1].rates), at(r.shown, .5))
	return nil
}
