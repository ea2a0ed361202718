package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Config selects and configures the Redis.
type Config struct {
	// URL is one of
	//
	//	embedded                                 in this process, empty at start; also when URL is empty;
	//	                                         needs import _ "github.com/stoa-dev/stoa/lib/redis/embedded"
	//	spawn                                    a redis-server from PATH as a child, empty at start;
	//	                                         needs import _ "github.com/stoa-dev/stoa/lib/redis/spawn"
	//	redis://user:password@host:6379/0        one server; rediss:// for TLS
	//	unix:///path/to/redis.sock               one server on a unix socket
	//	redis-sentinel://user:password@h1:26379,h2:26379/mymaster
	//	redis-cluster://user:password@h1:6379,h2:6379
	//
	// The port is optional. User and password are those of the data servers; with sentinels ?sentinel_password= sets
	// theirs. ?tls=true encrypts sentinel and cluster connections, ?db=1 selects a database behind sentinels.
	//
	// For encrypted connections, ?ca=FILE names the trusted authorities instead of the system's, ?cert=FILE&key=FILE
	// the certificate of this client and its private key, all in PEM. ?servername= is the name in the servers'
	// certificates if it differs from the address. If the client certificate is replaced on disk, the next connection
	// uses the new one; the authorities are read once.
	URL string

	// TLS configures the encryption of connections, instead of ?ca= and the like. It needs rediss:// or ?tls=true, and
	// applies to the server, sentinels, every node of a cluster, and subscriptions. An empty ServerName means the host
	// of each address. Nil trusts the system's authorities. "embedded", "spawn" and unix:// do not use it.
	TLS *tls.Config

	// Prefix precedes every key and channel, with a colon. Empty means "stoa". Lower-case letters, digits, '-', '_' and
	// '.' only. A new program should use a [keyspace.ValidPrefix]: with more than [keyspace.MaxPrefix] bytes, keys
	// exceed the length that package keyspace guarantees, and no sweep removes them.
	Prefix string

	// NoPrefix uses keys and channels without a prefix, for existing keys. Every key of the server then belongs to this
	// DB's scans: use a separate server, or do not use the tools that scan all keys. It excludes Prefix.
	NoPrefix bool

	// Dir is the directory for the socket of "spawn"; empty means a new temporary directory, which Close removes.
	Dir string

	// HotKeys enables the sampling of one in 256 keys of all commands, for [DB.HotKeys]. It costs a few nanoseconds per
	// command.
	HotKeys bool

	// Dial makes the connections if the network alone cannot: for example through a tunnel, or in the memory of a test.
	// It returns connections that speak the Redis protocol, so TLS and its certificates are its own responsibility. Nil
	// dials according to the URL. "embedded" and "spawn" do not use it.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Patience bounds how long a server may take to accept a connection, or to reply to a PING on a new one. After that
	// it counts as unavailable and commands fail at once. Zero means a second. Use more for a distant network, or a
	// machine that stalls; commands wait meanwhile, as long as their contexts allow.
	Patience time.Duration

	// Credentials, if set, returns the user and password of each connection to a data server, instead of those in the
	// URL: for passwords that change, such as cloud tokens that are valid for an hour. It has to return within
	// Patience. An error makes the command fail with [ErrUnavailable], and the next command calls it again; existing
	// connections stay until the server ends them. Sentinels are authenticated by the URL. "embedded" and "spawn" do
	// not use it.
	Credentials Credentials

	// Connections is the number of connections to one server that commands share, a power of two up to 256. 0 selects
	// it by the number of processors: 1 for two of them, 2 for four, 4 for eight or more. A cluster has one connection
	// to each owner. Subscriptions have one more.
	Connections int

	// Log gets one line for each loss and return of a server; nil discards it.
	Log *slog.Logger
}

const (
	// patience is the default of Config.Patience. Redis stalls for less, unless a command is far too big. A connection
	// may be silent for twice as long with work under way, because no single command takes longer.
	patience = time.Second
	// pingEvery is the keep-alive interval, to find broken idle connections.
	pingEvery = time.Second
	// maxRedirects bounds how often a cluster may redirect one command.
	maxRedirects = 5
)

// target is a parsed Config.URL.
type target struct {
	mode  string
	opt   rueidis.ClientOption
	files bool // the URL names certificates
}

// CheckURL reports what is wrong with a [Config].URL, or with the files that it names, without connecting. Its errors
// never contain the password.
func CheckURL(raw string) error {
	_, err := parse(raw)
	return err
}

// target returns the parsed URL, combined with the other connection settings.
func (cfg Config) target() (target, error) {
	t, err := parse(cfg.URL)
	switch {
	case err != nil:
		return t, err
	case cfg.Patience < 0:
		return t, errors.New("redis: Config.Patience is negative")
	case cfg.Connections < 0 || cfg.Connections > 256 || cfg.Connections&(cfg.Connections-1) != 0:
		return t, errors.New("redis: Config.Connections must be a power of two up to 256, or 0")
	case cfg.Credentials != nil && (t.opt.Username != "" || t.opt.Password != ""):
		return t, errors.New("redis: set user and password in the URL or Config.Credentials, not both")
	case len(t.opt.InitAddress) == 0 || t.opt.InitAddress[0][0] == '/':
		return t, nil
	}
	switch {
	case cfg.TLS != nil && t.opt.TLSConfig == nil:
		return t, errors.New("redis: Config.TLS needs rediss:// or ?tls=true in the URL")
	case cfg.TLS != nil && t.files:
		return t, errors.New("redis: set certificates in the URL or in Config.TLS, not both")
	case cfg.Dial != nil && (cfg.TLS != nil || t.files):
		return t, errors.New("redis: Config.Dial encrypts its own connections: remove Config.TLS and certificates from the URL")
	}
	if cfg.TLS != nil {
		t.opt.TLSConfig = cfg.TLS.Clone()
		t.opt.Sentinel.TLSConfig = t.opt.TLSConfig
	}
	return t, nil
}

func parse(raw string) (target, error) {
	if raw == "" {
		raw = "embedded"
	}
	t := target{mode: raw}
	if raw == "embedded" || raw == "spawn" {
		return t, nil
	}
	p, err := splitURL(raw)
	if err != nil {
		return t, err
	}
	if err := t.setCredentials(p.user); err != nil {
		return t, err
	}
	var known []string // settings
	switch p.scheme {
	case "redis", "rediss":
		known, err = t.standalone(p)
	case "unix":
		known, err = t.unix(p)
	case "redis-sentinel":
		known, err = t.sentinel(p)
	case "redis-cluster":
		known, err = t.cluster(p)
	default:
		err = fmt.Errorf("redis: unknown scheme %q", p.scheme)
	}
	if err != nil {
		return t, err
	}
	if err := p.check(known); err != nil {
		return t, err
	}
	if db := p.settings.Get("db"); db != "" {
		if t.opt.SelectDB, err = strconv.Atoi(db); err != nil || t.opt.SelectDB < 0 {
			return t, errors.New("redis: db must be a number")
		}
	}
	if p.scheme != "unix" {
		port := "6379"
		if t.mode == "sentinel" {
			port = "26379"
		}
		for host := range strings.SplitSeq(p.hosts, ",") {
			addr, err := address(host, port)
			if err != nil {
				return t, err
			}
			t.opt.InitAddress = append(t.opt.InitAddress, addr)
		}
	}
	err = t.encrypt(p.settings, p.scheme == "rediss" || p.settings.Get("tls") == "true")
	return t, err
}

// urlParts are the parts of a URL.
type urlParts struct {
	scheme, user, hosts, path, query string
	settings                         url.Values // parsed query
}

// splitURL splits a URL, because package url does not accept lists of hosts.
func splitURL(raw string) (p urlParts, err error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return p, errors.New(`redis: the URL is neither "embedded", "spawn" nor scheme://…`)
	}
	p.scheme = scheme
	rest, p.query, _ = strings.Cut(rest, "?")
	if p.settings, err = url.ParseQuery(p.query); err != nil {
		return p, errors.New("redis: the URL's query is malformed")
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		p.user, rest = rest[:i], rest[i+1:]
	}
	p.hosts, p.path, _ = strings.Cut(rest, "/")
	return p, nil
}

// check refuses settings that are unknown or repeated.
func (p urlParts) check(known []string) error {
	for name, values := range p.settings {
		if !slices.Contains(known, name) {
			if strings.Contains(p.query, "@") { // the query may be the part after a '?' in the password
				return errors.New("redis: the URL has an unknown setting, or user and password are not percent-encoded")
			}
			return fmt.Errorf("redis: the URL has an unknown setting %q", name)
		}
		if len(values) > 1 {
			return fmt.Errorf("redis: the URL has %s twice", name)
		}
	}
	if on := p.settings.Get("tls"); p.settings.Has("tls") && on != "true" && on != "false" {
		return errors.New("redis: the URL's tls must be true or false")
	}
	return nil
}

func (t *target) setCredentials(user string) (err error) {
	name, password, ok := strings.Cut(user, ":")
	if !ok && user != "" {
		return errors.New("redis: user without password; write :password@ for a password alone")
	}
	if t.opt.Username, err = url.PathUnescape(name); err == nil {
		t.opt.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errors.New("redis: user and password must be percent-encoded")
	}
	return nil
}

// standalone, unix, sentinel and cluster parse a URL of their kind, and return the settings that it may have.
func (t *target) standalone(p urlParts) (known []string, err error) {
	t.mode = "standalone"
	if strings.Contains(p.hosts, ",") {
		return nil, errors.New("redis: redis:// names one host; use redis-cluster:// or redis-sentinel:// for several")
	}
	if p.path != "" {
		if t.opt.SelectDB, err = strconv.Atoi(p.path); err != nil || t.opt.SelectDB < 0 {
			return nil, errors.New("redis: the path of redis:// must be a database number")
		}
	}
	return certificateSettings, nil
}

func (t *target) unix(p urlParts) (known []string, err error) {
	t.mode = "standalone"
	if p.hosts != "" || p.path == "" {
		return nil, errors.New("redis: write unix:///path/to/redis.sock")
	}
	t.opt.InitAddress = []string{"/" + p.path}
	return []string{"db"}, nil
}

func (t *target) sentinel(p urlParts) (known []string, err error) {
	t.mode = "sentinel"
	if p.path == "" || strings.Contains(p.path, "/") {
		return nil, errors.New("redis: redis-sentinel:// must end with the master's name")
	}
	t.opt.Sentinel.MasterSet = p.path
	t.opt.Sentinel.Password = p.settings.Get("sentinel_password")
	t.opt.Sentinel.TopologyRefreshInterval = 5 * time.Second
	return append([]string{"db", "tls", "sentinel_password"}, certificateSettings...), nil
}

func (t *target) cluster(p urlParts) (known []string, err error) {
	t.mode = "cluster"
	if p.path != "" {
		return nil, errors.New("redis: a cluster has no databases")
	}
	t.opt.ClusterOption.ShardsRefreshInterval = 5 * time.Second
	t.opt.ClusterOption.MaxMovedRedirections = maxRedirects
	return append([]string{"tls"}, certificateSettings...), nil
}

// encrypt enables encryption if the URL requests it, with the files that it names.
func (t *target) encrypt(settings url.Values, secure bool) error {
	named, err := encryption(settings)
	if err != nil {
		return err
	}
	if t.files = named != nil; t.files && !secure {
		return errors.New("redis: the URL's ca, cert, key and servername need rediss:// or ?tls=true")
	}
	if secure {
		if t.opt.TLSConfig = named; named == nil {
			t.opt.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		t.opt.Sentinel.TLSConfig = t.opt.TLSConfig
	}
	return nil
}

func address(host, port string) (string, error) {
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	}
	host = strings.Trim(host, "[]")
	if n, err := strconv.Atoi(port); host == "" || err != nil || n < 1 || n > 65535 {
		return "", errors.New("redis: the URL needs host or host:port")
	}
	return net.JoinHostPort(host, port), nil
}

// physicalPrefix returns the prefix of the logical names, with its colon.
func physicalPrefix(prefix string, none bool) (string, error) {
	if none {
		if prefix != "" {
			return "", errors.New("redis: set Prefix or NoPrefix, not both")
		}
		return "", nil
	}
	if prefix == "" {
		prefix = "stoa"
	}
	return prefix + ":", CheckPrefix(prefix)
}

// CheckPrefix reports what is wrong with a [Config].Prefix.
func CheckPrefix(prefix string) error {
	for _, c := range []byte(prefix) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return errors.New("redis: the prefix may contain a-z, 0-9, '-', '_' and '.' only")
		}
	}
	return nil
}
