package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	// Beat is how often a node renews its lease and looks at the others'.
	Beat = time.Second
	// patience bounds one round.
	patience = time.Second
)

// Config has what the registry needs.
type Config struct {
	Redis   *redis.DB
	Bus     *bus.Bus
	Node    ID
	Version string
	Roles   []string
	Metrics prometheus.Registerer
	Log     *slog.Logger

	Sockets func() int  // how many connections of apps there are; nil: none
	Ordered func(Order) // is told of each order once, in their order, and must not wait; nil: orders are not taken
	Lapsed  func()      // is told that the node lives, after others may have taken it for dead, and must not wait; nil: nobody asks

	Settings
}

// Service registers this node and watches the others.
type Service struct {
	redis *redisStore
	bus   *bus.Bus
	log   *slog.Logger
	beat  time.Duration
	nudge chan struct{} // asks for a heartbeat at once

	sockets func() int
	ordered func(Order)
	lapsed  func()

	mu     sync.Mutex
	self   Node
	live   map[ID]Boot // never changed, only replaced
	looked time.Time   // when live was true
	news   int         // events about nodes so far
	known  int         // those that live takes into account

	asking singleflight.Group // by news: an answer from before an event may lack it

	renewed time.Time // when the last heartbeat began that was answered; Run's alone

	metrics *metrics
}

// New returns a registry; nothing is written until [Service.Run]. It handles the
// bus' [Topic], and so comes before the bus runs.
func New(cfg Config) *Service {
	s := &Service{
		redis: &redisStore{cfg.Redis, leaseLife, entryLife}, bus: cfg.Bus, log: cfg.Log, beat: Beat, nudge: make(chan struct{}, 1), sockets: cfg.Sockets, ordered: cfg.Ordered, lapsed: cfg.Lapsed,
		self: Node{ID: cfg.Node, Boot: ids.New[boot](), Address: cfg.Advertise, RTMPPort: cfg.RTMPPort, GRPCPort: cfg.GRPCPort,
			Version: cfg.Version, Roles: cfg.Roles, Status: Starting, Started: time.Now().UTC().Truncate(time.Millisecond)},
	}
	s.metrics = newMetrics(cfg.Metrics, s)
	changed := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.news++
	}
	cfg.Bus.Handle(Topic, bus.Handler{Event: func(bus.Event) { changed() }, Lost: changed})
	return s
}

// Listening tells the address that the node listens on, which others are told
// unless the settings name one.
func (s *Service) Listening(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.self.Address == "" {
		machine, err := os.Hostname()
		if err != nil {
			machine = "127.0.0.1"
		}
		s.self.Address = reachable(addr, machine)
	}
}

// Self returns this node as others see it.
func (s *Service) Self() Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.self
}

// SetStatus publishes the node's status at once.
func (s *Service) SetStatus(status Status) {
	s.mu.Lock()
	s.self.Status = status
	s.mu.Unlock()
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// Live returns the nodes that live, as of a second and a half ago at the most,
// and at once after one has joined or left in good order. The map must not be
// changed. While Redis is away, or has no lease of this node itself and so may lack
// others' as well, it returns [redis.ErrUnavailable].
func (s *Service) Live(ctx context.Context) (live map[ID]Boot, err error) {
	defer errs.Wrap(&err, "cluster.Live")
	s.mu.Lock()
	live = s.live
	news, fresh := s.news, s.news == s.known && time.Since(s.looked) < s.beat*3/2
	s.mu.Unlock()
	if fresh {
		return live, nil
	}
	answer := s.asking.DoChan(strconv.Itoa(news), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // others wait for it, too
		defer cancel()
		asked := time.Now()
		nodes, err := s.redis.list(ctx)
		if err != nil {
			return nil, err
		}
		return s.look(ctx, nodes, asked, news)
	})
	select {
	case r := <-answer:
		live, _ = r.Val.(map[ID]Boot)
		return live, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// heard returns how many events there were.
func (s *Service) heard() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

// errNoLease reports that Redis has no lease of the node that asks.
var errNoLease = fmt.Errorf("%w: it has no lease of this node", redis.ErrUnavailable)

// look notes which of the nodes live.
func (s *Service) look(ctx context.Context, nodes []listed, asked time.Time, news int) (map[ID]Boot, error) {
	if err := s.redis.leases(ctx, nodes); err != nil {
		return nil, err
	}
	live := make(map[ID]Boot, len(nodes))
	for _, n := range nodes {
		if !n.boot.IsZero() {
			live[n.id] = n.boot
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if live[s.self.ID].IsZero() {
		return nil, errNoLease
	}
	if asked.After(s.looked) {
		s.live, s.looked, s.known = live, asked, news
	}
	return live, nil
}

// Run keeps the node registered until ctx ends, and then signs off. It calls
// ready at once: Redis may be away.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ready()
	defer s.signOff(ctx)
	t := time.NewTimer(0)
	defer t.Stop()
	joined, failing := false, false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		case <-s.nudge:
		}
		err := s.round(ctx, &joined)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.metrics.heartbeat(err)
		if err != nil && !failing {
			s.log.Warn("the heartbeat fails; other nodes may take this one for dead", "err", err)
		} else if err == nil && failing {
			s.log.Info("the heartbeat succeeds again")
		}
		failing = err != nil
		t.Reset(s.beat)
	}
}

// round is one heartbeat and one look at the others. joined says that the join of this
// node was published.
func (s *Service) round(ctx context.Context, joined *bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked, news := time.Now(), s.heard()
	s.mu.Lock()
	s.self.Heartbeat = asked.UTC().Truncate(time.Millisecond)
	if s.sockets != nil {
		s.self.Sockets = s.sockets()
	}
	self := s.self
	s.mu.Unlock()
	found, err := s.redis.renew(ctx, self)
	if err != nil {
		return err
	}
	s.take(found.order)
	// Between two answers a lease may have ended and been taken anew by a heartbeat that was not answered.
	lapsed := found.lapsed || time.Since(s.renewed) > s.redis.lease
	s.renewed = asked
	if lapsed && s.lapsed != nil {
		s.lapsed()
	}
	if lapsed || !*joined {
		err := s.bus.Publish(ctx, Topic, Joined, self.ID.String())
		if *joined = err == nil; err != nil {
			return err
		}
	}
	if _, err := s.look(ctx, found.nodes, asked, news); err != nil {
		return err
	}
	return s.tidy(ctx, found.nodes)
}

// take passes on an order that is new, and has others see that it was taken.
func (s *Service) take(o Order) {
	s.mu.Lock()
	fresh := s.ordered != nil && o.ID != "" && o.ID != s.self.Order
	if fresh {
		s.self.Order = o.ID
	}
	s.mu.Unlock()
	if !fresh {
		return
	}
	if o.Drain {
		s.log.Info("an operator orders a drain", "stop", o.Stop)
	} else {
		s.log.Info("an operator takes the drain back")
	}
	s.ordered(o)
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// tidy publishes the death of nodes, and removes from the list those that have been
// dead for long.
func (s *Service) tidy(ctx context.Context, nodes []listed) error {
	dead := slices.DeleteFunc(slices.Clone(nodes), func(n listed) bool { return !n.boot.IsZero() })
	if len(dead) == 0 {
		return nil
	}
	for _, n := range dead {
		if gone(n.score) {
			continue
		}
		first, err := s.redis.markGone(ctx, n)
		if err != nil {
			return err
		}
		if first {
			s.log.Warn("a node died", "dead", n.id)
			if err := s.bus.Publish(ctx, Topic, Left, n.id.String()); err != nil {
				return err
			}
		}
	}
	return s.redis.forget(ctx, dead)
}

// signOff takes the lease away, so that others need not wait for its end.
func (s *Service) signOff(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	s.mu.Lock()
	s.self.Status, s.self.Heartbeat = Stopped, time.Now().UTC().Truncate(time.Millisecond)
	self := s.self
	s.mu.Unlock()
	err := s.redis.leave(ctx, self)
	if err == nil {
		err = s.bus.Publish(ctx, Topic, Left, self.ID.String())
	}
	if err != nil {
		s.log.Info("this node could not sign off; other nodes will take it for dead", "err", err)
	}
}

// parseEntry reads an entry that has left milliseconds to live; ok is false when
// there is none, or one of a form that this build does not know.
func parseEntry(text string, left int64) (e Entry, ok bool) {
	if text == "" || json.Unmarshal([]byte(text), &e.Node) != nil {
		return Entry{}, false
	}
	e.Age = max(0, entryLife-time.Duration(left)*time.Millisecond)
	return e, true
}
