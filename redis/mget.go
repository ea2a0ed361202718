package redis

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/keyspace"
)

// MGet reads string keys, wherever they live, in one round trip to each owner,
// and returns one reply for each: nil where there is none. Where one server owns
// all keys it is one MGET, and the keys need not share a hash tag.
func (db *DB) MGet(ctx context.Context, keys []keyspace.Key) []keyspace.Reply {
	if db.mode == "cluster" || len(keys) < 2 {
		cmds := make([]keyspace.Cmd, len(keys))
		for i, k := range keys {
			cmds[i] = keyspace.Cmd{Name: "GET", Key: k}
		}
		return db.DoMulti(ctx, cmds)
	}
	began := clock()
	all := func(r keyspace.Reply) []keyspace.Reply { return slices.Repeat([]keyspace.Reply{r}, len(keys)) }
	c, err := db.conn()
	if err != nil {
		return all(keyspace.Fail(err))
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = db.prefix + k.String()
	}
	var r rueidis.RedisResult
	for try := 0; try == 0 || try < connectTries && unsent(ctx, r.NonRedisError()); try++ {
		r = c.Do(ctx, c.B().Arbitrary("MGET").Keys(names...).Build())
	}
	reply := db.reply(r)
	if reply.Kind == keyspace.ErrorReply {
		db.stats.fault(reply.Err)
		return all(reply)
	}
	if len(reply.List) != len(keys) {
		return all(keyspace.Fail(keyspace.ErrReply))
	}
	db.stats.lone.add(clock()-began, 1, 1)
	return reply.List
}
