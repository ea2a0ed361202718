package main

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/bench/servers"
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
	sides := []*side{stoa, origin, script}
	for _, s := range sides {
		if _, err := b.exactly(ctx, s, many, b.users); err != nil { // warms up
			return err
		}
	}
	before, err := b.commands(ctx)
	if err != nil {
		return err
	}
	if _, err := b.exactly(ctx, stoa, many, b.users); err != nil {
		return err
	}
	after, err := b.commands(ctx)
	if err != nil {
		return err
	}
	found, err := b.turns(sides, func(s *side) (sample, error) { return b.closed(ctx, s, many) })
	if err != nil {
		return err
	}
	addSamples(f.table("64 callers", loadColumns...), sides, found, found[0])
	f.atLeast("against the origin's sequence", found[0].rate/found[1].rate, 6, "×")
	f.atLeast("against a lone EVALSHA", found[0].rate/found[2].rate, 0.8, "×")
	f.note("Commands for each check-in: %s. The GET is sent while SQL commits, the rest in one round trip for the batch after it.", after.per(before, b.users))
	f.note("Without a commit to wait for, batches are as small as callers and boards let them be; with one they are larger, and cost the server less for each check-in.")
	return nil
}
