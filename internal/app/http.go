package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"slices"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/supervise"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/assets"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/internal/presence"
	"github.com/stoa-dev/stoa/internal/realtime/gateway"
	"github.com/stoa-dev/stoa/internal/serviceapi"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/lib/keyspace/catalogue"
	pages "github.com/stoa-dev/stoa/web"
)

// newAPI adds the routes of the node's roles. Every node reports its health.
func (a *App) newAPI(context.Context) error {
	cfg := web.Config{
		Title: "Stoa", Version: obs.Build().Version, Auth: a.callers(), AuthErrors: slices.Concat(accounts.AuthErrors, servicekeys.AuthErrors),
		ActAs: servicekeys.Acts, Tags: tags, DB: a.db, Secret: a.secrets.current, SecretPrevious: a.secrets.previous,
		Node: a.node, Live: a.cluster.LiveNames,
		Log: a.log, Metrics: a.reg, TrustProxy: a.cfg.TrustProxy, Origins: a.cfg.Origins, PublicURL: a.cfg.PublicURL, Draining: a.drain.on,
		MaxSocketsPerNetwork: a.cfg.Gateway.MaxFrom,
		OpTime:               a.cfg.Webhooks.Before.Longest() + 2*time.Second, // the rest is for SQL and Redis
		NoDocs:               !a.cfg.DocsHere() || !a.cfg.does(roleAPI), AccessLog: a.cfg.AccessLog, Capacity: web.CapacityOf(a.cfg.SQLConns),
	}
	if most := a.cfg.Gateway.MaxFrom; a.cfg.does(roleGateway) && cfg.Capacity.Lasting < most {
		a.log.Warn("web: fewer open files than gateway.max_from needs; raise ulimit -n", "files", cfg.Capacity.Files, "sockets",
			cfg.Capacity.Lasting, "max_from", most)
	}
	if a.cfg.Limits {
		cfg.Limiter, cfg.Limit = a.limiter, web.DefaultLimit
	}
	a.api = web.New(cfg)
	a.api.Raw("GET /healthz", http.HandlerFunc(healthz))
	a.api.Raw("GET /readyz", a.readyz(a.cfg.OperatorsHere()))
	switch {
	case a.cfg.OperatorsHere():
		a.operatorRoutes(a.api)
	case a.cfg.AdminAddr != "":
		a.admin = web.New(web.Config{Title: cfg.Title, Version: cfg.Version, Log: a.log, NoDocs: true, AccessLog: a.cfg.AccessLog})
		a.admin.Raw("GET /healthz", http.HandlerFunc(healthz))
		a.admin.Raw("GET /readyz", a.readyz(true))
		a.operatorRoutes(a.admin)
		if a.cfg.does(roleAPI) {
			a.api.DocsOn(a.admin)
		}
	}
	switch {
	case a.cfg.does(roleAPI):
		a.operations()
		a.pages()
	case a.cfg.does(roleGateway): // its sockets call the operations
		a.api.Unserved(a.operations)
	}
	return nil
}

// operations adds the API's operations of all domains.
func (a *App) operations() {
	a.accounts.Routes(a.api)
	a.notices.Routes(a.api)
	a.push.Routes(a.api)
	a.social.Routes(a.api)
	a.groups.Routes(a.api)
	a.messages.Routes(a.api)
	a.presence.Routes(a.api)
	a.transfers.Routes(a.api)
	a.rooms.Routes(a.api)
	a.live.Routes(a.api)
	a.checkin.Routes(a.api)
	a.jwt.Routes(a.api)
	serviceapi.Service{Accounts: a.accounts, Groups: a.groups, Messages: a.messages}.Routes(a.api)
	web.HandlePublic(a.api, web.Op{Method: http.MethodGet, Path: "/v1/server", ID: "server.get", Tags: []string{"accounts"},
		Summary: "Get the server's settings for clients"}, a.getServer)
	web.HandleStream(a.api, web.Op{Path: "/v1/events", ID: "events.stream", Tags: []string{"events"}, Events: api.EventData,
		Summary: "Stream the caller's events",
		Description: "The stream has the events of all nodes. Server-sent events; each carries an Event. Delivery is at most once: on " +
			"(re)connection read the present state first.",
		Errors: []*errs.Error{gateway.ErrDraining}}, a.streamEvents)
}

type serverReply struct{ Body api.Server }

func (a *App) getServer(context.Context, *web.Empty) (*serverReply, error) {
	return &serverReply{api.Server{SignIn: cmp.Or(a.cfg.Accounts.SignIn, accounts.SignInOwn), Development: a.cfg.Development()}}, nil
}

// pages adds the web page, and the pages for developers.
func (a *App) pages() {
	if a.cfg.Development() {
		box := mail.NewBox(a.db).Handler(a.log)
		a.api.Raw("GET /dev/mail", box)
		a.api.Raw("GET /dev/mail.json", box)
	}
	page := pages.Handler()
	for _, pattern := range pages.Patterns {
		a.api.Raw(pattern, page)
	}
}

// newGateway creates the gateway if the node has this role. Its sockets call the API's operations, even if the node
// does not serve them over HTTP.
func (a *App) newGateway(ctx context.Context) (err error) {
	if !a.cfg.does(roleGateway) {
		return nil
	}
	a.gateway, err = gateway.New(ctx, gateway.Config{
		Settings: a.cfg.Gateway, API: a.api, Sessions: a.callers(), Bus: a.bus, Watch: a.sockets(), Channels: a.channels(), Node: a.node,
		Version: obs.Build().Version,
		Origins: a.cfg.Origins, PublicURL: a.cfg.PublicURL, MaxStale: a.cfg.Cache.MaxStale, Log: a.log, Metrics: a.reg, Library: a.reg.Registry,
	})
	if err == nil {
		a.gateway.Routes(a.api)
	}
	return err
}

// tags are the groups of operations in the description of the API.
var tags = []web.Tag{
	{Name: "accounts", Description: "Registration, log-in, devices, the caller's own account"},
	{Name: "people", Description: "Accounts as others see them, pictures and cards"},
	{Name: "friends", Description: "Requests, the list of friends and its changes"},
	{Name: "blocks", Description: "Whom the caller blocks"},
	{Name: "notices", Description: "What the caller is told: requests, groups, the account, announcements; pushes to browsers"},
	{Name: "groups", Description: "Groups of users: who is in them, and what each may do there"},
	{Name: "presence", Description: "Who is on line, and what the caller shows"},
	{Name: "chats", Description: "Messages between users: sending, history, changes, marks, settings"},
	{Name: "transfers", Description: "Files from a user to another: offers, uploads that resume, downloads"},
	{Name: "rooms", Description: "Watching together: rooms, who is in them, playback in step, chat, danmaku, playlists"},
	{Name: "live", Description: "Live streams: publishing by WHIP, watching by WHEP, keys, recordings"},
	{Name: "check-in", Description: "Days, streaks, freezes, make-ups and boards"},
	{Name: "service", Description: "What an app's own backend does with a service key, and no user can"},
	{Name: "events", Description: "What happens to the caller's account, as it happens"},
}

// operatorRoutes adds the routes for operators.
func (a *App) operatorRoutes(on *web.API) {
	on.Raw("GET /metrics", a.reg.Handler(a.log))
	on.Raw("GET /docs/keys", keysPage())
	if !a.cfg.Pprof {
		return
	}
	for pattern, profile := range map[string]http.HandlerFunc{"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/cmdline": pprof.Cmdline,
		"GET /debug/pprof/profile": pprof.Profile, "GET /debug/pprof/symbol": pprof.Symbol, "GET /debug/pprof/trace": pprof.Trace} {
		on.RawConnection(pattern, profile)
	}
}

func healthz(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// keysPage returns a page of every key and channel that a node of this build may use.
func keysPage() http.Handler {
	text := []byte(catalogue.New(Keys()...).HTML("Redis keys of Stoa"))
	return assets.New(text, http.Header{
		"Content-Type":            {"text/html; charset=utf-8"},
		"Content-Security-Policy": {"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	})
}

// streamEvents sends events until the session of the device ends. It checks the token again before each event, and the
// end of the session is an event.
func (a *App) streamEvents(ctx context.Context, caller accounts.Caller, _ *web.Empty, send web.Send) error {
	ctx, cancel, draining := a.drain.stream(ctx, a.cfg.Gateway.DrainOver)
	if draining {
		return gateway.ErrDraining
	}
	defer cancel()
	sub := a.bus.Subscribe(ctx, caller.UserID())
	defer sub.Close()
	watch, name := a.presence.Watch(presence.Stream), rand.Text()
	watch.Opened(caller.UserID(), caller.DeviceID(), name)
	defer watch.Closed(name)
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-sub.C:
			if !open {
				return nil // too slow: the client connects again and resynchronises
			}
			if err := send(e.Type, api.Event{Type: e.Type, Time: api.At(time.UnixMilli(e.Time).UTC()), Data: e.Data}); err != nil {
				return nil // the client has disconnected or was logged out
			}
		}
	}
}

// readiness is the body of /readyz.
type readiness struct {
	Status string            `json:"status"` // ready, degraded, draining or starting
	Parts  []supervise.State `json:"parts,omitempty"`
}

// readyz returns 200 while this node can serve requests, even if it is degraded. Otherwise it returns 503, and a proxy
// sends requests to other nodes. SQL and Redis are the same for all nodes. A node without them is therefore degraded,
// so that a proxy always has nodes. Only operators see the parts. readyz pings Redis at most once per healthLife, and
// never SQL.
func (a *App) readyz(detail bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := a.readiness(r.Context())
		status := http.StatusOK
		if out.Status == starting || out.Status == draining {
			status = http.StatusServiceUnavailable
		}
		if !detail {
			out.Parts = nil
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out) // the client may be gone
	})
}

// The statuses of a node that cannot serve.
const (
	draining = "draining" // also drained or stopping: other nodes serve
	starting = "starting" // a part does not run
)

func (a *App) readiness(ctx context.Context) readiness {
	out := readiness{Status: "ready"}
	for _, p := range a.group.States() {
		switch p.Name {
		case "sql":
			if since := a.db.Away(); !since.IsZero() {
				p.Degraded = "away since " + since.Format(time.RFC3339) + ": " + a.db.Reason()
			} else if cause := a.db.Refuses(); cause != "" {
				p.Degraded = "refuses writes: " + cause
			}
		case "checkin":
			p.Degraded = a.checkin.Degraded()
		case "messages":
			p.Degraded = a.messages.Degraded()
		}
		switch {
		case !p.Ready:
			out.Status = starting
		case p.Degraded != "" && out.Status == "ready":
			out.Status = "degraded"
		}
		out.Parts = append(out.Parts, p)
		if p.Name == "sql" { // Redis is not a part
			redis := supervise.State{Name: "redis", Ready: true}
			if a.redisHealth.of(ctx, a.redis.Ping) != nil {
				redis.Degraded = "away; answering from sql"
				if out.Status == "ready" {
					out.Status = "degraded"
				}
			}
			out.Parts = append(out.Parts, redis)
		}
	}
	if a.drain.on() {
		out.Status = draining
	}
	return out
}

const (
	// healthLife is how long the health of a part is cached.
	healthLife = 500 * time.Millisecond
	// healthPatience bounds one check of a part.
	healthPatience = 2 * time.Second
)

// health is the cached health of a part. Its zero value is unknown.
type health struct {
	flight singleflight.Group // only the caller inside the flight uses at and err
	at     time.Time
	err    error
}

// of returns the health of the part, which it checks if the cached one has expired. Concurrent callers wait for one
// check, which does not end with the context of any of them.
func (h *health) of(ctx context.Context, ask func(context.Context) error) error {
	_, err, _ := h.flight.Do("", func() (any, error) {
		if h.at.IsZero() || time.Since(h.at) >= healthLife {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthPatience)
			defer cancel()
			h.err = ask(ctx)
			h.at = time.Now()
		}
		return nil, h.err
	})
	return err
}
