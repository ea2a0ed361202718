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

// redisTime is how long anything waits for Redis, which only makes answers newer.
const redisTime = 250 * time.Millisecond

// redisStore is what Redis has of this domain, all of it derived from SQL.
type redisStore struct {
	db    *redis.DB
	ahead int64 // bytes by which an upload is ahead of its commits at most
}

// note has Redis know how far a transfer has come.
func (s redisStore) note(ctx context.Context, t *Transfer, p progress) error {
	ctx, cancel := context.WithTimeout(ctx, redisTime)
	defer cancel()
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	return progressScript.Run(ctx, s.db, []keyspace.Key{progressKeys.At(t.ID).Key}, text(progressLife.Milliseconds()),
		strconv.Itoa(int(t.Status)), text(t.Stored), text(p.received), strconv.Itoa(p.percent), text(p.chunk), text(p.chunks)).Err
}

// received returns how many bytes of a transfer have come, as far as Redis knows of more
// than SQL.
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

// forget removes what Redis has of a transfer.
func (s redisStore) forget(ctx context.Context, id ID) error {
	ctx, cancel := context.WithTimeout(ctx, redisTime)
	defer cancel()
	return s.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: progressKeys.At(id).Key}).Err
}
