package checkin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/projection"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/groupcommit"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Config has the dependencies and settings of the check-in domain.
type Config struct {
	DB      *sqldb.DB
	Redis   *redis.DB
	Users   *accounts.Service
	Friends func(ctx context.Context, user accounts.ID) ([]accounts.ID, error) // the friends of a user
	Apart   Apart                                                              // nil: no user is hidden
	// asked before a check-in or a make-up, and notified after it; nil: never
	Hooks   *webhooks.Service
	Bus     *events.Bus
	Node    string // this process; see projection.Config
	Metrics prometheus.Registerer
	Log     *slog.Logger
	Now     func() time.Time // the server's clock; nil means time.Now
	Pace    Pace

	Settings
}

// Apart returns which users are hidden from a user. Package app wires it.
type Apart interface {
	// Apart returns the users of others who block the user, or whom the user blocks.
	Apart(ctx context.Context, user accounts.ID, others []accounts.ID) (map[accounts.ID]bool, error)
}

// Pace has the waiting times of the domain. A zero means the value of production.
type Pace struct {
	Budget       time.Duration // of a caller for one response of Redis, before SQL is used
	SQL          time.Duration // of a caller in redis-first mode, for SQL
	Round        time.Duration // see projection.Config.Patience
	RecheckAfter time.Duration // of a reconciliation, before it rechecks a user who differs
	LaterAgain   time.Duration // of the message of an import, while Redis is away
	ScanPage     int           // keys that one command scans
}

// Service is the check-in domain as the rest of the program uses it.
type Service struct {
	Boards *ranking.Boards // the leaderboards, with the places of users

	users      *accounts.Service
	friends    func(context.Context, accounts.ID) ([]accounts.ID, error)
	apart      Apart
	bus        *events.Bus
	hooks      *webhooks.Service
	sql        *sqlStore
	redis      *redisStore
	projection *projection.Projection[change, state]
	committer  *groupcommit.Committer[request, outcome]
	loader     *groupcommit.Committer[records.Key, *streak.Record]
	checkins   checkinLog
	recent     *records.Cache // nil in redis-first mode, where no guess may decide whose check-ins need SQL
	rules      Settings
	freezes    streak.Freezes
	metrics    *metrics
	log        *slog.Logger
	now        func() time.Time
	laterAgain time.Duration
	reconciler *reconcile.Reconciler
}

// New returns the service. It writes nothing before [Service.Run].
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{
		users: cfg.Users, friends: cfg.Friends, apart: cfg.Apart, bus: cfg.Bus, log: cfg.Log,
		rules: cfg.Settings, freezes: streak.Freezes{Every: cfg.FreezeEvery, Max: cfg.FreezeMax},
		now:   func() time.Time { return cfg.Now().UTC().Truncate(time.Millisecond) },
		sql:   newSQLStore(cfg.DB),
		hooks: cfg.Hooks,
		redis: newRedisStore(cfg.Redis, cfg.Pace, cfg.Mode),

		laterAgain: cmp.Or(cfg.Pace.LaterAgain, laterAgain),
	}
	s.sql.hooks = cfg.Hooks
	s.metrics = newMetrics(cfg.Metrics, func() bool { return s.projection.Up() })
	s.projection = projection.New(projection.Config[change, state]{
		Redis: cfg.Redis, DB: cfg.DB, Applied: appliedKey.At(), Node: cfg.Node, Log: cfg.Log,
		Changed: s.changed, State: s.state, Write: s.writeStates, Metrics: cfg.Metrics, Name: "checkin", Patience: cfg.Pace.Round,
	})
	cfg.Bus.DelayEpochsWhile(s.projection.Behind)
	if cfg.Mode == RedisFirst {
		s.checkins = newStreamLog(cfg, s)
	} else {
		s.checkins, s.recent = sqlLog{s.sql}, records.NewCache()
	}
	s.Boards = ranking.New(ranking.Config{
		DB: cfg.DB, Redis: cfg.Redis, Projection: s.projection, Kind: cfg.Boards, Freezes: s.freezes, Away: ErrStore, Log: cfg.Log, Now: s.now,
		Wait:   10 * s.redis.Budget, // a read may have to remove the streaks that died at a midnight
		Clocks: cfg.Users.Clocks, Record: s.record, Histories: s.sqlHistories, Logged: s.sql.histories, Drain: s.checkins.drain,
	})
	s.reconciler = reconcile.New(reconcile.Config{
		DB: cfg.DB, Records: s.redis.Patient(), Boards: s.Boards, Every: cfg.ReconcileEvery, Rate: cfg.ReconcileRate,
		RecheckAfter: cfg.Pace.RecheckAfter,
		Node:         cfg.Node, Metrics: cfg.Metrics, Log: cfg.Log, Now: s.now,
		Up: s.projection.Up, Clocks: cfg.Users.Clocks, Histories: s.checkins.histories, Logged: s.sql.histories,
		Flush: s.checkins.flush, FlushSome: s.checkins.flushPage, Renew: s.renew, EraseLate: s.eraseLate,
	})
	s.committer = s.newCommitter()
	// All users who are read just after midnight of New Year miss at the same time. Their SELECTs are gathered, and at
	// most two run at once.
	s.loader = groupcommit.New(s.loadBatch, groupcommit.Options[records.Key, *streak.Record]{Committers: 2, MaxBatch: maxLoad})
	return s
}

// maxLoad is the largest number of records that one SELECT computes.
const maxLoad = 500

// Run commits check-ins and applies them to Redis until ctx ends. Then it finishes the requests that were submitted. It
// calls ready when check-ins can be made.
func (s *Service) Run(ctx context.Context, ready func()) error {
	// The projection outlives the committer, to settle its last batches.
	settle, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var settling, working sync.WaitGroup
	first := make(chan struct{})
	settling.Go(func() { _ = s.projection.Run(settle, sync.OnceFunc(func() { close(first) })) })
	working.Go(func() { _ = s.committer.Run(ctx) })
	working.Go(func() { _ = s.loader.Run(ctx) })
	working.Go(func() { s.Boards.Run(ctx) })
	working.Go(func() { s.reconciler.Run(ctx) })
	working.Go(func() { s.checkins.run(ctx) })
	select {
	case <-first:
		s.settle(ctx)
		ready()
	case <-ctx.Done():
	}
	working.Wait()
	stop()
	settling.Wait()
	return nil
}

// Degraded returns why reads use SQL. It is empty when Redis is complete.
func (s *Service) Degraded() string { return s.projection.Degraded() }

// CheckMode logs what the mode may lose on this Redis. It returns an error if the mode cannot work with it. If Redis
// does not respond, Run checks it later.
func (s *Service) CheckMode(ctx context.Context) error { return s.checkins.check(ctx) }

// Mark checks a user in for today by the user's own calendar. It returns when the check-in is as durable as the mode
// promises. A second check-in on the same day changes nothing and returns New false. A retry with the same request id
// returns the first result. Mark returns ErrStore if SQL is away.
func (s *Service) Mark(ctx context.Context, user accounts.ID, clock civil.Clock, act Activity, requestID uint64) (_ Result, err error) {
	defer errs.Wrap(&err, "checkin.Mark %s", user)
	now := s.now()
	r := tap(user, clock, clock.Today(now), now, act, requestID)
	if err := s.askBackend(ctx, r); err != nil {
		return Result{}, err
	}
	out, err := s.submit(ctx, r)
	return out.Result, err
}

// askBackend calls the before-hook of the app's own backend for a check-in or a make-up. It returns webhooks.ErrRefused
// if the backend refuses, and webhooks.ErrUnavailable if it does not respond.
func (s *Service) askBackend(ctx context.Context, r request) error {
	if !s.hooks.HasBefore(api.BeforeCheckin) {
		return nil
	}
	_, err := s.hooks.Before(ctx, api.BeforeCheckin, r.user.String(), r.hook(), nil)
	return err
}

// MarkDay is Mark for a client that names the day: today, or, for a while after midnight, the day that has just ended.
// It returns ErrDayClosed for all other days, and for a day that a freeze covers because of a check-in of today. The
// status in the result is that of today.
func (s *Service) MarkDay(ctx context.Context, user accounts.ID, clock civil.Clock, day civil.Day, act Activity,
	requestID uint64) (_ Result, err error) {
	defer errs.Wrap(&err, "checkin.MarkDay %s", user)
	now := s.now()
	r := tap(user, clock, day, now, act, requestID)
	if r.late, err = s.rules.late(clock, now, day); err != nil {
		return Result{}, err
	}
	if err := s.askBackend(ctx, r); err != nil {
		return Result{}, err
	}
	out, err := s.submit(ctx, r)
	if err != nil || !r.late {
		return out.Result, err
	}
	if !out.kind.Signs() {
		return Result{}, ErrDayClosed
	}
	if out.Status, err = s.Status(ctx, user, clock); err == nil && out.New {
		s.bus.Publish([]events.Event{markedEvent(user, now, out.Status)})
	}
	return out.Result, err
}

func tap(user accounts.ID, clock civil.Clock, day civil.Day, at time.Time, act Activity, requestID uint64) request {
	return request{
		user: user, clock: clock, day: day, at: at, kind: streak.Tapped, act: act,
		req: int64(requestID), //nolint:gosec // 64 random bits, not a number
	}
}

func (s *Service) submit(ctx context.Context, r request) (outcome, error) {
	s.projection.Begin(r.at)
	out, err := s.committer.Do(ctx, r)
	switch {
	case errors.Is(err, groupcommit.ErrClosed):
		s.projection.Done(r.at)
		return outcome{}, ErrStore
	case errors.Is(err, groupcommit.ErrNotTaken):
		s.projection.Done(r.at)
	}
	return out, asAnswer(ctx, cmp.Or(err, out.err))
}

// Status returns a user's current status.
func (s *Service) Status(ctx context.Context, user accounts.ID, clock civil.Clock) (_ streak.Status, err error) {
	defer errs.Wrap(&err, "checkin.Status %s", user)
	today := clock.Today(s.now())
	rec, err := s.record(ctx, user, today.Year())
	if err != nil {
		return streak.Status{}, err
	}
	return s.freezes.Status(rec, clock, today), nil
}

// firstYear is the first year that has a calendar.
const firstYear = 1970

// Calendar returns the days of a year, or of one month if month is not 0. It returns ErrYear if no calendar has the
// year.
func (s *Service) Calendar(ctx context.Context, user accounts.ID, clock civil.Clock, year int, month time.Month) (_ Calendar, err error) {
	defer errs.Wrap(&err, "checkin.Calendar %s", user)
	if year < firstYear || year > 9999 || month < 0 || month > 12 {
		return Calendar{}, ErrYear
	}
	out := Calendar{Year: year, Month: month}
	today := clock.Today(s.now())
	if year > today.Year() {
		return out, nil // the year has not begun: there is nothing to cache
	}
	rec, err := s.record(ctx, user, year)
	if err != nil {
		return Calendar{}, err
	}
	if err := s.addOpen(ctx, user, clock, rec, year, today); err != nil {
		return Calendar{}, err
	}
	first, last := civil.DayOf(year, 1, 1), civil.DayOf(year, 12, 31)
	if month != 0 {
		first, last = civil.DayOf(year, month, 1), civil.DayOf(year, month+1, 0)
	}
	out.Signed, out.Covered = rec.Days(first, last)
	return out, nil
}

// Stats returns a user's figures over all time. It always reads the activity from SQL, and the rest like Status.
func (s *Service) Stats(ctx context.Context, user accounts.ID, clock civil.Clock) (_ Stats, err error) {
	defer errs.Wrap(&err, "checkin.Stats %s", user)
	status, err := s.Status(ctx, user, clock)
	if err != nil {
		return Stats{}, err
	}
	words, minutes, err := s.sql.activity(ctx, user)
	return Stats{Status: status, Words: words, Minutes: minutes}, err
}

// record returns a user's year: from Redis, or else from SQL, and then stores it.
func (s *Service) record(ctx context.Context, user accounts.ID, year int) (*streak.Record, error) {
	k := records.Key{User: user, Year: year}
	if s.projection.Up() {
		rec, err := s.redis.Read(ctx, k)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			s.projection.Suspect()
		case rec != nil && s.projection.Up(): // still complete
			s.metrics.reads.redis.Inc()
			return rec, nil
		}
	}
	s.metrics.reads.sql.Inc()
	rec, err := s.loader.Do(ctx, k)
	return rec, asAnswer(ctx, err)
}

// loadBatch computes records from the log and, while Redis is available, stores them.
func (s *Service) loadBatch(ctx context.Context, keys []records.Key) ([]*streak.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	if s.projection.Writable() {
		recs, err := s.loadRecords(ctx, keys)
		if err == nil {
			return recs, nil
		}
		if !errors.Is(err, redis.ErrUnavailable) {
			return nil, err
		}
		s.projection.Suspect()
	}
	recs, err := s.recordsFromLog(ctx, keys)
	if errors.Is(err, errClaims) {
		err = nil
	}
	return recs, err
}

// ZoneChanged applies a change of a user's time zone, because the streak now ends at another instant. If the change
// skips a date, that date becomes a covered day. This call comes when the zone is in force.
func (s *Service) ZoneChanged(ctx context.Context, c accounts.ZoneChanged) (err error) {
	defer errs.Wrap(&err, "checkin.ZoneChanged %s", c.User)
	users := []accounts.ID{c.User}
	clocks, err := s.users.Clocks(ctx, users)
	if err != nil {
		return err
	}
	clock := clocks[c.User]
	if c.Skipped != 0 {
		if written, err := s.skip(ctx, c, clock); err != nil || !written {
			return err
		}
	}
	return s.projection.Renew(ctx, change{user: c.User})
}

// skip writes the date that a change of zone has skipped. Like a check-in, it closes the gap before it. If freezes
// would cover a day that can still be signed, skip enqueues the message again for the time when that day is over. It
// writes at once if the clock no longer has the skipped date.
func (s *Service) skip(ctx context.Context, c accounts.ZoneChanged, clock civil.Clock) (written bool, err error) {
	users := []accounts.ID{c.User}
	if gone, err := s.users.Erased(ctx, users); err != nil || len(gone) > 0 {
		return false, err
	}
	now := s.now()
	over := time.UnixMilli(clock.From).Add(s.rules.Grace)
	if day, ok := clock.Skipped(); ok && day == c.Skipped && now.Before(over) {
		histories, err := s.checkins.histories(ctx, users)
		if err != nil {
			return false, err
		}
		if len(s.freezes.Due(histories[c.User], clock, c.Skipped, now)) > 0 {
			return false, s.sql.postpone(ctx, c, over)
		}
	}
	_, err = s.submit(ctx, request{user: c.User, clock: clock, day: c.Skipped, at: now, kind: streak.Skipped, req: now.UnixNano()})
	return err == nil, err
}

func mapped[A, B any](in []A, f func(A) B) []B {
	out := make([]B, 0, len(in))
	for _, a := range in {
		out = append(out, f(a))
	}
	return out
}
