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
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/keyspace"
)

// reads is figure 3.
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
	counted := map[*side]commands{}
	for _, s := range sides {
		if _, err := b.exactly(ctx, s, many, b.users); err != nil { // warms up; the first one to ask loads the records
			return err
		}
		before, err := b.commands(ctx)
		if err != nil {
			return err
		}
		if _, err := b.exactly(ctx, s, many, b.users); err != nil {
			return err
		}
		after, err := b.commands(ctx)
		if err != nil {
			return err
		}
		counted[s] = after.minus(before)
	}
	found, err := b.turns(sides, func(s *side) (sample, error) { return b.closed(ctx, s, many) })
	if err != nil {
		return err
	}
	t := f.table("64 callers", column{"per second", 0}, column{"p50 ms", 2}, column{"p99 ms", 2}, column{"of raw GET", 2}, column{"commands", 2}, column{"idle %", 0}, column{"others %", 0}, column{"own µs", 1}, column{"redis µs", 1})
	for i, s := range sides {
		v := found[i].values(sample{})
		v["of raw GET"] = found[i].rate / found[0].rate
		v["commands"] = counted[s].each(b.users)
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

// commands are how often a Redis server has carried out each command.
type commands map[string]float64

func (b *bench) commands(ctx context.Context) (commands, error) {
	info, err := servers.Info(ctx, b.redisURL, "commandstats")
	if err != nil {
		return nil, err
	}
	out := commands{}
	for name, value := range info {
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseFloat(calls, 64)
		if err != nil {
			return nil, err
		}
		out[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return out, nil
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

// each is the number of commands for one of so many calls, to the hundredth: the
// nodes' clockwork sends a few besides.
func (c commands) each(calls int) float64 {
	var sum float64
	for _, n := range c {
		sum += n
	}
	return math.Round(100*sum/float64(calls)) / 100
}

// per lists what was sent between two counts for each of so many calls, the
// most frequent first.
func (c commands) per(before commands, calls int) string {
	sent := c.minus(before)
	names := slices.SortedFunc(maps.Keys(sent), func(a, b string) int {
		return cmp.Or(cmp.Compare(sent[b], sent[a]), cmp.Compare(a, b))
	})
	var out []string
	for _, name := range names {
		if each := sent[name] / float64(calls); each >= 0.005 {
			out = append(out, fmt.Sprintf("%s %.2f", strings.ToUpper(name), each))
		}
	}
	return strings.Join(out, ", ")
}
