package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// reads measures figure 3.
func (b *bench) reads(ctx context.Context, f *figure) error {
	f.Title = "Reading: status (streak, longest, total), month, year"
	people := newPeople(b.users)
	today := civil.DayOf(b.node.clock.now().Date())
	if err := history(ctx, b.node.db.Writer(), people, today-10, 10); err != nil {
		return err
	}
	for _, p := range people {
		if err := hundred.At(p).Set(ctx, b.node.rdb, strings.Repeat("x", 100)); err != nil {
			return err
		}
	}
	of := func(read func(context.Context, accounts.ID) error) func(context.Context, int) error {
		return func(ctx context.Context, n int) error { return read(ctx, people[n%len(people)]) }
	}
	raw := newSide("raw GET of 100 bytes", of(func(ctx context.Context, user accounts.ID) error {
		return b.node.rdb.Do(ctx, keyspace.Cmd{Name: "GET", Key: hundred.At(user).Key}).Err
	}))
	status := newSide("status", of(func(ctx context.Context, user accounts.ID) error {
		_, err := b.node.service.Status(ctx, user, shanghai)
		return err
	}))
	month := newSide("month", of(func(ctx context.Context, user accounts.ID) error {
		_, err := b.node.service.Calendar(ctx, user, shanghai, today.Year(), time.January)
		return err
	}))
	year := newSide("year", of(func(ctx context.Context, user accounts.ID) error {
		_, err := b.node.service.Calendar(ctx, user, shanghai, today.Year(), 0)
		return err
	}))
	sides := []*side{raw, status, month, year}
	counted := map[*side]float64{}
	for _, s := range sides {
		if _, err := b.exactly(ctx, s, many, b.users); err != nil { // warms up; the first read loads the records
			return err
		}
		sent, err := b.sent(ctx, s, many, b.users)
		if err != nil {
			return err
		}
		counted[s] = sent.values()["commands"]
	}
	found, err := b.turns(sides, func(s *side) (sample, error) { return b.closed(ctx, s, many) })
	if err != nil {
		return err
	}
	t := f.table("64 callers", column{"per second", 0}, column{"p50 ms", 2}, column{"p99 ms", 2}, column{"of raw GET", 2},
		column{"commands", 2}, column{"idle %", 0}, column{"others %", 0}, column{"own µs", 1}, column{"redis µs", 1})
	for i, s := range sides {
		v := found[i].values(sample{})
		v["of raw GET"] = found[i].rate / found[0].rate
		v["commands"] = counted[s]
		t.add(s.name, v)
		if s == raw {
			continue
		}
		f.atLeast(s.name+", against a raw GET", v["of raw GET"], 0.8, "×")
		f.atMost(s.name+", Redis commands", v["commands"], 1, "")
	}
	f.note("Each answer is one GET of the same record; one read in a hundred is a GETEX, which renews its life.")
	return nil
}

// sent has the commands that so many calls sent to the Redis server. The nodes' timers send a little more.
type sent struct {
	calls    int
	commands commands
	bytes    float64 // to it and from it
}

// sent calls a side so many times and returns its commands.
func (b *bench) sent(ctx context.Context, s *side, callers, calls int) (*sent, error) {
	before, bytes, err := b.counts(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := b.exactly(ctx, s, callers, calls); err != nil {
		return nil, err
	}
	after, more, err := b.counts(ctx)
	if err != nil {
		return nil, err
	}
	return &sent{calls, after.minus(before), more - bytes}, nil
}

// values returns the values of one call, with two decimals.
func (s *sent) values() map[string]float64 {
	var all float64
	for _, n := range s.commands {
		all += n
	}
	each := func(n float64) float64 { return math.Round(100*n/float64(s.calls)) / 100 }
	return map[string]float64{"commands": each(all), "bytes, both ways": each(s.bytes), "MB for 10,000": each(s.bytes / 100)}
}

// commands has the number of calls of each command on a Redis server.
type commands map[string]float64

// counts returns the server's counters since its start.
func (b *bench) counts(ctx context.Context) (_ commands, bytes float64, err error) {
	count := func(text string) float64 {
		n, wrong := strconv.ParseFloat(text, 64)
		err = cmp.Or(err, wrong)
		return n
	}
	info, err := servers.Info(ctx, b.redisURL, "commandstats")
	if err != nil {
		return nil, 0, err
	}
	out := commands{}
	for name, value := range info {
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		out[strings.TrimPrefix(name, "cmdstat_")] = count(calls)
	}
	if info, err = servers.Info(ctx, b.redisURL, "stats"); err != nil {
		return nil, 0, err
	}
	bytes = count(info["total_net_input_bytes"]) + count(info["total_net_output_bytes"])
	return out, bytes, err
}

func (c commands) minus(before commands) commands {
	out := commands{}
	for name, n := range c {
		if n > before[name] {
			out[name] = n - before[name]
		}
	}
	return out
}

// per lists the commands per call, the most frequent first.
func (c commands) per(calls int) string {
	names := slices.SortedFunc(maps.Keys(c), func(a, b string) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b))
	})
	var out []string
	for _, name := range names {
		if each := c[name] / float64(calls); each >= 0.005 {
			out = append(out, fmt.Sprintf("%s %.2f", strings.ToUpper(name), each))
		}
	}
	return strings.Join(out, ", ")
}
