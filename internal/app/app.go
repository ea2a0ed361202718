package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/mail"
	"github.com/stoa-dev/stoa/internal/foundation/obs"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/supervise"
	"github.com/stoa-dev/stoa/internal/foundation/web"
	"github.com/stoa-dev/stoa/internal/foundation/worker"
	"github.com/stoa-dev/stoa/internal/migrations"
	"github.com/stoa-dev/stoa/lease"
	"github.com/stoa-dev/stoa/ratelimit"
	"github.com/stoa-dev/stoa/redis"
)

// App is one node of Stoa. Make one with [New] and run it once.
type App struct {
	cfg  Config
	log  *slog.Logger
	reg  *obs.Registry
	node string

	db       *sqldb.DB
	redis    *redis.DB
	bus      *events.Bus
	api      *web.API
	accounts *accounts.Service
	checkin  *checkin.Service
	outbox   *worker.Outbox
	jobs     *worker.Pool
	group    *supervise.Group
}

type node struct{} // tags node ids

// New opens SQL, migrates it, and builds every part on it. Redis may be away.
// Close must be called, also when Run was not.
func New(ctx context.Context, cfg Config, log *slog.Logger) (_ *App, err error) {
	defer errs.Wrap(&err, "start")
	a := &App{cfg: cfg, log: log, reg: obs.NewRegistry(), node: ids.New[node]().String()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	key, err := secret(cfg)
	if err != nil {
		return nil, err
	}
	if a.db, err = sqldb.Open(ctx, sqldb.Config{URL: cfg.SQL, Dir: cfg.Data, MaxConns: cfg.SQLConns, Now: cfg.Now, Log: log}); err != nil {
		return nil, err
	}
	if err := a.db.Migrate(ctx, migrations.FS); err != nil {
		return nil, err
	}
	if err := agree(ctx, a.db, key); err != nil {
		return nil, err
	}
	if a.redis, err = redis.Open(ctx, redis.Config{URL: cfg.Redis, Prefix: cfg.KeyPrefix, Log: log}); err != nil {
		return nil, err
	}
	mailer, err := a.mailer()
	if err != nil {
		return nil, err
	}
	limiter := ratelimit.New(a.redis)
	a.bus = events.NewBus(a.redis, a.node, log)
	if a.accounts, err = accounts.New(accounts.Config{DB: a.db, Redis: a.redis, Limiter: limiter, Mail: mailer, Secret: key, Settings: cfg.Accounts, Log: log}); err != nil {
		return nil, err
	}
	a.checkin = checkin.New(checkin.Config{DB: a.db, Redis: a.redis, Users: a.accounts, Bus: a.bus, Node: a.node, Metrics: a.reg, Log: log, Now: cfg.Now, Settings: cfg.Checkin})
	a.newAPI(limiter)
	handlers := a.accounts.Handlers()
	handlers[accounts.TopicZone] = a.zoneChanged
	handlers[checkin.TopicGranted] = a.granted
	if a.outbox, err = worker.NewOutbox(a.db, handlers, worker.OutboxConfig{Log: log, Metrics: a.reg}); err != nil {
		return nil, err
	}
	leases := lease.New(a.redis)
	run := worker.PoolConfig{Log: log, Metrics: a.reg, Lease: func(ctx context.Context, name string, fn func(context.Context) error) error {
		if a.redis.Ping(ctx) != nil {
			return worker.ErrLeaseAway
		}
		return leases.Run(ctx, jobKeys(name), a.node, jobLease, func(ctx context.Context, _ int64) error { return fn(ctx) })
	}}
	if a.jobs, err = worker.NewPool(run, slices.Concat(a.accounts.Jobs(), a.checkin.Jobs(), a.housekeeping())...); err != nil {
		return nil, err
	}
	a.group = &supervise.Group{Log: log}
	return a, nil
}

func (a *App) mailer() (mail.Sender, error) {
	if a.cfg.Development() {
		return mail.NewBox(a.db), nil
	}
	return mail.NewSMTP(a.cfg.SMTP)
}

func (a *App) housekeeping() []worker.Job {
	return []worker.Job{{Name: "web.idempotency", Every: 10 * time.Minute, Singleton: true, SafeAlone: true, Run: func(ctx context.Context) error {
		_, err := a.api.Sweep(ctx, time.Now())
		return err
	}}}
}

func (a *App) zoneChanged(ctx context.Context, d worker.Delivery) error {
	var changed accounts.ZoneChanged
	if err := json.Unmarshal(d.Payload, &changed); err != nil {
		return fmt.Errorf("%w: %w", worker.ErrGiveUp, err)
	}
	return a.checkin.ZoneChanged(ctx, changed.User)
}

func (a *App) granted(ctx context.Context, d worker.Delivery) error {
	var to checkin.GrantedTo
	if err := json.Unmarshal(d.Payload, &to); err != nil {
		return fmt.Errorf("%w: %w", worker.ErrGiveUp, err)
	}
	return a.checkin.Granted(ctx, to.User)
}

// Grant gives a user streak freezes. It needs no running server; the next one,
// or the one that runs, brings them to Redis.
func (a *App) Grant(ctx context.Context, user string, n int, reason string) error {
	id, err := ids.Parse[accounts.User](user)
	if err != nil {
		return accounts.ErrNoUser
	}
	return a.checkin.Grant(ctx, id, n, reason)
}

// Run serves on ln until ctx ends, then drains. It calls ready once everything
// is up; Redis may still be away. It closes ln.
func (a *App) Run(ctx context.Context, ln net.Listener, ready func()) error {
	whole := func(run func(context.Context) error) func(context.Context, func()) error {
		return func(ctx context.Context, ready func()) error { ready(); return run(ctx) }
	}
	a.group.Add(
		supervise.Part{Name: "events", Run: a.bus.Run},
		supervise.Part{Name: "checkin", Run: a.checkin.Run},
		supervise.Part{Name: "outbox", Run: whole(a.outbox.Run)},
		supervise.Part{Name: "jobs", Run: whole(a.jobs.Run)},
		// Its own drain lasts up to ten seconds.
		supervise.Part{Name: "http", Grace: 15 * time.Second, Run: func(ctx context.Context, up func()) error {
			up()
			ready()
			return a.api.Serve(ctx, ln)
		}},
	)
	return a.group.Run(ctx)
}

// Close closes what New opened.
func (a *App) Close() error {
	var faults []error
	if a.redis != nil {
		faults = append(faults, a.redis.Close())
	}
	if a.db != nil {
		faults = append(faults, a.db.Close())
	}
	return errors.Join(faults...)
}
