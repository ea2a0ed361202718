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

// redisStore has every Redis call of this package.
type redisStore struct{ db *redis.DB }

// isUnavailable reports whether err means that Redis is unavailable.
func isUnavailable(err error) bool { return errors.Is(err, redis.ErrUnavailable) }

// batchSize is the largest number of users of one command. They are about 20 KB, and occupy a server for less than a
// millisecond.
const batchSize = 1000

// batch has up to batchSize users who were active on a day.
type batch struct {
	day   civil.Day
	users []member
	err   error // not nil: Redis may or may not have the users
}

// add records users in one round trip. With estimates, it adds them to HyperLogLogs instead of sets.
func (s *redisStore) add(ctx context.Context, batches []*batch, estimates bool) {
	cmds := make([]keyspace.Cmd, len(batches))
	for i, b := range batches {
		users := make([]string, 0, len(b.users)+1)
		if estimates {
			users = append(users, keyspace.Millis(keyTTL))
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

// redisCounts has the numbers of a day in Redis. Both are above zero if the setting was changed on the day.
type redisCounts struct{ set, estimate int64 }

func (c redisCounts) count() Count {
	// A user may be in both, so that the larger number is a lower bound.
	return Count{Actives: max(c.set, c.estimate), Exact: c.estimate == 0, Partial: c.set > 0 && c.estimate > 0}
}

// readCounts returns the numbers of days in Redis, in one round trip.
func (s *redisStore) readCounts(ctx context.Context, days []civil.Day) ([]redisCounts, error) {
	cmds := make([]keyspace.Cmd, 0, 2*len(days))
	for _, d := range days {
		cmds = append(cmds, setKey(d).LenCmd(), keyspace.Cmd{Name: "PFCOUNT", Key: estimateKey(d)})
	}
	replies := s.db.DoMulti(ctx, cmds)
	all := make([]redisCounts, len(days))
	for i := range all {
		set, err := replies[2*i].Int()
		if err != nil {
			return nil, err
		}
		estimate, err := replies[2*i+1].Int()
		if err != nil {
			return nil, err
		}
		all[i] = redisCounts{set, estimate}
	}
	return all, nil
}

// filterMissing returns those of up to batchSize users who are not in the set of a day. It overwrites users.
func (s *redisStore) filterMissing(ctx context.Context, d civil.Day, users []string) ([]string, error) {
	replies, err := s.db.Do(ctx, keyspace.Cmd{Name: "SMISMEMBER", Key: setKey(d).Key, Args: users}).Items()
	if err == nil && len(replies) != len(users) {
		err = keyspace.ErrReply
	}
	if err != nil {
		return nil, err
	}
	missing := users[:0]
	for i, r := range replies {
		if r.N == 0 {
			missing = append(missing, users[i])
		}
	}
	return missing, nil
}

// countUnion counts the users who were active on any of the days, which are sorted. It counts each user on the last of
// their days, and therefore skips users in the set of a later day. This process has one page of users in memory, and
// each command has one key. Users who become active during the count may be counted or not.
func (s *redisStore) countUnion(ctx context.Context, days []civil.Day) (Count, error) {
	counts, err := s.readCounts(ctx, days)
	if err != nil {
		return Count{}, err
	}
	var sets []civil.Day
	var estimates []keyspace.Key
	for i, c := range counts {
		if c.set > 0 {
			sets = append(sets, days[i])
		}
		if c.estimate > 0 {
			estimates = append(estimates, estimateKey(days[i]))
		}
	}
	var c redisCounts
	for i := range sets {
		n, err := s.countWithoutLater(ctx, sets[i], sets[i+1:])
		if err != nil {
			return Count{}, err
		}
		c.set += n
	}
	if len(estimates) > 0 {
		if c.estimate, err = s.db.Do(ctx, keyspace.Cmd{Name: "PFCOUNT", Key: estimates[0], More: estimates[1:]}).Int(); err != nil {
			return Count{}, err
		}
	}
	return c.count(), nil
}

// countWithoutLater counts the users of a day who are not in the sets of later days.
func (s *redisStore) countWithoutLater(ctx context.Context, d civil.Day, later []civil.Day) (n int64, err error) {
	if len(later) == 0 {
		return s.db.Do(ctx, setKey(d).LenCmd()).Int()
	}
	for cursor := "0"; ; {
		page, err := s.db.Do(ctx, keyspace.Cmd{Name: "SSCAN", Key: setKey(d).Key,
			Args: []string{cursor, "COUNT", strconv.Itoa(batchSize)}}).Items()
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
			if users, err = s.filterMissing(ctx, l, users); err != nil {
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
	replacement := ids.New[accounts.User]().String()
	cmds := make([]keyspace.Cmd, len(days))
	for i, d := range days {
		cmds[i] = eraseScript.Cmd([]keyspace.Key{setKey(d).Key}, user.String(), replacement)
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, cmds))
}

// countSpan counts the users of a span of days. rows has the stored data of the days.
func (s *redisStore) countSpan(ctx context.Context, span Span, rows []Day) (Count, error) {
	days := span.days()
	counts, err := s.readCounts(ctx, days)
	if err != nil {
		return Count{}, err
	}
	c, err := s.countUnion(ctx, days)
	if err != nil {
		return Count{}, err
	}
	for _, d := range rows {
		c.Partial = c.Partial || d.Partial || counts[d.Date-span.First].count().showsLoss(d.Count)
		if d.Actives > c.Actives { // Redis has lost users of this day
			c.Actives, c.Exact = d.Actives, d.Exact
		}
	}
	return c, nil
}

// CountBetween counts the users who were active on any day of a span. The span may include today. It returns ErrRange
// for a span that is not within the days with complete sets.
func (k Admin) CountBetween(ctx context.Context, db *redis.DB, settings Settings, span Span) (_ Count, err error) {
	defer errs.Wrap(&err, "activity.CountBetween %s and %s", span.First, span.Last)
	today := settings.clock().Today(k.db.Now())
	if span.First > span.Last || span.First < today-daysWithSets || span.Last > today {
		return Count{}, ErrRange
	}
	rows, err := selectDays(ctx, k.db, span, int(span.Last-span.First)+1)
	if err != nil {
		return Count{}, err
	}
	return (&redisStore{db}).countSpan(ctx, span, rows)
}
