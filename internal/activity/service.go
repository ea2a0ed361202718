package activity

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Config has what the domain stands on.
type Config struct {
	DB       *sqldb.DB
	Redis    *redis.DB
	Bus      *bus.Bus
	Metrics  prometheus.Registerer
	Log      *slog.Logger
	Settings Settings
}

// Service is the domain as the rest of the program sees it. It is safe for concurrent use.
type Service struct {
	cfg   Config
	clock civil.Clock
	db    *sqldb.DB
	redis redisStore
	log   *slog.Logger
	room  int // users of a day that are remembered; [most]

	days  atomic.Pointer[days]
	turn  sync.Mutex  // of days
	doubt atomic.Bool // Redis may have lost what this node sent

	polled  time.Time    // Run's alone
	now     atomic.Int64 // today's number when it was asked for last
	metrics *metrics
}

// topic is what nodes tell each other about users who are erased.
const topic = "activity"

// New returns the domain on those parts. It handles a topic of the bus, and so comes before
// the bus runs.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, clock: cfg.Settings.clock(), db: cfg.DB, redis: redisStore{cfg.Redis}, log: cfg.Log, room: most}
	s.metrics = newMetrics(cfg.Metrics, s)
	cfg.Bus.Handle(topic, bus.Handler{
		Event: func(e bus.Event) { s.drop(e.Data) },
		Lost:  func() { s.doubt.Store(true) },
	})
	return s
}

// Seen notes that a user is active now. It waits for nothing, and for a user who was
// noted today it does no more than look that up.
func (s *Service) Seen(user accounts.ID) {
	var u member
	copy(u[:], user.String())
	if now := s.db.Now(); !s.at(now).add(u, s.room) {
		s.metrics.refused.Inc()
	}
}

// at returns what is noted on the day of a moment, and begins that day.
func (s *Service) at(now time.Time) *noted {
	if n := s.days.Load().of(now); n != nil {
		return n
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	d := s.days.Load()
	if n := d.of(now); n != nil {
		return n
	}
	if d != nil && d.before != nil {
		if _, waiting := d.before.count(); waiting > 0 {
			s.metrics.refused.Add(float64(waiting))
		}
	}
	d = d.turn(now, s.clock)
	s.days.Store(d)
	return d.today
}

const (
	// flushEvery is how long a user waits for others.
	flushEvery = time.Second
	// flushTime is how long one round trip may take.
	flushTime = 2 * time.Second
	// trips is how many commands one round trip has.
	trips = 10
	// pollEvery is how often a node looks at today's number, and whether what it sent is
	// among it.
	pollEvery = time.Minute
)

// Run brings to Redis whom this node noted, until ctx ends, and what is left then.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ready()
	beat := time.NewTicker(flushEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			s.flush(context.WithoutCancel(ctx))
			return ctx.Err()
		case <-beat.C:
			s.beat(ctx)
		}
	}
}

func (s *Service) beat(ctx context.Context) {
	if s.doubt.Swap(false) {
		s.putBack("Redis may have lost something")
	}
	if s.flush(ctx) && time.Since(s.polled) >= pollEvery {
		s.poll(ctx)
	}
}

// putBack has all that this node remembers be sent once more.
func (s *Service) putBack(why string) {
	total := 0
	for _, n := range s.days.Load().all() {
		total += n.putBack()
	}
	if total > 0 {
		s.metrics.putBack.Add(float64(total))
		s.log.Info("activity: users are noted anew", "users", total, "why", why)
	}
}

// flush brings all that waits to Redis, and reports whether Redis took it.
func (s *Service) flush(ctx context.Context) bool {
	for _, n := range s.days.Load().all() {
		for {
			users := n.take(trips * atOnce)
			if len(users) == 0 {
				break
			}
			if !s.send(ctx, n, users) {
				return false
			}
		}
	}
	s.forget()
	return true
}

func (s *Service) send(ctx context.Context, n *noted, users []member) (whole bool) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	var batches []*batch
	for some := range slices.Chunk(users, atOnce) {
		batches = append(batches, &batch{day: n.date, users: some})
	}
	s.redis.add(ctx, batches, s.cfg.Settings.Approximate())
	whole = true
	for _, b := range batches {
		if b.err == nil {
			s.metrics.sent.Add(float64(len(b.users)))
			continue
		}
		n.again(b.users)
		whole = false
		if !away(b.err) { // the connection's watcher logs that
			s.log.Warn("activity: users are not noted yet", "users", len(b.users), "err", b.err)
		}
	}
	return whole
}

// forget lets go of the day before when it is over for long enough.
func (s *Service) forget() {
	d := s.days.Load()
	if d == nil || d.before == nil || s.db.Now().Before(d.before.until.Add(remember)) {
		return
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.days.Load() == d {
		s.days.Store(&days{today: d.today})
	}
}

// poll looks at today's number. A set that has fewer users than this node sent has lost
// some.
func (s *Service) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	n := s.at(s.db.Now())
	users, waiting := n.count()
	looked, err := s.redis.look(ctx, []civil.Day{n.date})
	if err != nil {
		return // Redis is away: nobody knows
	}
	s.polled = time.Now()
	is, sent := looked[0].count(), int64(users-waiting)
	s.now.Store(is.Actives)
	if is.falls(Count{Actives: sent, Exact: true}) {
		s.putBack("Redis has fewer users than were sent")
	}
}

// drop has this node forget a user, so that the id is not sent once more.
func (s *Service) drop(user string) {
	var u member
	copy(u[:], user)
	for _, n := range s.days.Load().all() {
		n.drop(u)
	}
}

// Erase has a random id take the place of a user in Redis, so that no number changes, and all nodes
// forget the user. It is called once more later: what a node was sending is in Redis by then.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "activity.Erase %s", user)
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	s.drop(user.String())
	if err = s.cfg.Bus.Publish(ctx, topic, "erased", user.String()); err == nil {
		today := s.clock.Today(s.db.Now())
		err = s.redis.erase(ctx, user, Span{today - kept - 2, today}.days())
	}
	if away(err) { // the sets go by themselves
		s.log.Info("activity: Redis keeps an erased user's id until the life of its sets has ended", "user", user, "err", err)
		return nil
	}
	return err
}
