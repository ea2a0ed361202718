package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/groupcommit"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
)

// oneSet is the cheapest script there is.
var oneSet = redis.NewScript("return redis.call('SET', KEYS[1], ARGV[1])")

// redisPart is figure 2.
func (b *bench) redisPart(ctx context.Context, f *figure) (err error) {
	f.Title = "The Redis part of a check-in: the service without SQL"
	url, err := servers.Database(ctx, b.sqlURL, "part") // its log stays empty
	if err != nil {
		return err
	}
	n, err := b.open(ctx, url, b.redisURL, "part", checkin.NewWithoutLog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	stoa := newSide("stoa, with boards", n.mark(b.people))
	stoa.node = n
	origin := newSide("origin, nine calls", throughOrigin(n.rdb, b.people, false))
	script := newSide("EVALSHA with one SET", func(ctx context.Context, i int) error {
		return oneSet.Run(ctx, n.rdb, []keyspace.Key{hundred.At(b.people[i%b.users]).Key}, "1").Err
	})
	commands, stop := bare(ctx, n.rdb, b.people)
	defer stop()
	sides := []*side{stoa, origin, script, newSide("its commands alone", commands)}
	for _, s := range sides {
		if _, err := b.exactly(ctx, s, many, b.users); err != nil { // warms up
			return err
		}
	}
	crowded, err := b.sent(ctx, stoa, many, b.users)
	if err != nil {
		return err
	}
	// Ten thousand in a day come one at a time, and nothing is shared.
	day := min(aDay, b.users)
	lone, err := b.sent(ctx, stoa, 1, day)
	if err != nil {
		return err
	}
	calls, err := b.sent(ctx, origin, 1, day)
	if err != nil {
		return err
	}
	found, err := b.turns(sides, func(s *side) (sample, error) { return b.closed(ctx, s, many) })
	if err != nil {
		return err
	}
	addSamples(f.table("64 callers", loadColumns...), sides, found, found[0])
	t := f.table("sent to Redis for each", column{"commands", 2}, column{"bytes, both ways", 0}, column{"MB for 10,000", 1})
	t.add("stoa, 64 callers", crowded.values())
	t.add("stoa, one caller", lone.values())
	t.add("origin, one caller", calls.values())
	f.atLeast("against the origin's sequence", found[0].rate/found[1].rate, 6, "×")
	f.atLeast("against a lone EVALSHA", found[0].rate/found[2].rate, 0.8, "×")
	f.atMost("64 callers, Redis commands", crowded.values()["commands"], 6, "")
	f.atMost("one caller, Redis commands", lone.values()["commands"], 6, "")
	f.atMost("one caller, 10,000 check-ins", lone.values()["MB for 10,000"], 12, "MB")
	f.note("Its commands alone are those of a check-in that is known beforehand, in the same batches from as many callers: what any service on top of them has to stay below.")
	f.note("Commands for each check-in: %s. The GET is sent while SQL commits, the rest in one round trip for the batch after it. Of one caller: %s.", crowded.commands.per(b.users), lone.commands.per(day))
	f.note("Without a commit to wait for, batches are as small as callers and boards let them be; with one they are larger, and cost the server less for each check-in.")
	return nil
}

// aDay is a day's check-ins of the design whose figures are to be beaten.
const aDay = 10_000

const (
	bareBoards = 4  // streak, total, week and month
	bareChange = 42 // bytes that tell a board of one check-in
)

// bare sends what a check-in cannot do without, and neither reads what comes back
// nor computes anything: its day set, its record read, and its share of one RPUSH
// for each board. Callers are gathered as the service gathers them. stop ends it.
func bare(ctx context.Context, db *redis.DB, people []accounts.ID) (do func(context.Context, int) error, stop func()) {
	send := func(ctx context.Context, users []int, errs []error) {
		cmds := make([]keyspace.Cmd, 0, 2*bareBoards+2*len(users))
		changes := []string{strings.Repeat("c", bareChange*len(users))}
		for i := range bareBoards {
			log := bareLogs.At(keyspace.Int{N: int64(i)}).Key
			if rand.IntN(1000) == 0 { // as a fold does
				cmds = append(cmds, keyspace.Cmd{Name: "UNLINK", Key: log})
			}
			cmds = append(cmds, keyspace.Cmd{Name: "RPUSH", Key: log, Args: changes})
		}
		for _, i := range users {
			record := bareRecords.At(people[i%len(people)])
			cmds = append(cmds, record.SetBitCmd(863), record.GetRenewCmd())
		}
		err := keyspace.FirstErr(db.DoMulti(ctx, cmds))
		for i := range errs {
			errs[i] = err
		}
	}
	c := groupcommit.New(func(_ context.Context, users []int) ([]error, error) { return make([]error, len(users)), nil },
		groupcommit.Options[int, error]{After: send})
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	do = func(ctx context.Context, i int) error {
		failed, err := c.Do(ctx, i)
		return errors.Join(failed, err)
	}
	return do, func() { cancel(); running.Wait() }
}
