package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/activity"
	"github.com/stoa-dev/stoa/internal/background/drops"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/background/supervise"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/jwtlogin"
	"github.com/stoa-dev/stoa/internal/live"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/presence"
	"github.com/stoa-dev/stoa/internal/push"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/realtime/gateway"
	"github.com/stoa-dev/stoa/internal/rooms"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded" // registers the Redis URL "embedded"
	_ "github.com/stoa-dev/stoa/lib/redis/spawn"    // registers the Redis URL "spawn"
)

// App is one node of Stoa. Create it with [New] and run it once.
type App struct {
	cfg  Config
	log  *slog.Logger
	reg  *obs.Registry
	id   cluster.ID
	node string // id

	secrets   secrets
	db        *sqldb.DB
	redis     *redis.DB
	redisLoad *obs.Redis
	limiter   *ratelimit.Limiter
	bus       *events.Bus
	cluster   *cluster.Service
	caches    *cache.Runtime
	drops     *drops.Queue
	studio    *picture.Studio // all pictures share its memory
	api       *web.API
	hooks     *webhooks.Service
	keys      *servicekeys.Service
	jwt       *jwtlogin.Service
	gateway   *gateway.Gateway // nil without the role
	admin     *web.API         // for operators; nil without an address of its own
	adminLn   net.Listener     // of admin
	accounts  *accounts.Service
	notices   *notices.Service
	social    *social.Service
	groups    *groups.Service
	messages  *messaging.Service
	presence  *presence.Service
	push      *push.Service
	activity  *activity.Service
	transfers *transfers.Service
	checkin   *checkin.Service
	live      *live.Service
	rooms     *rooms.Service
	queues    []*queue.Consumer
	jobs      *worker.Pool
	group     *supervise.Group

	redisHealth health
	drain       *drain
}

// New opens and migrates SQL, and builds every part on it. Redis may be unavailable. The caller must call Close, even
// if Run was not called. Each step uses only parts of earlier steps, except in the calls of upward.go.
func New(ctx context.Context, cfg Config, log *slog.Logger) (_ *App, err error) {
	defer errs.Wrap(&err, "start")
	config.Defaults(&cfg)
	id := ids.New[cluster.Node]()
	a := &App{cfg: cfg, log: log, reg: obs.NewRegistry(), id: id, node: id.String(), drain: newDrain(ctx),
		group: &supervise.Group{Log: log}}
	for _, step := range []func(context.Context) error{
		a.openSQL, a.openRedis, a.newShared, a.newPeople, a.newMessages, a.confirmSecret, a.newRooms, a.newCheckin,
		a.newAPI, a.newGateway, a.newQueues, a.newJobs,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	return a, nil
}

// Admin sets the listener of the operators' address, which Run closes. Call it before Run if Config.AdminAddr is set.
func (a *App) Admin(ln net.Listener) { a.adminLn = ln }

// Run serves on ln until ctx ends, then drains. It calls ready when all parts run; Redis may still be unavailable. It
// closes ln.
func (a *App) Run(ctx context.Context, ln net.Listener, ready func()) error {
	whole := func(run func(context.Context) error) func(context.Context, func()) error {
		return func(ctx context.Context, ready func()) error { ready(); return run(ctx) }
	}
	a.cluster.Listening(ln.Addr().String())
	ctx, stop := context.WithCancel(ctx)
	defer a.drain.running(ctx, stop)()
	defer context.AfterFunc(ctx, func() {
		a.log.Info("stopping: requests that run may finish", "node", a.node)
		a.cluster.SetStatus(cluster.Draining)
	})()
	defer func() { a.log.Info("stopped", "node", a.node) }()
	a.group.Add(
		supervise.Part{Name: "sql", Run: whole(func(ctx context.Context) error { return a.db.Watch(ctx, a.tryWrite) })},
		supervise.Part{Name: "events", Run: a.bus.Run},
		supervise.Part{Name: "cluster", Run: a.cluster.Run},
		supervise.Part{Name: "caches", Run: a.runCaches},
		supervise.Part{Name: "presence", Run: a.presence.Run},
		supervise.Part{Name: "activity", Run: a.activity.Run},
		supervise.Part{Name: "checkin", Run: a.checkin.Run},
		supervise.Part{Name: "messages", Run: a.messages.Run},
		supervise.Part{Name: "live", Run: a.live.Run},
		supervise.Part{Name: "rooms", Run: a.rooms.Run},
	)
	for _, q := range a.queues {
		a.group.Add(supervise.Part{Name: "queue." + q.Name(), Run: whole(q.Run)})
	}
	if a.adminLn != nil {
		a.group.Add(supervise.Part{Name: "admin", Grace: 15 * time.Second, Run: func(ctx context.Context, up func()) error {
			up()
			return a.admin.Serve(ctx, a.adminLn)
		}})
	}
	if a.gateway != nil {
		a.group.Add(supervise.Part{Name: "gateway", Grace: 10 * time.Second, Run: a.gateway.Run})
	}
	a.group.Add(
		supervise.Part{Name: "jobs", Run: whole(a.jobs.Run)},
		// The part drains by itself for up to ten seconds.
		supervise.Part{Name: "http", Grace: a.cfg.handover() + 15*time.Second, Run: func(ctx context.Context, up func()) error {
			up()
			a.serves()
			a.log.Info("listening", "addr", ln.Addr().String(), "node", a.node, "version", obs.Build().Version, "sql", a.db.String(), "redis",
				a.redis.Mode())
			ready()
			ctx, end := a.drain.handingOver(ctx, a.cfg.handover())
			defer end()
			return a.api.Serve(ctx, ln)
		}},
	)
	return a.group.Run(ctx)
}

// Close closes what New opened.
func (a *App) Close() error {
	var faults []error
	if a.transfers != nil {
		faults = append(faults, a.transfers.Close())
	}
	if a.redis != nil {
		faults = append(faults, a.redis.Close())
	}
	if a.db != nil {
		faults = append(faults, a.db.Close())
	}
	return errors.Join(faults...)
}
