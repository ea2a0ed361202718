package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// A Probed is the result of [Probe] for one server.
type Probed struct {
	Addr    string        // host:port, or the path of a socket
	Mode    string        // kind of server according to the URL: standalone, sentinel or cluster
	Version string        // such as 7.0.15; empty if the server did not report it
	Role    string        // master or replica; empty for a sentinel
	Master  string        // of a sentinel: the address of the master it names
	Took    time.Duration // time to connect and ask
	Err     error         // why this server is not usable; an [ErrUnavailable] if it may be usable later
}

// Probe checks every server that cfg.URL names or leads to (the master that sentinels name, all masters of a cluster).
// It checks that the server replies, accepts user and password, is of the kind in the URL, and lets the user read and
// write every family of the schemas. It writes nothing. The result has the servers of the URL in order, then those that
// they lead to. Each server has until ctx ends, so ctx needs a deadline. Probe returns an error if cfg is malformed.
func Probe(ctx context.Context, cfg Config, schemas ...*keyspace.Schema) ([]Probed, error) {
	t, err := cfg.target()
	if err != nil {
		return nil, err
	}
	prefix, err := physicalPrefix(cfg.Prefix, cfg.NoPrefix)
	if err != nil {
		return nil, err
	}
	p := &prober{cfg: cfg, target: t, prefix: prefix, schemas: schemas}
	if t.mode == "embedded" || t.mode == "spawn" {
		return p.probeOwn(ctx)
	}
	servers, more := p.probeAll(ctx, t.opt.InitAddress, t.mode == "sentinel")
	if t.mode != "standalone" {
		more = slices.DeleteFunc(more, func(addr string) bool { return t.mode == "cluster" && slices.Contains(t.opt.InitAddress, addr) })
		found, _ := p.probeAll(ctx, more, false)
		servers = append(servers, found...)
	}
	return servers, nil
}

type prober struct {
	cfg     Config
	target  target
	prefix  string
	schemas []*keyspace.Schema
}

// probeOwn probes an embedded or spawned Redis.
func (p *prober) probeOwn(ctx context.Context) ([]Probed, error) {
	began := time.Now()
	db, err := Open(ctx, p.cfg)
	if err != nil {
		return []Probed{{Addr: p.target.mode, Mode: p.target.mode, Took: time.Since(began), Err: err}}, nil
	}
	err = db.Ping(ctx)
	return []Probed{{Addr: p.target.mode, Mode: p.target.mode, Role: "master", Took: time.Since(began), Err: errors.Join(err, db.Close())}},
		nil
}

// probeAll probes servers concurrently, and returns the addresses that they name.
func (p *prober) probeAll(ctx context.Context, addrs []string, sentinels bool) (servers []Probed, more []string) {
	servers = make([]Probed, len(addrs))
	named := make([][]string, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() {
			began := time.Now()
			s := &servers[i]
			s.Addr, s.Mode = addr, p.target.mode
			named[i], s.Err = p.probeOne(ctx, s, sentinels)
			s.Took = time.Since(began)
		})
	}
	all.Wait()
	more = slices.Concat(named...)
	slices.Sort(more)
	return servers, slices.Compact(more)
}

// probeOne probes a server, and returns the addresses that it names.
func (p *prober) probeOne(ctx context.Context, s *Probed, sentinel bool) (named []string, err error) {
	opt := p.target.opt
	opt.InitAddress, opt.Sentinel, opt.ClusterOption = []string{s.Addr}, rueidis.SentinelOption{}, rueidis.ClusterOption{}
	if sentinel {
		from := p.target.opt.Sentinel
		opt.Username, opt.Password, opt.SelectDB = from.Username, from.Password, 0
	}
	opt.ForceSingleClient, opt.AlwaysRESP2, opt.DisableCache, opt.DisableRetry = true, true, true, true
	opt.ClientSetInfo = rueidis.DisableClientSetInfo
	deadline, _ := ctx.Deadline()
	opt.Dialer.Timeout = max(time.Until(deadline), time.Millisecond)
	opt.ConnWriteTimeout = opt.Dialer.Timeout
	opt.DialCtxFn = func(_ context.Context, addr string, d *net.Dialer, encrypt *tls.Config) (net.Conn, error) {
		n, ns := &node{addr: addr, dialer: d, tls: encrypt}, &nodes{open: p.cfg.Dial, patience: d.Timeout, askCredentials: p.cfg.Credentials}
		if sentinel {
			ns.askCredentials = nil
		}
		conn, err := ns.connect(ctx, n)
		if err != nil {
			return nil, err
		}
		by, err := ns.credentials(ctx, addr, d, conn)
		if err != nil {
			conn.Close()
			return nil, err
		}
		context.AfterFunc(ctx, func() { conn.Close() }) // otherwise the library would wait for its own timeout
		return &tracked{Conn: conn, nodes: ns, node: n, by: by}, nil
	}
	if p.cfg.Credentials != nil && !sentinel {
		authenticate(&opt)
	}
	c, err := rueidis.NewClient(opt)
	if c != nil {
		defer c.Close()
	}
	if err == nil {
		if sentinel {
			named, err = p.sentinel(ctx, c, s)
		} else {
			named, err = p.data(ctx, c, s)
		}
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) { // the deadline of ctx, or the library's own, which is the same
		err = &unavailable{errors.New("no answer in time")}
	}
	if err != nil {
		err = classify(err)
	}
	return named, err
}

// readServerInfo reads the version and mode of a server; the mode is empty if the server does not report it.
func readServerInfo(ctx context.Context, c rueidis.Client, s *Probed) (mode string, err error) {
	info, err := c.Do(ctx, c.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return "", err
	}
	s.Version = field(info, "redis_version")
	return cmp.Or(field(info, "redis_mode"), field(info, "server_mode")), nil // the latter is Valkey's
}

func (p *prober) sentinel(ctx context.Context, c rueidis.Client, s *Probed) (named []string, err error) {
	mode, err := readServerInfo(ctx, c, s)
	if err != nil {
		return nil, err
	}
	if mode != "sentinel" && mode != "" {
		return nil, ServerError("this is not a sentinel; use redis:// for a single server")
	}
	name := p.target.opt.Sentinel.MasterSet
	at, err := c.Do(ctx, c.B().SentinelGetMasterAddrByName().Master(name).Build()).AsStrSlice()
	if rueidis.IsRedisNil(err) || err == nil && len(at) != 2 {
		return nil, ServerError("the sentinel has no master with the name " + name)
	}
	if err != nil {
		return nil, err
	}
	s.Master = net.JoinHostPort(at[0], at[1])
	return []string{s.Master}, nil
}

func (p *prober) data(ctx context.Context, c rueidis.Client, s *Probed) (named []string, err error) {
	mode, err := readServerInfo(ctx, c, s)
	if err != nil {
		return nil, err
	}
	cluster := p.target.mode == "cluster"
	switch {
	case mode == "sentinel":
		return nil, ServerError("this is a sentinel; use redis-sentinel://…/NAME")
	case mode == "cluster" && !cluster:
		return nil, ServerError("this server belongs to a cluster; use redis-cluster://")
	case mode == "standalone" && cluster:
		return nil, ServerError("this server belongs to no cluster; use redis://")
	}
	info, err := c.Do(ctx, c.B().Info().Section("replication").Build()).ToString()
	if err != nil {
		return nil, err
	}
	if s.Role = field(info, "role"); s.Role == "slave" {
		s.Role = "replica"
	}
	if s.Role == "replica" && !cluster {
		return nil, ServerError("this is a read-only replica; use the address of its master")
	}
	if cluster {
		info, err := c.Do(ctx, c.B().ClusterInfo().Build()).ToString()
		if err != nil {
			return nil, err
		}
		if field(info, "cluster_state") != "ok" {
			return nil, &unavailable{errors.New("the cluster is not complete")}
		}
		slots, err := c.Do(ctx, c.B().ClusterSlots().Build()).ToMessage()
		if err != nil {
			return nil, err
		}
		if named, err = slotOwners(value(&slots).List, s.Addr); err != nil {
			return nil, err
		}
	}
	return named, p.checkPermissions(ctx, c)
}

// probeCommands contains for each type a command that changes and one that reads it.
var probeCommands = map[string][2][]string{
	"string":  {{"SET", "x"}, {"GET"}},
	"hash":    {{"HSET", "f", "x"}, {"HGETALL"}},
	"set":     {{"SADD", "x"}, {"SMEMBERS"}},
	"zset":    {{"ZADD", "1", "x"}, {"ZRANGE", "0", "0"}},
	"list":    {{"RPUSH", "x"}, {"LRANGE", "0", "0"}},
	"stream":  {{"XADD", "*", "f", "x"}, {"XLEN"}},
	"channel": {{"PUBLISH", "x"}, {}},
}

// checkPermissions reports the commands that the user may not run. It sends them in a transaction that is discarded: the
// server refuses forbidden commands when they are queued, and executes none.
func (p *prober) checkPermissions(ctx context.Context, c rueidis.Client) error {
	d, release := c.Dedicate()
	defer release()
	cmds := []rueidis.Completed{d.B().Arbitrary("MULTI").Build()}
	names := []string{"MULTI"}
	try := func(command, name string, args ...string) {
		a := d.B().Arbitrary(command)
		if name != "" {
			a = a.Keys(name)
		}
		cmds, names = append(cmds, a.Args(args...).Build()), append(names, strings.TrimSpace(command+" "+name))
	}
	for _, schema := range p.schemas {
		for _, f := range schema.Families() {
			for _, cmd := range probeCommands[f.Type] {
				if len(cmd) > 0 {
					name := cmd[0]
					if name == "PUBLISH" && p.target.mode == "cluster" {
						name = "SPUBLISH" // see DB.Publish
					}
					try(name, p.prefix+f.Example(), cmd[1:]...)
				}
			}
			if f.Type != "channel" {
				try("UNLINK", p.prefix+f.Example())
				try("PEXPIRE", p.prefix+f.Example(), "1000")
			}
		}
	}
	try("EVAL", "", "return 1", "0")
	if p.target.mode == "cluster" {
		try("ASKING", "")
	}
	try("DISCARD", "")
	var refused []string
	for i, r := range d.DoMulti(ctx, cmds...) {
		err := r.Error()
		if re, ok := errors.AsType[*rueidis.RedisError](err); ok {
			// A server of a cluster redirects most of these, after it has checked the user's permissions.
			if strings.HasPrefix(re.Error(), "NOPERM") {
				refused = append(refused, names[i])
			}
			if unavailableCodes[ServerError(re.Error()).Code()] && p.target.mode != "cluster" {
				return re
			}
		} else if err != nil {
			return err
		}
	}
	for _, schema := range p.schemas {
		for _, f := range schema.Families() {
			if f.Type != "channel" {
				continue
			}
			if command, err := p.subscribe(ctx, c, p.prefix+f.Example()); err != nil {
				return err
			} else if command != "" {
				refused = append(refused, command)
			}
		}
	}
	if len(refused) == 0 {
		return nil
	}
	shown := strings.Join(refused[:min(len(refused), 3)], ", ")
	if more := len(refused) - 3; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%w: %s", ErrForbidden, shown)
}

// subscribe subscribes to a channel for a moment, and returns the command if the user may not run it.
func (p *prober) subscribe(ctx context.Context, c rueidis.Client, channel string) (refused string, err error) {
	listening, done := context.WithCancel(ctx)
	defer done()
	name, cmd := "SUBSCRIBE", c.B().Subscribe().Channel(channel).Build
	if p.target.mode == "cluster" {
		name, cmd = "SSUBSCRIBE", c.B().Ssubscribe().Channel(channel).Build
	}
	hooked := rueidis.WithOnSubscriptionHook(listening, func(rueidis.PubSubSubscription) { done() })
	err = c.Receive(hooked, cmd(), func(rueidis.PubSubMessage) {})
	reply, said := errors.AsType[*rueidis.RedisError](err)
	switch {
	case said && strings.HasPrefix(reply.Error(), "NOPERM"):
		return name + " " + channel, nil
	case said, ctx.Err() == nil && listening.Err() != nil: // another node of the cluster has the channel; or subscribed
		return "", nil
	}
	return "", err
}

// ErrForbidden is returned for a user without all required permissions, see package keyspace/acl.
var ErrForbidden = errors.New("redis: the user lacks required permissions")
