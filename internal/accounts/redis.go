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

// redisStore stores the facts of sessions in Redis.
type redisStore struct {
	db     *redis.DB
	budget time.Duration
}

// readBudget bounds the wait for Redis before SQL is used instead.
const readBudget = 100 * time.Millisecond

// The fields of userSessionKeys.
const (
	factName, factAgent, factIP = "device", "agent", "ip"
	factLogin, factUsed         = "login", "used" // Unix milliseconds
)

// factsOf returns the fields of a session and their values, except its last use.
func factsOf(s Session) []string {
	return []string{factName, s.Name, factAgent, s.Agent, factIP, s.IP, factLogin, strconv.FormatInt(s.Created.UnixMilli(), 10)}
}

// touch returns a call of lua/touch.lua, with or without facts.
func touch(k sessionKey, used int64, facts ...string) redis.Call {
	key := userSessionKeys.At(k.A, k.B).Key
	args := []string{strconv.FormatInt(used, 10), keyspace.Millis(userSessionKeys.TTL.Base)}
	return redis.Call{Script: touchScript, Keys: []keyspace.Key{key}, Args: append(args, facts...)}
}

// storeFacts stores facts of sessions. It keeps a later recorded use.
func (s *redisStore) storeFacts(ctx context.Context, all map[sessionKey]Session) error {
	calls := make([]redis.Call, 0, len(all))
	for k, session := range all {
		calls = append(calls, touch(k, session.Used.UnixMilli(), factsOf(session)...))
	}
	return keyspace.FirstErr(s.db.RunMulti(ctx, calls))
}

// touchAll stores last uses in one round trip and returns the sessions without facts in Redis.
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

// lastUses returns the last uses of a user's devices in Redis, in Unix milliseconds; 0 for a device without facts in
// Redis.
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
			used[i], _ = strconv.ParseInt(text, 10, 64) // an invalid number is overwritten
		}
	}
	return used, nil
}

// forgetFacts deletes the facts of ended sessions.
func (s *redisStore) forgetFacts(ctx context.Context, user ID, devices []DeviceID) error {
	cmds := make([]keyspace.Cmd, len(devices))
	for i, d := range devices {
		cmds[i] = keyspace.Cmd{Name: "UNLINK", Key: userSessionKeys.At(user, d).Key}
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, cmds))
}

// isUnavailable reports whether an error only means that Redis is unavailable.
func isUnavailable(err error) bool {
	return errors.Is(err, redis.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}
