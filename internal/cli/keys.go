package cli

import (
	"context"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

// keysCmd has the commands about the declared keys and channels, and about those in Redis. Package keyspace/tools/cli has
// them for every program; here the settings name the Redis.
type keysCmd struct {
	List keycli.List `cmd:"" help:"List every declared family of keys and channels."`
	Lint keycli.Lint `cmd:"" help:"Check the declarations, and prove that no key belongs to two families."`
	Doc  keycli.Doc  `cmd:"" help:"Write the catalogue of all families."`
	Diff keycli.Diff `cmd:"" help:"Say what changed since a lock file was written, or write it; exit code 5 when something must not be."`
	ACL  keysACLCmd  `cmd:"" name:"acl" help:"Write the lines of Redis' ACL file for a server of Stoa and for those who look after it."`

	Explain keysExplainCmd `cmd:"" help:"Say what a key or channel is, and what is there."`
	Audit   keysAuditCmd   `cmd:"" help:"Hold what a Redis contains against the declared families; exit code 5 when something is wrong."`
	Sweep   keysSweepCmd   `cmd:"" help:"Remove all keys of one prefix, such as those of a deployment that is gone."`
}

// keys returns the console for those commands.
func (c *console) keys() *keycli.Console {
	return &keycli.Console{Out: c.out, Err: c.err, JSON: c.json, Title: "Keys of Stoa", Schemas: app.Keys()}
}

// redisOf returns the Redis of the settings.
func (c *console) redisOf(cfg app.Config) *keycli.Server {
	return &keycli.Server{URL: cfg.Redis, Prefix: cfg.KeyPrefix, Log: obs.NewLogger(c.err, cfg.Log), Hot: app.HotKeys}
}

// onRedis calls run with the Redis of the settings.
func (s *settings) onRedis(ctx context.Context, c *console, run func(context.Context, *keycli.Console, *keycli.Server) error) error {
	cfg, _, err := s.load()
	if err != nil {
		return err
	}
	return run(ctx, c.keys(), c.redisOf(cfg))
}

type keysExplainCmd struct {
	settings
	keycli.Explain
}

// Run explains a name.
func (cmd *keysExplainCmd) Run(ctx context.Context, c *console) error {
	return cmd.onRedis(ctx, c, cmd.Explain.Run)
}

type keysAuditCmd struct {
	settings
	keycli.Audit
}

// Run audits the keys. The report includes the nodes' hot keys.
func (cmd *keysAuditCmd) Run(ctx context.Context, c *console) error {
	return cmd.onRedis(ctx, c, cmd.Audit.Run)
}

type keysSweepCmd struct {
	settings
	keycli.Sweep
}

// Run sweeps the keys.
func (cmd *keysSweepCmd) Run(ctx context.Context, c *console) error {
	return cmd.onRedis(ctx, c, cmd.Sweep.Run)
}

type keysACLCmd struct {
	settings
	keycli.ACL
	Conf bool `name:"config-get" help:"Let stoa ask how Redis is set, which a server with checkin.mode = redis does as it starts. Redis then tells it its own password for replication, too."`
}

// Run writes the ACL users stoa, for the server, and operator, who may read everything and change nothing.
func (cmd *keysACLCmd) Run(c *console) error {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	server := acl.User{Name: "stoa"}
	if cmd.Conf {
		server.Commands = []string{"config|get"}
	}
	operator := acl.User{Name: "operator", ReadOnly: true, Commands: []string{"latency|latest", "memory|stats"}}
	return cmd.Write(c.keys(), cfg.KeyPrefix, server, operator)
}
