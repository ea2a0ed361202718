package accounts

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

//go:embed lua/touch.lua
var touchLua string

var touchScript = redis.NewScript(touchLua)

// redisStore is what Redis holds for this domain beside its caches and its counters: facts of
// sessions.
type redisStore struct {
	db     *redis.DB
	budget time.Duration
}

// readBudget is how long a caller waits for Redis before SQL stands in.
const readBudget = 100 * time.Millisecond

// The fields of userSessionKeys.
const (
	factName, factAgent, factIP = "device", "agent", "ip"
	factLogin, factUsed         = "login", "used" // Unix milliseconds
)

// factsOf returns a session's fields and their values, but for its last use.
func factsOf(s Session) []string {
	return []string{factName, s.Name, factAgent, s.Agent, factIP, s.IP, factLogin, strconv.FormatInt(s.Created.UnixMilli(), 10)}
}

// touch is one run of lua/touch.lua, with the facts or without.
func touch(k sessionKey, used int64, facts ...string) redis.Call {
	key := userSessionKeys.At(k.A, k.B).Key
	args := []string{strconv.FormatInt(used, 10), strconv.FormatInt(userSessionKeys.TTL.Base.Milliseconds(), 10)}
	return redis.Call{Script: touchScript, Keys: []keyspace.Key{key}, Args: append(args, facts...)}
}

// keepFacts writes what is known of sessions; a later use that is noted stays.
func (s *redisStore) keepFacts(ctx context.Context, all map[sessionKey]Session) error {
	calls := make([]redis.Call, 0, len(all))
	for k, session := range all {
		calls = append(calls, touch(k, session.Used.UnixMilli(), factsOf(session)...))
	}
	return keyspace.FirstErr(s.db.RunMulti(ctx, calls))
}

// touchAll notes last uses in one round trip and returns the sessions of which
// Redis has no facts.
func (s *redisStore) touchAll(ctx context.Context, batch []lastUse) (absent []sessionKey, err error) {
	calls := make([]redis.Call, len(batch))
	for i, u := range batch {
		calls[i] = touch(u.key, u.at)
	}
	replies := s.db.RunMulti(ctx, calls)
	for i, r := range replies {
		if n, err := r.Int(); err != nil {
			return nil, err
		} else if n == 0 {
			absent = append(absent, batch[i].key)
		}
	}
	return absent, nil
}

// lastUses returns when a user's devices were last used as far as Redis knows, in
// Unix milliseconds; 0 for a device that Redis has no facts of.
func (s *redisStore) lastUses(ctx context.Context, user ID, devices []Session) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	cmds := make([]keyspace.Cmd, len(devices))
	for i, d := range devices {
		cmds[i] = keyspace.Cmd{Name: "HGET", Key: userSessionKeys.At(user, d.Device).Key, Args: []string{factUsed}}
	}
	used := make([]int64, len(devices))
	for i, r := range s.db.DoMulti(ctx, cmds) {
		text, found, err := r.Text()
		if err != nil {
			return nil, err
		}
		if found {
			used[i], _ = strconv.ParseInt(text, 10, 64) // what is no number is written anew
		}
	}
	return used, nil
}

// forgetFacts is for sessions that have ended.
func (s *redisStore) forgetFacts(ctx context.Context, user ID, devices []DeviceID) error {
	cmds := make([]keyspace.Cmd, len(devices))
	for i, d := range devices {
		cmds[i] = keyspace.Cmd{Name: "UNLINK", Key: userSessionKeys.At(user, d).Key}
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, cmds))
}

// away reports that an error means no more than that Redis is away.
func away(err error) bool {
	return errors.Is(err, redis.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}
