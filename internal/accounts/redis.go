package accounts

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/ratelimit"
	"github.com/stoa-dev/stoa/redis"
)

//go:embed lua/put.lua
var putLua string

//go:embed lua/try.lua
var tryLua string

var (
	putScript = redis.NewScript(putLua)
	tryScript = redis.NewScript(tryLua)
)

// fast is what Redis holds for this domain: copies of sessions and counters.
type fast struct {
	db      *redis.DB
	limiter *ratelimit.Limiter
	local   attempts // stands in for the count of log-ins
	budget  time.Duration
}

// A sessionCopy is what a check needs of a session.
type sessionCopy struct {
	user    ID
	device  DeviceID
	rev     int64
	hash    string // of the access token
	expires int64  // Unix milliseconds
	clock   civil.Clock
}

// revoked is the revision of a tombstone: newer than any a session can have,
// and as large as Lua's numbers hold exactly.
const revoked = 1<<53 - 1

// tombstoneLife outlives the slowest read of a session that may still be on its
// way to Redis: [loadBudget], and the client's own time-outs many times over.
const tombstoneLife = 10 * time.Minute

// grave returns the tombstone of a session.
func grave(user ID, device DeviceID) sessionCopy {
	return sessionCopy{user: user, device: device, rev: revoked}
}

// encode returns "rev expires hash zone next from", or the revision alone of a
// tombstone. No zone has a space in its name; "-" stands for no name.
func (c sessionCopy) encode() string {
	b := strconv.AppendInt(make([]byte, 0, 128), c.rev, 10)
	if c.rev == revoked {
		return string(b)
	}
	b = strconv.AppendInt(append(b, ' '), c.expires, 10)
	for _, s := range [...]string{c.hash, c.clock.Zone, c.clock.Next} {
		if s == "" {
			s = "-"
		}
		b = append(append(b, ' '), s...)
	}
	return string(strconv.AppendInt(append(b, ' '), c.clock.From, 10))
}

// decode reports false for a text that this version did not write.
func (c *sessionCopy) decode(s string) bool {
	var fields [6]string
	n := 0
	for f := range strings.SplitSeq(s, " ") {
		if n == len(fields) {
			return false
		}
		fields[n], n = f, n+1
	}
	var errs [3]error
	c.rev, errs[0] = strconv.ParseInt(fields[0], 10, 64)
	if n == 1 {
		return errs[0] == nil && c.rev == revoked
	}
	c.expires, errs[1] = strconv.ParseInt(fields[1], 10, 64)
	c.clock.From, errs[2] = strconv.ParseInt(fields[5], 10, 64)
	c.hash, c.clock.Zone, c.clock.Next = fields[2], unDash(fields[3]), unDash(fields[4])
	return n == len(fields) && errs == [3]error{}
}

// checkCopy is decode for an audit.
func checkCopy(v []byte) error {
	if !new(sessionCopy).decode(string(v)) {
		return errors.New("not a copy of a session")
	}
	return nil
}

func unDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// readBudget is how long somebody waits for Redis before SQL or this process
// stands in.
const readBudget = 100 * time.Millisecond

// get returns the copy of a session; found is false when there is none.
func (f *fast) get(ctx context.Context, user ID, device DeviceID) (c sessionCopy, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	text, found, err := accessKey.At(user, device).Get(ctx, f.db)
	if !found || err != nil {
		return sessionCopy{}, false, err
	}
	c.user, c.device = user, device
	return c, c.decode(text), nil
}

// put writes copies and tombstones in one round trip; newer ones stay.
func (f *fast) put(ctx context.Context, now time.Time, copies ...sessionCopy) error {
	calls := make([]redis.Call, 0, len(copies))
	for _, c := range copies {
		life := tombstoneLife
		if c.rev != revoked {
			// At least a moment, so that an expired one still replaces an older one.
			life = max(time.Second, min(maxCopyLife, time.UnixMilli(c.expires).Sub(now)))
		}
		calls = append(calls, redis.Call{
			Script: putScript,
			Keys:   []keyspace.Key{accessKey.At(c.user, c.device).Key},
			Args:   []string{strconv.FormatInt(c.rev, 10), c.encode(), strconv.FormatInt(life.Milliseconds(), 10)},
		})
	}
	return keyspace.FirstErr(f.db.RunMulti(ctx, calls))
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

// forgetTries is for a code that was replaced or used.
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
