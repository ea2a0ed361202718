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

// Caller is who holds a connection.
type Caller interface {
	web.Caller
	DeviceID() string     // names the session
	ExpiresAt() time.Time // of the token
}

// Sessions knows callers by their tokens. What a token belongs to is a [Caller].
type Sessions interface {
	web.Authenticator

	// StillHere returns who a caller is by now. It refuses with an error of the kind
	// errs.Unauthenticated when the session has ended; any other error is an accident.
	StillHere(ctx context.Context, c web.Caller) (web.Caller, error)
}

// Watch is told of connections, each by a name that no other one to this node has. Its
// methods must not wait for anything.
type Watch interface {
	Opened(user, device, connection string)
	Closed(connection string)
}

// Channels are those to which clients subscribe beside their own.
type Channels interface {
	// MaySubscribe refuses a user who may not have the events of a channel.
	MaySubscribe(ctx context.Context, user, channel string) error

	// MayStay refuses a user who may not have them any more, as of a moment ago. It is asked at each
	// look at a connection, so that it has to cost little.
	MayStay(ctx context.Context, user, channel string) error

	// Hidden returns the users whose events on a channel a subscriber does not get. It is
	// asked when they subscribe, and again when they have blocked somebody, or do not any more.
	Hidden(ctx context.Context, user, channel string) ([]string, error)

	// Subscribed and Unsubscribed are told which connections have a channel. They must not wait for
	// anything.
	Subscribed(user, connection, channel string)
	Unsubscribed(user, connection, channel string)
}

// Settings are the operator's.
type Settings struct {
	Ping    time.Duration `koanf:"ping" default:"25s" help:"how often a silent connection is pinged; less than the shortest idle time of a proxy on the way"`
	MaxUser int           `koanf:"max_user" default:"32" help:"connections of one user to one node"`
	MaxFrom int           `koanf:"max_from" default:"1000" help:"connections from one household (IPv4 address or IPv6 /64) to one node"`

	DrainOver   time.Duration `koanf:"drain_over" default:"20s" help:"over how long a node that is drained sends its connections to other nodes, so that these do not get them all at once, at most an hour"`
	DrainWithin time.Duration `koanf:"drain_within" default:"1m" help:"after how long a node counts as drained although connections are left, at most an hour"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	return errors.Join(
		config.Refuse(c.Ping < time.Second || c.Ping > 5*time.Minute, "ping", "%s is not between a second and five minutes", c.Ping),
		config.Refuse(c.MaxUser < 1, "max_user", "%d refuses every connection", c.MaxUser),
		config.Refuse(c.MaxFrom < 1, "max_from", "%d refuses every connection", c.MaxFrom),
		config.Refuse(c.MaxFrom > web.MaxConns, "max_from", "%d is more than the %d connections that a node holds", c.MaxFrom, web.MaxConns),
		config.Refuse(c.DrainOver < 0 || c.DrainOver > time.Hour, "drain_over", "%s is not between nothing and an hour", c.DrainOver),
		config.Refuse(c.DrainWithin < c.DrainOver || c.DrainWithin > time.Hour, "drain_within", "%s is not between drain_over and an hour", c.DrainWithin))
}

// ErrDraining refuses a connection to a node that sends its connections away.
var ErrDraining = errs.New(errs.Unavailable, "gateway.draining", "This node takes no new connections. Please try again.").Retry(time.Second)

// ErrTooMany refuses a connection beyond the ceiling of a household.
var ErrTooMany = errs.New(errs.TooMany, "gateway.too_many", "Too many connections are open from this address.").Retry(10 * time.Second)

// Config has what a gateway needs.
type Config struct {
	Settings

	API      *web.API // whose operations can be called
	Sessions Sessions
	Bus      *events.Bus
	Watch    Watch // nil: nobody is told

	Channels Channels // nil: nobody may subscribe to any but their own

	Node    string // this process, among all that share Redis
	Version string // of the server, told to clients
	// Origins match the web origins whose scripts may connect. Those of PublicURL and of the server that a request
	// names may in any case.
	Origins   origin.Patterns
	PublicURL origin.Origin

	// MaxStale is how long a session that has ended may be taken for one that goes on.
	// Zero means half a second.
	MaxStale time.Duration

	Log *slog.Logger

	Metrics prometheus.Registerer // nil: none

	// Library gets what the library of sockets counts, stoa_socket_*, much of which is for
	// parts of it that are not used here. Nil: nobody gets it.
	Library *prometheus.Registry
}

const (
	// maxFrame is the largest frame from a client, in bytes: the largest body of an
	// operation, and something around it.
	maxFrame = 64<<10 + 4096

	// readBuffer is what each connection reads through, in bytes. Most frames are smaller.
	readBuffer = 512

	// maxBehind is how many bytes may wait for a client before it is cut off as slow.
	maxBehind = 1 << 20

	// maxRecover is how many events a resuming client gets before it had better look
	// itself; events are kept for as many.
	maxRecover = 200

	// drainTime is how long a stopping node takes to send its clients away, so that they
	// do not come to the others all at once.
	drainTime = 2 * time.Second
)

// Gateway is one node's sockets.
type Gateway struct {
	cfg   Config
	base  context.Context //nolint:containedctx // for what the library calls without one
	log   *slog.Logger
	node  *centrifuge.Node
	conns connections
	from  households
	calls sync.WaitGroup

	reconnects, resubscribes turns // of those that look again

	metrics *metrics

	refusedOrigin rate.Sometimes // bounds the log lines
	faults        faults

	open     atomic.Int64  // connections, and requests for one
	refusing atomic.Bool   // new ones
	draining atomic.Bool   // for good
	drained  chan struct{} // closed when all clients were sent away
}

// New returns a gateway; [Gateway.Run] has it work. What the library does without a context has
// the values of ctx.
func New(ctx context.Context, cfg Config) (*Gateway, error) {
	if cfg.MaxStale == 0 {
		cfg.MaxStale = 500 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{cfg: cfg, base: context.WithoutCancel(ctx), log: cfg.Log, faults: faults{all: map[string]fault{}}, refusedOrigin: rate.Sometimes{First: 5, Interval: time.Minute}}
	var library centrifuge.MetricsConfig
	library.RegistererGatherer = prometheus.NewRegistry()
	if cfg.Library != nil {
		library.RegistererGatherer = cfg.Library
	}
	library.MetricsNamespace = "stoa_socket"
	node, err := centrifuge.New(centrifuge.Config{
		Name: cfg.Node, Version: cfg.Version, Metrics: library,
		LogLevel: centrifuge.LogLevelWarn, LogHandler: g.logged,
		ClientConnectIncludeServerTime: true,
		ClientQueueMaxSize:             maxBehind,
		UserConnectionLimit:            cfg.MaxUser,
		RecoveryMaxPublicationLimit:    maxRecover,
	})
	if err != nil {
		return nil, err
	}
	g.node, g.drained = node, make(chan struct{})
	g.metrics = newMetrics(cfg.Metrics, func() float64 { return float64(node.Hub().NumClients()) })
	cfg.Bus.SetAhead(g.ahead)
	node.SetBroker(&broker{base: g.base, bus: cfg.Bus, held: map[string]func(){}, before: g.before, lost: g.lost})
	node.SetController(newController(g.base, cfg.Bus.Nodes(), cfg.Log))
	node.OnConnecting(g.connecting)
	node.OnConnect(g.connected)
	node.OnTransportWrite(g.mayWrite)
	return g, nil
}

// faultPause is the time between two lines of one fault of the library: while Redis is away every connection has it.
const faultPause = time.Minute

// faults are the library's, by message.
type faults struct {
	mu  sync.Mutex
	all map[string]fault
}

type fault struct {
	logged time.Time
	others int // since then
}

// due reports whether a fault is to be logged, and how many were not since the last one.
func (f *faults) due(message string) (others int, due bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, now := f.all[message], time.Now()
	if due = now.Sub(last.logged) >= faultPause; due {
		f.all[message] = fault{logged: now}
	} else {
		f.all[message] = fault{last.logged, last.others + 1}
	}
	return last.others, due
}

// logged passes on what the library logs. Frames of clients are in some of its fields;
// these stay out.
func (g *Gateway) logged(e centrifuge.LogEntry) {
	others, due := g.faults.due(e.Message)
	if !due {
		return
	}
	level := slog.LevelWarn
	if e.Level == centrifuge.LogLevelError {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("said", e.Message), slog.Int("others", others)}
	if err, ok := e.Fields["error"]; ok {
		attrs = append(attrs, slog.Any("err", err))
	}
	for _, name := range []string{"client", "user", "transport", "node"} {
		if v, ok := e.Fields[name]; ok {
			attrs = append(attrs, slog.Any(name, v))
		}
	}
	g.log.LogAttrs(g.base, level, "the socket library reports a fault", attrs...)
}

// Routes mounts the sockets on a.
func (g *Gateway) Routes(a *web.API) {
	ping := centrifuge.PingPongConfig{PingInterval: g.cfg.Ping, PongTimeout: g.cfg.Ping / 3}
	socket := centrifuge.NewWebsocketHandler(g.node, centrifuge.WebsocketConfig{
		CheckOrigin: g.mayConnect, MessageSizeLimit: maxFrame, WriteTimeout: 5 * time.Second, UseWriteBufferPool: true, ReadBufferSize: readBuffer,
		ProcessCommandsOffReadLoop: true, PingPongConfig: ping,
	})
	a.RawConnection("GET /v1/socket", g.admit(socket))
	// A client of server-sent events sends its token in the URL, and so into logs: there is no such transport.
	a.RawConnection("POST /v1/socket/http_stream", g.admit(centrifuge.NewHTTPStreamHandler(g.node, centrifuge.HTTPStreamConfig{MaxRequestBodySize: maxFrame, PingPongConfig: ping})))
	a.OnDrain(g.drain)
	a.Raw("POST /v1/socket/emulation", centrifuge.NewEmulationHandler(g.node, centrifuge.EmulationConfig{MaxRequestBodySize: maxFrame}))
}

// Run works until ctx ends; then it sends all clients away to other nodes, and waits for
// the calls that run.
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
	g.calls.Wait()
	return err
}

// Open returns how many connections there are, those among them that are only being opened.
func (g *Gateway) Open() int { return int(g.open.Load()) }

// Refuse has new connections refused with [ErrDraining].
func (g *Gateway) Refuse() { g.refusing.Store(true) }

// Resume has new connections taken again after [Gateway.Refuse].
func (g *Gateway) Resume() {
	if !g.draining.Load() {
		g.refusing.Store(false)
	}
}

// drainBeat is how often some clients are sent away.
const drainBeat = 100 * time.Millisecond

// Drain sends all clients to other nodes in random order, evenly over a while. It returns when no connection is
// left, or ctx ends. Call [Gateway.Refuse] before, else clients come back here.
func (g *Gateway) Drain(ctx context.Context, over time.Duration) {
	end := time.Now().Add(over)
	due := 0.0 // clients; less than one is sent away with a later beat
	for g.open.Load() > 0 && ctx.Err() == nil {
		all := g.clients()
		if left := time.Until(end); left > drainBeat {
			due += float64(len(all)) * float64(drainBeat) / float64(left)
		} else {
			due = float64(len(all))
		}
		some := min(int(due), len(all))
		due -= float64(some)
		for _, c := range all[:some] {
			c.Disconnect(centrifuge.DisconnectShutdown)
		}
		select {
		case <-ctx.Done():
		case <-time.After(drainBeat):
		}
	}
}

// clients are all clients, in random order.
func (g *Gateway) clients() []*centrifuge.Client {
	all := slices.Collect(maps.Values(g.node.Hub().Connections()))
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// drain sends all clients to other nodes, one after the other in random order, once.
func (g *Gateway) drain() {
	if !g.draining.CompareAndSwap(false, true) {
		<-g.drained
		return
	}
	defer close(g.drained)
	g.Refuse()
	all := g.clients()
	const steps = 20
	for some := range slices.Chunk(all, max(1, (len(all)+steps-1)/steps)) {
		for _, c := range some {
			c.Disconnect(centrifuge.DisconnectShutdown)
		}
		time.Sleep(drainTime / steps)
	}
}
