package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/centrifugal/centrifuge"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/origin"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

// Caller is the owner of a connection.
type Caller interface {
	web.Caller
	DeviceID() string     // identifies the session
	ExpiresAt() time.Time // expiry of the token
}

// Sessions resolves tokens. The owner of a token is a [Caller].
type Sessions interface {
	web.Authenticator

	// StillHere returns the current state of a caller. It refuses with an error of the kind errs.Unauthenticated when
	// the session has ended; any other error means that the check failed.
	StillHere(ctx context.Context, c web.Caller) (web.Caller, error)
}

// Watch is notified of opened and closed connections. Each name is unique on this node. The methods must not block.
type Watch interface {
	Opened(user, device, connection string)
	Closed(connection string)
}

// Channels decides about subscriptions to channels other than the user's own.
type Channels interface {
	// MaySubscribe refuses a user who may not get the events of a channel.
	MaySubscribe(ctx context.Context, user, channel string) error

	// MayStay refuses a user who recently lost the right to the events of a channel. It is called at each check of a
	// connection, so it must be cheap.
	MayStay(ctx context.Context, user, channel string) error

	// Hidden returns the users who are hidden from a subscriber: the subscriber does not get their events on the
	// channel. It is called for each subscription, and again after the subscriber blocked or unblocked a user.
	Hidden(ctx context.Context, user, channel string) ([]string, error)

	// Subscribed and Unsubscribed report the connections of a channel. They must not block.
	Subscribed(user, connection, channel string)
	Unsubscribed(user, connection, channel string)
}

// Settings are the operator's settings.
type Settings struct {
	Ping    time.Duration `koanf:"ping" default:"25s" help:"interval of pings on a silent connection; less than the shortest idle timeout of a proxy on the way"`
	MaxUser int           `koanf:"max_user" default:"32" help:"largest number of connections of one user to one node"`
	MaxFrom int           `koanf:"max_from" default:"1000" help:"largest number of connections from one client network (IPv4 address or IPv6 /64) to one node"`

	DrainOver   time.Duration `koanf:"drain_over" default:"20s" help:"time over which a draining node spreads the reconnects of its clients to other nodes; at most an hour"`
	DrainWithin time.Duration `koanf:"drain_within" default:"1m" help:"longest time of a drain; then the node counts as drained even if connections are left; at most an hour"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	return errors.Join(
		config.Refuse(c.Ping < time.Second || c.Ping > 5*time.Minute, "ping", "%s is not between a second and five minutes", c.Ping),
		config.Refuse(c.MaxUser < 1, "max_user", "%d refuses every connection", c.MaxUser),
		config.Refuse(c.MaxFrom < 1, "max_from", "%d refuses every connection", c.MaxFrom),
		config.Refuse(c.MaxFrom > web.MaxConns, "max_from", "%d is more than the %d connections that a node holds", c.MaxFrom, web.MaxConns),
		config.Refuse(c.DrainOver < 0 || c.DrainOver > time.Hour, "drain_over", "%s is not between nothing and an hour", c.DrainOver),
		config.Refuse(c.DrainWithin < c.DrainOver || c.DrainWithin > time.Hour, "drain_within", "%s is not between drain_over and an hour",
			c.DrainWithin))
}

// ErrDraining refuses a connection to a draining node.
var ErrDraining = errs.New(errs.Unavailable, "gateway.draining",
	"This node is shutting down. Connect again in 1 second.").Retry(time.Second)

// ErrTooMany refuses a connection beyond the limit of a client network.
var ErrTooMany = errs.New(errs.TooMany, "gateway.too_many",
	"Your network has too many connections. Close one first.").Retry(10 * time.Second)

// Config configures a gateway.
type Config struct {
	Settings

	API      *web.API // the API whose operations can be called
	Sessions Sessions
	Bus      *events.Bus
	Watch    Watch // nil: no notifications

	Channels Channels // nil: users get only their own channel

	Node    string // name of this process, unique among all that share Redis
	Version string // the server's version, sent to clients
	// Origins match the web origins whose scripts may connect. The origin of PublicURL, and that of the server in the
	// request, are always allowed.
	Origins   origin.Patterns
	PublicURL origin.Origin

	// MaxStale is the longest time that an ended session may still count as active. Zero means half a second.
	MaxStale time.Duration

	Log *slog.Logger

	Metrics prometheus.Registerer // nil: no metrics

	// Library registers the socket library's own metrics, stoa_socket_*. Many of them concern unused parts of it.
	// Nil: they are not collected.
	Library *prometheus.Registry
}

const (
	// maxFrame is the largest frame from a client, in bytes: the largest body of an operation and its envelope.
	maxFrame = 64<<10 + 4096

	// readBuffer is the read buffer of each connection in bytes. Most frames are smaller.
	readBuffer = 512

	// maxQueued is the largest number of queued bytes of a client; beyond it, the client is disconnected as slow.
	maxQueued = 1 << 20

	// maxRecover is the largest number of events that a resuming client gets; beyond it, the client loads the state.
	// The stream stores as many events.
	maxRecover = 200

	// maxRecoverBytes is the largest total size of these events. They are in one reply, which must fit into the queue.
	maxRecoverBytes = maxQueued / 4

	// drainTime is the time over which a stopping node disconnects its clients, so that their reconnects are spread.
	drainTime = 2 * time.Second
)

// Gateway serves one node's sockets.
type Gateway struct {
	cfg   Config
	base  context.Context //nolint:containedctx // for library callbacks without a context
	log   *slog.Logger
	node  *centrifuge.Node
	conns connections
	from  connCounts
	calls *workers

	reconnects, resubscribes turns // schedules of resynchronisations

	metrics *metrics

	refusedOrigin rate.Sometimes // bounds the log lines
	faults        faults

	open     atomic.Int64  // connections, including those being opened
	refusing atomic.Bool   // true: new connections are refused
	draining atomic.Bool   // true: the node drains and does not resume
	drained  chan struct{} // closed when all clients were disconnected
}

// New returns a gateway; start it with [Gateway.Run]. Library callbacks without a context get the values of ctx.
func New(ctx context.Context, cfg Config) (*Gateway, error) {
	if cfg.MaxStale == 0 {
		cfg.MaxStale = 500 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{cfg: cfg, base: context.WithoutCancel(ctx), log: cfg.Log, calls: newWorkers(), faults: faults{all: map[string]fault{}},
		refusedOrigin: rate.Sometimes{First: 5, Interval: time.Minute}}
	var library centrifuge.MetricsConfig
	library.RegistererGatherer = prometheus.NewRegistry()
	if cfg.Library != nil {
		library.RegistererGatherer = cfg.Library
	}
	library.MetricsNamespace = "stoa_socket"
	node, err := centrifuge.New(centrifuge.Config{
		Name: cfg.Node, Version: cfg.Version, Metrics: library,
		LogLevel: centrifuge.LogLevelWarn, LogHandler: g.logLibrary,
		ClientConnectIncludeServerTime: true,
		ClientQueueMaxSize:             maxQueued,
		UserConnectionLimit:            cfg.MaxUser,
		RecoveryMaxPublicationLimit:    maxRecover,
	})
	if err != nil {
		return nil, err
	}
	g.node, g.drained = node, make(chan struct{})
	g.metrics = newMetrics(cfg.Metrics, func() float64 { return float64(node.Hub().NumClients()) })
	cfg.Bus.BeforeDelivery(g.checkReceiversTogether)
	node.SetBroker(&broker{base: g.base, bus: cfg.Bus, leaves: map[string]func(){}, before: g.checkReceivers, lost: g.lost})
	node.SetController(newController(g.base, cfg.Bus.Nodes(), cfg.Log))
	node.OnConnecting(g.connecting)
	node.OnConnect(g.connected)
	node.OnTransportWrite(g.mayWrite)
	return g, nil
}

// faultLogInterval is the interval of log lines about one fault of the library. While Redis is unavailable every
// connection has it.
const faultLogInterval = time.Minute

// faults are the library's faults by message.
type faults struct {
	mu  sync.Mutex
	all map[string]fault
}

type fault struct {
	logged time.Time
	others int // faults since then
}

// due reports whether a fault is to be logged, and the number of unlogged ones since the last line.
func (f *faults) due(message string) (others int, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, now := f.all[message], time.Now()
	if due = now.Sub(last.logged) >= faultLogInterval; due {
		f.all[message] = fault{logged: now}
	} else {
		f.all[message] = fault{last.logged, last.others + 1}
	}
	return last.others, due
}

// logLibrary logs an entry of the library. It omits fields that may contain frames of clients.
func (g *Gateway) logLibrary(e centrifuge.LogEntry) {
	others, due := g.faults.due(e.Message)
	if !due {
		return
	}
	level := slog.LevelWarn
	if e.Level == centrifuge.LogLevelError {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("message", e.Message), slog.Int("others", others)}
	if err, ok := e.Fields["error"]; ok {
		attrs = append(attrs, slog.Any("err", err))
	}
	for _, name := range []string{"client", "user", "transport", "node"} {
		if v, ok := e.Fields[name]; ok {
			attrs = append(attrs, slog.Any(name, v))
		}
	}
	g.log.LogAttrs(g.base, level, "gateway: socket library fault", attrs...)
}

// Routes mounts the sockets on a.
func (g *Gateway) Routes(a *web.API) {
	ping := centrifuge.PingPongConfig{PingInterval: g.cfg.Ping, PongTimeout: g.cfg.Ping / 3}
	socket := centrifuge.NewWebsocketHandler(g.node, centrifuge.WebsocketConfig{
		CheckOrigin: g.mayConnect, MessageSizeLimit: maxFrame, WriteTimeout: 5 * time.Second, UseWriteBufferPool: true,
		ReadBufferSize:             readBuffer,
		ProcessCommandsOffReadLoop: true, PingPongConfig: ping,
	})
	a.RawConnection("GET /v1/socket", g.admit(socket))
	// There is no transport with server-sent events, because its clients send their token in the URL, and so into
	// logs.
	a.RawConnection("POST /v1/socket/http_stream", g.admit(centrifuge.NewHTTPStreamHandler(g.node,
		centrifuge.HTTPStreamConfig{MaxRequestBodySize: maxFrame, PingPongConfig: ping})))
	a.OnDrain(g.drain)
	a.Raw("POST /v1/socket/emulation", centrifuge.NewEmulationHandler(g.node, centrifuge.EmulationConfig{MaxRequestBodySize: maxFrame}))
}

// Run serves until ctx ends. Then it disconnects all clients, so that they connect to other nodes, and waits for the
// running calls.
func (g *Gateway) Run(ctx context.Context, ready func()) error {
	if err := g.node.Run(); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	g.drain()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := g.node.Shutdown(stop)
	g.calls.stop()
	return err
}

// Open returns the number of connections, including those being opened.
func (g *Gateway) Open() int { return int(g.open.Load()) }

// Refuse makes the gateway refuse new connections with [ErrDraining].
func (g *Gateway) Refuse() { g.refusing.Store(true) }

// Resume makes the gateway accept new connections again after [Gateway.Refuse].
func (g *Gateway) Resume() {
	if !g.draining.Load() {
		g.refusing.Store(false)
	}
}

// drainStep is the interval between the steps of [Gateway.Drain].
const drainStep = 100 * time.Millisecond

// Drain disconnects all clients in random order, evenly over a while, so that they connect to other nodes. It returns
// when no connection is left, or ctx ends. Call [Gateway.Refuse] before; otherwise clients reconnect to this node.
func (g *Gateway) Drain(ctx context.Context, over time.Duration) {
	end := time.Now().Add(over)
	due := 0.0 // number of clients; a fraction is carried over to the next step
	for g.open.Load() > 0 && ctx.Err() == nil {
		all := g.clients()
		if left := time.Until(end); left > drainStep {
			due += float64(len(all)) * float64(drainStep) / float64(left)
		} else {
			due = float64(len(all))
		}
		n := min(int(due), len(all))
		due -= float64(n)
		for _, c := range all[:n] {
			c.Disconnect(centrifuge.DisconnectShutdown)
		}
		select {
		case <-ctx.Done():
		case <-time.After(drainStep):
		}
	}
}

// clients returns all clients in random order.
func (g *Gateway) clients() []*centrifuge.Client {
	all := slices.Collect(maps.Values(g.node.Hub().Connections()))
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// drain disconnects all clients one after the other in random order, once.
func (g *Gateway) drain() {
	if !g.draining.CompareAndSwap(false, true) {
		<-g.drained
		return
	}
	defer close(g.drained)
	g.Refuse()
	all := g.clients()
	const steps = 20
	for chunk := range slices.Chunk(all, max(1, (len(all)+steps-1)/steps)) {
		for _, c := range chunk {
			c.Disconnect(centrifuge.DisconnectShutdown)
		}
		time.Sleep(drainTime / steps)
	}
}
