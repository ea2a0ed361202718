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
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	// Beat is the interval of lease renewals and of checks of other nodes.
	Beat = time.Second
	// patience bounds one round.
	patience = time.Second
)

// Config configures the registry.
type Config struct {
	Redis   *redis.DB
	Bus     *events.Bus // carries the events of nodes, and removes dead nodes from its channels
	Node    ID
	Version string
	Roles   []string
	Metrics prometheus.Registerer
	Log     *slog.Logger

	Sockets func() int  // number of client connections; nil: none
	Ordered func(Order) // is called once per order, in their order, and must not block; nil: orders are ignored

	Settings
}

// Service registers this node and watches the others.
type Service struct {
	redis *redisStore
	bus   *bus.Bus
	log   *slog.Logger
	beat  time.Duration
	nudge chan struct{} // requests a heartbeat at once

	sockets func() int
	ordered func(Order)
	lapsed  func() // is called after other nodes may have seen this node as dead, and must not block

	mu     sync.Mutex
	self   Node
	live   map[ID]Boot // replaced as a whole, never modified
	readAt time.Time   // time of live
	news   int         // number of node events so far
	known  int         // number of events that live includes

	asking singleflight.Group // by news, because an answer from before an event may lack it

	renewed time.Time // start of the last successful heartbeat; only Run uses it

	metrics *metrics
}

// New returns a registry. It writes nothing until [Service.Run]. It handles [Topic] of the bus, so call it before the
// bus runs.
func New(cfg Config) *Service {
	s := &Service{
		redis: &redisStore{cfg.Redis, leaseLife, entryLife}, bus: cfg.Bus.Nodes(), log: cfg.Log, beat: Beat, nudge: make(chan struct{}, 1),
		sockets: cfg.Sockets, ordered: cfg.Ordered, lapsed: cfg.Bus.TakenForDead,
		self: Node{ID: cfg.Node, Boot: ids.New[boot](), Address: cfg.Advertise, RTMPPort: cfg.RTMPPort, GRPCPort: cfg.GRPCPort,
			Version: cfg.Version, Roles: cfg.Roles, Status: Starting, Started: time.Now().UTC().Truncate(time.Millisecond)},
	}
	s.metrics = newMetrics(cfg.Metrics, s)
	changed := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.news++
	}
	s.bus.Handle(Topic, bus.Handler{Event: func(bus.Event) { changed() }, Lost: changed})
	cfg.Bus.ReadLiveNodesFrom(s.LiveNames)
	return s
}

// Listening sets the listen address of the node. Other nodes see it unless the settings name another one.
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

// Self returns the description of this node.
func (s *Service) Self() Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.self
}

// SetStatus publishes the status of the node at once.
func (s *Service) SetStatus(status Status) {
	s.mu.Lock()
	s.self.Status = status
	s.mu.Unlock()
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// Live returns the nodes that are alive. The result is at most 1.5 seconds old, and is updated at once after a node
// joined or stopped. The caller must not modify the map. It returns [redis.ErrUnavailable] while Redis is unavailable,
// or if Redis has lost the lease of this node and so perhaps other leases.
func (s *Service) Live(ctx context.Context) (live map[ID]Boot, err error) {
	defer errs.Wrap(&err, "cluster.Live")
	s.mu.Lock()
	live = s.live
	news, fresh := s.news, s.news == s.known && time.Since(s.readAt) < s.beat*3/2
	s.mu.Unlock()
	if fresh {
		return live, nil
	}
	answer := s.asking.DoChan(strconv.Itoa(news), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // other callers wait for it, too
		defer cancel()
		asked := time.Now()
		nodes, err := s.redis.list(ctx)
		if err != nil {
			return nil, err
		}
		return s.checkLeases(ctx, nodes, asked, news)
	})
	select {
	case r := <-answer:
		live, _ = r.Val.(map[ID]Boot)
		return live, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// LiveNames returns the names of the nodes of [Service.Live].
func (s *Service) LiveNames(ctx context.Context) (names []string, err error) {
	live, err := s.Live(ctx)
	for id := range live {
		names = append(names, id.String())
	}
	return names, err
}

// eventCount returns the number of events so far.
func (s *Service) eventCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

// errNoLease reports that Redis does not have the lease of this node.
var errNoLease = fmt.Errorf("%w: it has no lease of this node", redis.ErrUnavailable)

// checkLeases determines and stores which of the nodes are alive.
func (s *Service) checkLeases(ctx context.Context, nodes []listed, asked time.Time, news int) (map[ID]Boot, error) {
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
	if asked.After(s.readAt) {
		s.live, s.readAt, s.known = live, asked, news
	}
	return live, nil
}

// Run keeps the node registered until ctx ends, and then signs off. It calls ready at once, because Redis may be
// unavailable.
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
			s.log.Warn("cluster: heartbeat failed", "err", err)
		} else if err == nil && failing {
			s.log.Info("cluster: heartbeat works again")
		}
		failing = err != nil
		t.Reset(s.beat)
	}
}

// round is one heartbeat and one check of the other nodes. joined reports whether the join of this node was published.
func (s *Service) round(ctx context.Context, joined *bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked, news := time.Now(), s.eventCount()
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
	s.acceptOrder(found.order)
	// Between two answers the lease may have expired and been renewed by a heartbeat whose answer was lost.
	lapsed := found.lapsed || time.Since(s.renewed) > s.redis.lease
	s.renewed = asked
	if lapsed {
		s.lapsed()
	}
	if lapsed || !*joined {
		err := s.bus.Publish(ctx, Topic, Joined, self.ID.String())
		if *joined = err == nil; err != nil {
			return err
		}
	}
	if _, err := s.checkLeases(ctx, found.nodes, asked, news); err != nil {
		return err
	}
	return s.tidy(ctx, found.nodes)
}

// acceptOrder passes a new order on and stores its id in the entry.
func (s *Service) acceptOrder(o Order) {
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
		s.log.Info("cluster: drain ordered", "stop", o.Stop)
	} else {
		s.log.Info("cluster: drain canceled")
	}
	s.ordered(o)
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// tidy publishes the death of nodes, and removes nodes from the list that have been dead for long.
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

// signOff deletes the lease, so that other nodes need not wait until it expires.
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
		s.log.Info("cluster: sign-off failed", "err", err)
	}
}

// parseEntry decodes an entry with a remaining TTL of left milliseconds. ok is false if there is no entry, or one in a
// format that this build does not know.
func parseEntry(text string, left int64) (e Entry, ok bool) {
	if text == "" || json.Unmarshal([]byte(text), &e.Node) != nil {
		return Entry{}, false
	}
	e.Age = max(0, entryLife-time.Duration(left)*time.Millisecond)
	return e, true
}
