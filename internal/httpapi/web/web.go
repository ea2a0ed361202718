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
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Caller is who calls. Its dynamic type is the authenticator's own, and handlers
// take the caller as that type.
type Caller interface {
	// UserID names the user in limits, stored answers and log lines.
	UserID() string
}

// Authenticator says whom a bearer token belongs to. It refuses with an error
// of the kind errs.Unauthenticated; any other error is an accident and becomes
// a 5xx. The token has at most 512 characters of RFC 6750's alphabet.
type Authenticator interface {
	Authenticate(ctx context.Context, bearer string) (Caller, error)
}

// Config has what an API needs. The zero Config serves public operations,
// without limits, stored answers, logs and metrics.
type Config struct {
	// Title and Version head the OpenAPI document. Empty means "Stoa" and "dev".
	Title, Version string

	// Auth resolves bearer tokens. Nil refuses every operation that is not public.
	Auth Authenticator

	// AuthErrors are the refusals that Auth returns. Every operation that takes a
	// token lists them.
	AuthErrors []*errs.Error

	// ActAs says, for the description, what a [Delegate] needs to call an operation in a user's name;
	// empty: it cannot. Nil: there are no delegates.
	ActAs func(Op) string

	// Tags describe the groups of operations, by the names in Op.Tags.
	Tags []Tag

	// Limiter counts requests. Nil: nothing is limited, Op.Limit neither.
	Limiter *ratelimit.Limiter

	// Limit holds for each operation without a Limit of its own, per user (per
	// address when public). It costs at most one Redis command for each request. Zero: such
	// operations are not limited. See [DefaultLimit].
	Limit ratelimit.Limit

	// OpTime bounds each operation without an Op.Time of its own, if it exceeds the 5.3 s of the default.
	OpTime time.Duration

	// SocketsFrom is the number of sockets that one household may have. Zero means 1,000. It may have 1,000 connections
	// in addition to them.
	SocketsFrom int

	// DB keeps the answers for Idempotency-Key. Nil: nothing is kept, the key
	// only makes RequestID the same for every try.
	DB *sqldb.DB

	// Secret is the same on all nodes. Of the requests that are kept the rows have hashes under it, and by it nobody
	// foresees what [NewID] returns.
	Secret []byte

	// SecretPrevious is the secret of the other nodes while the secret is rotated; nil: none.
	SecretPrevious []byte

	// Node names this process among those that share DB, and Live returns the names of
	// those that live, this one among them, so that the requests of one that died need not
	// be waited for. Nil: each of them is, for half a minute.
	Node string
	Live func(context.Context) ([]string, error)

	// Log gets failures (Error, Warn) and, at Debug, a line for each request
	// without anything that a client wrote but the request's id. Nil discards.
	Log *slog.Logger

	// AccessLog has the line for each request logged at Info.
	AccessLog bool

	// Metrics gets stoa_http_requests_total and
	// stoa_http_request_duration_seconds. Nil: they are not collected.
	Metrics prometheus.Registerer

	// TrustProxy lists the networks whose X-Forwarded-For is believed. Empty:
	// nobody's, and the caller's address is the connection's.
	TrustProxy []netip.Prefix

	// Draining reports whether the node leaves soon. Each response then closes its connection, so that proxies have no
	// idle connection left to reuse when the node closes its port. Nil: it never does.
	Draining func() bool

	// Capacity bounds the connections. Zero: as if open files had no limit.
	Capacity Capacity

	// NoDocs leaves out the description of the API; see [API.DocsOn].
	NoDocs bool

	// Origins match the web origins whose scripts may call the API. Empty: none but the
	// server's own.
	Origins origin.Patterns

	// PublicURL is what [Origin] returns. Zero: what each request's headers say.
	PublicURL origin.Origin
}

// Tag is a group of operations.
type Tag struct{ Name, Description string }

// API is the HTTP interface of the server. Operations are added first, then
// it serves.
type API struct {
	cfg     Config
	log     *slog.Logger
	auth    Authenticator
	mux     *http.ServeMux
	doc     *huma.OpenAPI
	routes  map[string]*route // by Op.ID
	stats   *stats
	conns   counts // connections that are open
	lasting counts // sockets and streams among them
	streams counts // those of households and users
	heavy   *fairqueue.Queue
	answers *answers // nil without Config.DB
	spec    func() []byte

	specFile func() *assets.File

	outages outages

	onDrain []func()
	stop    sync.Once
	quit    chan struct{} // closed when streams must end

	unserved bool // see Unserved
}

// How long what may take. There is no limit on writing an answer as a whole,
// because streams have none; each write has, so that a client that does not read is
// cut off.
const (
	headerTimeout = 5 * time.Second
	idleTimeout   = 2 * time.Minute
	proxyTimeout  = 620 * time.Second // instead where there is a proxy: some load balancers reuse a connection for ten minutes
	drainTimeout  = 10 * time.Second
	bodyTimeout   = 10 * time.Second // for a body to arrive
	answerTimeout = 30 * time.Second // from the header to the first write, and between writes

	// maxHeader is well above what browsers send and bounds what a connection
	// can make the server hold.
	maxHeader = 16 << 10
)

// New returns an API that serves /openapi.json and /docs, unless cfg says otherwise.
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
	if cfg.SocketsFrom == 0 {
		cfg.SocketsFrom = 1000
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
		a.answers = newAnswers(cfg.DB, cfg.Node, cfg.Live)
	}
	a.doc = describe(cfg)
	a.spec = sync.OnceValue(a.writeSpec)
	a.specFile = sync.OnceValue(func() *assets.File {
		return assets.New(a.spec(), http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-cache"}})
	})
	if !cfg.NoDocs {
		a.DocsOn(a)
	}
	return a
}

// DocsOn mounts the description of a, /openapi.json and /docs, on another API, or on a
// itself.
func (a *API) DocsOn(other *API) {
	other.Raw("GET /openapi.json", http.HandlerFunc(a.serveSpec))
	other.Raw("GET /docs/{file...}", docs(a.cfg.Title))
}

// Raw mounts h for pages, metrics and the like: no token, but the headers, log lines
// and metrics of every request. All of them have one limit for each household, see
// rawLimit. The pattern is the ServeMux's;
// "GET /{$}" is the root page, while "/" would swallow the 404 of every unknown
// path. Pages bring their own Content-Security-Policy; the one they
// replace allows nothing.
func (a *API) Raw(pattern string, h http.Handler) { a.raw(pattern, h, false) }

// RawConnection is [API.Raw] for connections that stay open: sockets, and what stands in
// for them. How long they stay is not in the metrics of requests.
func (a *API) RawConnection(pattern string, h http.Handler) { a.raw(pattern, h, true) }

func (a *API) raw(pattern string, h http.Handler, stays bool) {
	if a.unserved {
		return
	}
	rt := &route{label: pattern, op: Op{ID: "pages", Limit: rawLimit}, public: true, stays: stays, duration: a.stats.observer(pattern)}
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r.Context())
		c.route = rt
		if !a.allowAway(r.Context(), c, rt) {
			return
		}
		h.ServeHTTP(w, r)
	})
}

// MethodOverride accepts POST at a path with X-HTTP-Method-Override as the method that the header names: PATCH, DELETE or
// HEAD. Servers of tus 1.0 must do so, because some HTTP clients cannot send PATCH. No operation of the path may be a POST.
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

// Unserved has what add adds be called by [API.Invoke] alone: no path leads there, and the description does not have it.
func (a *API) Unserved(add func()) {
	a.unserved = true
	defer func() { a.unserved = false }()
	add()
}

// OpenAPI returns the OpenAPI 3.1 document as JSON. The first call makes it;
// operations added later are missing. Do not change the slice.
func (a *API) OpenAPI() []byte { return a.spec() }

// Handler serves everything that was added. Requests with an Idempotency-Key wait
// until [API.Serve] or [API.Run] runs.
func (a *API) Handler() http.Handler { return http.HandlerFunc(a.serve) }

// Serve answers on ln until ctx ends; then it ends the streams, lets running
// requests finish for up to ten seconds and returns nil, or what went wrong. It
// closes ln. Serve an API once.
func (a *API) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           a.Handler(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      answerTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		// Requests in flight outlive ctx: draining is what its end starts.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	if len(a.cfg.TrustProxy) > 0 {
		srv.IdleTimeout = proxyTimeout
	}
	srv.RegisterOnShutdown(a.EndStreams)
	for _, f := range a.onDrain {
		srv.RegisterOnShutdown(f)
	}
	// Requests that finish while the server drains still store their answers.
	storing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var stored sync.WaitGroup
	stored.Go(func() { _ = a.Run(storing) }) // returns nil
	defer stored.Wait()
	defer stop()
	failed := make(chan error, 1)
	go func() {
		failed <- srv.Serve(&listener{Listener: ln, api: a, refusals: rate.Sometimes{Interval: time.Minute}, failures: rate.Sometimes{Interval: time.Minute}})
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
		a.log.Warn("requests were cut off", slog.Duration("after", drainTimeout))
		err = srv.Close()
	}
	<-failed
	return err
}

// OnDrain has f called, beside others, when [API.Serve] begins to drain: it sends away
// whoever holds one of the connections of [API.RawConnection]. Call it before Serve.
func (a *API) OnDrain(f func()) { a.onDrain = append(a.onDrain, f) }

// Run writes the claims and answers of requests with an Idempotency-Key to Config.DB
// until ctx ends; then it finishes what has been submitted and returns nil. Call it
// where another http.Server than Serve's has the Handler, once.
func (a *API) Run(ctx context.Context) error {
	if a.answers == nil {
		<-ctx.Done()
		return nil
	}
	return a.answers.group.Run(ctx)
}

// EndStreams ends every stream and refuses new ones. [API.Serve] calls it when
// it drains; call it where another http.Server is shut down.
func (a *API) EndStreams() { a.stop.Do(func() { close(a.quit) }) }

// Values of headers that never change. The slices have no spare capacity, so
// that Header.Add copies them.
var (
	nosniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noFrames   = []string{"DENY"}
	noContent  = []string{"default-src 'none'; frame-ancestors 'none'"}
	noStore    = []string{"no-store"}
	closes     = []string{"close"}
)

// serve is around everything.
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
		// It holds while the server drains a body that nobody read, too: else a
		// refused client could keep the connection for ever. net/http lifts it at
		// the body's end. A recorder in a test has no deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(c.start.Add(bodyTimeout))
	}
	defer a.finish(c)
	if len(a.cfg.Origins) > 0 && a.cors(h, r) {
		c.WriteHeader(http.StatusNoContent)
		return
	}
	a.mux.ServeHTTP(c, r.WithContext(callContext{r.Context(), c}))
}

// finish catches a panic and counts the request.
func (a *API) finish(c *call) {
	p := recover()
	if p != nil && p != http.ErrAbortHandler {
		a.log.Error("panic in a handler", slog.Any("panic", p), slog.String("route", c.route.name()),
			slog.String("request", c.trace), slog.String("user", c.user()), slog.String("stack", string(debug.Stack())))
		if !c.wrote {
			c.refuse(newProblem(http.StatusInternalServerError, errInternal))
			p = nil
		} else {
			p = http.ErrAbortHandler // the client must not take half an answer for a whole one
		}
	}
	a.stats.count(c)
	a.logAccess(c)
	if p != nil {
		panic(p)
	}
}

// logAccess writes the line of a request. It has the route's pattern and not the path,
// which may have a card's token in it.
func (a *API) logAccess(c *call) {
	level := slog.LevelDebug
	if a.cfg.AccessLog {
		level = slog.LevelInfo
	}
	if !a.log.Enabled(c.r.Context(), level) {
		return
	}
	a.log.LogAttrs(c.r.Context(), level, "request",
		slog.String("method", knownMethod(c.r.Method)), slog.String("route", c.route.name()), slog.String("path", c.route.pattern()), slog.Int("status", c.status),
		slog.Duration("took", time.Since(c.start)), slog.Int64("bytes", c.bytes), slog.String("household", clientnet.Of(c.clientIP())),
		slog.String("request", c.trace), slog.String("user", c.user()))
}

// cors sets the headers for a listed origin and reports whether r is a
// preflight, which they answer.
func (a *API) cors(h http.Header, r *http.Request) (preflight bool) {
	h.Add("Vary", "Origin")
	sent := r.Header.Get("Origin")
	if from, err := origin.Parse(sent); err != nil || !a.cfg.Origins.Match(from) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", sent)
	h.Set("Access-Control-Expose-Headers", "X-Request-ID, Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Idempotency-Replayed, "+
		"Location, ETag, Content-Disposition, Content-Range, Tus-Resumable, Tus-Version, Tus-Extension, Tus-Max-Size, Upload-Offset, Upload-Length, Upload-Expires")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, X-Request-ID, X-HTTP-Method-Override, Range, If-Range, Tus-Resumable, Upload-Offset, Upload-Length, Upload-Metadata, Upload-Checksum")
	h.Set("Access-Control-Max-Age", "600")
	return true
}
