package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/activity"
	"github.com/stoa-dev/stoa/internal/background/drops"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/groups"
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
	"github.com/stoa-dev/stoa/internal/rooms"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqlcopy"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
)

// openSQL opens SQL, migrates it, and compares the secret with the one of the other nodes.
func (a *App) openSQL(ctx context.Context) (err error) {
	isNew, err := a.secrets.read(a.cfg)
	if err != nil {
		return err
	}
	if a.db, err = sqldb.Open(ctx, sqldb.Config{URL: a.cfg.SQL, Dir: a.cfg.Data, MaxConns: a.cfg.SQLConns, Now: a.cfg.Now,
		Log: a.log}); err != nil {
		return err
	}
	if err := sqlcopy.Unfinished(ctx, a.db); err != nil {
		return err
	}
	if err := a.db.Migrate(ctx, migrations.FS); err != nil {
		return err
	}
	if err := sqlcopy.Unfinished(ctx, a.db); err != nil { // a copy may have begun while this node waited to migrate
		return err
	}
	a.reg.MustRegister(a.db.Metrics())
	err = a.secrets.agree(ctx, a.db)
	if isNew && errors.Is(err, errSecret) { // another node has the secret
		err = errors.Join(err, os.Remove(filepath.Join(a.cfg.Data, secretFile)))
	}
	return a.cfg.withSource(err)
}

// openRedis opens Redis, which may be unavailable.
func (a *App) openRedis(ctx context.Context) (err error) {
	if a.redis, err = redis.Open(ctx, redis.Config{URL: a.cfg.Redis, Prefix: a.cfg.KeyPrefix, HotKeys: true, Dial: a.cfg.DialRedis,
		Log: a.log}); err != nil {
		return err
	}
	a.redisLoad = obs.NewRedis(a.redis)
	a.reg.MustRegister(a.redisLoad)
	return nil
}

// newShared creates the parts that several domains use.
func (a *App) newShared(context.Context) (err error) {
	a.limiter, a.studio = ratelimit.New(a.redis), picture.New(0)
	a.bus = events.NewBus(a.redis, a.node, a.log)
	a.reg.MustRegister(obs.NewBus(a.bus.Nodes()), a.bus.Metrics())
	a.cluster = cluster.New(cluster.Config{Redis: a.redis, Bus: a.bus, Node: a.id, Version: obs.Build().Version, Roles: a.cfg.allRoles(),
		Metrics: a.reg, Log: a.log, Sockets: a.openSockets, Ordered: a.ordered, Settings: a.cfg.Cluster})
	counts := obs.NewCaches(a.reg)
	a.drops = drops.New(drops.Config{DB: a.db, Cached: Cached(), Alone: !strings.Contains(a.cfg.Redis, "://"), Log: a.log,
		Connected: a.bus.Nodes().Connected})
	a.caches = cache.NewRuntime(a.redis, a.bus.Nodes(), cache.Config{Budget: a.cfg.Cache.Budget, Loads: a.cfg.Cache.Loads, Retries: a.drops,
		Hooks: counts.Hooks(), Log: a.log})
	counts.Watch(a.caches)
	a.hooks, err = webhooks.New(webhooks.Config{Log: a.log, Metrics: a.reg, Dial: a.cfg.DialWebhooks, Settings: a.cfg.Webhooks})
	return err
}

// newPeople creates accounts, the ways to log in, notices, friends and groups.
func (a *App) newPeople(ctx context.Context) error {
	mailer, err := a.mailer()
	if err != nil {
		return err
	}
	if a.accounts, err = accounts.New(accounts.Config{DB: a.db, Redis: a.redis, Limiter: a.limiter, Hooks: a.hooks, Caches: a.caches,
		DropsPending: a.drops.Pending, Bus: a.bus, Cache: a.cfg.Cache.policy(), Mail: mailer, Page: a.cfg.page(), Secret: a.secrets.current,
		Previous: a.secrets.previous, PasswordCost: a.cfg.PasswordCost, Studio: a.studio, Notify: a.notify, Metrics: a.reg, Log: a.log,
		Settings: a.cfg.Accounts}); err != nil {
		return err
	}
	a.keys = servicekeys.New(a.db, a.accounts, a.log)
	if a.jwt, err = jwtlogin.New(ctx, jwtlogin.Config{People: a.accounts, Hooks: a.hooks, Log: a.log, Now: a.db.Now,
		Off: a.cfg.Accounts.SignIn == accounts.SignInOwn, Settings: a.cfg.JWT}); err != nil {
		return err
	}
	if a.notices, err = notices.New(notices.Config{DB: a.db, Bus: a.bus, People: a.accounts,
		EnqueuePushes: push.EnqueueNotices(a.offline() != nil), Settings: a.cfg.Notices, Log: a.log}); err != nil {
		return err
	}
	if a.social, err = social.New(social.Config{DB: a.db, Caches: a.caches, Cache: a.cfg.Cache.policy(), Bus: a.bus, People: a.accounts,
		Notices: a.notices, Hooks: a.hooks, Streaks: a.streaks, Settings: a.cfg.Social, Log: a.log}); err != nil {
		return err
	}
	a.groups, err = groups.New(groups.Config{DB: a.db, Caches: a.caches, Cache: a.cfg.Cache.policy(), Bus: a.bus, People: a.accounts,
		Friends: a.social, Notices: a.notices, Hooks: a.hooks, Studio: a.studio, Settings: a.cfg.Groups, Log: a.log})
	return err
}

// newMessages creates files, chats, presence, the counts of active users, and pushes.
func (a *App) newMessages(ctx context.Context) (err error) {
	if a.transfers, err = transfers.New(transfers.Config{DB: a.db, Redis: a.redis, Bus: a.bus, People: a.accounts, Relations: a.social,
		MaySubscribe: a.maySubscribe, Secret: a.secrets.current, Previous: a.secrets.previous, Data: a.cfg.Data,
		OpenLater: !a.cfg.does(roleAPI) && !a.cfg.does(roleWorker), Studio: a.studio, Metrics: a.reg, Log: a.log,
		Settings: a.cfg.Files}); err != nil {
		return err
	}
	a.messages = messaging.New(ctx, messaging.Config{DB: a.db, Redis: a.redis, Caches: a.caches, Cache: a.cfg.Cache.policy(), Node: a.node,
		Metrics: a.reg, Bus: a.bus, People: a.accounts, Relations: a.social, Groups: a.groups, Files: a.transfers, Hooks: a.hooks, Log: a.log,
		Settings: a.cfg.Chats})
	a.presence = presence.New(presence.Config{DB: a.db, Redis: a.redis, Bus: a.bus, Node: a.id, Nodes: a.cluster, People: a.accounts,
		Friends: a.social, Metrics: a.reg, Log: a.log})
	a.activity = activity.New(activity.Config{DB: a.db, Redis: a.redis, Bus: a.bus.Nodes(), Metrics: a.reg, Log: a.log,
		Settings: a.cfg.Activity})
	a.push, err = push.New(push.Config{DB: a.db, People: a.accounts, Presence: a.presence, Chats: a.messages, Notices: a.notices,
		Secret: a.secrets.current, Previous: a.secrets.previous, Origin: a.secrets.agreed, Page: a.cfg.page(), Sender: a.cfg.sender(),
		Offline: a.offline(), Transport: a.cfg.PushTransport, Metrics: a.reg, Log: a.log, Settings: a.cfg.Push})
	return err
}

// newRooms creates live streams and rooms.
func (a *App) newRooms(ctx context.Context) (err error) {
	if a.live, err = live.New(live.Config{DB: a.db, Redis: a.redis, Caches: a.caches, Cache: a.cfg.Cache.policy(), Bus: a.bus, Node: a.node,
		Address: func() string { return a.cluster.Self().Address }, People: a.accounts, MaySubscribe: a.maySubscribe, Files: a.transfers,
		Folder: filepath.Join(a.cfg.Data, "live"), Secret: a.secrets.current, Previous: a.secrets.previous, Metrics: a.reg, Log: a.log,
		Settings: a.cfg.liveSettings()}); err != nil {
		return err
	}
	var limiter *ratelimit.Limiter
	if a.cfg.Limits {
		limiter = a.limiter
	}
	a.rooms, err = rooms.New(ctx, rooms.Config{DB: a.db, Redis: a.redis, Caches: a.caches, Cache: a.cfg.Cache.policy(), Bus: a.bus,
		Node: a.node, Nodes: a.cluster.LiveNames, People: a.accounts, Blocks: a.social, Files: a.transfers, Streams: a.live,
		Passwords: a.accounts.Passwords(), Limiter: limiter, Metrics: a.reg, Log: a.log, Settings: a.cfg.Rooms})
	return err
}

// newCheckin creates check-in, and checks its mode on this Redis.
func (a *App) newCheckin(ctx context.Context) error {
	a.checkin = checkin.New(checkin.Config{DB: a.db, Redis: a.redis, Users: a.accounts, Friends: a.social.FriendIDs, Apart: a.social,
		Hooks: a.hooks, Bus: a.bus, Node: a.node, Metrics: a.reg, Log: a.log, Now: a.cfg.Now, Settings: a.cfg.Checkin})
	return a.checkin.CheckMode(ctx)
}

// offline returns the function that enqueues a webhook for a user without a connected device. It returns nil if the
// backend does not subscribe to these events.
func (a *App) offline() func(ctx context.Context, user accounts.ID, p api.Push) error {
	if !a.hooks.Wants(api.HookNotifyOffline) {
		return nil
	}
	return func(ctx context.Context, user accounts.ID, p api.Push) error {
		return a.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			return a.hooks.Enqueue(ctx, tx, api.HookNotifyOffline, user.String(), api.HookOffline{User: user.String(), Push: p})
		})
	}
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
