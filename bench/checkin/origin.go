package main

import (
	"context"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// The families of the original layout, with separate names.
var (
	origin = keyspace.New("origin")
	daily  = keyspace.Def2[accounts.ID, keyspace.Int](origin, "origin:sign:daily:{uid}:{date}", keyspace.BytesOf("0 or 1"),
		keyspace.Expire(3*day24), doc)
	streaks = keyspace.Def1[accounts.ID](origin, "origin:sign:streak:{uid}", keyspace.CounterKind(), keyspace.Forever("as designed"), doc)
	longest = keyspace.Def1[accounts.ID](origin, "origin:sign:max_streak:{uid}", keyspace.CounterKind(), keyspace.Forever("as designed"), doc)
	monthly = keyspace.Def2[accounts.ID, keyspace.Int](origin, "origin:sign:monthly:{uid}:{month}", keyspace.BitmapOf("bit n−1 is day n"),
		keyspace.Expire(45*day24), doc)
	byRun   = keyspace.Def0(origin, "origin:leaderboard:streak", keyspace.ZSetOf("user → days"), keyspace.Forever("as designed"), doc)
	byTotal = keyspace.Def0(origin, "origin:leaderboard:total", keyspace.ZSetOf("user → days"), keyspace.Forever("as designed"), doc)
	queue   = keyspace.Def0(origin, "origin:queue", keyspace.StreamOf("user.sign.updated"), keyspace.Forever("trimmed"), doc)
	hundred = keyspace.Def1[accounts.ID](origin, "origin:hundred:{uid}", keyspace.BytesOf("100 bytes"), keyspace.Forever("for comparison"),
		doc)
	doc = keyspace.Doc{Purpose: "the origin's layout, for comparison"}
)

const day24 = 86400e9

// throughOrigin is the check-in in the document of the original design, call by call. It makes nine calls. With queued,
// a tenth call passes it to a consumer that stores it.
func throughOrigin(db *redis.DB, people []accounts.ID, queued bool) func(context.Context, int) error {
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
			if run, err = do("INCR", streaks.At(user).Key).Int(); err != nil {
				return err
			}
		} else if err := do("SET", streaks.At(user).Key, "1").Err; err != nil {
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
		} {
			if r.Err != nil {
				return r.Err
			}
		}
		if !queued {
			return nil
		}
		return do("XADD", queue.At().Key, "MAXLEN", "~", "100000", "*", "user", user.String(), "day", strconv.FormatInt(today, 10)).Err
	}
}

// fillOrigin writes the steady state of the original layout. This is the streaks, longest streaks and boards of all
// users, and the day keys of three days and the bitmaps of two months of active users.
func fillOrigin(ctx context.Context, db *redis.DB, people, active []accounts.ID, today time.Time) error {
	var cmds []keyspace.Cmd
	send := func(always bool) error {
		if len(cmds) < 1000 && !always {
			return nil
		}
		err := keyspace.FirstErr(db.DoMulti(ctx, cmds))
		cmds = cmds[:0]
		return err
	}
	for i, user := range people {
		days := strconv.Itoa(1 + i%300)
		cmds = append(cmds,
			keyspace.Cmd{Name: "SET", Key: streaks.At(user).Key, Args: []string{days}},
			keyspace.Cmd{Name: "SET", Key: longest.At(user).Key, Args: []string{days}},
			keyspace.Cmd{Name: "ZADD", Key: byRun.At().Key, Args: []string{days, user.String()}},
			keyspace.Cmd{Name: "ZADD", Key: byTotal.At().Key, Args: []string{days, user.String()}})
		if err := send(false); err != nil {
			return err
		}
	}
	for _, user := range active {
		for ago := range int64(3) {
			date := keyspace.Int{N: int64(civil.DayOf(today.Date())) - ago}
			cmds = append(cmds, keyspace.Cmd{Name: "SET", Key: daily.At(user, date).Key, Args: []string{"1", "EX", "259200"}})
		}
		for ago := range 2 {
			month := keyspace.Int{N: int64(today.Year()*100 + int(today.Month()) - ago)}
			cmds = append(cmds,
				keyspace.Cmd{Name: "SETBIT", Key: monthly.At(user, month).Key, Args: []string{"27", "1"}},
				keyspace.Cmd{Name: "EXPIRE", Key: monthly.At(user, month).Key, Args: []string{"3888000"}})
		}
		if err := send(false); err != nil {
			return err
		}
	}
	return send(true)
}
