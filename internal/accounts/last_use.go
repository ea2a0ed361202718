package accounts

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

// uses are the last uses of sessions that this process has seen. Noting one costs a
// request no I/O; a job writes all that are new to Redis in one round trip, and to SQL.
type uses struct{ shards [useShards]useShard }

type useShard struct {
	mu   sync.Mutex
	seen map[sessionKey]*use
}

// A use is when a session was last used here, and the last uses that were written to
// Redis (told) and to SQL (stored); Unix milliseconds.
type use struct{ last, told, stored int64 }

// A lastUse is what is written.
type lastUse struct {
	key sessionKey
	at  int64
}

const (
	useShards = 16
	// shardUses bounds the memory, some 20 MB. Uses of further devices are not noted
	// until some of the known ones have been idle for a while.
	shardUses = 10_000

	// useStep is how exact a last use is.
	useStep = time.Minute
	// storeEvery is how often at most a session's use is written to SQL, which is
	// never more than twice that behind: a node that has just begun to see a session
	// does not know when SQL was written last.
	storeEvery = 10 * time.Minute
	// forgetUses is when an idle session is forgotten here. By then it was written.
	forgetUses = 2 * storeEvery

	// flushEvery is what a crash loses.
	flushEvery = 5 * time.Second
	// tellAtOnce and storeAtOnce bound one flush; the rest waits for the next one.
	tellAtOnce  = 5_000
	storeAtOnce = 1_000
)

var useSeed = maphash.MakeSeed()

func (u *uses) shard(k sessionKey) *useShard {
	return &u.shards[maphash.String(useSeed, k.B.String())%useShards]
}

// note says that a session is in use.
func (u *uses) note(k sessionKey, now time.Time) {
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

// last is when the session was last used here; 0: not lately.
func (u *uses) last(k sessionKey) int64 {
	sh := u.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if known := sh.seen[k]; known != nil {
		return known.last
	}
	return 0
}

// due returns what is to be written to Redis and to SQL, and forgets idle sessions.
func (u *uses) due(now time.Time) (tell, store []lastUse) {
	for i := range u.shards {
		sh := &u.shards[i]
		sh.mu.Lock()
		for k, known := range sh.seen {
			if now.UnixMilli()-known.last >= forgetUses.Milliseconds() {
				delete(sh.seen, k)
				continue
			}
			if known.last > known.told && len(tell) < tellAtOnce {
				tell = append(tell, lastUse{k, known.last})
			}
			if known.last-known.stored >= storeEvery.Milliseconds() && len(store) < storeAtOnce {
				store = append(store, lastUse{k, known.last})
			}
		}
		sh.mu.Unlock()
	}
	return tell, store
}

// done notes what was written.
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

func told(u *use) *int64   { return &u.told }
func stored(u *use) *int64 { return &u.stored }

// flushUses writes last uses to Redis and SQL. What they do not take waits for the
// next flush.
func (s *Service) flushUses(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "accounts.flushUses")
	ctx, cancel := context.WithTimeout(ctx, flushEvery)
	defer cancel()
	tell, store := s.uses.due(s.db.Now())
	if len(tell) > 0 {
		switch absent, err := s.redis.touchAll(ctx, tell); {
		case away(err): // the connection's watcher logs it once
		case err != nil:
			return err
		default:
			s.uses.done(tell, told)
			if err := s.refill(ctx, absent); err != nil && !away(err) {
				return asKind(err)
			}
		}
	}
	for part := range slices.Chunk(store, someSessions) {
		if err := updateUsed(ctx, s.db, part, s.db.Now().Add(-storeEvery)); err != nil {
			return asKind(err)
		}
		s.uses.done(part, stored)
	}
	return nil
}

// refill gives Redis the facts of sessions that it has lost.
func (s *Service) refill(ctx context.Context, keys []sessionKey) error {
	for part := range slices.Chunk(keys, someSessions) {
		found, err := selectFacts(ctx, s.db, part)
		if err != nil {
			return err
		}
		for k, f := range found {
			f.Used = later(f.Used, s.uses.last(k))
			found[k] = f
		}
		if err := s.redis.keepFacts(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// refreshLastUses sets each device's last use to the latest that SQL, Redis and this process
// know, and gives Redis what it has lost.
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
		s.after(ctx, "refill facts of sessions", func(ctx context.Context) error { return s.redis.keepFacts(ctx, absent) })
	}
}

// later is the later of a time and another in Unix milliseconds.
func later(t time.Time, ms int64) time.Time {
	if ms > t.UnixMilli() {
		return time.UnixMilli(ms).UTC()
	}
	return t
}
