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

// DefaultLimit is what Config.Limit should be: ten requests a second to one
// operation are more than a person makes and less than a runaway script does.
var DefaultLimit = ratelimit.Limit{Max: 600, Window: time.Minute}

// rawLimit is for what [API.Raw] serves, all of it together, and one household. A page is
// about five requests, so that an office behind one address can open it 600 times a minute.
var rawLimit = ratelimit.Limit{Max: 3000, Window: time.Minute}

// unmatched is what the ServeMux answers by itself, for every path and method that it has no
// route for: one limit for a household, so that trying paths ends soon. It is apart
// from that of pages, which an app that calls a path of yesterday does not use up.
var unmatched = &route{op: Op{ID: "unmatched", Limit: ratelimit.Limit{Max: 600, Window: time.Minute}}, public: true}

// allowAway is allow for what needs no token: callers who are near are not counted, and
// without a limiter nobody is.
func (a *API) allowAway(ctx context.Context, c *call, rt *route) bool {
	return clientnet.IsNear(c.clientIP()) || a.allow(ctx, c, rt)
}

// allow counts the request for a route, sets the headers and refuses what is too much. A user who
// calls often costs fewer Redis commands than requests; see package ratelimit.
func (a *API) allow(ctx context.Context, c *call, rt *route) bool {
	name, limit := c.limit(rt)
	if a.cfg.Limiter == nil || limit.Max == 0 {
		return true
	}
	res, err := a.cfg.Limiter.Allow(ctx, limitKey(c, rt, name), limit)
	if err != nil {
		// Redis being away is no error. Whatever it is, an API that answers
		// without counting is better than none.
		if c.r.Context().Err() == nil {
			a.outage(ctx, "limit", "request not counted", err)
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

// Allow counts what a caller does in another way than by an operation, as an operation of that name with Config.Limit is
// counted, and reports false when it is too much.
func (a *API) Allow(ctx context.Context, who Caller, name string) bool {
	if a.cfg.Limiter == nil || a.cfg.Limit.Max == 0 {
		return true
	}
	res, err := a.cfg.Limiter.Allow(ctx, userLimits.At(keyspace.Text{S: who.UserID()}, keyspace.Text{S: name}), a.cfg.Limit)
	if err != nil {
		if ctx.Err() == nil {
			a.outage(ctx, "limit", "request not counted", err)
		}
		return true
	}
	return res.Allowed
}

// Heavy operations: heavyRuns is the largest number that a node runs at a time, half of them of one user. heavyWaiting and
// heavyWaitingPerUser bound those that wait, and heavyWait how long: most of the operation's time is left for its work.
const (
	heavyRuns           = 8
	heavyWaiting        = 256
	heavyWaitingPerUser = 16
	heavyWait           = 2 * time.Second
)

func newHeavy() *fairqueue.Queue {
	return fairqueue.New(fairqueue.Limits{Capacity: heavyRuns, Waiting: heavyWaiting, PerUser: heavyWaitingPerUser, Wait: heavyWait, Full: errHeavy})
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
