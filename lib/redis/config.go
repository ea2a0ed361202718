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

// Config says which Redis to use.
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
	// The port may be left out. User and password are the data servers'; with
	// sentinels ?sentinel_password= names theirs. ?tls=true encrypts sentinel and
	// cluster connections, ?db=1 selects a database behind sentinels.
	//
	// Where connections are encrypted, ?ca=FILE names the authorities to trust in place
	// of the system's, ?cert=FILE&key=FILE the certificate that this client shows and its
	// private key, all in PEM, and ?servername= the name that is in the servers'
	// certificates if it is not that of the address. A certificate that is replaced on
	// disk is shown from the next connection on; the authorities are read once.
	URL string

	// TLS is how connections are encrypted, in place of ?ca= and the like: it needs
	// rediss:// or ?tls=true, and holds for the server, sentinels, every node of a
	// cluster, and subscriptions. An empty ServerName means the host of each address. Nil
	// trusts the system's authorities. "embedded", "spawn" and unix:// have no use for it.
	TLS *tls.Config

	// Prefix is put before every key and channel, with a colon. Empty means
	// "stoa". Lower-case letters, digits, '-', '_' and '.' only. A new program has one that
	// is a [keyspace.ValidPrefix]: with more than [keyspace.MaxPrefix] bytes keys become
	// longer than package keyspace promises, and no sweep removes them.
	Prefix string

	// NoPrefix puts nothing before keys and channels, for keys that are there already. Every
	// key of the server is then this DB's to scan, so give it a server of its own, or
	// leave the tools alone that look at all keys. It excludes Prefix.
	NoPrefix bool

	// Dir is where "spawn" puts its socket; empty means a fresh temporary
	// directory, removed by Close.
	Dir string

	// HotKeys has one in 256 keys of all commands counted, for [DB.HotKeys]. It costs a
	// command a few nanoseconds.
	HotKeys bool

	// Dial makes the connections, where the network alone cannot: through a tunnel, say,
	// or within the memory of a test. What it returns speaks Redis' protocol, so TLS and
	// its certificates are its own affair. Nil dials, as the URL says. "embedded" and "spawn" do not ask it.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Patience is how long a server may take to accept a connection, or to answer a PING
	// on a fresh one, before it counts as away and commands fail at once. Zero means a
	// second. Longer suits a far network, or a machine that stalls; commands wait
	// meanwhile, for as long as their contexts allow.
	Patience time.Duration

	// Credentials, if set, is asked for user and password of each connection to a server that has data, in
	// place of those in the URL: for passwords that change, such as tokens that a cloud gives for an hour. It
	// has Patience for it. An error has the command fail with [ErrUnavailable], and the next
	// one ask again; connections that are there stay, until the server ends them. Sentinels are
	// authenticated by the URL. "embedded" and "spawn" do not ask it.
	Credentials Credentials

	// Connections is how many connections to one server commands share, a power of two up to 256; 0 means
	// as many as the processors can look after: 1 for two of them, 2 for four, 4 for eight or more. A cluster
	// has one to each owner. Subscriptions have one more.
	Connections int

	// Log gets one line for each loss and return of a server; nil discards.
	Log *slog.Logger
}

const (
	// patience is the default of Config.Patience. Redis stalls for less, unless a
	// command is far too big. A connection may be silent for twice as long with work
	// under way: no single command takes longer.
	patience = time.Second
	// pingEvery finds idle connections that broke.
	pingEvery = time.Second
	// maxRedirects bounds how often a cluster may send one command elsewhere.
	maxRedirects = 5
)

// target is a parsed Config.URL.
type target struct {
	mode  string
	opt   rueidis.ClientOption
	files bool // the URL itself names certificates
}

// CheckURL reports what is wrong with a [Config].URL, or with the files that it names,
// without connecting. No error has the password.
func CheckURL(raw string) error {
	_, err := parse(raw)
	return err
}

// target returns the parsed URL with what the other settings say of connections.
func (cfg Config) target() (target, error) {
	t, err := parse(cfg.URL)
	switch {
	case err != nil:
		return t, err
	case cfg.Patience < 0:
		return t, errors.New("redis: Config.Patience is negative")
	case cfg.Connections < 0 || cfg.Connections > 256 || cfg.Connections&(cfg.Connections-1) != 0:
		return t, errors.New("redis: Config.Connections is a power of two up to 256, or 0")
	case cfg.Credentials != nil && (t.opt.Username != "" || t.opt.Password != ""):
		return t, errors.New("redis: user and password are in the URL or come from Config.Credentials, not both")
	case len(t.opt.InitAddress) == 0 || t.opt.InitAddress[0][0] == '/':
		return t, nil
	}
	switch {
	case cfg.TLS != nil && t.opt.TLSConfig == nil:
		return t, errors.New("redis: Config.TLS needs rediss:// or ?tls=true in the URL, which else is plain text")
	case cfg.TLS != nil && t.files:
		return t, errors.New("redis: certificates are named by the URL or by Config.TLS, not by both")
	case cfg.Dial != nil && (cfg.TLS != nil || t.files):
		return t, errors.New("redis: what Config.Dial makes is encrypted by itself: certificates are its own affair")
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
			return t, errors.New("redis: db is a number")
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

// urlParts are those of a URL.
type urlParts struct {
	scheme, user, hosts, path, query string
	settings                         url.Values // of the query
}

// splitURL cuts a URL: lists of hosts are not URLs to package url.
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

// check refuses settings that are not known, or are there twice.
func (p urlParts) check(known []string) error {
	for name, values := range p.settings {
		if !slices.Contains(known, name) {
			if strings.Contains(p.query, "@") { // the query may be what follows a '?' in the password
				return errors.New("redis: the URL has an unknown setting, or user and password are not percent-encoded")
			}
			return fmt.Errorf("redis: the URL has an unknown setting %q", name)
		}
		if len(values) > 1 {
			return fmt.Errorf("redis: the URL has %s twice", name)
		}
	}
	if on := p.settings.Get("tls"); p.settings.Has("tls") && on != "true" && on != "false" {
		return errors.New("redis: the URL's tls is true or false")
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

// standalone, unix, sentinel and cluster take what a URL of their kind says, and return the settings that it may have.
func (t *target) standalone(p urlParts) (known []string, err error) {
	t.mode = "standalone"
	if strings.Contains(p.hosts, ",") {
		return nil, errors.New("redis: redis:// names one host; use redis-cluster:// or redis-sentinel:// for several")
	}
	if p.path != "" {
		if t.opt.SelectDB, err = strconv.Atoi(p.path); err != nil || t.opt.SelectDB < 0 {
			return nil, errors.New("redis: the path of redis:// is a database number")
		}
	}
	return certificates, nil
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
		return nil, errors.New("redis: redis-sentinel:// ends with the master's name")
	}
	t.opt.Sentinel.MasterSet = p.path
	t.opt.Sentinel.Password = p.settings.Get("sentinel_password")
	t.opt.Sentinel.TopologyRefreshInterval = 5 * time.Second
	return append([]string{"db", "tls", "sentinel_password"}, certificates...), nil
}

func (t *target) cluster(p urlParts) (known []string, err error) {
	t.mode = "cluster"
	if p.path != "" {
		return nil, errors.New("redis: a cluster has no databases")
	}
	t.opt.ClusterOption.ShardsRefreshInterval = 5 * time.Second
	t.opt.ClusterOption.MaxMovedRedirections = maxRedirects
	return append([]string{"tls"}, certificates...), nil
}

// encrypt has connections be encrypted where the URL says so, with the files that it names.
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

// physicalPrefix returns what stands before the logical names, with its colon.
func physicalPrefix(prefix string, none bool) (string, error) {
	if none {
		if prefix != "" {
			return "", errors.New("redis: there is a Prefix and NoPrefix")
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
			return errors.New("redis: the prefix may hold a-z, 0-9, '-', '_' and '.' only")
		}
	}
	return nil
}
