package keyspace

import (
	"context"
	"math"
	"strconv"
)

// SetCmd puts a member in or gives it another score; the reply is 1 when it is new. A
// score is exact up to 2⁵³.
func (h ZSet) SetCmd(member string, score float64) Cmd {
	return h.write("ZADD", scoreText(score), member)
}

// Set puts a member in or gives it another score, and reports whether it is new. A score
// is exact up to 2⁵³.
func (h ZSet) Set(ctx context.Context, db Executor, member string, score float64) (bool, error) {
	return db.Do(ctx, h.SetCmd(member, score)).Bool()
}

// SetSomeCmd is SetCmd for several members, one at least; the reply is how many are new.
func (h ZSet) SetSomeCmd(members ...Scored) Cmd { return h.write("ZADD", scored(nil, members)...) }

// SetSome is Set for several members, one at least; it returns how many are new.
func (h ZSet) SetSome(ctx context.Context, db Executor, members ...Scored) (int64, error) {
	return db.Do(ctx, h.SetSomeCmd(members...)).Int()
}

func scored(args []string, members []Scored) []string {
	for _, m := range members {
		args = append(args, scoreText(m.Score), m.Member)
	}
	return args
}

// RaiseCmd is SetCmd unless the member's score is as high already; the reply is 1 when it
// is new or was raised.
func (h ZSet) RaiseCmd(member string, score float64) Cmd {
	return h.write("ZADD", "GT", "CH", scoreText(score), member)
}

// Raise is Set unless the member's score is as high already, and reports whether it is
// new or was raised: a personal best. It needs Redis 6.2.
func (h ZSet) Raise(ctx context.Context, db Executor, member string, score float64) (bool, error) {
	return db.Do(ctx, h.RaiseCmd(member, score)).Bool()
}

// AddCmd adds to a member's score, which begins at 0; the reply is the new score.
func (h ZSet) AddCmd(member string, by float64) Cmd {
	return h.write("ZINCRBY", scoreText(by), member)
}

// Add adds to a member's score, which begins at 0, and returns the new one.
func (h ZSet) Add(ctx context.Context, db Executor, member string, by float64) (float64, error) {
	score, _, err := db.Do(ctx, h.AddCmd(member, by)).Float()
	return score, err
}

// scoreText writes a score, of which infinite ones are ends of a range, too.
func scoreText(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "+inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return floatText(score)
}

// ScoreCmd asks for a member's score; the reply is nil when it is not there.
func (h ZSet) ScoreCmd(member string) Cmd { return h.ask("ZSCORE", member) }

// Score returns a member's score; ok is false when it is not there.
func (h ZSet) Score(ctx context.Context, db Executor, member string) (score float64, ok bool, err error) {
	return db.Do(ctx, h.ScoreCmd(member)).Float()
}

// RemoveCmd takes members out; the reply is how many were there.
func (h ZSet) RemoveCmd(members ...string) Cmd { return h.ask("ZREM", members...) }

// Remove takes members out and returns how many were there.
func (h ZSet) Remove(ctx context.Context, db Executor, members ...string) (int64, error) {
	return db.Do(ctx, h.RemoveCmd(members...)).Int()
}

// TopCmd asks for the n members with the highest scores, with these by turns.
func (h ZSet) TopCmd(n int) Cmd { return h.RangeTopCmd(0, n) }

// Top returns the n members with the highest scores, the highest first.
func (h ZSet) Top(ctx context.Context, db Executor, n int) ([]Scored, error) {
	return db.Do(ctx, h.TopCmd(n)).Scores()
}

// RangeTopCmd asks for n members from one place on, with their scores by turns; place 0
// has the highest score.
func (h ZSet) RangeTopCmd(from, n int) Cmd { return h.ranged("ZREVRANGE", from, n) }

// RangeTop returns n members from one place on; place 0 has the highest score.
func (h ZSet) RangeTop(ctx context.Context, db Executor, from, n int) ([]Scored, error) {
	return db.Do(ctx, h.RangeTopCmd(from, n)).Scores()
}

// RangeCmd asks for n members from one place on, with their scores by turns; place 0 has
// the lowest score.
func (h ZSet) RangeCmd(from, n int) Cmd { return h.ranged("ZRANGE", from, n) }

// Range returns n members from one place on; place 0 has the lowest score.
func (h ZSet) Range(ctx context.Context, db Executor, from, n int) ([]Scored, error) {
	return db.Do(ctx, h.RangeCmd(from, n)).Scores()
}

func (h ZSet) ranged(name string, from, n int) Cmd {
	if n <= 0 || from < 0 {
		return h.ask(name, "1", "0", "WITHSCORES") // negative places would count from the end
	}
	return h.ask(name, strconv.Itoa(from), strconv.Itoa(from+n-1), "WITHSCORES")
}

// ByScoreCmd asks for up to n members whose scores are from least to most, both included,
// with their scores by turns, the lowest first. Infinite ends are no ends.
func (h ZSet) ByScoreCmd(least, most float64, n int) Cmd {
	return h.ask("ZRANGEBYSCORE", scoreText(least), scoreText(most), "WITHSCORES", "LIMIT", "0", strconv.Itoa(max(n, 0)))
}

// ByScore returns up to n members whose scores are from least to most, both included, the
// lowest first. Infinite ends are no ends.
func (h ZSet) ByScore(ctx context.Context, db Executor, least, most float64, n int) ([]Scored, error) {
	return db.Do(ctx, h.ByScoreCmd(least, most, n)).Scores()
}

// CountCmd asks how many members have scores from least to most, both included.
func (h ZSet) CountCmd(least, most float64) Cmd {
	return h.ask("ZCOUNT", scoreText(least), scoreText(most))
}

// Count returns how many members have scores from least to most, both included.
func (h ZSet) Count(ctx context.Context, db Executor, least, most float64) (int64, error) {
	return db.Do(ctx, h.CountCmd(least, most)).Int()
}

// RankCmd asks for a member's place, 0 for the lowest score; the reply is nil when it is
// not there.
func (h ZSet) RankCmd(member string) Cmd { return h.ask("ZRANK", member) }

// Rank returns a member's place, 0 for the lowest score; ok is false when it is not there.
func (h ZSet) Rank(ctx context.Context, db Executor, member string) (rank int64, ok bool, err error) {
	return db.Do(ctx, h.RankCmd(member)).numbered()
}

// RankTopCmd asks for a member's place, 0 for the highest score; the reply is nil when it
// is not there.
func (h ZSet) RankTopCmd(member string) Cmd { return h.ask("ZREVRANK", member) }

// RankTop returns a member's place, 0 for the highest score; ok is false when it is not
// there.
func (h ZSet) RankTop(ctx context.Context, db Executor, member string) (rank int64, ok bool, err error) {
	return db.Do(ctx, h.RankTopCmd(member)).numbered()
}

// LenCmd asks how many members there are.
func (h ZSet) LenCmd() Cmd { return h.ask("ZCARD") }

// Len returns how many members there are.
func (h ZSet) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}

// PopCmd takes out up to n members with the lowest scores; the reply has these by turns.
func (h ZSet) PopCmd(n int) Cmd { return h.ask("ZPOPMIN", strconv.Itoa(max(n, 0))) }

// Pop takes out up to n members with the lowest scores, and returns them, the lowest
// first: what is due first where scores are times.
func (h ZSet) Pop(ctx context.Context, db Executor, n int) ([]Scored, error) {
	return db.Do(ctx, h.PopCmd(n)).Scores()
}

// PopTopCmd takes out up to n members with the highest scores; the reply has these by
// turns.
func (h ZSet) PopTopCmd(n int) Cmd { return h.ask("ZPOPMAX", strconv.Itoa(max(n, 0))) }

// PopTop takes out up to n members with the highest scores, and returns them, the highest
// first.
func (h ZSet) PopTop(ctx context.Context, db Executor, n int) ([]Scored, error) {
	return db.Do(ctx, h.PopTopCmd(n)).Scores()
}

// KeepTopCmd takes out all but the n members with the highest scores; the reply is how
// many went.
func (h ZSet) KeepTopCmd(n int) Cmd {
	return h.ask("ZREMRANGEBYRANK", "0", strconv.Itoa(-max(n, 0)-1))
}

// KeepTop takes out all but the n members with the highest scores, and returns how many
// went.
func (h ZSet) KeepTop(ctx context.Context, db Executor, n int) (int64, error) {
	return db.Do(ctx, h.KeepTopCmd(n)).Int()
}

// RemoveByScoreCmd takes out the members with scores from least to most, both included;
// the reply is how many went.
func (h ZSet) RemoveByScoreCmd(least, most float64) Cmd {
	return h.ask("ZREMRANGEBYSCORE", scoreText(least), scoreText(most))
}

// RemoveByScore takes out the members with scores from least to most, both included, and
// returns how many went.
func (h ZSet) RemoveByScore(ctx context.Context, db Executor, least, most float64) (int64, error) {
	return db.Do(ctx, h.RemoveByScoreCmd(least, most)).Int()
}
