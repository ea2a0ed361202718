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

// Config configures the domain.
type Config struct {
	DB       *sqldb.DB
	Redis    *redis.DB
	Bus      *bus.Bus
	Metrics  prometheus.Registerer
	Log      *slog.Logger
	Settings Settings
}

// Service is the domain. It is safe for concurrent use.
type Service struct {
	cfg   Config
	clock civil.Clock
	db    *sqldb.DB
	redis redisStore
	log   *slog.Logger
	room  int // remembered users of a day; [most]

	days  atomic.Pointer[days]
	turn  sync.Mutex  // of days
	doubt atomic.Bool // Redis may have lost users that this node sent

	polled  time.Time    // used only by Run
	now     atomic.Int64 // today's number at the last check
	metrics *metrics
}

// topic is the bus topic of erased users.
const topic = "activity"

// New returns the domain. It handles a bus topic, so call it before the bus runs.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, clock: cfg.Settings.clock(), db: cfg.DB, redis: redisStore{cfg.Redis}, log: cfg.Log, room: most}
	s.metrics = newMetrics(cfg.Metrics, s)
	cfg.Bus.Handle(topic, bus.Handler{
		Event: func(e bus.Event) { s.drop(e.Data) },
		Lost:  func() { s.doubt.Store(true) },
	})
	return s
}

// Seen records that a user is active now. It never waits, and for a user who was recorded today it only reads memory.
func (s *Service) Seen(user accounts.ID) {
	var u member
	copy(u[:], user.String())
	if now := s.db.Now(); !s.at(now).add(u, s.room) {
		s.metrics.refused.Inc()
	}
}

// at returns the users of the day of a time, and starts that day.
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
	// flushTime bounds one round trip.
	flushTime = 2 * time.Second
	// trips is the number of commands per round trip.
	trips = 10
	// pollEvery is the time between two reads of today's number. A node checks that the number includes the users that
	// it sent.
	pollEvery = time.Minute
)

// Run sends the recorded users to Redis until ctx ends, and then the rest.
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

// putBack sends all remembered users again.
func (s *Service) putBack(why string) {
	total := 0
	for _, n := range s.days.Load().all() {
		total += n.putBack()
	}
	if total > 0 {
		s.metrics.putBack.Add(float64(total))
		s.log.Info("activity: sending users again", "users", total, "why", why)
	}
}

// flush sends all waiting users to Redis, and reports whether Redis accepted them.
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
		if !away(b.err) { // the watcher of the connection logs it
			s.log.Warn("activity: users not recorded yet", "users", len(b.users), "err", b.err)
		}
	}
	return whole
}

// forget releases the users of the previous day after its time is over.
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

// poll reads today's number. A set with fewer users than this node sent has lost some.
func (s *Service) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	n := s.at(s.db.Now())
	users, waiting := n.count()
	looked, err := s.redis.look(ctx, []civil.Day{n.date})
	if err != nil {
		return // Redis is unavailable, so nothing is known
	}
	s.polled = time.Now()
	is, sent := looked[0].count(), int64(users-waiting)
	s.now.Store(is.Actives)
	if is.falls(Count{Actives: sent, Exact: true}) {
		s.putBack("Redis has fewer users than were sent")
	}
}

// drop makes this node forget a user, so that the id is not sent again.
func (s *Service) drop(user string) {
	var u member
	copy(u[:], user)
	for _, n := range s.days.Load().all() {
		n.drop(u)
	}
}

// Erase replaces a user by a random id in Redis, so that no number changes, and all nodes forget the user. The caller
// repeats it later, because a node may be sending the user.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "activity.Erase %s", user)
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	s.drop(user.String())
	if err = s.cfg.Bus.Publish(ctx, topic, "erased", user.String()); err == nil {
		today := s.clock.Today(s.db.Now())
		err = s.redis.erase(ctx, user, Span{today - kept - 2, today}.days())
	}
	if away(err) { // the sets expire anyway
		s.log.Info("activity: erased user stays in Redis until the sets expire", "user", user, "err", err)
		return nil
	}
	return err
}
