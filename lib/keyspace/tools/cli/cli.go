package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
)

// The exit codes of [Main].
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2 // wrong command line
	ExitUnreachable = 3 // Redis is unreachable
	ExitNothing     = 4 // the family, key or prefix does not exist
	ExitFaults      = 5 // the command succeeded and found faults
)

var (
	// ErrFaults reports that a command succeeded and found faults, which it has printed.
	ErrFaults = errors.New("faults were found")
	// ErrNothing reports that the requested thing does not exist.
	ErrNothing = errors.New("nothing found")
	// ErrDeclined reports that the operator declined a confirmation.
	ErrDeclined = errors.New("nothing was changed")
)

// usageError is a mistake in the command line.
type usageError struct{ error }

// Unwrap returns the wrapped error.
func (u usageError) Unwrap() error { return u.error }

// A Console has the output of the commands and the families that they work on.
type Console struct {
	Out, Err io.Writer
	JSON     bool // write JSON for programs
	Title    string
	Schemas  []*keyspace.Schema
}

// Result writes v as JSON, or calls human.
func (c *Console) Result(v any, human func(w io.Writer) error) error {
	if !c.JSON {
		return human(c.Out)
	}
	enc := json.NewEncoder(c.Out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// A Server selects the Redis of a command.
type Server struct {
	URL    string // in the format of redis.Config
	Prefix string // of the deployment
	Log    *slog.Logger

	// NoPrefix is for keys without a prefix, for example those of keyspace.Schema.Brownfield.
	NoPrefix bool

	// Hot, if set, returns the keys that the program itself uses most, for an audit.
	Hot func(context.Context, *redis.DB) ([]audit.Hot, error)
}

// redisTimeout bounds the wait for Redis. The client of a cluster or of sentinels needs some time to find its servers.
const redisTimeout = 3 * time.Second

// isEmbedded reports whether Redis runs inside the server process.
func (s *Server) isEmbedded() bool { return s.URL == "embedded" || s.URL == "spawn" }

// Open connects and waits until Redis responds, for at most three seconds.
func (s *Server) Open(ctx context.Context) (*redis.DB, error) {
	if s.isEmbedded() {
		return nil, usageError{fmt.Errorf("--redis: %s runs inside the server, and other programs cannot reach it; name another Redis", s.URL)}
	}
	cfg := redis.Config{URL: s.URL, Prefix: s.Prefix, Log: s.Log}
	if s.NoPrefix {
		cfg.Prefix, cfg.NoPrefix = "", true
	}
	db, err := redis.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	for err := db.Ping(waiting); err != nil; err = db.Ping(waiting) {
		select {
		case <-waiting.Done():
			return nil, errors.Join(err, db.Close())
		case <-time.After(redisTimeout / 60):
		}
	}
	return db, nil
}

// root is the grammar of a program that only has these commands.
type root struct {
	JSON     bool   `name:"json" help:"Write JSON, for programs."`
	Redis    string `env:"REDIS_URL" placeholder:"URL" default:"redis://127.0.0.1:6379" help:"The URL of Redis: redis://, rediss://, unix://, redis-sentinel:// or redis-cluster://."`
	Prefix   string `name:"key-prefix" placeholder:"PREFIX" default:"stoa" help:"The prefix of every key."`
	NoPrefix bool   `name:"no-key-prefix" help:"The keys have no prefix."`

	List    List    `cmd:"" help:"List every declared family of keys and channels."`
	Lint    Lint    `cmd:"" help:"Check the declarations, and prove that no key belongs to two families."`
	Doc     Doc     `cmd:"" help:"Write the catalogue of all families."`
	Diff    Diff    `cmd:"" help:"Compare the declarations with a lock file, or write it; exit code 5 if a change is not allowed."`
	ACL     aclCmd  `cmd:"" name:"acl" help:"Write the lines of Redis' ACL file for the program and for its operators."`
	Explain Explain `cmd:"" help:"Describe a key or channel, and its value in Redis."`
	Audit   Audit   `cmd:"" help:"Compare the keys of a Redis with the declared families; exit code 5 if there are faults."`
	Sweep   Sweep   `cmd:"" help:"Remove all keys of one prefix, such as those of a former deployment."`
	Adopt   Adopt   `cmd:"" help:"Propose declarations for the existing keys of a Redis, as a keys.go."`
}

// aclCmd is [ACL] for programs other than Stoa.
type aclCmd struct {
	ACL
	User string `placeholder:"NAME" default:"app" help:"The name of the program's user; a second user, operator, only reads."`
}

// Run writes the lines of both users.
func (cmd *aclCmd) Run(c *Console, s *Server) error {
	return cmd.Write(c, s.Prefix, acl.User{Name: cmd.User, NoPrefix: s.NoPrefix},
		acl.User{Name: "operator", ReadOnly: true, NoPrefix: s.NoPrefix})
}

// exitCode is the panic value that carries kong's exit code out of its code.
type exitCode int

// Main runs the command in os.Args on the families of schemas, and exits the process with its exit code. SIGINT and
// SIGTERM cancel the context of the command.
func Main(schemas ...*keyspace.Schema) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal has its default effect
	os.Exit(Run(ctx, os.Args, os.Stdout, os.Stderr, schemas...))
}

// Run is [Main] for programs that do more before or after it: args begin with the name of the program, and the exit
// code is returned.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, schemas ...*keyspace.Schema) (code int) {
	defer func() {
		if v := recover(); v != nil {
			exit, ok := v.(exitCode)
			if !ok {
				panic(v)
			}
			code = int(exit)
		}
	}()
	name := filepath.Base(args[0])
	var r root
	c := &Console{Out: stdout, Err: stderr, Title: "Keys of " + name, Schemas: schemas}
	k := kong.Must(&r, kong.Name(name),
		kong.Description("Manage the Redis keys that the program declares, and inspect the existing ones."),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { panic(exitCode(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	parsed, err := k.Parse(args[1:])
	c.JSON = r.JSON || err != nil && slices.Contains(args, "--json")
	if err == nil {
		parsed.BindTo(ctx, (*context.Context)(nil))
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		err = parsed.Run(c, &Server{URL: r.Redis, Prefix: r.Prefix, NoPrefix: r.NoPrefix, Log: log})
	}
	code = ExitCode(err)
	switch {
	case err == nil || errors.Is(err, ErrFaults): // the result shows the faults
	case c.JSON:
		_ = json.NewEncoder(stderr).Encode(map[string]any{"error": err.Error(), "exit": code})
	default:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		if code == ExitUsage {
			fmt.Fprintln(stderr, Try(parsed, err))
		}
	}
	return code
}

// ExitCode returns the exit code for an error of a command.
func ExitCode(err error) int {
	_, misspelt := errors.AsType[*kong.ParseError](err)
	_, misused := errors.AsType[usageError](err)
	switch {
	case err == nil:
		return ExitOK
	case misspelt || misused:
		return ExitUsage
	case errors.Is(err, redis.ErrUnavailable):
		return ExitUnreachable
	case errors.Is(err, ErrNothing):
		return ExitNothing
	case errors.Is(err, ErrFaults):
		return ExitFaults
	}
	return ExitFailed
}

// Try returns a line that names the help of the wrongly used command: the command of err, or else the parsed one.
func Try(parsed *kong.Context, err error) string {
	if e, ok := errors.AsType[*kong.ParseError](err); ok {
		parsed = e.Context
	}
	words := []string{parsed.Model.Name}
	for _, p := range parsed.Path {
		if p.Command != nil {
			words = append(words, p.Command.Name)
		}
	}
	return `Try "` + strings.Join(words, " ") + ` --help".`
}

// title returns the title of a page.
func (c *Console) title() string { return cmp.Or(c.Title, "Keys") }
