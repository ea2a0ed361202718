package cli

import (
	"context"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/cli"
)

// keysCmd is about the declared keys and channels, and what a Redis holds of them. The
// commands are those that package keyspace/cli has for every program; here the settings
// say which Redis is meant.
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

// settingsOf are the settings of the subcommands that have some.
func (r *keysCmd) settingsOf() []*settings {
	return []*settings{&r.Explain.settings, &r.ACL.settings, &r.Audit.settings, &r.Sweep.settings}
}

// keys is the console as those commands know it.
func (c *console) keys() *keycli.Console {
	return &keycli.Console{Out: c.out, Err: c.err, JSON: c.json, Title: "Keys of Stoa", Schemas: app.Keys()}
}

// redisOf is the Redis of the settings.
func (c *console) redisOf(cfg app.Config) *keycli.Server {
	return &keycli.Server{URL: cfg.Redis, Prefix: cfg.KeyPrefix, Log: obs.NewLogger(c.err, cfg.Log), Hot: app.HotKeys}
}

// onRedis calls one of those commands with the Redis of the settings.
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

// Run audits; the report has what servers say of their hot keys, too.
func (cmd *keysAuditCmd) Run(ctx context.Context, c *console) error {
	return cmd.onRedis(ctx, c, cmd.Audit.Run)
}

type keysSweepCmd struct {
	settings
	keycli.Sweep
}

// Run sweeps.
func (cmd *keysSweepCmd) Run(ctx context.Context, c *console) error {
	return cmd.onRedis(ctx, c, cmd.Sweep.Run)
}

type keysACLCmd struct {
	settings
	keycli.ACL
	Conf bool `name:"config-get" help:"Let stoa ask how Redis is set, which a server with checkin.mode = redis does as it starts. Redis then tells it its own password for replication, too."`
}

// Run writes the users stoa, the server itself, and operator, who reads everything and
// changes nothing.
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
