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

// Limits bound how many codes are mailed, and how many are guessed. A network (IPv4 /24, IPv6
// /48) has a tenth of All and of Wrong, and no less than one household.
type Limits struct {
	PerMinute    int // codes mailed to one address for one purpose per minute
	PerDay       int // the same per day
	PerHousehold int // codes asked for from one household per hour
	All          int // codes mailed by the whole deployment per hour
	Wrong        int // wrong guesses per hour, beyond which codes of known households alone are looked at
}

// share is how much one network has of what all have: a tenth, and no less than one household of it.
func (l Limits) share(all int) int { return max(all/10, l.PerHousehold) }

// mayMail counts a code against the limits on sending: to one address for one purpose, and
// for each household that the account knows apart from all others; asked for from one
// household, and from its network; and mailed by the whole server.
func (s *Service) mayMail(ctx context.Context, p Proof, from string, known bool) (ratelimit.Result, error) {
	quota, l := p.Email.Key+" "+strconv.Itoa(int(p.Purpose)), s.limits
	if known {
		quota += " " + from
	}
	asks := []ratelimit.Ask{
		{Key: minuteKeys.At(keyspace.Hashed{S: quota}), Limit: ratelimit.Limit{Max: l.PerMinute, Window: time.Minute}},
		{Key: dayKeys.At(keyspace.Hashed{S: quota}), Limit: ratelimit.Limit{Max: l.PerDay, Window: 24 * time.Hour}},
		{Key: hourKeys.At(keyspace.Hashed{S: from}), Limit: ratelimit.Limit{Max: l.PerHousehold, Window: time.Hour}},
		{Key: allKey.At(), Limit: ratelimit.Limit{Max: l.All, Window: time.Hour}},
	}
	if network := clientnet.Network(from); network != "" {
		asks = append(asks, ratelimit.Ask{Key: hourKeys.At(keyspace.Hashed{S: network}), Limit: ratelimit.Limit{Max: l.share(l.All), Window: time.Hour}})
	}
	return s.limiter.AllowAll(ctx, asks)
}

// wrong counts a wrong guess of a code that there is. Beyond Limits.Wrong an hour this
// node takes codes for the rest of that hour from households alone that the account knows: that stops an attacker who tries codes of very many
// addresses. Beyond its share it takes none from the network of the guess, so that no single network uses up what all have.
func (s *Service) wrong(ctx context.Context, network string) {
	s.metrics.WithLabelValues("wrong").Inc()
	if network == "" || !s.countWrong(ctx, network, wrongFromKeys.At(keyspace.Hashed{S: network}), s.limits.share(s.limits.Wrong)) {
		s.countWrong(ctx, "", wrongKey.At(), s.limits.Wrong)
	}
}

// countWrong counts a wrong guess from a network, or from all where it is empty, and reports whether that suspends codes.
func (s *Service) countWrong(ctx context.Context, network string, key keyspace.Counter, most int) (suspends bool) {
	res, err := s.limiter.Allow(ctx, key, ratelimit.Limit{Max: most, Window: time.Hour})
	if err != nil || res.Allowed {
		return false
	}
	if s.suspensions.add(network, s.db.Now(), res.Reset) {
		s.log.Warn("accounts: too many wrong codes; those of unknown households are not looked at for a while", "network", cmp.Or(network, "all"), "limit", most, "for", res.Reset)
	}
	return true
}

// suspensions are until when this node looks at no code from a network, or from any: the empty one. There are few: as many wrong
// guesses as suspend some networks suspend all.
type suspensions struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// add suspends a network for d, and reports whether that is news.
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

// of returns ErrSuspended for a network from which no code is looked at.
func (s *suspensions) of(network string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range []string{"", network} {
		if left := s.until[of].Sub(now); left > 0 {
			return ErrSuspended.Retry(left)
		}
	}
	return nil
}
