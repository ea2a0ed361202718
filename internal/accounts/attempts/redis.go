package attempts

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

//go:embed lua/try.lua
var tryLua string

//go:embed lua/untry.lua
var untryLua string

var (
	tryScript   = redis.NewScript(tryLua)
	untryScript = redis.NewScript(untryLua)
)

// A Meter is a counter of tries.
type Meter struct {
	Key  keyspace.Key
	Cap  int           // number of allowed tries
	Life time.Duration // from the last allowed try
}

// Counter counts tries. Create one per process with [New]. It is safe for concurrent use.
type Counter struct {
	db    *redis.DB
	local local // used while Redis is unavailable
	log   *slog.Logger

	// Within bounds the wait for Redis before this process counts itself, and After bounds Settle. [New] sets them;
	// tests with real servers use longer times.
	Within, After time.Duration
}

// New returns a counter in a Redis.
func New(db *redis.DB, log *slog.Logger) *Counter {
	return &Counter{db: db, log: log, Within: 100 * time.Millisecond, After: 250 * time.Millisecond}
}

// Count counts one try with each of meters in one round trip, or with none if one of them refuses, and returns the
// remaining time of the lock. While Redis is unavailable this process counts; now is its clock. Otherwise Count returns
// the cause of ctx or the server's error about a key.
func (c *Counter) Count(ctx context.Context, meters []Meter, now time.Time) (allowed bool, left time.Duration, err error) {
	answers, err := c.try(ctx, meters)
	if isUnavailable(err) && ctx.Err() == nil {
		answers, err = answers[:0], nil
		for _, m := range meters {
			ok, left := c.local.count(m.Key.String(), m.Cap, m.Life, now)
			answers = append(answers, tried{ok, left})
		}
	}
	if err != nil {
		return false, 0, err
	}
	var counted []Meter
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
	if err := c.refund(ctx, counted); !isUnavailable(err) {
		return false, left, err
	}
	return false, left, nil
}

// Allows counts one try if Redis answers, and reports whether it is allowed. It is for tries that SQL counts as well:
// if Redis does not answer, all are allowed.
func (c *Counter) Allows(ctx context.Context, m Meter) bool {
	answers, err := c.try(ctx, []Meter{m})
	return err != nil || answers[0].allowed
}

// Settle resets the meters in reset, and gives one try back to each meter in back. It does not change the response: it
// continues if the caller disconnects, and logs errors.
func (c *Counter) Settle(ctx context.Context, reset, back []Meter) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.After)
	defer cancel()
	if err := errors.Join(c.reset(ctx, reset), c.refund(ctx, back)); err != nil {
		level := slog.LevelWarn
		if isUnavailable(err) {
			level = slog.LevelDebug // the watcher of the connection logs it once
		}
		c.log.Log(ctx, level, "accounts: tries not given back", "err", err)
	}
}

// tried is the result of lua/try.lua.
type tried struct {
	allowed bool
	left    time.Duration // until the count ends
}

// try runs lua/try.lua for each of meters.
func (c *Counter) try(ctx context.Context, meters []Meter) ([]tried, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Within)
	defer cancel()
	calls := make([]redis.Call, len(meters))
	for i, m := range meters {
		calls[i] = redis.Call{Script: tryScript, Keys: []keyspace.Key{m.Key},
			Args: []string{strconv.Itoa(m.Cap), keyspace.Millis(m.Life)}}
	}
	answers := make([]tried, len(meters))
	for i, r := range c.db.RunMulti(ctx, calls) {
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

// refund gives a counted try back, in Redis and in this process.
func (c *Counter) refund(ctx context.Context, meters []Meter) error {
	if len(meters) == 0 {
		return nil
	}
	calls := make([]redis.Call, len(meters))
	for i, m := range meters {
		c.local.refund(m.Key.String())
		calls[i] = redis.Call{Script: untryScript, Keys: []keyspace.Key{m.Key}}
	}
	return keyspace.FirstErr(c.db.RunMulti(ctx, calls))
}

// reset resets the meters.
func (c *Counter) reset(ctx context.Context, meters []Meter) error {
	if len(meters) == 0 {
		return nil
	}
	cmds := make([]keyspace.Cmd, len(meters))
	for i, m := range meters {
		c.local.reset(m.Key.String())
		cmds[i] = keyspace.Cmd{Name: "UNLINK", Key: m.Key}
	}
	return keyspace.FirstErr(c.db.DoMulti(ctx, cmds))
}

// isUnavailable reports whether an error only means that Redis is unavailable.
func isUnavailable(err error) bool {
	return errors.Is(err, redis.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}
