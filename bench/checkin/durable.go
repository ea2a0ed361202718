package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/stoa-dev/stoa/internal/base/civil"
)

const (
	paceOfDay  = 1000 // check-ins per second of the paced measurements
	coldAtOnce = 4000 // users of one round whose records are not in Redis
	many       = 64   // number of callers
	more       = 4 * many
)

// durable measures figure 1.
func (b *bench) durable(ctx context.Context, f *figure) (err error) {
	f.Title = "A check-in through the service, committed, with boards and events"
	a, err := newAlone(ctx, b.node.db.Writer(), b.people)
	if err != nil {
		return err
	}
	stoa := newSide("stoa, durable", b.node.mark(b.people))
	stoa.node = b.node
	origin := newSide("origin, not durable", throughOrigin(b.node.rdb, b.people, true))
	inSQL := newSide("SQL alone, durable", a.mark(b.people))
	sides := []*side{stoa, origin, inSQL}
	if b.mode == "redis" {
		more, stop, err := b.redisFirst(ctx, f)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		sides = append(sides, more...)
	}
	for _, s := range sides {
		calls := b.users
		if s == inSQL {
			calls = min(calls, 2000) // it has nothing to load
		}
		if _, err := b.exactly(ctx, s, many, calls); err != nil { // warms up
			return err
		}
	}
	if err := b.sentToRedis(ctx, f, stoa, origin); err != nil {
		return err
	}
	for _, c := range []struct {
		callers             int
		overOrigin, overSQL float64
	}{{many, 2.5, 6}, {more, 4, 12}} {
		found, err := b.turns(sides, func(s *side) (sample, error) { return b.closed(ctx, s, c.callers) })
		if err != nil {
			return err
		}
		addSamples(f.table(fmt.Sprintf("%d callers", c.callers), loadColumns...), sides, found, found[0])
		f.atLeast(fmt.Sprintf("%d callers, against the origin's sequence", c.callers), found[0].rate/found[1].rate, c.overOrigin, "×")
		f.atLeast(fmt.Sprintf("%d callers, against SQL alone", c.callers), found[0].rate/found[2].rate, c.overSQL, "×")
		if c.callers == more {
			f.atMost("256 callers, 99 of 100 within", found[0].p99, 5, "ms")
		}
	}
	found, err := b.turns(sides, func(s *side) (sample, error) { return b.paced(ctx, s, paceOfDay) })
	if err != nil {
		return err
	}
	addSamples(f.table(fmt.Sprintf("%d per second", paceOfDay), loadColumns...), sides, found, sample{})
	f.atMost(fmt.Sprintf("%d per second, 99 of 100 within", paceOfDay), found[0].p99, 5, "ms")
	f.note("The origin's way is GET, GET, INCR or SET, GET, SET, SETBIT, ZADD, ZADD, SET one after another, and an XADD for a consumer to " +
		"persist. SQL alone is a SELECT and two UPDATEs in one transaction, without boards.")
	f.note("Work is the processor time of this process and both servers for each call; batch, commit and apply are the service's own means.")
	f.note("Paced calls arrive at random moments, whether earlier ones have ended or not; their time counts from the moment for which they " +
		"were scheduled.")
	if err := b.cold(ctx, f, stoa); err != nil {
		return err
	}
	return b.overHTTP(ctx, f, stoa)
}

// aDay is the number of check-ins in a day of the design that Stoa is compared with.
const aDay = 10_000

// sentToRedis counts the commands and bytes of a check-in, with many callers and with one. Ten thousand check-ins in a
// day come one at a time, and share no batch.
func (b *bench) sentToRedis(ctx context.Context, f *figure, stoa, origin *side) error {
	day := min(aDay, b.users)
	t := f.table("sent to Redis for each", column{"commands", 2}, column{"bytes, both ways", 0}, column{"MB for 10,000", 1})
	for _, c := range []struct {
		name    string
		side    *side
		callers int
	}{{"stoa, 64 callers", stoa, many}, {"stoa, one caller", stoa, 1}, {"origin, one caller", origin, 1}} {
		sent, err := b.sent(ctx, c.side, c.callers, day)
		if err != nil {
			return err
		}
		t.add(c.name, sent.values())
		if c.side == stoa {
			f.atMost(c.name+", Redis commands", sent.values()["commands"], 6, "")
			f.note("Commands for each check-in, %s: %s.", c.name, sent.commands.per(day))
		}
		if c.side == stoa && c.callers == 1 {
			f.atMost(c.name+", 10,000 check-ins", sent.values()["MB for 10,000"], 12, "MB")
		}
	}
	return nil
}

// cold measures the first check-in of users who were away. SQL has their history, and Redis has no record of them.
func (b *bench) cold(ctx context.Context, f *figure, warm *side) error {
	cold := newSide("stoa, cold", nil)
	cold.node = b.node
	n := min(coldAtOnce, b.users)
	found, err := b.turns([]*side{cold, warm}, func(s *side) (sample, error) {
		if s == cold {
			people := newPeople(n)
			yesterday := civil.DayOf(b.node.clock.now().Date()) - 1
			if err := history(ctx, b.node.db.Writer(), people, yesterday-9, 10); err != nil {
				return sample{}, err
			}
			s.next.Store(0)
			s.do = func(ctx context.Context, i int) error { return b.node.markNow(ctx, people[i]) }
		}
		return b.exactly(ctx, s, many, n)
	})
	if err != nil {
		return err
	}
	addSamples(f.table(fmt.Sprintf("%d callers, %d check-ins", many, n), loadColumns...), []*side{cold, warm}, found, found[1])
	f.note("Cold users have ten days in the log and no record in Redis; in all other rows their records are there from the day before.")
	return nil
}

// profiled writes a profile of a warm service.
func (b *bench) profiled(ctx context.Context, path string, callers int) error {
	stoa := newSide("stoa", b.node.mark(b.people))
	stoa.node = b.node
	if _, err := b.exactly(ctx, stoa, callers, b.users); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	found, err := b.closed(ctx, stoa, callers)
	pprof.StopCPUProfile()
	fmt.Printf("%.0f per second; batches of %.0f, %.2f ms to commit, %.2f ms to apply\n", found.rate, found.stages.batch, found.stages.commit,
		found.stages.apply)
	return errors.Join(err, f.Close())
}
