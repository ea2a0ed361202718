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

// Config has the dependencies and settings of the domain.
type Config struct {
	DB       *sqldb.DB
	Redis    *redis.DB
	Bus      *bus.Bus
	Metrics  prometheus.Registerer
	Log      *slog.Logger
	Settings Settings
}

// Service has the operations of the domain. It is safe for concurrent use.
type Service struct {
	cfg      Config
	clock    civil.Clock
	db       *sqldb.DB
	redis    redisStore
	log      *slog.Logger
	maxUsers int // [maxUsers]; tests may set a smaller number

	days          atomic.Pointer[days]
	advanceMu     sync.Mutex  // guards the replacement of days
	lossSuspected atomic.Bool // Redis may have lost users that this node sent

	lastPoll   time.Time    // used only by Run
	todayCount atomic.Int64 // today's number in Redis at the last poll
	metrics    *metrics
}

// topic is the bus topic of erased users.
const topic = "activity"

// New returns a Service. It registers a handler at the bus, so call it before the bus runs.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, clock: cfg.Settings.clock(), db: cfg.DB, redis: redisStore{cfg.Redis}, log: cfg.Log, maxUsers: maxUsers}
	s.metrics = newMetrics(cfg.Metrics, s)
	cfg.Bus.Handle(topic, bus.Handler{
		Event: func(e bus.Event) { s.deleteUser(e.Data) },
		Lost:  func() { s.lossSuspected.Store(true) },
	})
	return s
}

// RecordActive records that a user is active now. It does not wait for Redis. For a user who was recorded today, it only
// reads memory.
func (s *Service) RecordActive(user accounts.ID) {
	var u member
	copy(u[:], user.String())
	if now := s.db.Now(); !s.dayAt(now).add(u, s.maxUsers) {
		s.metrics.refused.Inc()
	}
}

// dayAt returns the users of the day that contains now. It starts the day if necessary.
func (s *Service) dayAt(now time.Time) *dayUsers {
	if day := s.days.Load().find(now); day != nil {
		return day
	}
	s.advanceMu.Lock()
	defer s.advanceMu.Unlock()
	d := s.days.Load()
	if day := d.find(now); day != nil {
		return day
	}
	if d != nil && d.previous != nil {
		if _, waiting := d.previous.count(); waiting > 0 {
			s.metrics.refused.Add(float64(waiting))
		}
	}
	d = d.advance(now, s.clock)
	s.days.Store(d)
	return d.today
}

const (
	// flushInterval is the time between two flushes of waiting users.
	flushInterval = time.Second
	// flushTimeout bounds one round trip.
	flushTimeout = 2 * time.Second
	// commandsPerTrip is the largest number of commands of one round trip.
	commandsPerTrip = 10
	// pollInterval is the time between two reads of today's number. A node compares it with the number of users that it
	// has sent.
	pollInterval = time.Minute
)

// Run sends the recorded users to Redis until ctx ends. It then sends the users who are still waiting.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ready()
	beat := time.NewTicker(flushInterval)
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
	if s.lossSuspected.Swap(false) {
		s.resendAll("Redis may have lost data")
	}
	if s.flush(ctx) && time.Since(s.lastPoll) >= pollInterval {
		s.poll(ctx)
	}
}

// resendAll adds all remembered users to the waiting lists again.
func (s *Service) resendAll(reason string) {
	total := 0
	for _, day := range s.days.Load().all() {
		total += day.requeueAll()
	}
	if total > 0 {
		s.metrics.resent.Add(float64(total))
		s.log.Info("activity: sending users again", "users", total, "reason", reason)
	}
}

// flush sends all waiting users to Redis, and reports whether Redis stored them.
func (s *Service) flush(ctx context.Context) bool {
	for _, day := range s.days.Load().all() {
		for {
			users := day.dequeue(commandsPerTrip * batchSize)
			if len(users) == 0 {
				break
			}
			if !s.send(ctx, day, users) {
				return false
			}
		}
	}
	s.releasePrevious()
	return true
}

func (s *Service) send(ctx context.Context, day *dayUsers, users []member) (succeeded bool) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	var batches []*batch
	for chunk := range slices.Chunk(users, batchSize) {
		batches = append(batches, &batch{day: day.date, users: chunk})
	}
	s.redis.add(ctx, batches, s.cfg.Settings.Approximate())
	succeeded = true
	for _, b := range batches {
		if b.err == nil {
			s.metrics.sent.Add(float64(len(b.users)))
			continue
		}
		day.requeue(b.users)
		succeeded = false
		if !isUnavailable(b.err) { // the watcher of the Redis connection logs it
			s.log.Warn("activity: users not recorded yet", "users", len(b.users), "err", b.err)
		}
	}
	return succeeded
}

// releasePrevious releases the memory of the previous day, [resendWindow] after its end.
func (s *Service) releasePrevious() {
	d := s.days.Load()
	if d == nil || d.previous == nil || s.db.Now().Before(d.previous.until.Add(resendWindow)) {
		return
	}
	s.advanceMu.Lock()
	defer s.advanceMu.Unlock()
	if s.days.Load() == d {
		s.days.Store(&days{today: d.today})
	}
}

// poll reads today's number. If it is lower than the number of users that this node has sent, it sends them again.
func (s *Service) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	day := s.dayAt(s.db.Now())
	users, waiting := day.count()
	counts, err := s.redis.readCounts(ctx, []civil.Day{day.date})
	if err != nil {
		return // the next poll retries
	}
	s.lastPoll = time.Now()
	count, sent := counts[0].count(), int64(users-waiting)
	s.todayCount.Store(count.Actives)
	if count.showsLoss(Count{Actives: sent, Exact: true}) {
		s.resendAll("Redis has fewer users than were sent")
	}
}

// deleteUser deletes a user from the memory of this node, so that the id is not sent again.
func (s *Service) deleteUser(user string) {
	var u member
	copy(u[:], user)
	for _, day := range s.days.Load().all() {
		day.delete(u)
	}
}

// Erase replaces a user by a random id in Redis, so that no number changes. All nodes delete the user from memory. The
// caller repeats Erase later, because a node may be sending the user at the same time.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "activity.Erase %s", user)
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	s.deleteUser(user.String())
	if err = s.cfg.Bus.Publish(ctx, topic, "erased", user.String()); err == nil {
		today := s.clock.Today(s.db.Now())
		err = s.redis.erase(ctx, user, Span{today - daysWithSets - 2, today}.days())
	}
	if isUnavailable(err) { // the sets expire
		s.log.Info("activity: erased user not removed from Redis, the sets will expire", "user", user, "err", err)
		return nil
	}
	return err
}
