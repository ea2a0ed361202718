package keyspace

import (
	"context"
	"math"
	"strconv"
)

// SetCmd adds a member or sets its score; the reply is 1 if the member is new. A score is exact up to 2⁵³.
func (h ZSet) SetCmd(member string, score float64) Cmd {
	return h.write("ZADD", scoreText(score), member)
}

// Set adds a member or sets its score, and reports whether the member is new. A score is exact up to 2⁵³.
func (h ZSet) Set(ctx context.Context, db Executor, member string, score float64) (bool, error) {
	return db.Do(ctx, h.SetCmd(member, score)).Bool()
}

// SetSomeCmd is SetCmd for one or more members; the reply is the number of new members.
func (h ZSet) SetSomeCmd(members ...Scored) Cmd { return h.write("ZADD", scoreArgs(nil, members)...) }

// SetSome is Set for one or more members; it returns the number of new members.
func (h ZSet) SetSome(ctx context.Context, db Executor, members ...Scored) (int64, error) {
	return db.Do(ctx, h.SetSomeCmd(members...)).Int()
}

func scoreArgs(args []string, members []Scored) []string {
	for _, m := range members {
		args = append(args, scoreText(m.Score), m.Member)
	}
	return args
}

// RaiseCmd is SetCmd, but does not lower a score; the reply is 1 if the member is new or its score was raised.
func (h ZSet) RaiseCmd(member string, score float64) Cmd {
	return h.write("ZADD", "GT", "CH", scoreText(score), member)
}

// Raise is Set, but does not lower a score: for example for a personal best. It reports whether the member is new or
// its score was raised. It needs Redis 6.2.
func (h ZSet) Raise(ctx context.Context, db Executor, member string, score float64) (bool, error) {
	return db.Do(ctx, h.RaiseCmd(member, score)).Bool()
}

// AddCmd adds to a member's score; the reply is the new score. A missing member has the score 0.
func (h ZSet) AddCmd(member string, by float64) Cmd {
	return h.write("ZINCRBY", scoreText(by), member)
}

// Add adds to a member's score and returns the new score. A missing member has the score 0.
func (h ZSet) Add(ctx context.Context, db Executor, member string, by float64) (float64, error) {
	score, _, err := db.Do(ctx, h.AddCmd(member, by)).Float()
	return score, err
}

// scoreText formats a score. Infinite scores are also used as the ends of a range.
func scoreText(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "+inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return floatText(score)
}

// ScoreCmd gets a member's score; the reply is nil if the member does not exist.
func (h ZSet) ScoreCmd(member string) Cmd { return h.plainCmd("ZSCORE", member) }

// Score returns a member's score; ok is false if the member does not exist.
func (h ZSet) Score(ctx context.Context, db Executor, member string) (score float64, ok bool, err error) {
	return db.Do(ctx, h.ScoreCmd(member)).Float()
}

// RemoveCmd removes members; the reply is the number of removed members.
func (h ZSet) RemoveCmd(members ...string) Cmd { return h.plainCmd("ZREM", members...) }

// Remove removes members and returns the number of removed members.
func (h ZSet) Remove(ctx context.Context, db Executor, members ...string) (int64, error) {
	return db.Do(ctx, h.RemoveCmd(members...)).Int()
}

// TopCmd gets the n members with the highest scores, alternating with their scores.
func (h ZSet) TopCmd(n int) Cmd { return h.RangeTopCmd(0, n) }

// Top returns the n members with the highest scores, the highest first.
func (h ZSet) Top(ctx context.Context, db Executor, n int) ([]Scored, error) {
	return db.Do(ctx, h.TopCmd(n)).Scores()
}

// RangeTopCmd gets n members from an index on, alternating with their scores; index 0 has the highest score.
func (h ZSet) RangeTopCmd(from, n int) Cmd { return h.rangeCmd("ZREVRANGE", from, n) }

// RangeTop returns n members from an index on; index 0 has the highest score.
func (h ZSet) RangeTop(ctx context.Context, db Executor, from, n int) ([]Scored, error) {
	return db.Do(ctx, h.RangeTopCmd(from, n)).Scores()
}

// RangeCmd gets n members from an index on, alternating with their scores; index 0 has the lowest score.
func (h ZSet) RangeCmd(from, n int) Cmd { return h.rangeCmd("ZRANGE", from, n) }

// Range returns n members from an index on; index 0 has the lowest score.
func (h ZSet) Range(ctx context.Context, db Executor, from, n int) ([]Scored, error) {
	return db.Do(ctx, h.RangeCmd(from, n)).Scores()
}

func (h ZSet) rangeCmd(name string, from, n int) Cmd {
	if n <= 0 || from < 0 {
		return h.plainCmd(name, "1", "0", "WITHSCORES") // an empty range; negative indexes would count from the end
	}
	return h.plainCmd(name, strconv.Itoa(from), strconv.Itoa(from+n-1), "WITHSCORES")
}

// ByScoreCmd gets up to n members with scores from least to most, both included, the lowest first, alternating with
// their scores. An infinite end means no bound.
func (h ZSet) ByScoreCmd(least, most float64, n int) Cmd {
	return h.plainCmd("ZRANGEBYSCORE", scoreText(least), scoreText(most), "WITHSCORES", "LIMIT", "0", strconv.Itoa(max(n, 0)))
}

// ByScore returns up to n members with scores from least to most, both included, the lowest first. An infinite end
// means no bound.
func (h ZSet) ByScore(ctx context.Context, db Executor, least, most float64, n int) ([]Scored, error) {
	return db.Do(ctx, h.ByScoreCmd(least, most, n)).Scores()
}

// CountCmd gets the number of members with scores from least to most, both included.
func (h ZSet) CountCmd(least, most float64) Cmd {
	return h.plainCmd("ZCOUNT", scoreText(least), scoreText(most))
}

// Count returns the number of members with scores from least to most, both included.
func (h ZSet) Count(ctx context.Context, db Executor, least, most float64) (int64, error) {
	return db.Do(ctx, h.CountCmd(least, most)).Int()
}

// RankCmd gets a member's rank, 0 for the lowest score; the reply is nil if the member does not exist.
func (h ZSet) RankCmd(member string) Cmd { return h.plainCmd("ZRANK", member) }

// Rank returns a member's rank, 0 for the lowest score; ok is false if the member does not exist.
func (h ZSet) Rank(ctx context.Context, db Executor, member string) (rank int64, ok bool, err error) {
	return db.Do(ctx, h.RankCmd(member)).optionalInt()
}

// RankTopCmd gets a member's rank, 0 for the highest score; the reply is nil if the member does not exist.
func (h ZSet) RankTopCmd(member string) Cmd { return h.plainCmd("ZREVRANK", member) }

// RankTop returns a member's rank, 0 for the highest score; ok is false if the member does not exist.
func (h ZSet) RankTop(ctx context.Context, db Executor, member string) (rank int64, ok bool, err error) {
	return db.Do(ctx, h.RankTopCmd(member)).optionalInt()
}

// LenCmd gets the number of members.
func (h ZSet) LenCmd() Cmd { return h.plainCmd("ZCARD") }

// Len returns the number of members.
func (h ZSet) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}

// PopCmd removes and returns up to n members with the lowest scores, alternating with their scores.
func (h ZSet) PopCmd(n int) Cmd { return h.plainCmd("ZPOPMIN", strconv.Itoa(max(n, 0))) }

// Pop removes and returns up to n members with the lowest scores, the lowest first. If scores are times, these are the
// members that are due first.
func (h ZSet) Pop(ctx context.Context, db Executor, n int) ([]Scored, error) {
	return db.Do(ctx, h.PopCmd(n)).Scores()
}

// PopTopCmd removes and returns up to n members with the highest scores, alternating with their scores.
func (h ZSet) PopTopCmd(n int) Cmd { return h.plainCmd("ZPOPMAX", strconv.Itoa(max(n, 0))) }

// PopTop removes and returns up to n members with the highest scores, the highest first.
func (h ZSet) PopTop(ctx context.Context, db Executor, n int) ([]Scored, error) {
	return db.Do(ctx, h.PopTopCmd(n)).Scores()
}

// KeepTopCmd removes all members except the n with the highest scores; the reply is the number of removed members.
func (h ZSet) KeepTopCmd(n int) Cmd {
	return h.plainCmd("ZREMRANGEBYRANK", "0", strconv.Itoa(-max(n, 0)-1))
}

// KeepTop removes all members except the n with the highest scores, and returns the number of removed members.
func (h ZSet) KeepTop(ctx context.Context, db Executor, n int) (int64, error) {
	return db.Do(ctx, h.KeepTopCmd(n)).Int()
}

// RemoveByScoreCmd removes the members with scores from least to most, both included; the reply is their number.
func (h ZSet) RemoveByScoreCmd(least, most float64) Cmd {
	return h.plainCmd("ZREMRANGEBYSCORE", scoreText(least), scoreText(most))
}

// RemoveByScore removes the members with scores from least to most, both included, and returns their number.
func (h ZSet) RemoveByScore(ctx context.Context, db Executor, least, most float64) (int64, error) {
	return db.Do(ctx, h.RemoveByScoreCmd(least, most)).Int()
}
