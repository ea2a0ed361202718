package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
)

// returning is a client that was disconnected.
type returning struct {
	person, friend person
	from           *place

	mu   sync.Mutex
	seqs map[int64]bool // of received messages
	top  int64          // the highest seq when it left
}

func (r *returning) hear(data []byte) {
	var e said
	if json.Unmarshal(data, &e) == nil && e.Type == "message.new" {
		r.got(e.Data.Seq)
	}
}

func (r *returning) got(seq int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq > r.top {
		r.seqs[seq] = true
	}
}

func (r *returning) whole() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seqs) == *missed
}

// come connects until the server accepts it, and then requests what the resumed channel did not deliver, as the
// documents require. asked reports whether that was necessary. A server that lost its connection to Redis disconnects
// its clients, which then connect once more.
func (r *returning) come(ctx context.Context, addr string) (s *socket, asked bool, err error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		if s, _, err = connect(ctx, addr, r.person, r.from, r.hear); err == nil {
			if r.whole() {
				return s, asked, nil
			}
			asked = true
			if err = r.ask(ctx, s); err == nil || !s.over() {
				return s, asked, err
			}
			s.close()
		}
		if ctx.Err() != nil {
			return nil, asked, err
		}
		time.Sleep(wait/2 + rand.N(wait/2))
	}
}

// ask requests the missing messages.
func (r *returning) ask(ctx context.Context, s *socket) error {
	if _, err := s.call(ctx, "chats.list", `{"query":{"limit":20}}`); err != nil {
		return err
	}
	data, err := s.call(ctx, "chats.messages", fmt.Sprintf(`{"path":{"chat":"u:%s"},"query":{"after":%d,"limit":200}}`, r.friend.id, r.top))
	if err != nil {
		return err
	}
	var page struct{ Messages []struct{ Seq int64 } }
	if err := json.Unmarshal(data, &page); err != nil {
		return err
	}
	for _, m := range page.Messages {
		r.got(m.Seq)
	}
	if !r.whole() {
		return fmt.Errorf("a client has %d of %d messages that it missed", len(r.seqs), *missed)
	}
	return nil
}

// statements returns the number of statements of MariaDB so far.
func (b *bench) statements(ctx context.Context) (float64, error) {
	var name, value string
	if err := b.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &value); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(value, 64)
}

// comeBack measures clients that reconnect, all at once, to a restarted server. Redis keeps its data, or is emptied and
// has no events for a resumption.
func (b *bench) comeBack(ctx context.Context) error {
	fmt.Printf("3. %d clients come back at once to a server that has just started, each with %d messages missed\n\n", *back, *missed)
	const form = "%-16s %16s %16s %16s %22s %16s\n"
	fmt.Printf(form, "", "all whole after", "client p50", "client p99", "statements per client", "asked for it")
	clients := make([]*returning, *back)
	for i := range clients {
		clients[i] = &returning{person: b.people[senders+i], friend: b.people[i%senders], seqs: map[int64]bool{}}
	}
	var count int
	for round, emptied := range []bool{false, true} {
		s, err := b.stoa(b.redis)
		if err != nil {
			return err
		}
		err = b.miss(ctx, s, clients, &count)
		if err := errors.Join(err, s.Stop()); err != nil {
			return err
		}
		name := "Redis as it was"
		if emptied {
			name = "Redis emptied"
			if _, err := servers.Ask(ctx, b.redis, "FLUSHALL"); err != nil {
				return err
			}
		}
		if err := b.storm(ctx, name, form, clients); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// miss lets every client load its chats and disconnect. Then all get messages.
func (b *bench) miss(ctx context.Context, s *servers.Program, clients []*returning, count *int) error {
	_, err := each(len(clients), func(i int) error {
		r := clients[i]
		for seq := range r.seqs {
			r.top = max(r.top, seq)
		}
		r.seqs = map[int64]bool{}
		socket, _, err := connect(ctx, s.Addr, r.person, nil, nil)
		if err == nil {
			r.from = socket.place()
			socket.close()
		}
		return err
	})
	if err != nil {
		return err
	}
	first := *count
	*count += *missed
	_, err = each(senders, func(k int) error {
		from, _, err := connect(ctx, s.Addr, b.people[k], nil, nil)
		if err != nil {
			return err
		}
		defer from.close()
		for i := k; i < len(clients); i += senders {
			for n := range *missed {
				body := fmt.Sprintf(`{"client_id":"back-%d-%d","kind":"text","text":"missed"}`, i, first+n)
				if _, err := from.call(ctx, "chats.send", `{"path":{"chat":"u:`+clients[i].person.id+`"},"body":`+body+`}`); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return err
}

// storm starts a server, lets all clients reconnect, and prints the cost.
func (b *bench) storm(ctx context.Context, name, form string, clients []*returning) (err error) {
	s, err := b.stoa(b.redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	before, err := b.statements(ctx)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	times, faults, sockets := make([]time.Duration, len(clients)), make([]error, len(clients)), make([]*socket, len(clients))
	asked := make([]bool, len(clients))
	began := time.Now()
	for i, r := range clients {
		all.Go(func() {
			sockets[i], asked[i], faults[i] = r.come(ctx, s.Addr)
			times[i] = time.Since(began)
		})
	}
	all.Wait()
	took := time.Since(began)
	after, err := b.statements(ctx)
	for _, socket := range sockets {
		if socket != nil {
			socket.close()
		}
	}
	if err := errors.Join(append(faults, err)...); err != nil {
		return err
	}
	n := 0
	for _, a := range asked {
		if a {
			n++
		}
	}
	fmt.Printf(form, name, took.Round(10*time.Millisecond), at(times, .5), at(times, .99),
		fmt.Sprintf("%.2f", (after-before)/float64(len(clients))), fmt.Sprintf("%d of %d", n, len(clients)))
	return nil
}
