package activity

import (
	"context"
	_ "embed"
	"errors"
	"strconv"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	//go:embed lua/estimate.lua
	estimateSource string
	//go:embed lua/erase.lua
	eraseSource string

	estimateScript = redis.NewScript(estimateSource)
	eraseScript    = redis.NewScript(eraseSource)
)

// redisStore makes all Redis calls of this package.
type redisStore struct{ db *redis.DB }

// away reports whether Redis is unavailable.
func away(err error) bool { return errors.Is(err, redis.ErrUnavailable) }

// atOnce is the number of users per command: some 20 KB, which occupy a server for less than a millisecond.
const atOnce = 1000

// batch contains up to atOnce users who were active on a day.
type batch struct {
	day   civil.Day
	users []member
	err   error // the users may or may not be recorded
}

// add records users in one round trip. With estimates it uses a HyperLogLog.
func (s *redisStore) add(ctx context.Context, batches []*batch, estimates bool) {
	cmds := make([]keyspace.Cmd, len(batches))
	for i, b := range batches {
		users := make([]string, 0, len(b.users)+1)
		if estimates {
			users = append(users, strconv.FormatInt(keyLife.Milliseconds(), 10))
		}
		for _, u := range b.users {
			users = append(users, string(u[:]))
		}
		if estimates {
			cmds[i] = estimateScript.Cmd([]keyspace.Key{estimateKey(b.day)}, users...)
		} else {
			cmds[i] = setKey(b.day).AddCmd(users...)
		}
	}
	for i, r := range s.db.DoMulti(ctx, cmds) {
		batches[i].err = r.Err
	}
}

// found contains the numbers of a day in Redis. Both are set on a day when the setting was changed.
type found struct{ set, estimate int64 }

func (f found) count() Count {
	// Users in both cannot be distinguished, so this is a lower bound.
	return Count{Actives: max(f.set, f.estimate), Exact: f.estimate == 0, Partial: f.set > 0 && f.estimate > 0}
}

// look returns the numbers of days in Redis, in one round trip.
func (s *redisStore) look(ctx context.Context, days []civil.Day) ([]found, error) {
	cmds := make([]keyspace.Cmd, 0, 2*len(days))
	for _, d := range days {
		cmds = append(cmds, setKey(d).LenCmd(), keyspace.Cmd{Name: "PFCOUNT", Key: estimateKey(d)})
	}
	replies := s.db.DoMulti(ctx, cmds)
	all := make([]found, len(days))
	for i := range all {
		set, err := replies[2*i].Int()
		if err != nil {
			return nil, err
		}
		estimate, err := replies[2*i+1].Int()
		if err != nil {
			return nil, err
		}
		all[i] = found{set, estimate}
	}
	return all, nil
}

// missing returns the ones of up to atOnce users who are not in the set of a day. It reuses users.
func (s *redisStore) missing(ctx context.Context, d civil.Day, users []string) ([]string, error) {
	answers, err := s.db.Do(ctx, keyspace.Cmd{Name: "SMISMEMBER", Key: setKey(d).Key, Args: users}).Items()
	if err == nil && len(answers) != len(users) {
		err = keyspace.ErrReply
	}
	if err != nil {
		return nil, err
	}
	rest := users[:0]
	for i, a := range answers {
		if a.N == 0 {
			rest = append(rest, users[i])
		}
	}
	return rest, nil
}

// union counts the users who were active on any of some days, which are sorted. A user counts on the last of them:
// users in the set of a later day are skipped. So this process holds one page of users at a time, and each command has
// one key. Changes during the count, on a day that has not ended, may be counted or not.
func (s *redisStore) union(ctx context.Context, days []civil.Day) (Count, error) {
	looked, err := s.look(ctx, days)
	if err != nil {
		return Count{}, err
	}
	var sets []civil.Day
	var estimates []keyspace.Key
	for i, f := range looked {
		if f.set > 0 {
			sets = append(sets, days[i])
		}
		if f.estimate > 0 {
			estimates = append(estimates, estimateKey(days[i]))
		}
	}
	var f found
	for i := range sets {
		n, err := s.only(ctx, sets[i], sets[i+1:])
		if err != nil {
			return Count{}, err
		}
		f.set += n
	}
	if len(estimates) > 0 {
		if f.estimate, err = s.db.Do(ctx, keyspace.Cmd{Name: "PFCOUNT", Key: estimates[0], More: estimates[1:]}).Int(); err != nil {
			return Count{}, err
		}
	}
	return f.count(), nil
}

// only counts the users of a day who are in none of the sets of later days.
func (s *redisStore) only(ctx context.Context, d civil.Day, later []civil.Day) (n int64, err error) {
	if len(later) == 0 {
		return s.db.Do(ctx, setKey(d).LenCmd()).Int()
	}
	for cursor := "0"; ; {
		page, err := s.db.Do(ctx, keyspace.Cmd{Name: "SSCAN", Key: setKey(d).Key, Args: []string{cursor, "COUNT", strconv.Itoa(atOnce)}}).Items()
		if err == nil && len(page) != 2 {
			err = keyspace.ErrReply
		}
		if err != nil {
			return 0, err
		}
		users := make([]string, len(page[1].List))
		for i, u := range page[1].List {
			users[i] = u.Str
		}
		for _, l := range later {
			if len(users) == 0 {
				break
			}
			if users, err = s.missing(ctx, l, users); err != nil {
				return 0, err
			}
		}
		n += int64(len(users))
		if cursor = page[0].Str; cursor == "0" {
			return n, nil
		}
	}
}

// erase replaces a user by one random id in the sets of days.
func (s *redisStore) erase(ctx context.Context, user accounts.ID, days []civil.Day) error {
	instead := ids.New[accounts.User]().String()
	cmds := make([]keyspace.Cmd, len(days))
	for i, d := range days {
		cmds[i] = eraseScript.Cmd([]keyspace.Key{setKey(d).Key}, user.String(), instead)
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, cmds))
}

// within counts the users of a span of days; rows are the stored data.
func (s *redisStore) within(ctx context.Context, span Span, rows []Day) (Count, error) {
	days := span.days()
	looked, err := s.look(ctx, days)
	if err != nil {
		return Count{}, err
	}
	c, err := s.union(ctx, days)
	if err != nil {
		return Count{}, err
	}
	for _, d := range rows {
		c.Partial = c.Partial || d.Partial || looked[d.Date-span.First].count().falls(d.Count)
		if d.Actives > c.Actives { // perhaps with other users
			c.Actives, c.Exact = d.Actives, d.Exact
		}
	}
	return c, nil
}

// Between counts the users who were active on any day of a span, including today so far. It returns ErrRange for a span
// that is not within the days with complete sets.
func (k Admin) Between(ctx context.Context, db *redis.DB, settings Settings, span Span) (_ Count, err error) {
	defer errs.Wrap(&err, "activity.Between %s and %s", span.First, span.Last)
	today := settings.clock().Today(k.db.Now())
	if span.First > span.Last || span.First < today-kept || span.Last > today {
		return Count{}, ErrRange
	}
	rows, err := selectDays(ctx, k.db, span, int(span.Last-span.First)+1)
	if err != nil {
		return Count{}, err
	}
	return (&redisStore{db}).within(ctx, span, rows)
}
