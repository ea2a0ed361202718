package accounts

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

// uses stores the last uses of sessions seen by this process. Recording one needs no I/O; a job writes new ones to
// Redis in one round trip, and to SQL.
type uses struct{ shards [useShards]useShard }

type useShard struct {
	mu   sync.Mutex
	seen map[sessionKey]*use
}

// A use has the last use of a session, and the last uses written to Redis and to SQL, in Unix
// milliseconds.
type use struct{ last, inRedis, inSQL int64 }

// A lastUse is a use to write.
type lastUse struct {
	key sessionKey
	at  int64
}

const (
	useShards = 16
	// shardUses bounds the memory to about 20 MB. Uses of further devices are not recorded until known devices have
	// been idle for a while.
	shardUses = 10_000

	// useStep is the precision of a last use.
	useStep = time.Minute
	// storeEvery is the shortest interval between writes of one session to SQL. SQL is at most two intervals behind,
	// because a node that has just begun to see a session does not know the time of the last write.
	storeEvery = 10 * time.Minute
	// forgetUses is the idle time after which this process forgets a session. Its last use is written by then.
	forgetUses = 2 * storeEvery

	// flushEvery bounds the uses that a crash loses.
	flushEvery = 5 * time.Second
	// redisFlushSize and sqlFlushSize bound one flush; the rest waits for the next one.
	redisFlushSize = 5_000
	sqlFlushSize   = 1_000
)

var useSeed = maphash.MakeSeed()

func (u *uses) shard(k sessionKey) *useShard {
	return &u.shards[maphash.String(useSeed, k.B.String())%useShards]
}

// record records that a session is in use.
func (u *uses) record(k sessionKey, now time.Time) {
	sh, at := u.shard(k), now.UnixMilli()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch known := sh.seen[k]; {
	case known != nil:
		if at-known.last >= useStep.Milliseconds() {
			known.last = at
		}
	case len(sh.seen) < shardUses:
		if sh.seen == nil {
			sh.seen = map[sessionKey]*use{}
		}
		sh.seen[k] = &use{last: at}
	}
}

// last returns the last recent use of the session in this process, or 0.
func (u *uses) last(k sessionKey) int64 {
	sh := u.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if known := sh.seen[k]; known != nil {
		return known.last
	}
	return 0
}

// due returns the uses to write to Redis and to SQL, and forgets idle sessions.
func (u *uses) due(now time.Time) (toRedis, toSQL []lastUse) {
	for i := range u.shards {
		sh := &u.shards[i]
		sh.mu.Lock()
		for k, known := range sh.seen {
			if now.UnixMilli()-known.last >= forgetUses.Milliseconds() {
				delete(sh.seen, k)
				continue
			}
			if known.last > known.inRedis && len(toRedis) < redisFlushSize {
				toRedis = append(toRedis, lastUse{k, known.last})
			}
			if known.last-known.inSQL >= storeEvery.Milliseconds() && len(toSQL) < sqlFlushSize {
				toSQL = append(toSQL, lastUse{k, known.last})
			}
		}
		sh.mu.Unlock()
	}
	return toRedis, toSQL
}

// done records which uses were written.
func (u *uses) done(batch []lastUse, field func(*use) *int64) {
	for _, b := range batch {
		sh := u.shard(b.key)
		sh.mu.Lock()
		if known := sh.seen[b.key]; known != nil {
			*field(known) = b.at
		}
		sh.mu.Unlock()
	}
}

func inRedis(u *use) *int64 { return &u.inRedis }
func inSQL(u *use) *int64   { return &u.inSQL }

// flushUses writes last uses to Redis and SQL. After an error the uses wait for the next flush.
func (s *Service) flushUses(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "accounts.flushUses")
	ctx, cancel := context.WithTimeout(ctx, flushEvery)
	defer cancel()
	toRedis, toSQL := s.uses.due(s.db.Now())
	if len(toRedis) > 0 {
		switch absent, err := s.redis.touchAll(ctx, toRedis); {
		case isUnavailable(err): // the watcher of the connection logs it once
		case err != nil:
			return err
		default:
			s.uses.done(toRedis, inRedis)
			if err := s.refill(ctx, absent); err != nil && !isUnavailable(err) {
				return asKind(err)
			}
		}
	}
	for part := range slices.Chunk(toSQL, sessionsPerStatement) {
		if err := updateUsed(ctx, s.db, part, s.db.Now().Add(-storeEvery)); err != nil {
			return asKind(err)
		}
		s.uses.done(part, inSQL)
	}
	return nil
}

// refill writes the facts of sessions that Redis has lost.
func (s *Service) refill(ctx context.Context, keys []sessionKey) error {
	for part := range slices.Chunk(keys, sessionsPerStatement) {
		found, err := selectFacts(ctx, s.db, part)
		if err != nil {
			return err
		}
		for k, f := range found {
			f.Used = later(f.Used, s.uses.last(k))
			found[k] = f
		}
		if err := s.redis.storeFacts(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// refreshLastUses sets the last use of each device to the latest value of SQL, Redis and this process, and refills
// Redis.
func (s *Service) refreshLastUses(ctx context.Context, user ID, list []Session) {
	used, err := s.redis.lastUses(ctx, user, list)
	absent := map[sessionKey]Session{}
	for i := range list {
		d, k := &list[i], sessionKey{A: user, B: list[i].Device}
		d.Used = later(d.Used, s.uses.last(k))
		if err == nil {
			if d.Used = later(d.Used, used[i]); used[i] == 0 {
				absent[k] = *d
			}
		}
	}
	if len(absent) > 0 {
		s.after(ctx, "refill facts of sessions", func(ctx context.Context) error { return s.redis.storeFacts(ctx, absent) })
	}
}

// later returns the later of a time and a time in Unix milliseconds.
func later(t time.Time, ms int64) time.Time {
	if ms > t.UnixMilli() {
		return time.UnixMilli(ms).UTC()
	}
	return t
}
