package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/config"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

// defaultFile is read if it exists and no other file is named.
const defaultFile = "stoa.toml"

// settings are the flags of a command that needs the server's settings: one flag for each, derived from app.Config.
type settings struct {
	File  string       `name:"config" env:"STOA_CONFIG" placeholder:"FILE" help:"File with settings; stoa.toml in this folder when it is there."`
	Flags kong.Plugins `embed:""` // set by declareSettings, before kong reads them
}

// flagsOf returns the flags of all settings. The help shows the ones whose keys are in shown, or all if shown is "".
func flagsOf(shown string) kong.Plugins {
	ref := config.Reference(new(app.Config))
	fields := make([]reflect.StructField, len(ref))
	for i, set := range ref {
		tag := func(name, value string) string { return name + ":" + strconv.Quote(value) + " " }
		// A dollar sign would begin a variable of kong.
		tags := tag("name", set.Flag) + tag("help", strings.ReplaceAll(set.Help, "$", "$$")) + tag("group", "Settings")
		typ := reflect.TypeFor[*string]()
		if set.Switch() {
			typ = reflect.TypeFor[*bool]()
			tags += `negatable:"" `
		} else {
			tags += tag("placeholder", strings.ReplaceAll(placeholder(set), "$", "$$"))
		}
		if shown != "" && !slices.Contains(strings.Split(shown, ","), set.Key) {
			tags += `hidden:"" `
		}
		fields[i] = reflect.StructField{Name: "F" + strconv.Itoa(i), Type: typ, Tag: reflect.StructTag(tags)}
	}
	return kong.Plugins{reflect.New(reflect.StructOf(fields)).Interface()}
}

// placeholder returns the name of the value in a help text.
func placeholder(s config.Setting) string {
	if s.Default != "" {
		return s.Default
	}
	return strings.ToUpper(s.Type[strings.LastIndexByte(s.Type, ' ')+1:])
}

// given returns the flags on the command line, by the key of their setting.
func (s *settings) given() map[string]string {
	out := map[string]string{}
	v := reflect.ValueOf(s.Flags[0]).Elem()
	for i, set := range config.Reference(new(app.Config)) {
		if f := v.Field(i); !f.IsNil() {
			out[set.Key] = fmt.Sprint(f.Elem().Interface())
		}
	}
	return out
}

// load reads the settings from all sources. It returns the report even if there are faults.
func (s *settings) load() (cfg app.Config, rep *config.Report, err error) {
	src := config.Sources{File: s.File, Flags: s.given()}
	if src.File == "" {
		if _, err := os.Stat(defaultFile); !errors.Is(err, fs.ErrNotExist) {
			src.File = defaultFile
		}
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); name != "STOA_CONFIG" && name != "STOA_SERVER" && name != "STOA_COPY_TO" {
			// variables of the command line itself
			src.Env = append(src.Env, kv)
		}
	}
	rep, err = config.Load(&cfg, src)
	return cfg, rep, err
}

// loadServer is load for a server, which needs some settings that other commands do not.
func (s *settings) loadServer() (cfg app.Config, rep *config.Report, err error) {
	if cfg, rep, err = s.load(); err != nil {
		return cfg, rep, err
	}
	rep.Warnings = append(rep.Warnings, cfg.Warnings()...)
	return cfg, rep, rep.Locate(cfg.ValidateServer())
}

type configPrintCmd struct{ settings }

// Run shows the report even if there are faults, because then it is needed most.
func (cmd *configPrintCmd) Run(c *console) error {
	_, rep, err := cmd.loadServer()
	return errors.Join(rep.Print(c.out, c.json), err)
}

type configCheckCmd struct {
	settings
	Connect bool          `help:"Try also what the settings name: SQL, Redis, the mail server, the data folder, the addresses to listen on. Changes nothing."`
	Within  time.Duration `default:"5s" placeholder:"TIME" help:"With --connect: how long each of them has to answer."`
}

// errWithin reports a time that is too short for any response.
var errWithin = usage{errors.New("--within: want a time above zero")}

// checkLine is a check in the command's JSON.
type checkLine struct {
	app.Check
	MS float64 `json:"ms"`
}

// Run lists the faults as its result, so that a program finds them in one place.
func (cmd *configCheckCmd) Run(ctx context.Context, c *console) error {
	if cmd.Within <= 0 {
		return errWithin
	}
	cfg, result, err := cmd.checked(c)
	if err != nil {
		return err
	}
	if !cmd.Connect {
		return c.result(result, func(io.Writer) error { return nil })
	}
	checks := cfg.Connect(ctx, cmd.Within)
	away, err := failedChecks(checks)
	if away {
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	return c.tried(result, checks, err)
}

// checked loads and validates a server's settings. It returns a result for the command to extend. If there are faults,
// it writes the result at once.
func (s *settings) checked(c *console) (cfg app.Config, result map[string]any, err error) {
	cfg, rep, err := s.loadServer()
	if err != nil {
		if c.json {
			err = errors.Join(c.result(map[string]any{"ok": false, "faults": config.Faults(err), "warnings": rep.Warnings}, nil), err)
		}
		return cfg, nil, err
	}
	set := 0
	for _, v := range rep.Values {
		if v.Origin != config.FromDefault {
			set++
		}
	}
	if !c.json {
		for _, w := range rep.Warnings {
			fmt.Fprintln(c.err, "stoa: warning: "+w)
		}
		_, err = fmt.Fprintf(c.out, "The settings are sound: %d set, %d at their defaults.\n", set, len(rep.Values)-set)
	}
	return cfg, map[string]any{"ok": true, "faults": []any{}, "warnings": rep.Warnings}, err
}

// tried writes the checks with a result of checked, and returns failed, the error about failed checks.
func (c *console) tried(result map[string]any, checks []app.Check, failed error) error {
	lines := make([]checkLine, len(checks))
	for i, check := range checks {
		lines[i] = checkLine{check, float64(check.Took.Microseconds()) / 1000}
	}
	result["ok"], result["checks"] = failed == nil, lines
	return errors.Join(c.result(result, func(w io.Writer) error { return showChecks(w, checks) }), failed)
}

// errAway reports a failure that may end by itself.
var errAway = errors.New("no answer")

// failedChecks returns an error with the number of failed checks, or nil. It also reports whether all of these may
// succeed later.
func failedChecks(checks []app.Check) (away bool, err error) {
	failed, later := 0, 0
	for _, check := range checks {
		if !check.OK {
			failed++
		}
		if check.Away {
			later++
		}
	}
	if failed == 0 {
		return false, nil
	}
	return failed == later, fmt.Errorf("%d of %d checks failed", failed, len(checks))
}

// showChecks writes a line for each check, and a line with the remedy for each failed one.
func showChecks(w io.Writer, checks []app.Check) error {
	tab := keycli.NewTable(w, 2)
	for _, check := range checks {
		verdict, text := "ok", check.Found
		if !check.OK {
			verdict, text = "FAILED", check.Fault+"; "+check.Do
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", verdict, check.Setting, cmp.Or(check.At, "-"), check.Took.Round(100*time.Microsecond),
			strings.Join(strings.Fields(text), " "))
	}
	return tab.Flush()
}
