package accounts

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/household"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
)

//go:embed lua/touch.lua
var touchLua string

//go:embed lua/try.lua
var tryLua string

//go:embed lua/untry.lua
var untryLua string

var (
	touchScript = redis.NewScript(touchLua)
	tryScript   = redis.NewScript(tryLua)
	untryScript = redis.NewScript(untryLua)
)

// redisStore is what Redis holds for this domain beside its caches: facts of sessions and
// counters.
type redisStore struct {
	db      *redis.DB
	limiter *ratelimit.Limiter
	local   attempts // stands in for the count of log-ins
	budget  time.Duration
}

// readBudget is how long a caller waits for Redis before SQL or this process
// stands in.
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

// mayTry counts one try by each of meters in one round trip, or by none if one of them
// refuses, and reports what is left of the lock then. While Redis is away this process
// counts.
func (s *redisStore) mayTry(ctx context.Context, meters []meter, now time.Time) (allowed bool, left time.Duration, err error) {
	answers, err := s.try(ctx, meters)
	if away(err) && ctx.Err() == nil {
		answers, err = answers[:0], nil
		for _, m := range meters {
			ok, left := s.local.take(m.key.String(), m.cap, m.life, now)
			answers = append(answers, tried{ok, left})
		}
	}
	if err != nil {
		return false, 0, err
	}
	var counted []meter
	allowed = true
	for i, a := range answers {
		if a.allowed {
			counted = append(counted, meters[i])
			continue
		}
		allowed, left = false, max(left, a.left)
	}
	if allowed {
		return true, 0, nil
	}
	if err := s.untry(ctx, counted); !away(err) {
		return false, left, err
	}
	return false, left, nil
}

// tried is the answer of lua/try.lua.
type tried struct {
	allowed bool
	left    time.Duration // until the count is forgotten
}

// try runs lua/try.lua for each of meters.
func (s *redisStore) try(ctx context.Context, meters []meter) ([]tried, error) {
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	calls := make([]redis.Call, len(meters))
	for i, m := range meters {
		calls[i] = redis.Call{Script: tryScript, Keys: []keyspace.Key{m.key}, Args: []string{strconv.Itoa(m.cap), strconv.FormatInt(m.life.Milliseconds(), 10)}}
	}
	answers := make([]tried, len(meters))
	for i, r := range s.db.RunMulti(ctx, calls) {
		answer, err := r.Items()
		if err == nil && len(answer) != 2 {
			err = keyspace.ErrReply
		}
		if err != nil {
			return nil, err
		}
		answers[i] = tried{answer[0].N == 1, time.Duration(answer[1].N) * time.Millisecond}
	}
	return answers, nil
}

// untry takes a counted try back, in Redis and in this process.
func (s *redisStore) untry(ctx context.Context, meters []meter) error {
	if len(meters) == 0 {
		return nil
	}
	calls := make([]redis.Call, len(meters))
	for i, m := range meters {
		s.local.giveBack(m.key.String())
		calls[i] = redis.Call{Script: untryScript, Keys: []keyspace.Key{m.key}}
	}
	return keyspace.FirstErr(s.db.RunMulti(ctx, calls))
}

// forgetMeters forgets all tries.
func (s *redisStore) forgetMeters(ctx context.Context, meters []meter) error {
	cmds := make([]keyspace.Cmd, len(meters))
	for i, m := range meters {
		s.local.forget(m.key.String())
		cmds[i] = keyspace.Cmd{Name: "UNLINK", Key: m.key}
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, cmds))
}

// codeMeter counts the tries of a code from one household.
func codeMeter(p proof, household string, life time.Duration) meter {
	return meter{codeTriesKeys.At(p.segment(household), p.purpose).Key, codeTries, life}
}

// mayTryCode counts a try of a code and reports whether it is worth asking SQL,
// which counts for itself: while Redis is away, it always is.
func (s *redisStore) mayTryCode(ctx context.Context, m meter) bool {
	answers, err := s.try(ctx, []meter{m})
	return err != nil || answers[0].allowed
}

// mayMail counts a code against the limits on sending: to one address for one purpose, and
// for each household that the account knows apart from all others; asked for from one
// household, and from its network; and mailed by the whole server.
func (s *redisStore) mayMail(ctx context.Context, p proof, from string, known bool, l Limits) (ratelimit.Result, error) {
	quota := p.email.Key + " " + strconv.Itoa(int(p.purpose))
	if known {
		quota += " " + from
	}
	asks := []ratelimit.Ask{
		{Key: codeMinuteKeys.At(keyspace.Hashed{S: quota}), Limit: ratelimit.Limit{Max: l.CodesPerMinute, Window: time.Minute}},
		{Key: codeDayKeys.At(keyspace.Hashed{S: quota}), Limit: ratelimit.Limit{Max: l.CodesPerDay, Window: 24 * time.Hour}},
		{Key: codeHourKeys.At(keyspace.Hashed{S: from}), Limit: ratelimit.Limit{Max: l.CodesPerIP, Window: time.Hour}},
		{Key: codesKey.At(), Limit: ratelimit.Limit{Max: l.Codes, Window: time.Hour}},
	}
	if network := household.Network(from); network != "" {
		asks = append(asks, ratelimit.Ask{Key: codeHourKeys.At(keyspace.Hashed{S: network}), Limit: ratelimit.Limit{Max: l.share(l.Codes), Window: time.Hour}})
	}
	return s.limiter.AllowAll(ctx, asks)
}

// away reports that an error means no more than that Redis is away.
func away(err error) bool {
	return errors.Is(err, redis.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}
