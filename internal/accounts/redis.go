package accounts

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/ratelimit"
	"github.com/stoa-dev/stoa/redis"
)

//go:embed lua/touch.lua
var touchLua string

//go:embed lua/try.lua
var tryLua string

var (
	touchScript = redis.NewScript(touchLua)
	tryScript   = redis.NewScript(tryLua)
)

// fast is what Redis holds for this domain beside its caches: facts of sessions and
// counters.
type fast struct {
	db      *redis.DB
	limiter *ratelimit.Limiter
	local   attempts // stands in for the count of log-ins
	budget  time.Duration
}

// readBudget is how long a caller waits for Redis before SQL or this process
// stands in.
const readBudget = 100 * time.Millisecond

// The fields of userSessionKey.
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
	key := userSessionKey.At(k.A, k.B).Key
	args := []string{strconv.FormatInt(used, 10), strconv.FormatInt(userSessionKey.TTL.Base.Milliseconds(), 10)}
	return redis.Call{Script: touchScript, Keys: []keyspace.Key{key}, Args: append(args, facts...)}
}

// keepFacts writes what is known of sessions; a later use that is noted stays.
func (f *fast) keepFacts(ctx context.Context, all map[sessionKey]Session) error {
	calls := make([]redis.Call, 0, len(all))
	for k, s := range all {
		calls = append(calls, touch(k, s.Used.UnixMilli(), factsOf(s)...))
	}
	return keyspace.FirstErr(f.db.RunMulti(ctx, calls))
}

// touchAll notes last uses in one round trip and returns the sessions of which
// Redis has no facts.
func (f *fast) touchAll(ctx context.Context, batch []lastUse) (absent []sessionKey, err error) {
	calls := make([]redis.Call, len(batch))
	for i, u := range batch {
		calls[i] = touch(u.key, u.at)
	}
	replies := f.db.RunMulti(ctx, calls)
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
func (f *fast) lastUses(ctx context.Context, user ID, devices []Session) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	cmds := make([]keyspace.Cmd, len(devices))
	for i, d := range devices {
		cmds[i] = keyspace.Cmd{Name: "HGET", Key: userSessionKey.At(user, d.Device).Key, Args: []string{factUsed}}
	}
	used := make([]int64, len(devices))
	for i, r := range f.db.DoMulti(ctx, cmds) {
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
func (f *fast) forgetFacts(ctx context.Context, user ID, devices []DeviceID) error {
	cmds := make([]keyspace.Cmd, len(devices))
	for i, d := range devices {
		cmds[i] = keyspace.Cmd{Name: "UNLINK", Key: userSessionKey.At(user, d).Key}
	}
	return keyspace.FirstErr(f.db.DoMulti(ctx, cmds))
}

// try runs lua/try.lua.
func (f *fast) try(ctx context.Context, key keyspace.Key, max int, life time.Duration) (allowed bool, left time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	answer, err := tryScript.Run(ctx, f.db, []keyspace.Key{key}, strconv.Itoa(max), strconv.FormatInt(life.Milliseconds(), 10)).Items()
	if err != nil {
		return false, 0, err
	}
	if len(answer) != 2 {
		return false, 0, keyspace.ErrReply
	}
	return answer[0].N == 1, time.Duration(answer[1].N) * time.Millisecond, nil
}

func (f *fast) drop(ctx context.Context, key keyspace.Key) error {
	return f.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: key}).Err
}

// mayTry counts a try of a code and reports whether it is worth asking SQL,
// which counts for itself: while Redis is away, it always is.
func (f *fast) mayTry(ctx context.Context, p proof, life time.Duration) bool {
	allowed, _, err := f.try(ctx, codeTriesKey.At(p.segment(), p.purpose).Key, codeTries, life)
	return allowed || err != nil
}

// forgetTries is for a code that was replaced.
func (f *fast) forgetTries(ctx context.Context, p proof) error {
	return f.drop(ctx, codeTriesKey.At(p.segment(), p.purpose).Key)
}

// mayLogin counts a try of a password or of a code to log in before it is known
// to be wrong. Once refused, the address is locked for what is left. While Redis
// is away this process counts.
func (f *fast) mayLogin(ctx context.Context, e Email, l Limits, now time.Time) (allowed bool, left time.Duration, err error) {
	allowed, left, err = f.try(ctx, loginFailKey.At(keyspace.Hashed{S: e.Key}).Key, l.LoginFails, l.LoginLock)
	if away(err) && ctx.Err() == nil {
		allowed, left = f.local.take(e.Key, l.LoginFails, l.LoginLock, now)
		return allowed, left, nil
	}
	return allowed, left, err
}

// forgetFails is for a try that was right.
func (f *fast) forgetFails(ctx context.Context, e Email) error {
	f.local.forget(e.Key)
	return f.drop(ctx, loginFailKey.At(keyspace.Hashed{S: e.Key}).Key)
}

// mayMail counts a code against the three limits on sending.
func (f *fast) mayMail(ctx context.Context, e Email, ip string, l Limits) (ratelimit.Result, error) {
	email := keyspace.Hashed{S: e.Key}
	return f.limiter.AllowAll(ctx, []ratelimit.Ask{
		{Key: codeMinuteKey.At(email), Limit: ratelimit.Limit{Max: l.CodesPerMinute, Window: time.Minute}},
		{Key: codeDayKey.At(email), Limit: ratelimit.Limit{Max: l.CodesPerDay, Window: 24 * time.Hour}},
		{Key: codeHourKey.At(keyspace.Hashed{S: ip}), Limit: ratelimit.Limit{Max: l.CodesPerIP, Window: time.Hour}},
	})
}

// away reports that an error means no more than that Redis is away.
func away(err error) bool {
	return errors.Is(err, redis.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}
