package codes

import (
	"cmp"
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Limits bound mailed codes and guesses. A network (IPv4 /24, IPv6 /48) has a tenth of All and of Wrong, but at least
// the limit of one client network.
type Limits struct {
	PerMinute    int // codes mailed to one address for one purpose per minute
	PerDay       int // the same per day
	PerClientNet int // codes requested from one client network per hour
	All          int // codes mailed by the whole deployment per hour
	Wrong        int // wrong guesses per hour; after that only codes from known client networks are checked
}

// share returns the share of one network in a limit: a tenth, but at least the limit of one client network.
func (l Limits) share(all int) int { return max(all/10, l.PerClientNet) }

// mayMail counts a code against the sending limits: per address and purpose, separately for each known client network;
// per requesting client network and its network; and for the whole server.
func (s *Service) mayMail(ctx context.Context, p Proof, from string, known bool) (ratelimit.Result, error) {
	quota, l := p.Email.Key+" "+strconv.Itoa(int(p.Purpose)), s.limits
	if known {
		quota += " " + from
	}
	asks := []ratelimit.Ask{
		{Key: minuteKeys.At(keyspace.Hashed{S: quota}), Limit: ratelimit.Limit{Max: l.PerMinute, Window: time.Minute}},
		{Key: dayKeys.At(keyspace.Hashed{S: quota}), Limit: ratelimit.Limit{Max: l.PerDay, Window: 24 * time.Hour}},
		{Key: hourKeys.At(keyspace.Hashed{S: from}), Limit: ratelimit.Limit{Max: l.PerClientNet, Window: time.Hour}},
		{Key: allKey.At(), Limit: ratelimit.Limit{Max: l.All, Window: time.Hour}},
	}
	if network := clientnet.Network(from); network != "" {
		asks = append(asks, ratelimit.Ask{Key: hourKeys.At(keyspace.Hashed{S: network}),
			Limit: ratelimit.Limit{Max: l.share(l.All), Window: time.Hour}})
	}
	return s.limiter.AllowAll(ctx, asks)
}

// wrong counts a wrong guess of an existing code. After Limits.Wrong guesses in an hour this node accepts codes only
// from known client networks for the rest of that hour: that stops an attacker who guesses codes of very many
// addresses. After its share it accepts none from the network of the guess, so that one network cannot use up the limit
// of all.
func (s *Service) wrong(ctx context.Context, network string) {
	s.metrics.WithLabelValues("wrong").Inc()
	if network == "" || !s.countWrong(ctx, network, wrongFromKeys.At(keyspace.Hashed{S: network}), s.limits.share(s.limits.Wrong)) {
		s.countWrong(ctx, "", wrongKey.At(), s.limits.Wrong)
	}
}

// countWrong counts a wrong guess from a network, or from all if it is empty, and reports whether that suspends codes.
func (s *Service) countWrong(ctx context.Context, network string, key keyspace.Counter, most int) (suspends bool) {
	res, err := s.limiter.Allow(ctx, key, ratelimit.Limit{Max: most, Window: time.Hour})
	if err != nil || res.Allowed {
		return false
	}
	if s.suspensions.add(network, s.db.Now(), res.Reset) {
		s.log.Warn("accounts: too many wrong codes, unknown client networks suspended", "network", cmp.Or(network, "all"), "limit", most, "for",
			res.Reset)
	}
	return true
}

// suspensions maps each suspended network to the end of its suspension; the empty network means all. There are few: the
// guesses that suspend some networks suspend all.
type suspensions struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// add suspends a network for d, and reports whether it was not suspended before.
func (s *suspensions) add(network string, now time.Time, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.until[network]
	maps.DeleteFunc(s.until, func(_ string, until time.Time) bool { return !until.After(now) })
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	s.until[network] = now.Add(d)
	return s.until[network].Sub(before) > time.Second
}

// check returns ErrSuspended for a suspended network.
func (s *suspensions) check(network string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range []string{"", network} {
		if left := s.until[n].Sub(now); left > 0 {
			return ErrSuspended.Retry(left)
		}
	}
	return nil
}
