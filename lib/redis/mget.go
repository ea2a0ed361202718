package redis

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// MGet reads string keys of any slots, in one round trip to each owner, and returns one reply for each: nil for a
// missing key. If one server owns all keys, it is one MGET, and the keys need not share a hash tag.
func (db *DB) MGet(ctx context.Context, keys []keyspace.Key) []keyspace.Reply {
	if db.mode == "cluster" || len(keys) < 2 {
		cmds := make([]keyspace.Cmd, len(keys))
		for i, k := range keys {
			cmds[i] = keyspace.Cmd{Name: "GET", Key: k}
		}
		return db.DoMulti(ctx, cmds)
	}
	began := clock()
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = db.prefix + k.String()
	}
	reply := db.mget(ctx, names)
	if reply.Kind == keyspace.ErrorReply {
		db.stats.fault(reply.Err)
		return slices.Repeat([]keyspace.Reply{reply}, len(keys))
	}
	if len(reply.List) != len(keys) {
		return slices.Repeat([]keyspace.Reply{keyspace.Fail(keyspace.ErrReply)}, len(keys))
	}
	db.stats.lone.add(clock()-began, 1, 1)
	return reply.List
}

// mget sends one MGET.
func (db *DB) mget(ctx context.Context, names []string) keyspace.Reply {
	if db.via != nil {
		return db.send(ctx, db.via.Do, []Command{{Args: append([]string{"MGET"}, names...), Key: 1}})[0]
	}
	c, err := db.conn()
	if err != nil {
		return keyspace.Fail(err)
	}
	var r rueidis.RedisResult
	for try := 0; try == 0 || try < connectTries && unsent(ctx, r.NonRedisError()); try++ {
		r = c.Do(ctx, c.B().Arbitrary("MGET").Keys(names...).Build())
	}
	return db.reply(r)
}
