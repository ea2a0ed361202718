package transfers

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

//go:embed lua/progress.lua
var progressSource string

var progressScript = redis.NewScript(progressSource)

// redisTime bounds each wait for Redis, which only makes responses more recent.
const redisTime = 250 * time.Millisecond

// redisStore has the Redis data of this package, all derived from SQL.
type redisStore struct {
	db    *redis.DB
	ahead int64 // the largest number of bytes of an upload beyond its commits
}

// storeProgress stores the progress of a transfer in Redis.
func (s redisStore) storeProgress(ctx context.Context, t *Transfer, p progress) error {
	ctx, cancel := context.WithTimeout(ctx, redisTime)
	defer cancel()
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	return progressScript.Run(ctx, s.db, []keyspace.Key{progressKeys.At(t.ID).Key}, text(progressLife.Milliseconds()),
		strconv.Itoa(int(t.Status)), text(t.Stored), text(p.received), strconv.Itoa(p.percent), text(p.chunk), text(p.chunks)).Err
}

// received returns the number of received bytes of a transfer: from Redis if that has more than SQL, otherwise from
// SQL.
func (s redisStore) received(ctx context.Context, t *Transfer) int64 {
	if t.Status != Transferring {
		return t.Stored
	}
	ctx, cancel := context.WithTimeout(ctx, redisTime)
	defer cancel()
	all, err := progressKeys.At(t.ID).All(ctx, s.db)
	if err != nil {
		return t.Stored
	}
	n, err := strconv.ParseInt(all["received"], 10, 64)
	if err != nil || n > t.Stored+s.ahead {
		return t.Stored
	}
	return max(n, t.Stored)
}

// forget deletes a transfer's data in Redis.
func (s redisStore) forget(ctx context.Context, id ID) error {
	ctx, cancel := context.WithTimeout(ctx, redisTime)
	defer cancel()
	return s.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: progressKeys.At(id).Key}).Err
}
