package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	netmail "net/mail"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/activity"
	"github.com/stoa-dev/stoa/internal/base/origin"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/jwtlogin"
	"github.com/stoa-dev/stoa/internal/live"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/internal/push"
	"github.com/stoa-dev/stoa/internal/realtime/gateway"
	"github.com/stoa-dev/stoa/internal/rooms"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Config has all settings of an operator.
type Config struct {
	Addr           string          `koanf:"addr" default:"127.0.0.1:8080" help:"address to listen on; :0 picks a port and prints it"`
	PublicURL      origin.Origin   `koanf:"public_url" help:"where people reach the page, https://stoa.example.org: every link begins with it, scripts of this origin may open sockets, and pushes name it as contact; empty: mails have links if addr is loopback, and other links begin with the Host header of the request"`
	AdminAddr      string          `koanf:"admin_addr" help:"address for operators alone: metrics, the catalogue of keys, detailed readiness; empty: they are on addr if that is loopback and no proxy is trusted, else nowhere"`
	Pprof          bool            `koanf:"pprof" default:"false" help:"serve profiles of this process to operators at /debug/pprof/; needs admin_addr, or an addr that serves operators"`
	Docs           string          `koanf:"docs" default:"auto" enum:"auto,true,false" help:"serve the description of the API, /docs and /openapi.json, on addr; auto is true where addr serves operators, too; admin_addr always does"`
	Data           string          `koanf:"data" default:"./stoa-data" help:"folder for the embedded database and generated secrets"`
	Redis          string          `koanf:"redis" default:"embedded" secret:"url" help:"embedded, spawn, redis://…, rediss://…, redis-sentinel://h1,h2/name or redis-cluster://h1,h2"`
	SQL            string          `koanf:"sql" default:"sqlite" secret:"url" help:"sqlite, sqlite:/path or mysql://user:pass@host/db"`
	SQLConns       int             `koanf:"sql_conns" default:"16" help:"most connections to MySQL or MariaDB, at least 8"`
	Queue          string          `koanf:"queue" default:"sql" secret:"url" help:"where messages between nodes wait: sql or redis"`
	Roles          []string        `koanf:"roles" default:"api,gateway,worker" help:"what this node does: api, gateway (the sockets of apps), worker (jobs and queue)"`
	KeyPrefix      string          `koanf:"key_prefix" default:"stoa" help:"what every Redis key begins with, so that deployments can share one Redis"`
	Secret         string          `koanf:"secret" secret:"true" help:"at least 32 characters, the same on all nodes; generated and kept in the data folder when empty"`
	SecretPrevious string          `koanf:"secret_previous" secret:"true" help:"the other secret while secret is rotated: what it has signed is accepted; read from the data folder with secret"`
	Dev            string          `koanf:"dev" default:"auto" enum:"auto,true,false" help:"show mails to this machine at /dev/mail instead of sending them; auto is true on loopback with SQLite, the embedded Redis, no mail server and no trusted proxy"`
	Log            obs.Log         `koanf:"log" default:"info" help:"level and format: debug, info, warn or error; pretty, text or json"`
	AccessLog      bool            `koanf:"access_log" default:"false" help:"log a line at level info for each request: method, route, path, status, time, bytes, network, user and request id; never a query, a header or a body"`
	Limits         bool            `koanf:"limits" default:"true" help:"limit requests for each user and operation"`
	Origins        origin.Patterns `koanf:"origins" help:"web origins whose scripts may call the API and open sockets: https://app.example.org, https://*.example.org, capacitor://localhost"`
	TrustProxy     []netip.Prefix  `koanf:"trust_proxy" help:"networks whose X-Forwarded-For is believed"`

	SMTP     mail.Config       `koanf:"smtp"`
	Accounts accounts.Settings `koanf:"accounts"`
	Social   social.Settings   `koanf:"social"`
	Groups   groups.Settings   `koanf:"groups"`
	Notices  notices.Settings  `koanf:"notices"`
	Push     push.Settings     `koanf:"push"`
	Rooms    rooms.Settings    `koanf:"rooms"`
	Live     live.Settings     `koanf:"live"`
	Checkin  checkin.Settings  `koanf:"checkin"`
	Cache    CacheSettings     `koanf:"cache"`
	Cluster  cluster.Settings  `koanf:"cluster"`
	Gateway  gateway.Settings  `koanf:"gateway"`

	Chats    messaging.Settings `koanf:"chats"`
	Activity activity.Settings  `koanf:"activity"`
	Files    transfers.Settings `koanf:"files"`
	Webhooks webhooks.Settings  `koanf:"webhooks"`
	JWT      jwtlogin.Settings  `koanf:"jwt"`

	// Now is the server's clock. Nil means time.Now.
	Now func() time.Time

	// PasswordCost is the cost of hashing a password. Its zero value means the cost of package password; tests use a
	// smaller one.
	PasswordCost argon2id.Params

	// DialRedis replaces the network between the server and Redis. Nil means the network.
	DialRedis func(ctx context.Context, network, addr string) (net.Conn, error)

	// PushTransport replaces the transport that connects to push services at public addresses only, for tests. Nil means
	// that transport.
	PushTransport http.RoundTripper
	// DialWebhooks replaces the network between the server and the app's own backend. Nil means the network.
	DialWebhooks func(ctx context.Context, network, addr string) (net.Conn, error)
}

// leastConns is the smallest number of SQL connections. It is twice the number that replays and counts of boards use at
// once, because each of them needs a second connection.
const leastConns = 8

// Validate returns all faults that no single component would find.
func (c Config) Validate() error {
	badSQL, badRedis := sqldb.CheckURL(c.SQL), redis.CheckURL(c.Redis)
	badPrefix := keyspace.ValidPrefix(c.KeyPrefix)
	_, isFile := sqldb.SQLitePath(sqldb.Config{URL: c.SQL, Dir: c.Data}) // a file has its own connections
	return errors.Join(
		config.Refuse(!isAddress(c.Addr), "addr", "an address is host:port, 127.0.0.1:8080 or :8080"),
		config.Refuse(c.AdminAddr != "" && !isAddress(c.AdminAddr), "admin_addr", "an address is host:port, 127.0.0.1:9090 or :9090"),
		config.Refuse(c.Pprof && c.AdminAddr == "" && !c.OperatorsHere(), "pprof", "profiles are for operators alone: set admin_addr"),
		config.Refuse(c.SQL == "", "sql", "nothing is named: sqlite is the one inside"),
		config.Refuse(badSQL != nil, "sql", "%v", badSQL),
		config.Refuse(c.Redis == "", "redis", "nothing is named: embedded is the one inside"),
		config.Refuse(badRedis != nil, "redis", "%v", badRedis),
		config.Refuse(!isFile && c.SQLConns != 0 && c.SQLConns < leastConns, "sql_conns",
			"%d is less than %d: what reads a whole table holds a connection while it asks for more with another one, and several do so at once",
			c.SQLConns, leastConns),
		c.checkQueue(), c.checkRoles(), c.checkMode(),
		config.Refuse(c.Activity.Approximate() && c.Redis == "embedded", "activity.count",
			"the embedded Redis counts exactly; name a Redis server in redis, or use exact"),
		config.Refuse(c.Accounts.SignIn != "" && c.Accounts.SignIn != accounts.SignInOwn && !c.JWT.On(), "accounts.sign_in",
			"%s needs the key by which tokens are checked: jwt.secret, jwt.jwks_url or jwt.jwks_file", c.Accounts.SignIn),
		config.Refuse(badPrefix != nil, "key_prefix", "%v", badPrefix),
		config.Refuse(c.Secret != "" && len(c.Secret) < 32, "secret", "a secret has at least 32 characters"),
		config.Refuse(c.SecretPrevious != "" && len(c.SecretPrevious) < 32, "secret_previous", "a secret has at least 32 characters"))
}

// liveSettings returns the settings of live streams. A node without the API needs no UDP port, because clients cannot
// publish or watch there. The size of a recording is limited by the size of a file.
func (c Config) liveSettings() live.Settings {
	if !c.does(roleAPI) {
		c.Live.UDP = live.Off
	}
	config.Defaults(&c.Live)
	config.Defaults(&c.Files)
	c.Live.RecordBytes = min(c.Live.RecordBytes, max(c.Files.MaxSize, live.LeastRecordBytes))
	return c.Live
}

// page returns the public address of the page, or "" if it is unknown.
func (c Config) page() string {
	if _, port, err := net.SplitHostPort(c.Addr); c.PublicURL == (origin.Origin{}) && c.local() && err == nil && port != "0" {
		return "http://" + c.Addr
	}
	return c.PublicURL.String()
}

// sender returns the address that mails come from, or "" if it is not set.
func (c Config) sender() string {
	from, err := netmail.ParseAddress(c.SMTP.From)
	if err != nil {
		return ""
	}
	return from.Address
}

// isAddress reports whether a server can listen on an address.
func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// ValidateServer returns faults that prevent a server from starting, but no other command.
func (c Config) ValidateServer() error {
	if c.needsMailServer() && c.SMTP.Host == "" {
		return &config.Fault{Key: "smtp.host", Text: "without a mail server nobody can sign up; set one, or dev = true to show mails on this " +
			"machine instead"}
	}
	return nil
}

// needsMailServer reports whether users depend on mails of this node. Only workers send mails. If users sign in with
// tokens of the app only, they need no codes.
func (c Config) needsMailServer() bool {
	return !c.Development() && c.does(roleWorker) && c.Accounts.SignIn != accounts.SignInJWT
}

// Development reports whether mails are shown instead of sent. With dev = auto it is on only if other people cannot use
// the server: on loopback, with both embedded engines, and with neither a mail server nor a trusted proxy.
func (c Config) Development() bool {
	if c.Dev != "auto" {
		return c.Dev == "true"
	}
	return c.SMTP.Host == "" && c.embedded() && c.local()
}

// local reports whether only programs on this machine reach the server: it listens on loopback and trusts no proxy.
func (c Config) local() bool { return len(c.TrustProxy) == 0 && c.onLoopback() }

func (c Config) onLoopback() bool {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// handover is the time that a stopping node still serves, while /readyz returns 503 and proxies remove the node. It is
// zero if no other node shares the Redis, or no proxy reaches the node.
func (c Config) handover() time.Duration {
	if c.local() || !strings.Contains(c.Redis, "://") {
		return 0
	}
	return 5 * time.Second
}

// OperatorsHere reports whether the operators' pages are served on Addr.
func (c Config) OperatorsHere() bool { return c.AdminAddr == "" && c.local() }

// DocsHere reports whether the description of the API is served on Addr.
func (c Config) DocsHere() bool { return c.Docs == "true" || c.Docs != "false" && c.OperatorsHere() }

// embedded reports whether the server uses SQLite and the embedded Redis.
func (c Config) embedded() bool {
	return c.Redis == "embedded" && (c.SQL == "sqlite" || strings.HasPrefix(c.SQL, "sqlite:"))
}

// Warnings returns warnings about valid settings.
func (c Config) Warnings() []string {
	if !c.Development() {
		return nil
	}
	return []string{"development mode is on: the server sends no mail and shows all mails, with their codes, to every program on this " +
		"machine at /dev/mail; set smtp.host, or dev = false, where other people use the server"}
}

// The roles of a node.
const (
	roleAPI     = "api"     // the HTTP API and its pages
	roleGateway = "gateway" // sockets, which also call the API
	roleWorker  = "worker"  // jobs, the outbox and the queue's consumers
)

var roles = []string{roleAPI, roleGateway, roleWorker}

// allRoles returns the roles of the node. An empty list means all roles.
func (c Config) allRoles() []string {
	if len(c.Roles) == 0 {
		return roles
	}
	return c.Roles
}

// does reports whether the node has a role.
func (c Config) does(role string) bool { return slices.Contains(c.allRoles(), role) }

func (c Config) checkRoles() error {
	all := strings.Join(roles, ", ")
	if strings.Join(c.Roles, "") == "" {
		return &config.Fault{Key: "roles", Text: "a node without a role does nothing; name at least one of " + all}
	}
	for _, role := range c.Roles {
		if !slices.Contains(roles, role) {
			return &config.Fault{Key: "roles", Text: fmt.Sprintf("%q is no role; the roles are %s", role, all)}
		}
	}
	return nil
}

// The kinds of queue.
const (
	queueSQL   = "sql"
	queueRedis = "redis" // in addition to the outbox in SQL
)

// UsesStreams reports whether messages wait in Redis, possibly in addition to SQL.
func (c Config) UsesStreams() bool {
	return c.Queue == queueRedis || c.Checkin.Mode == checkin.RedisFirst
}

func (c Config) checkMode() error {
	switch {
	case c.Checkin.Mode != checkin.RedisFirst:
		return nil
	case !strings.Contains(c.Redis, "://"):
		return &config.Fault{Key: "checkin.mode", Text: "the " + c.Redis +
			" Redis would lose check-ins when the server stops; use durable, or name a Redis server that keeps an append-only file in redis"}
	case c.Checkin.Replicas > 0 && strings.HasPrefix(c.Redis, "redis-cluster://"):
		return &config.Fault{Key: "checkin.replicas", Text: "replicas cannot be waited for on a cluster"}
	}
	return nil
}

func (c Config) checkQueue() error {
	scheme, _, isURL := strings.Cut(c.Queue, "://")
	switch {
	case c.Queue == queueSQL, c.Queue == queueRedis && strings.Contains(c.Redis, "://"):
		return nil
	case c.Queue == queueRedis:
		return &config.Fault{Key: "queue", Text: "the " + c.Redis +
			" Redis would lose its messages when the server stops; use sql, or name a Redis server in redis"}
	case isURL && (scheme == "amqp" || scheme == "amqps" || scheme == "kafka"):
		return &config.Fault{Key: "queue", Text: scheme + ":// is not built in yet; use sql or redis"}
	}
	return &config.Fault{Key: "queue", Text: "a queue is sql or redis"}
}
