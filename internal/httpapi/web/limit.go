package web

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/fairqueue"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// DefaultLimit is the recommended Config.Limit: ten requests a second to one operation are more than a person makes,
// and fewer than a runaway script makes.
var DefaultLimit = ratelimit.Limit{Max: 600, Window: time.Minute}

// rawLimit limits all requests of one client network to the patterns of [API.Raw] together. A page is about five
// requests, so that an office behind one address can open it 600 times a minute.
var rawLimit = ratelimit.Limit{Max: 3000, Window: time.Minute}

// unmatched is the route of requests that the ServeMux answers itself, for every path and method without a route. One
// limit for each client network ends the guessing of paths soon. It is separate from the limit of pages, so that an
// app that calls an outdated path does not use up that one.
var unmatched = &route{op: Op{ID: "unmatched", Limit: ratelimit.Limit{Max: 600, Window: time.Minute}}, public: true}

// allowPublic is allow for requests without a token. Callers in the server's own networks are not counted; without a
// limiter, no caller is counted.
func (a *API) allowPublic(ctx context.Context, c *call, rt *route) bool {
	return clientnet.IsNear(c.clientIP()) || a.allow(ctx, c, rt)
}

// allow counts the request for a route, sets the headers and refuses requests over the limit. A frequent caller costs
// fewer Redis commands than requests; see package ratelimit.
func (a *API) allow(ctx context.Context, c *call, rt *route) bool {
	name, limit := c.limit(rt)
	if a.cfg.Limiter == nil || limit.Max == 0 {
		return true
	}
	res, err := a.cfg.Limiter.Allow(ctx, limitKey(c, rt, name), limit)
	if err != nil {
		// Unavailable Redis is no error of Allow. For any other error, an API that serves without counting is better
		// than none.
		if c.r.Context().Err() == nil {
			a.logOutage(ctx, "limit", "request not counted", err)
		}
		return true
	}
	h := c.Header()
	h["Ratelimit-Limit"] = []string{strconv.Itoa(res.Limit)}
	h["Ratelimit-Remaining"] = []string{strconv.Itoa(res.Remaining)}
	h["Ratelimit-Reset"] = []string{strconv.FormatInt(ceilSeconds(res.Reset), 10)}
	if !res.Allowed {
		c.refuse(newProblem(http.StatusTooManyRequests, ErrLimit.Retry(res.Reset)))
	}
	return res.Allowed
}

// Allow counts an act of a caller that is not an operation, under the given name and with Config.Limit. It reports
// false if the caller exceeds the limit.
func (a *API) Allow(ctx context.Context, caller Caller, name string) bool {
	if a.cfg.Limiter == nil || a.cfg.Limit.Max == 0 {
		return true
	}
	res, err := a.cfg.Limiter.Allow(ctx, userLimits.At(keyspace.Text{S: caller.UserID()}, keyspace.Text{S: name}), a.cfg.Limit)
	if err != nil {
		if ctx.Err() == nil {
			a.logOutage(ctx, "limit", "request not counted", err)
		}
		return true
	}
	return res.Allowed
}

// Limits of heavy operations. heavyRuns is the largest number that a node runs at a time, half of them of one user.
// heavyWaiting and heavyWaitingPerUser bound the number of waiting calls. heavyWait bounds their wait, so that most
// of the operation's time is left for its work.
const (
	heavyRuns           = 8
	heavyWaiting        = 256
	heavyWaitingPerUser = 16
	heavyWait           = 2 * time.Second
)

func newHeavy() *fairqueue.Queue {
	return fairqueue.New(fairqueue.Limits{Capacity: heavyRuns, Waiting: heavyWaiting, PerUser: heavyWaitingPerUser, Wait: heavyWait,
		Full: errHeavy})
}

// enter waits for the turn of a heavy operation.
func (a *API) enter(ctx context.Context, c *call, r *http.Request) (release func(), err error) {
	op := &c.route.op
	switch {
	case !op.Heavy && (op.HeavyQuery == "" || r.URL.Query().Get(op.HeavyQuery) == ""):
		return func() {}, nil
	case c.as == nil:
		return a.heavy.Acquire(ctx, clientnet.Of(c.clientIP()), 1)
	}
	return a.heavy.Acquire(ctx, c.as.UserID(), 1)
}

func limitKey(c *call, rt *route, name string) keyspace.Counter {
	if !rt.public {
		return userLimits.At(keyspace.Text{S: c.user()}, keyspace.Text{S: name})
	}
	return addressLimits.At(keyspace.Hashed{S: clientnet.Of(c.clientIP()) + " " + name},
		keyspace.Int{N: int64(rt.op.Limit.Window / time.Second)})
}
