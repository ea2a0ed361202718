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
	ExitUnreachable = 3 // there is no Redis
	ExitNothing     = 4 // there is no such thing
	ExitFaults      = 5 // done, and faults were found
)

var (
	// ErrFaults reports that a command did its work and found faults, which it has shown.
	ErrFaults = errors.New("faults were found")
	// ErrNothing reports that what was asked for does not exist.
	ErrNothing = errors.New("nothing found")
	// ErrDeclined reports that a person was asked and did not agree.
	ErrDeclined = errors.New("nothing was changed")
)

// usage is an error of whoever typed the command line.
type usage struct{ error }

// Unwrap returns what is wrong.
func (u usage) Unwrap() error { return u.error }

// A Console is where commands write, and which families they are about.
type Console struct {
	Out, Err io.Writer
	JSON     bool // write JSON, for programs
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

// A Server says which Redis is meant.
type Server struct {
	URL    string // as redis.Config has it
	Prefix string // of the deployment
	Log    *slog.Logger

	// NoPrefix is for keys that stand without one, as those of keyspace.Schema.Brownfield may.
	NoPrefix bool

	// Hot, if set, tells an audit which keys the program itself uses most.
	Hot func(context.Context, *redis.DB) ([]audit.Hot, error)
}

// answersWithin is how long a command waits for Redis; the client of a cluster or of
// sentinels needs a moment to find its servers.
const answersWithin = 3 * time.Second

// inside reports whether the Redis lives inside of another process.
func (s *Server) inside() bool { return s.URL == "embedded" || s.URL == "spawn" }

// Open connects and waits until Redis answers, at most three seconds.
func (s *Server) Open(ctx context.Context) (*redis.DB, error) {
	if s.inside() {
		return nil, usage{fmt.Errorf("--redis: %s is a Redis inside the server, which no other program reaches; name the one that is meant", s.URL)}
	}
	cfg := redis.Config{URL: s.URL, Prefix: s.Prefix, Log: s.Log}
	if s.NoPrefix {
		cfg.Prefix, cfg.NoPrefix = "", true
	}
	db, err := redis.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	for err := db.Ping(waiting); err != nil; err = db.Ping(waiting) {
		select {
		case <-waiting.Done():
			return nil, errors.Join(err, db.Close())
		case <-time.After(answersWithin / 60):
		}
	}
	return db, nil
}

// root is the grammar of a program that has nothing but these commands.
type root struct {
	JSON     bool   `name:"json" help:"Write JSON, for programs."`
	Redis    string `env:"REDIS_URL" placeholder:"URL" default:"redis://127.0.0.1:6379" help:"The Redis that is meant: redis://, rediss://, unix://, redis-sentinel:// or redis-cluster://."`
	Prefix   string `name:"key-prefix" placeholder:"PREFIX" default:"stoa" help:"Stands before every key, as redis.Config has it."`
	NoPrefix bool   `name:"no-key-prefix" help:"Nothing stands before the keys."`

	List    List    `cmd:"" help:"List every declared family of keys and channels."`
	Lint    Lint    `cmd:"" help:"Check the declarations, and prove that no key belongs to two families."`
	Doc     Doc     `cmd:"" help:"Write the catalogue of all families."`
	Diff    Diff    `cmd:"" help:"Say what changed since a lock file was written, or write it; exit code 5 when something must not be."`
	ACL     aclCmd  `cmd:"" name:"acl" help:"Write the lines of Redis' ACL file for the program and for those who look after it."`
	Explain Explain `cmd:"" help:"Say what a key or channel is, and what is there."`
	Audit   Audit   `cmd:"" help:"Hold what a Redis contains against the declared families; exit code 5 when something is wrong."`
	Sweep   Sweep   `cmd:"" help:"Remove all keys of one prefix, such as those of a deployment that is gone."`
	Adopt   Adopt   `cmd:"" help:"Propose declarations for the keys that a Redis has, as the source of a keys.go."`
}

// aclCmd is [ACL] for a program of any name.
type aclCmd struct {
	ACL
	User string `placeholder:"NAME" default:"app" help:"The name of the program's user; another one is operator, who reads everything and changes nothing."`
}

// Run writes the users' lines.
func (cmd *aclCmd) Run(c *Console, s *Server) error {
	return cmd.Write(c, s.Prefix, acl.User{Name: cmd.User, NoPrefix: s.NoPrefix}, acl.User{Name: "operator", ReadOnly: true, NoPrefix: s.NoPrefix})
}

// leave is how kong's wish to exit comes through its own code.
type leave int

// Main runs the command that os.Args ask for on the families of schemas, and ends the
// process with its exit code. SIGINT and SIGTERM end the command in an orderly way.
func Main(schemas ...*keyspace.Schema) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from here on signals do what they do by nature
	os.Exit(Run(ctx, os.Args, os.Stdout, os.Stderr, schemas...))
}

// Run is [Main] for a program that does more before or after: args begin with the
// program's name, and the exit code is returned.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, schemas ...*keyspace.Schema) (code int) {
	defer func() {
		if v := recover(); v != nil {
			wish, ok := v.(leave)
			if !ok {
				panic(v)
			}
			code = int(wish)
		}
	}()
	name := filepath.Base(args[0])
	var r root
	c := &Console{Out: stdout, Err: stderr, Title: "Keys of " + name, Schemas: schemas}
	k := kong.Must(&r, kong.Name(name),
		kong.Description("Look at the Redis keys that the program declares, and at those that are there."),
		kong.Writers(stdout, stderr), kong.Exit(func(code int) { panic(leave(code)) }),
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
	case err == nil || errors.Is(err, ErrFaults): // the result says it
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
	_, misused := errors.AsType[usage](err)
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

// Try returns the line that points at the help of the command that was not understood:
// that of err, or else the parsed one.
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

// title is what a page is called.
func (c *Console) title() string { return cmp.Or(c.Title, "Keys") }
