package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
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
	"github.com/stoa-dev/stoa/internal/mail"
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
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqlcopy"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/lease"
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
	node string

	db        *sqldb.DB
	redis     *redis.DB
	bus       *events.Bus
	cluster   *cluster.Service
	caches    *cache.Runtime
	drops     *drops.Queue
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
// if Run was not called.
func New(ctx context.Context, cfg Config, log *slog.Logger) (_ *App, err error) {
	defer errs.Wrap(&err, "start")
	config.Defaults(&cfg)
	id := ids.New[cluster.Node]()
	a := &App{cfg: cfg, log: log, reg: obs.NewRegistry(), node: id.String(), drain: newDrain(ctx)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	key, isNew, err := secret(cfg)
	if err != nil {
		return nil, err
	}
	previous, err := previousSecret(cfg)
	if err != nil {
		return nil, err
	}
	if a.db, err = sqldb.Open(ctx, sqldb.Config{URL: cfg.SQL, Dir: cfg.Data, MaxConns: cfg.SQLConns, Now: cfg.Now, Log: log}); err != nil {
		return nil, err
	}
	if err := sqlcopy.Unfinished(ctx, a.db); err != nil {
		return nil, err
	}
	if err := a.db.Migrate(ctx, migrations.FS); err != nil {
		return nil, err
	}
	if err := sqlcopy.Unfinished(ctx, a.db); err != nil { // a copy may have begun while this node waited to migrate
		return nil, err
	}
	origin, err := agree(ctx, a.db, key, previous)
	if isNew && errors.Is(err, errSecret) { // another node has the secret
		err = errors.Join(err, os.Remove(filepath.Join(cfg.Data, secretFile)))
	}
	if err != nil {
		return nil, cfg.withSource(err)
	}
	if a.redis, err = redis.Open(ctx, redis.Config{URL: cfg.Redis, Prefix: cfg.KeyPrefix, HotKeys: true, Dial: cfg.DialRedis,
		Log: log}); err != nil {
		return nil, err
	}
	watch := obs.NewRedis(a.redis)
	a.reg.MustRegister(watch, a.db.Metrics())
	mailer, err := a.mailer()
	if err != nil {
		return nil, err
	}
	limiter := ratelimit.New(a.redis)
	a.bus = events.NewBus(a.redis, a.node, log)
	a.reg.MustRegister(obs.NewBus(a.bus.Nodes()), a.bus.Metrics())
	a.cluster = cluster.New(cluster.Config{Redis: a.redis, Bus: a.bus.Nodes(), Node: id, Version: obs.Build().Version,
		Roles: cfg.allRoles(), Metrics: a.reg, Log: log, Sockets: a.openSockets, Ordered: a.ordered, Lapsed: a.bus.TakenForDead,
		Settings: cfg.Cluster})
	a.bus.SetLive(a.liveNodes)
	counts := obs.NewCaches(a.reg)
	a.drops = drops.New(a.db, Cached(), log)
	a.caches = cache.NewRuntime(a.redis, a.bus.Nodes(), cache.Config{
		Budget: cfg.Cache.Budget, Loads: cfg.Cache.Loads, Retries: a.drops, Hooks: counts.Hooks(), Log: log,
	})
	counts.Watch(a.caches)
	if a.hooks, err = webhooks.New(webhooks.Config{Log: log, Metrics: a.reg, Dial: cfg.DialWebhooks, Settings: cfg.Webhooks}); err != nil {
		return nil, err
	}
	studio := picture.New(0) // all pictures share its memory
	if a.accounts, err = accounts.New(accounts.Config{
		Studio: studio,
		DB:     a.db, Redis: a.redis, Limiter: limiter, Hooks: a.hooks, Caches: a.caches, DropsPending: a.drops.Pending, Bus: a.bus,
		Cache: cfg.Cache.policy(), Mail: mailer, Page: cfg.page(), Secret: key, Previous: previous, PasswordCost: cfg.PasswordCost,
		Settings: cfg.Accounts, Metrics: a.reg, Log: log,
		Notify: a.notify,
	}); err != nil {
		return nil, err
	}
	if a.notices, err = notices.New(notices.Config{DB: a.db, Bus: a.bus, People: a.accounts, EnqueuePushes: a.pushNotices,
		Settings: cfg.Notices, Log: log}); err != nil {
		return nil, err
	}
	a.keys = servicekeys.New(a.db, a.accounts, log)
	if a.social, err = social.New(social.Config{
		Notices: a.notices,
		Hooks:   a.hooks,
		DB:      a.db, Caches: a.caches, Cache: cfg.Cache.policy(), Bus: a.bus, People: a.accounts, Settings: cfg.Social, Log: log,
		Streaks: func(ctx context.Context, users []accounts.ID) (map[accounts.ID]int, error) {
			return a.checkin.Streaks(ctx, users)
		}, // created below
	}); err != nil {
		return nil, err
	}
	if a.groups, err = groups.New(groups.Config{
		Notices: a.notices,
		Hooks:   a.hooks,
		DB:      a.db, Caches: a.caches, Cache: cfg.Cache.policy(), Bus: a.bus, People: a.accounts, Friends: a.social, Studio: studio,
		Settings: cfg.Groups, Log: log,
	}); err != nil {
		return nil, err
	}
	if a.jwt, err = jwtlogin.New(ctx, jwtlogin.Config{People: a.accounts, Hooks: a.hooks, Log: log, Now: a.db.Now,
		Off: cfg.Accounts.SignIn == accounts.SignInOwn, Settings: cfg.JWT}); err != nil {
		return nil, err
	}
	maySubscribe := func(ctx context.Context, user, channel string) error { return a.rooms.MaySubscribe(ctx, user, channel) } // created below
	if a.transfers, err = transfers.New(transfers.Config{DB: a.db, Redis: a.redis, Bus: a.bus, People: a.accounts, Relations: a.social,
		MaySubscribe: maySubscribe, Secret: key, Previous: previous, Data: cfg.Data, OpenLater: !cfg.does(roleAPI) && !cfg.does(roleWorker),
		Studio: studio, Metrics: a.reg, Log: log, Settings: cfg.Files}); err != nil {
		return nil, err
	}
	a.messages = messaging.New(ctx, messaging.Config{DB: a.db, Redis: a.redis, Caches: a.caches, Cache: cfg.Cache.policy(), Node: a.node,
		Metrics: a.reg, Bus: a.bus, People: a.accounts, Relations: a.social, Groups: a.groups, Files: a.transfers, Hooks: a.hooks, Log: log,
		Settings: cfg.Chats})
	a.transfers.Serve(a.messages)
	a.groups.Follow(a.messages)
	a.presence = presence.New(presence.Config{DB: a.db, Redis: a.redis, Bus: a.bus, Node: id, Nodes: a.cluster, People: a.accounts,
		Friends: a.social, Metrics: a.reg, Log: log})
	if a.push, err = push.New(push.Config{DB: a.db, People: a.accounts, Presence: a.presence, Chats: a.messages, Notices: a.notices,
		Secret: key, Previous: previous, Origin: origin, Page: cfg.page(), Sender: cfg.sender(), Offline: a.offline(),
		Transport: cfg.PushTransport, Metrics: a.reg, Log: log, Settings: cfg.Push}); err != nil {
		return nil, err
	}
	_, err = a.push.Key(ctx)       // stores the key, so that no read of it writes
	if !bytes.Equal(origin, key) { // the secret was rotated
		if err != nil { // the key must be stored before the earlier secret may be removed
			return nil, err
		}
		if err := useSecret(ctx, a.db, key); err != nil {
			return nil, err
		}
	}
	a.activity = activity.New(activity.Config{DB: a.db, Redis: a.redis, Bus: a.bus.Nodes(), Metrics: a.reg, Log: log, Settings: cfg.Activity})
	if a.live, err = live.New(live.Config{DB: a.db, Redis: a.redis, Caches: a.caches, Cache: cfg.Cache.policy(), Bus: a.bus, Node: a.node,
		Address: func() string {
			return a.cluster.Self().Address
		},
		People: a.accounts, MaySubscribe: maySubscribe,
		Files: a.transfers, Folder: filepath.Join(cfg.Data, "live"), Secret: key, Previous: previous, Metrics: a.reg, Log: log,
		Settings: cfg.liveSettings()}); err != nil {
		return nil, err
	}
	var roomLimiter *ratelimit.Limiter
	if cfg.Limits {
		roomLimiter = limiter
	}
	if a.rooms, err = rooms.New(ctx, rooms.Config{DB: a.db, Redis: a.redis, Caches: a.caches, Cache: cfg.Cache.policy(), Bus: a.bus,
		Node: a.node, Nodes: a.liveNodes,
		People: a.accounts, Blocks: a.social, Files: a.transfers, Streams: a.live, Passwords: a.accounts.Passwords(), Limiter: roomLimiter,
		Metrics: a.reg, Log: log, Settings: cfg.Rooms}); err != nil {
		return nil, err
	}
	a.checkin = checkin.New(checkin.Config{DB: a.db, Redis: a.redis, Users: a.accounts, Friends: a.social.FriendIDs, Apart: a.social,
		Hooks: a.hooks, Bus: a.bus, Node: a.node, Metrics: a.reg, Log: log, Now: cfg.Now, Settings: cfg.Checkin})
	a.bus.SetBehind(func() bool { return a.checkin.Behind() || a.messages.Behind() })
	if err := a.checkin.CheckMode(ctx); err != nil {
		return nil, err
	}
	a.newAPI(limiter, key, previous)
	if err := a.newGateway(ctx); err != nil {
		return nil, err
	}
	if err := a.newQueues(); err != nil {
		return nil, err
	}
	leases := lease.New(a.redis)
	run := worker.PoolConfig{Log: log, Metrics: a.reg, Lease: func(ctx context.Context, fn func(context.Context) error) error {
		ctx, cancel, err := a.drain.whileServing(ctx)
		if err != nil {
			return err
		}
		defer cancel()
		if a.redis.Ping(ctx) != nil {
			return worker.ErrLeaseUnavailable
		}
		return leases.Run(ctx, jobKeys, a.node, jobLease, func(ctx context.Context, _ int64) error { return fn(ctx) })
	}}
	jobs := slices.Concat(a.accounts.Jobs(), a.keys.Jobs(), a.notices.Jobs(), a.push.Jobs(), a.social.Jobs(), a.groups.Jobs(),
		a.presence.Jobs(), a.activity.Jobs(), a.transfers.Jobs(), a.live.Jobs(), a.rooms.Jobs(), a.checkin.Jobs(), a.housekeeping(watch))
	if !cfg.does(roleWorker) { // each node runs its own upkeep in every role
		jobs = slices.DeleteFunc(jobs, func(j worker.Job) bool { return j.Singleton })
	}
	if a.jobs, err = worker.NewPool(run, jobs...); err != nil {
		return nil, err
	}
	a.group = &supervise.Group{Log: log}
	return a, nil
}

// newQueues creates the consumers of a worker. Transactions write to the outbox in any case. The outbox is the queue,
// or its messages are relayed to the queue in Redis.
func (a *App) newQueues() error {
	if !a.cfg.does(roleWorker) {
		return nil
	}
	handlers := a.accounts.Handlers()
	maps.Copy(handlers, a.checkin.Handlers())
	handlers[accounts.TopicZone] = queue.JSON(func(ctx context.Context, changed accounts.ZoneChanged, _ queue.Delivery) error {
		return a.checkin.ZoneChanged(ctx, changed)
	})
	handlers[accounts.TopicAudience] = queue.JSON(func(ctx context.Context, changed accounts.AudienceChanged, _ queue.Delivery) error {
		return a.presence.AudienceChanged(ctx, changed.User)
	})
	handlers[accounts.TopicErased] = queue.JSON(a.erased)
	handlers[rooms.TopicClose] = queue.JSON(func(ctx context.Context, c rooms.Closing, _ queue.Delivery) error {
		return a.rooms.CloseFor(ctx, c.Room)
	})
	handlers[live.TopicAsk] = queue.JSON(func(ctx context.Context, order live.Order, _ queue.Delivery) error {
		return a.live.Obey(ctx, order)
	})
	handlers[drops.Topic] = a.drops.Handler(a.redis, a.caches)
	cfg := queue.Config{Log: a.log, Metrics: a.reg, Apart: []string{codes.Topic, accounts.TopicNotice}} // the mail server may not respond
	add := func(s queue.Store, handlers map[string]queue.Handler, batches ...queue.Batch) error {
		c, err := queue.NewConsumer(s, handlers, batches, cfg)
		a.queues = append(a.queues, c)
		return err
	}
	outbox, journal := queue.NewSQL(a.db), a.checkin.Journal()
	if a.cfg.Queue != queueRedis {
		if journal != nil {
			if err := add(journal, nil, a.checkin.Batches()...); err != nil {
				return err
			}
		}
		return add(outbox, handlers, append(a.push.Batches(), a.hooks.Batches()...)...)
	}
	streams := cmp.Or(journal, queue.NewRedis(a.redis)) // one consumer for all its topics
	// Commands wait until the outbox has no change of theirs. The change is then applied, not only relayed.
	followed := map[string]queue.Handler{accounts.TopicChanged: handlers[accounts.TopicChanged]}
	topics := slices.DeleteFunc(slices.Sorted(maps.Keys(handlers)), func(topic string) bool { return followed[topic] != nil })
	for _, b := range a.hooks.Batches() {
		topics = append(topics, b.Topics...)
	}
	return errors.Join(add(streams, handlers, slices.Concat(a.checkin.Batches(), a.hooks.Batches())...),
		add(outbox, followed, append(a.push.Batches(), queue.Relay(topics, streams))...))
}

func (a *App) mailer() (mail.Sender, error) {
	switch {
	case a.cfg.Development():
		return mail.NewBox(a.db), nil
	case a.cfg.SMTP.Host == "" && !a.cfg.needsMailServer():
		return mail.None{}, nil
	}
	return mail.NewSMTP(a.cfg.SMTP)
}

func (a *App) housekeeping(watch *obs.Redis) []worker.Job {
	return []worker.Job{
		{Name: "web.idempotency", Every: 10 * time.Minute, Singleton: true, RunWithoutLease: true, Run: func(ctx context.Context) error {
			_, err := a.api.Sweep(ctx, a.db.Now())
			return err
		}},
		{Name: "redis.poll", Every: obs.RedisEvery, Run: watch.Poll},
		{Name: "redis.hot", Every: hotEvery, Run: a.writeHotKeys},
	}
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
