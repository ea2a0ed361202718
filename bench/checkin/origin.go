package main

import (
	"context"
	"strconv"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
)

// The families of the origin's layout, under names of their own.
var (
	origin  = keyspace.New("origin")
	daily   = keyspace.Def2[accounts.ID, keyspace.Int](origin, "origin:sign:daily:{uid}:{date}", keyspace.BytesOf("0 or 1"), keyspace.Expire(3*day24), doc)
	streak  = keyspace.Def1[accounts.ID](origin, "origin:sign:streak:{uid}", keyspace.CounterKind(), keyspace.Forever("as designed"), doc)
	longest = keyspace.Def1[accounts.ID](origin, "origin:sign:max_streak:{uid}", keyspace.CounterKind(), keyspace.Forever("as designed"), doc)
	monthly = keyspace.Def2[accounts.ID, keyspace.Int](origin, "origin:sign:monthly:{uid}:{month}", keyspace.BitmapOf("bit n−1 is day n"), keyspace.Expire(45*day24), doc)
	byRun   = keyspace.Def0(origin, "origin:leaderboard:streak", keyspace.ZSetOf("user → days"), keyspace.Forever("as designed"), doc)
	byTotal = keyspace.Def0(origin, "origin:leaderboard:total", keyspace.ZSetOf("user → days"), keyspace.Forever("as designed"), doc)
	queue   = keyspace.Def0(origin, "origin:queue", keyspace.BytesOf("stream of user.sign.updated"), keyspace.Forever("trimmed"), doc)
	doc     = keyspace.Doc{Purpose: "the origin's layout, for comparison"}
)

const day24 = 86400e9

// throughOrigin is the check-in of the origin's document, call by call.
func throughOrigin(db *redis.DB, people []accounts.ID) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		user := people[n%len(people)]
		date := day(n, len(people))
		today := int64(civil.DayOf(date.Date()))
		do := func(name string, key keyspace.Key, args ...string) keyspace.Reply {
			return db.Do(ctx, keyspace.Cmd{Name: name, Key: key, Args: args})
		}
		if r := do("GET", daily.At(user, keyspace.Int{N: today}).Key); r.Err != nil || !r.Nil() {
			return r.Err
		}
		yesterday := do("GET", daily.At(user, keyspace.Int{N: today - 1}).Key)
		if yesterday.Err != nil {
			return yesterday.Err
		}
		run := int64(1)
		if yesterday.Str == "1" {
			var err error
			if run, err = do("INCR", streak.At(user).Key).Int(); err != nil {
				return err
			}
		} else if err := do("SET", streak.At(user).Key, "1").Err; err != nil {
			return err
		}
		best, err := do("GET", longest.At(user).Key).Int()
		if err != nil {
			return err
		}
		days := strconv.FormatInt(run, 10)
		if run > best {
			if err := do("SET", longest.At(user).Key, days).Err; err != nil {
				return err
			}
		}
		month := keyspace.Int{N: int64(date.Year()*100 + int(date.Month()))}
		for _, r := range []keyspace.Reply{
			do("SETBIT", monthly.At(user, month).Key, strconv.Itoa(date.Day()-1), "1"),
			do("ZADD", byRun.At().Key, days, user.String()),
			do("ZADD", byTotal.At().Key, days, user.String()),
			do("SET", daily.At(user, keyspace.Int{N: today}).Key, "1", "EX", "259200"),
			do("XADD", queue.At().Key, "MAXLEN", "~", "100000", "*", "user", user.String(), "day", strconv.FormatInt(today, 10)),
		} {
			if r.Err != nil {
				return r.Err
			}
		}
		return nil
	}
}
