package web

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/fairqueue"
	"github.com/stoa-dev/stoa/internal/base/origin"
	"github.com/stoa-dev/stoa/internal/httpapi/assets"
	"github.com/stoa-dev/stoa/internal/httpapi/idempotency"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Caller is an authenticated caller. Its dynamic type is the authenticator's own, and handlers get the caller as that
// type.
type Caller interface {
	// UserID returns the user's id for limits, stored responses and log lines.
	UserID() string
}

// Authenticator resolves bearer tokens. It refuses with an error of the kind errs.Unauthenticated; any other error
// becomes a 5xx. The token has at most 512 characters of RFC 6750's alphabet.
type Authenticator interface {
	Authenticate(ctx context.Context, bearer string) (Caller, error)
}

// Config configures an API. The zero Config serves public operations, without limits, stored responses, logs and
// metrics.
type Config struct {
	// Title and Version are those of the OpenAPI document. Empty means "Stoa" and "dev".
	Title, Version string

	// Auth resolves bearer tokens. Nil refuses every operation that is not public.
	Auth Authenticator

	// AuthErrors are the refusals that Auth returns. The description of every operation with a token lists them.
	AuthErrors []*errs.Error

	// ActAs returns, for the description, the scope that a [Delegate] needs to call an operation in a user's name;
	// empty: it cannot. Nil: there are no delegates.
	ActAs func(Op) string

	// Tags describe the groups of operations, by the names in Op.Tags.
	Tags []Tag

	// Limiter counts requests. Nil: no request is limited, not even by Op.Limit.
	Limiter *ratelimit.Limiter

	// Limit applies to each operation without a Limit of its own, for each user (for each client network if public).
	// It costs at most one Redis command for each request. Zero: such operations are not limited. See [DefaultLimit].
	Limit ratelimit.Limit

	// OpTime bounds each operation without an Op.Time of its own, if it exceeds the default of 5.3 s.
	OpTime time.Duration

	// MaxSocketsPerNetwork is the number of sockets that one client network may have open. Zero means 1,000. It may
	// have 1,000 other connections in addition.
	MaxSocketsPerNetwork int

	// DB stores the responses for Idempotency-Key. Nil: responses are not stored, and the key only makes RequestID
	// the same for every try.
	DB *sqldb.DB

	// Secret is the same on all nodes. The stored hashes of requests are keyed with it, and it makes [NewID]
	// unpredictable.
	Secret []byte

	// SecretPrevious is the secret of the other nodes while the secret is rotated; nil: none.
	SecretPrevious []byte

	// Node is the name of this process among those that share DB. Live returns the names of the live nodes, including
	// this one, so that tries of a dead node need not be waited for. If Live is nil, every try may be running for
	// half a minute.
	Node string
	Live func(context.Context) ([]string, error)

	// Log gets failures (Error, Warn) and, at Debug, a line for each request. The only client data in that line is
	// the request id. Nil discards.
	Log *slog.Logger

	// AccessLog logs the line for each request at Info.
	AccessLog bool

	// Metrics registers the package's metrics, such as stoa_http_requests_total. Nil: they are not collected.
	Metrics prometheus.Registerer

	// TrustProxy lists the networks of trusted proxies, whose X-Forwarded-For is used. Empty: the caller's address is
	// the connection's.
	TrustProxy []netip.Prefix

	// Draining reports whether the node leaves soon. Each response then closes its connection, so that proxies have
	// no idle connection left to reuse when the node closes its port. Nil: it never does.
	Draining func() bool

	// Capacity bounds the connections. Zero: as without a limit of open files.
	Capacity Capacity

	// NoDocs omits the API description; see [API.DocsOn].
	NoDocs bool

	// Origins match the web origins whose scripts may call the API. Empty: only the server's own.
	Origins origin.Patterns

	// PublicURL is the result of [Origin]. Zero: Origin uses the headers of each request.
	PublicURL origin.Origin
}

// Tag is a group of operations.
type Tag struct{ Name, Description string }

// API is the HTTP interface of the server. Add all operations before serving.
type API struct {
	cfg     Config
	log     *slog.Logger
	auth    Authenticator
	mux     *http.ServeMux
	doc     *huma.OpenAPI
	routes  map[string]*route // by Op.ID
	stats   *stats
	conns   counts // open connections
	lasting counts // sockets and streams among them
	streams counts // by client network and user
	heavy   *fairqueue.Queue
	answers *idempotency.Store // nil without Config.DB
	spec    func() []byte

	specFile func() *assets.File

	outages outages

	onDrain []func()
	stop    sync.Once
	quit    chan struct{} // closed when streams must end

	unserved bool // see Unserved
}

// Time limits. A response as a whole has no limit, because streams have none. Each write has one, so that a client
// that does not read is disconnected.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	proxyTimeout  = 620 * time.Second // idle timeout behind a proxy: some load balancers reuse a connection for ten minutes
	drainTimeout  = 10 * time.Second
	bodyTimeout   = 10 * time.Second // bounds the arrival of a body
	answerTimeout = 30 * time.Second // from the header to the first write, and between writes

	// maxHeader is the largest header in bytes. It is well above that of browsers, and bounds the memory of a
	// connection.
	maxHeader = 16 << 10
)

// New returns an API that serves /openapi.json and /docs, unless cfg.NoDocs is set.
func New(cfg Config) *API {
	if cfg.Title == "" {
		cfg.Title = "Stoa"
	}
	if cfg.Version == "" {
		cfg.Version = "dev"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxSocketsPerNetwork == 0 {
		cfg.MaxSocketsPerNetwork = 1000
	}
	if cfg.Capacity.Conns == 0 {
		cfg.Capacity = capacityOf(0, 0)
	}
	a := &API{
		cfg:    cfg,
		log:    cfg.Log,
		auth:   cfg.Auth,
		mux:    http.NewServeMux(),
		routes: map[string]*route{},
		quit:   make(chan struct{}),
		heavy:  newHeavy(),

		outages: outages{all: map[string]outage{}},
	}
	a.stats = newStats(cfg.Metrics, a)
	if cfg.DB != nil {
		a.answers = idempotency.New(cfg.DB, cfg.Node, cfg.Live)
	}
	a.doc = describe(cfg)
	a.spec = sync.OnceValue(a.writeSpec)
	a.specFile = sync.OnceValue(func() *assets.File {
		return assets.New(a.spec(), http.Header{"Content-Type": onlyJSON, "Cache-Control": {"no-cache"}})
	})
	if !cfg.NoDocs {
		a.DocsOn(a)
	}
	return a
}

// DocsOn serves the description of a, /openapi.json and /docs, on another API or on a itself.
func (a *API) DocsOn(other *API) {
	other.Raw("GET /openapi.json", http.HandlerFunc(a.serveSpec))
	other.Raw("GET /docs/{file...}", docs(a.cfg.Title))
}

// Raw serves h for pages, metrics and similar requests without a token. They have the headers, log lines and metrics
// of every request, and share one limit for each client network; see rawLimit. The pattern is the ServeMux's; "GET
// /{$}" is the root page, while "/" would replace the 404 of every unknown path. Pages set their own
// Content-Security-Policy, because the default one allows nothing.
func (a *API) Raw(pattern string, h http.Handler) { a.raw(pattern, h, false) }

// RawConnection is [API.Raw] for long-lived connections: sockets, and their replacements. Their duration is not in
// the metrics of requests.
func (a *API) RawConnection(pattern string, h http.Handler) { a.raw(pattern, h, true) }

func (a *API) raw(pattern string, h http.Handler, longLived bool) {
	if a.unserved {
		return
	}
	rt := &route{label: pattern, op: Op{ID: "pages", Limit: rawLimit}, public: true, longLived: longLived, duration: a.stats.observer(pattern)}
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		c.route = rt
		if !a.allowPublic(r.Context(), c, rt) {
			return
		}
		h.ServeHTTP(w, r)
	})
}

// MethodOverride accepts POST at a path with X-HTTP-Method-Override as the method of that header: PATCH, DELETE or
// HEAD. Servers of tus 1.0 must do so, because some HTTP clients cannot send PATCH. No operation of the path may be a
// POST.
func (a *API) MethodOverride(path string) {
	if a.unserved {
		return
	}
	a.mux.HandleFunc("POST "+path, func(_ http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		switch method := r.Header.Get("X-HTTP-Method-Override"); method {
		case http.MethodPatch, http.MethodDelete, http.MethodHead:
			r.Method = method
			a.mux.ServeHTTP(c, r)
		default:
			c.Header().Set("Allow", "DELETE, GET, HEAD, OPTIONS, PATCH")
			c.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
}

// Unserved calls add; the operations that it adds can be called by [API.Invoke] only. They have no path, and the
// description omits them.
func (a *API) Unserved(add func()) {
	a.unserved = true
	defer func() { a.unserved = false }()
	add()
}

// OpenAPI returns the OpenAPI 3.1 document as JSON. The first call builds it; operations added later are missing. Do
// not change the slice.
func (a *API) OpenAPI() []byte { return a.spec() }

// Handler returns the handler of all operations and patterns. Requests with an Idempotency-Key wait until [API.Serve]
// or [API.Run] runs.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serve) }

// Serve serves on ln until ctx ends. Then it ends the streams, waits up to ten seconds for running requests and
// returns nil. It returns an error if serving or the shutdown fails. It closes ln. Serve an API once.
func (a *API) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           a.Handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      answerTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		// Requests in flight outlive ctx, because its end only starts the drain.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	if len(a.cfg.TrustProxy) > 0 {
		srv.IdleTimeout = proxyTimeout
	}
	srv.RegisterOnShutdown(a.EndStreams)
	for _, f := range a.onDrain {
		srv.RegisterOnShutdown(f)
	}
	// Requests that finish during the drain still store their responses.
	storing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var stored sync.WaitGroup
	stored.Go(func() { _ = a.Run(storing) }) // returns nil
	defer stored.Wait()
	defer stop()
	failed := make(chan error, 1)
	go func() {
		failed <- srv.Serve(&listener{Listener: ln, api: a, refusals: rate.Sometimes{Interval: time.Minute},
			failures: rate.Sometimes{Interval: time.Minute}})
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := srv.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		a.log.Warn("web: requests aborted, drain timed out", slog.Duration("after", drainTimeout))
		err = srv.Close()
	}
	<-failed
	return err
}

// OnDrain registers f, which [API.Serve] calls when it begins to drain, to end connections of [API.RawConnection].
// Call it before Serve.
func (a *API) OnDrain(f func()) { a.onDrain = append(a.onDrain, f) }

// Run writes the claims and responses of requests with an Idempotency-Key to Config.DB until ctx ends. Then it
// finishes the submitted ones and returns nil. Call it once, where another http.Server than Serve's has the Handler.
func (a *API) Run(ctx context.Context) error {
	if a.answers == nil {
		<-ctx.Done()
		return nil
	}
	return a.answers.Run(ctx)
}

// EndStreams ends every stream and refuses new ones. [API.Serve] calls it when it drains; call it when you shut down
// another http.Server.
func (a *API) EndStreams() { a.stop.Do(func() { close(a.quit) }) }

// Constant header values. The slices have no spare capacity, so that Header.Add copies them.
var (
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noFrames   = []string{"DENY"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	noStore    = []string{"no-store"}
	closes     = []string{"close"}
)

// serve handles every request: it sets headers and deadlines, and calls the ServeMux.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	c := a.newCall(w, r)
	h := w.Header()
	h["X-Content-Type-Options"] = nosniff
	h["Referrer-Policy"] = noReferrer
	h["X-Frame-Options"] = noFrames
	h["Content-Security-Policy"] = noContent
	h["X-Request-Id"] = []string{c.trace}
	if a.cfg.Draining != nil && r.Header.Get("Upgrade") == "" && a.cfg.Draining() {
		h["Connection"] = closes
	}

	if r.ContentLength != 0 {
		// The deadline also applies while the server discards an unread body; otherwise a refused client could keep
		// the connection for ever. net/http clears it at the end of the body. A test recorder has no deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(c.start.Add(bodyTimeout))
	}
	defer a.finish(c)
	if len(a.cfg.Origins) > 0 && a.cors(h, r) {
		c.WriteHeader(http.StatusNoContent)
		return
	}
	a.mux.ServeHTTP(c, r.WithContext(callContext{r.Context(), c}))
}

// finish recovers a panic, counts the request and logs it.
func (a *API) finish(c *call) {
	p := recover()
	if p != nil && p != http.ErrAbortHandler {
		a.log.Error("web: panic in a handler", slog.Any("panic", p), slog.String("route", c.route.name()),
			slog.String("request", c.trace), slog.String("user", c.user()), slog.String("stack", string(debug.Stack())))
		if !c.wrote {
			c.refuse(newProblem(http.StatusInternalServerError, errInternal))
			p = nil
		} else {
			p = http.ErrAbortHandler // the client must not accept a partial response as complete
		}
	}
	a.stats.count(c)
	a.logAccess(c)
	if p != nil {
		panic(p)
	}
}

// logAccess logs a request. It logs the route's pattern, because the path may contain the token of a card.
func (a *API) logAccess(c *call) {
	level := slog.LevelDebug
	if a.cfg.AccessLog {
		level = slog.LevelInfo
	}
	if !a.log.Enabled(c.r.Context(), level) {
		return
	}
	a.log.LogAttrs(c.r.Context(), level, "request",
		slog.String("method", knownMethod(c.r.Method)), slog.String("route", c.route.name()), slog.String("path", c.route.pattern()),
		slog.Int("status", c.status),
		slog.Duration("took", time.Since(c.start)), slog.Int64("bytes", c.bytes), slog.String("network", clientnet.Of(c.clientIP())),
		slog.String("request", c.trace), slog.String("user", c.user()))
}

// cors sets the headers for a listed origin and reports whether r is a preflight request, which they answer.
func (a *API) cors(h http.Header, r *http.Request) (preflight bool) {
	h.Add("Vary", "Origin")
	sent := r.Header.Get("Origin")
	if from, err := origin.Parse(sent); err != nil || !a.cfg.Origins.Match(from) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", sent)
	h.Set("Access-Control-Expose-Headers", "X-Request-ID, Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, "+
		"Idempotency-Replayed, "+
		"Location, ETag, Content-Disposition, Content-Range, Tus-Resumable, Tus-Version, Tus-Extension, Tus-Max-Size, Upload-Offset, "+
		"Upload-Length, Upload-Expires")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, X-Request-ID, X-HTTP-Method-Override, Range, "+
		"If-Range, Tus-Resumable, Upload-Offset, Upload-Length, Upload-Metadata, Upload-Checksum")
	h.Set("Access-Control-Max-Age", "600")
	return true
}
