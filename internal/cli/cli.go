package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/cli/reference"
	"github.com/stoa-dev/stoa/internal/config"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

// The exit codes.
const (
	exitOK          = keycli.ExitOK
	exitFailed      = keycli.ExitFailed
	exitUsage       = keycli.ExitUsage
	exitUnreachable = keycli.ExitUnreachable
	exitNothing     = keycli.ExitNothing
	exitDiffers     = keycli.ExitFaults
)

var exitCodes = []reference.ExitCode{
	{Code: exitOK, Meaning: "done; of serve also: drained after SIGTERM or Ctrl-C"},
	{Code: exitFailed, Meaning: "failed"},
	{Code: exitUsage, Meaning: "wrong command line, settings or input, such as a file that is not there or cannot be understood"},
	{Code: exitUnreachable, Meaning: "no server answered, or took what it was asked for; or there is no Redis, or no database"},
	{Code: exitNothing, Meaning: "there is no such thing (yet)"},
	{Code: exitDiffers, Meaning: "done, and something is not as it should be: rows were wrong, differences found and not repaired"},
}

// The errors of all commands, which are those of the commands about keys.
var (
	errNothing  = keycli.ErrNothing  // the named thing does not exist
	errDiffers  = keycli.ErrFaults   // the command has succeeded and found faults
	errDeclined = keycli.ErrDeclined // the user did not confirm
)

// root is the grammar of the command line. The tag settings of a command, or of a group of commands, lists the settings
// whose flags are in its help; without the tag, all are.
type root struct {
	JSON     bool        `name:"json" help:"Write JSON, for programs."`
	ShowThis versionFlag `name:"version" help:"Say which build this is."`

	Serve   serveCmd   `cmd:"" help:"Run the server."`
	Migrate migrateCmd `cmd:"" settings:"data,sql,log" help:"Bring the database's schema up to date; serve does so as well."`
	Config  struct {
		Print configPrintCmd `cmd:"" help:"Show every setting, its value and where that comes from."`
		Check configCheckCmd `cmd:"" help:"Say what is wrong with the settings and, when asked, with what they name."`
	} `cmd:"" help:"Look at the settings."`
	Backup      backupCmd      `cmd:"" settings:"data,sql,log" help:"Write a copy of the SQLite database to a file, while servers go on."`
	Cache       cacheCmd       `cmd:"" help:"Look at what servers keep at hand, and have it forgotten or fetched."`
	Checkin     checkinCmd     `cmd:"" settings:"data,sql,log" help:"Import and export check-ins; compare Redis with SQL."`
	Completion  completion     `cmd:"" help:"Say how a shell is made to complete commands and flags: bash, zsh or fish."`
	Copy        copyCmd        `cmd:"" help:"Copy a SQLite database to MySQL or MariaDB, to go on there."`
	Demo        demoCmd        `cmd:"" settings:"data,sql,log" help:"Fill an empty database with some dozen people and a year of what they did, to look around."`
	Doctor      doctorCmd      `cmd:"" help:"Say what is wrong with the settings, with what they name, and with what is at work there; exit code 1 when something is."`
	Healthcheck healthcheckCmd `cmd:"" help:"Ask whether a server takes requests; the exit code tells, for containers."`
	Keys        keysCmd        `cmd:"" settings:"redis,key_prefix,log" help:"Look at the Redis keys that the program declares, and at those that are there."`
	KeysService keysServiceCmd `cmd:"" name:"keys-service" settings:"data,sql,log" help:"Make, list, rotate and revoke the keys with which apps' own backends call the API."`
	Mail        mailCmd        `cmd:"" settings:"addr" help:"Show the mails that a server under development keeps instead of sending them."`
	Nodes       nodesCmd       `cmd:"" settings:"redis,key_prefix,log" help:"List the nodes that share a Redis, and send one's users and work to the others."`
	Notify      notifyCmd      `cmd:"" settings:"data,sql,log" help:"Tell all users something, or a part of them."`
	Queue       queueCmd       `cmd:"" settings:"data,sql,redis,queue,checkin.mode,key_prefix,log" help:"Look after the messages between nodes."`
	Restore     restoreCmd     `cmd:"" settings:"data,sql,log" help:"Put what stoa backup wrote in the place of the SQLite database."`
	Rooms       roomsCmd       `cmd:"" settings:"data,sql,log" help:"Look after rooms in which people watch together."`
	Secret      secretCmd      `cmd:"" settings:"data,secret" help:"Rotate the secret that signs cards and links."`
	Stats       statsCmd       `cmd:"" settings:"data,sql,log" help:"Show how many users are active, by day, week and month, and how many come back."`
	Streams     streamsCmd     `cmd:"" settings:"data,sql,log" help:"Look after live streams: list, show, stop, give new keys."`
	Users       usersCmd       `cmd:"" settings:"data,sql,log" help:"Look after accounts: find, log out, ban, delete."`
	Version     versionCmd     `cmd:"" help:"Say which build this is."`
	Reference   referenceCmd   `cmd:"" hidden:"" help:"Write the generated pages of the reference."`
}

// console has the outputs of a command.
type console struct {
	out, err io.Writer
	json     bool
	model    *kong.Application
}

// result writes v as JSON, or calls human.
func (c *console) result(v any, human func(w io.Writer) error) error {
	return c.keys().Result(v, human)
}

// progress starts to show the progress of what.
func (c *console) progress(what string) *keycli.Progress { return c.keys().Progress(what) }

// leave is the exit code that kong requests. It passes through kong's code as a panic.
type leave int

// Main runs the command in args, which do not include the program's name, and returns the exit code. The first SIGINT
// or SIGTERM ends the command gracefully, the second one at once.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		if v := recover(); v != nil {
			wish, ok := v.(leave)
			if !ok {
				panic(v)
			}
			code = int(wish)
		}
	}()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // then the second signal ends the process at once

	var r root
	c := &console{out: stdout, err: stderr}
	k := parser(&r, c, commandOf(args))
	completion{}.answer(k)
	parsed, err := k.Parse(args)
	c.json = r.JSON || err != nil && slices.Contains(args, "--json") // also if the other arguments are invalid
	if err == nil {
		parsed.BindTo(ctx, (*context.Context)(nil))
		parsed.Bind(c.keys())
		err = parsed.Run()
	}
	code = exitCode(err)
	if err != nil && code != exitDiffers { // otherwise the result already reports it
		c.complain(err, code, parsed)
	}
	return code
}

// commandOf returns the first word of a command line that is not a flag. It returns "" where the flags of all commands
// are needed: for a shell's completion, and for the reference.
func commandOf(args []string) string {
	i := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	switch {
	case os.Getenv("COMP_LINE") != "" || i >= 0 && args[i] == "reference":
		return ""
	case i < 0:
		return "none"
	}
	return args[i]
}

// parser returns the grammar with the settings' flags of one command, or of all commands. Declaring some two hundred
// flags for fifty commands takes longer than most commands do.
func parser(r *root, c *console, only string) *kong.Kong {
	for field, value := range reflect.ValueOf(r).Elem().Fields() {
		name := cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name))
		if field.Type.Kind() == reflect.Struct && (only == "" || only == name) {
			declareSettings(value, field.Tag.Get("settings"))
		}
	}
	k := kong.Must(r,
		kong.Name("stoa"),
		kong.Description("Stoa, a social and real-time backend.\n\n"+
			"Settings come from flags, STOA_… in the environment and stoa.toml, in this order."),
		kong.Writers(c.out, c.err),
		kong.Exit(func(code int) { panic(leave(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Bind(c),
	)
	c.model = k.Model
	return k
}

// declareSettings declares the flags of all settings under v, a command or a group of commands. The help shows the ones
// whose keys are in shown, unless the tag of a command lists others; "" shows all.
func declareSettings(v reflect.Value, shown string) {
	for field, value := range v.Fields() {
		switch {
		case field.Type == reflect.TypeFor[settings]():
			value.FieldByName("Flags").Set(reflect.ValueOf(flagsOf(shown)))
		case field.Type.Kind() == reflect.Struct:
			declareSettings(value, cmp.Or(field.Tag.Get("settings"), shown))
		}
	}
}

func exitCode(err error) int {
	_, misused := errors.AsType[usage](err)
	switch {
	case misused || len(config.Faults(err)) > 0 || errs.KindOf(err) == errs.Invalid:
		return exitUsage
	case errors.Is(err, client.ErrUnreachable), errors.Is(err, errNotTaken), errors.Is(err, errSQLAway), errors.Is(err, errAway):
		return exitUnreachable
	case errors.Is(err, queue.ErrNotFound):
		return exitNothing
	}
	return keycli.ExitCode(err)
}

// complain reports faults: a line for each, or one JSON object.
func (c *console) complain(err error, code int, parsed *kong.Context) {
	faults := config.Faults(err)
	if c.json {
		_ = json.NewEncoder(c.err).Encode(map[string]any{"error": err.Error(), "exit": code, "faults": faults})
		return
	}
	if len(faults) == 0 {
		fmt.Fprintf(c.err, "stoa: %v\n", err)
	}
	for _, f := range faults {
		fmt.Fprintf(c.err, "stoa: %v\n", f)
	}
	if code == exitUsage && len(faults) == 0 {
		fmt.Fprintln(c.err, keycli.Try(parsed, err))
	}
}
