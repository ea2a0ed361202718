package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
)

// scanLimits are the options that limit the load of commands that scan all keys.
type scanLimits struct {
	Rate    int           `placeholder:"N" help:"The largest number of names per second."`
	MaxPing time.Duration `placeholder:"DURATION" default:"2ms" help:"Slow down while a PING takes longer."`
}

// check refuses invalid values.
func (g scanLimits) check() error {
	if g.Rate < 0 || g.MaxPing <= 0 {
		return usageError{errors.New("--rate and --max-ping must be positive")}
	}
	return nil
}

// Audit compares a Redis, or a dump file, with the declarations.
type Audit struct {
	scanLimits
	Full    bool     `help:"Inspect every key instead of a sample of each family."`
	RDB     string   `name:"rdb" placeholder:"FILE" help:"Read a dump file of SAVE or BGSAVE instead of a server."`
	DB      int      `name:"db" placeholder:"N" help:"The database of the dump file; 0 by default."`
	All     bool     `help:"Also count the keys of other prefixes."`
	Ignore  []string `placeholder:"PATTERN" sep:"none" help:"Ignore faults of keys whose name without prefix matches, with * and ?; repeatable."`
	Samples int      `default:"1000" help:"The number of inspected keys of each family without --full."`
	Faults  string   `placeholder:"FILE" help:"Write every fault to this file, as one line of JSON; - is standard output."`
	Top     int      `default:"20" help:"The largest number of families, shapes and slots in the report; JSON has all families."`
}

// Run audits and prints the report; faults give exit code 5.
func (cmd *Audit) Run(ctx context.Context, c *Console, s *Server) (err error) {
	switch {
	case cmd.Samples < 1 || cmd.Top < 1 || cmd.DB < 0:
		return usageError{errors.New("--samples and --top must be positive, --db must not be negative")}
	case slices.Contains(cmd.Ignore, ""):
		return usageError{errors.New("--ignore: the pattern is empty")}
	case cmd.RDB == "" && cmd.DB != 0:
		return usageError{errors.New("--db needs --rdb; use --redis for the database of a server")}
	}
	if err := cmd.check(); err != nil {
		return err
	}
	opt := audit.Options{
		Full: cmd.Full, All: cmd.All, Ignore: cmd.Ignore, Samples: cmd.Samples, Examples: 3,
		Rate: cmd.Rate, MaxPing: cmd.MaxPing, DB: cmd.DB,
	}
	if cmd.Faults != "" {
		lines, done, err := c.lines(cmd.Faults)
		if err != nil {
			return err
		}
		opt.Found = func(f audit.Fault) error { return lines.Encode(f) }
		defer func() { err = errors.Join(err, done()) }()
	}
	bar := c.Progress("audit")
	opt.Progress = func(p audit.Progress) {
		bar.Show(int64(1000*p.Part), 1000, Count(p.Keys, "key")+", "+Count(p.Faults, "fault"))
	}
	r, err := cmd.audit(ctx, c, s, opt)
	bar.End()
	if err != nil {
		return err
	}
	if cmd.Faults != "-" { // otherwise both would be written to standard output
		if err := c.Result(r, func(w io.Writer) error { return showReport(w, r, cmd.Top) }); err != nil {
			return err
		}
	}
	if !r.Clean() {
		return ErrFaults
	}
	return nil
}

func (cmd *Audit) audit(ctx context.Context, c *Console, s *Server, opt audit.Options) (r *audit.Report, err error) {
	if cmd.RDB != "" {
		if _, err := os.Stat(cmd.RDB); err != nil {
			return nil, usageError{err}
		}
		opt.Prefix, opt.NoPrefix = s.Prefix, s.NoPrefix
		return audit.RunRDB(ctx, cmd.RDB, c.Schemas, opt)
	}
	db, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if r, err = audit.Run(ctx, db, c.Schemas, opt); err != nil || s.Hot == nil {
		return r, err
	}
	hot, err := s.Hot(ctx, db)
	if _, refused := errors.AsType[redis.ServerError](err); refused {
		err = nil // without permission, the report has no hot keys
	}
	r.Hot = append(r.Hot, hot...)
	return r, err
}

// lines returns a writer of JSON lines to a file or to standard output.
func (c *Console) lines(name string) (*json.Encoder, func() error, error) {
	if name == "-" {
		w := bufio.NewWriter(c.Out)
		return json.NewEncoder(w), w.Flush, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, nil, err
	}
	w := bufio.NewWriter(f)
	return json.NewEncoder(w), func() error { return errors.Join(w.Flush(), f.Close()) }, nil
}

// showReport writes a report as text.
func showReport(w io.Writer, r *audit.Report, top int) error {
	buffered := bufio.NewWriter(w)
	head := map[string]string{"names": "every name read, %s inspected", "full": "%s inspected", "rdb": "%s of the dump inspected"}[r.Mode]
	where := "under " + r.Prefix
	if r.Prefix == "" {
		where = "of the whole database"
	}
	fmt.Fprintf(buffered, "%s in %s %s: "+head+", in %s.\n",
		Count(r.Faults, "fault"), Count(r.Keys, "key"), where, Count(r.Looked, "key"), seconds(r.Seconds))
	for _, n := range []struct {
		n    int64
		what string
	}{
		{r.Gone, "were deleted before they were inspected"}, {r.Moved, "moved to another server and were not inspected"},
		{r.Denied, "may not be read by this Redis user"}, {r.Unread, "are too long to be decoded"}, {r.Ignored, "faults were ignored"},
	} {
		if n.n > 0 {
			fmt.Fprintf(buffered, "%d %s.\n", n.n, n.what)
		}
	}
	t := table{NewTable(buffered, 3), top}
	t.faults(r)
	t.unknown(r)
	t.families(r)
	t.servers(r)
	t.hot(r)
	t.foreign(r)
	return errors.Join(t.Flush(), buffered.Flush())
}

// Count formats a number and a noun, for example "2 keys".
func Count(n int64, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// table writes the parts of a report, each cut after top lines.
type table struct {
	*Table
	top int
}

// rows writes a heading and up to top of n lines. It writes nothing if n is 0.
func (t table) rows(n int, heading string, line func(i int) string) {
	if n == 0 {
		return
	}
	fmt.Fprintf(t, "\n%s\n", heading)
	for i := range min(n, t.top) {
		fmt.Fprintln(t, line(i))
	}
	if n > t.top {
		fmt.Fprintf(t, "… and %d more\n", n-t.top)
	}
	_ = t.Flush() // the next table has other widths; a write error is returned at the end
}

func (t table) faults(r *audit.Report) {
	all := slices.DeleteFunc(slices.Clone(r.Findings), func(f audit.Finding) bool { return f.Fault == audit.UnknownKey })
	t.rows(len(all), "FAULT\tKEYS\tOF\tFAMILY\tEXAMPLE", func(i int) string {
		f := all[i]
		example := ""
		if len(f.Examples) > 0 {
			example = strings.TrimSuffix(f.Examples[0].Key+": "+f.Examples[0].Detail, ": ")
		}
		return fmt.Sprintf("%s\t%d\t%d\t%s\t%s", f.Fault, f.Count, f.Of, f.Family, example)
	})
}

func (t table) unknown(r *audit.Report) {
	t.rows(len(r.Unknown), "UNKNOWN\tKEYS\tMEMORY\tTYPES\tEXAMPLE", func(i int) string {
		g := r.Unknown[i]
		types := slices.Sorted(maps.Keys(g.Types))
		return fmt.Sprintf("%s\t%d\t%s\t%s\t%s", g.Family, g.Keys, memory(g), strings.Join(types, ", "),
			strings.Join(g.Examples[:min(len(g.Examples), 1)], ""))
	})
}

func (t table) families(r *audit.Report) {
	t.rows(len(r.Families), "FAMILY\tKEYS\tMEMORY\tEACH\tLARGEST", func(i int) string {
		g := r.Families[i]
		return fmt.Sprintf("%s\t%d\t%s\t%s\t%s", g.Family, g.Keys, memory(g), formatBytes(g.Bytes/max(g.Keys, 1)), formatBytes(g.Largest))
	})
}

// memory formats the memory of a group, with the error of an estimate.
func memory(g audit.Group) string {
	if g.BytesError == 0 {
		return formatBytes(g.Bytes)
	}
	return fmt.Sprintf("%s ± %s", formatBytes(g.Bytes), formatBytes(g.BytesError))
}

func (t table) servers(r *audit.Report) {
	if len(r.Owners) < 2 { // the distribution over one server is always even
		return
	}
	t.rows(len(r.Owners), "SERVER\tKEYS\tOF THE MEAN\tMEMORY\tUSED IN ALL", func(i int) string {
		o := r.Owners[i]
		return fmt.Sprintf("%s\t%d\t%.2f ×\t%s\t%s", o.Addr, o.Keys, o.Ratio, formatBytes(o.Bytes), formatBytes(o.UsedMemory))
	})
	show := func(what string, slots []audit.Slot) {
		t.rows(min(len(slots), 5), what+"\tKEYS\tOF THE MEAN\tMEMORY", func(i int) string {
			s := slots[i]
			weight := ""
			if r.Mode != "names" {
				weight = formatBytes(s.Bytes)
			}
			return fmt.Sprintf("%d\t%d\t%.2f ×\t%s", s.Slot, s.Keys, s.Ratio, weight)
		})
	}
	show("SLOT WITH MOST KEYS", r.Slots.Largest)
	show("SLOT WITH MOST MEMORY", r.Slots.Heaviest)
}

func (t table) hot(r *audit.Report) {
	t.rows(len(r.Hot), "HOT KEY\tUSED\tFAMILY", func(i int) string {
		k := r.Hot[i]
		used := fmt.Sprintf("%.0f per second", k.PerSecond)
		if k.Frequency > 0 {
			used = fmt.Sprintf("%d of 255, as the server counts", k.Frequency)
		}
		return fmt.Sprintf("%s\t%s\t%s", k.Key, used, k.Family)
	})
}

func (t table) foreign(r *audit.Report) {
	t.rows(len(r.Foreign), "OTHER PREFIX\tKEYS", func(i int) string {
		return fmt.Sprintf("%s\t%d", r.Foreign[i].Prefix, r.Foreign[i].Keys)
	})
}

// formatBytes formats an amount of memory.
func formatBytes(n int64) string {
	const unit = 1024
	f, name := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f < unit {
			break
		}
		f, name = f/unit, next
	}
	if name == "B" || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, name)
	}
	return fmt.Sprintf("%.1f %s", f, name)
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Millisecond)
}

// Sweep removes all keys of a prefix.
type Sweep struct {
	scanLimits
	Prefix string `required:"" placeholder:"PREFIX" help:"The prefix of the keys."`
	DryRun bool   `help:"Only count the keys."`
	Yes    bool   `help:"Remove without a confirmation."`
	Force  bool   `help:"Allow the prefix of the configured deployment."`
}

// Run counts the keys, asks for confirmation and removes the keys.
func (cmd *Sweep) Run(ctx context.Context, c *Console, s *Server) (err error) {
	if cmd.Prefix == "" {
		return usageError{errors.New("the prefix is empty")}
	}
	if err := redis.CheckPrefix(cmd.Prefix); err != nil {
		return usageError{err}
	}
	if err := cmd.check(); err != nil {
		return err
	}
	confirms := !cmd.DryRun && !cmd.Yes
	if confirms && (c.JSON || !isatty.IsTerminal(os.Stdin.Fd())) {
		return usageError{errors.New("there is no terminal to confirm: use --dry-run to count the keys or --yes to remove them")}
	}
	db, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if own := s.Prefix; cmd.Prefix == own && !cmd.Force && !cmd.DryRun {
		return usageError{fmt.Errorf("%q is the prefix of the configured deployment; use --force to remove its keys", own)}
	}
	opt := audit.SweepOptions{DryRun: true, Own: cmd.Force, Rate: cmd.Rate, MaxPing: cmd.MaxPing}
	var swept audit.Swept
	if cmd.DryRun || confirms {
		if swept, err = sweep(ctx, c, db, "count", cmd.Prefix, opt); err != nil {
			return err
		}
	}
	if confirms && swept.Found > 0 {
		if err := confirm(os.Stdin, c.Err, cmd.Prefix, swept.Found); err != nil {
			return err
		}
	}
	if !cmd.DryRun && (!confirms || swept.Found > 0) {
		opt.DryRun = false
		if swept, err = sweep(ctx, c, db, "sweep", cmd.Prefix, opt); err != nil {
			return err
		}
	}
	return c.Result(swept, func(w io.Writer) error {
		if cmd.DryRun || swept.Found == 0 {
			_, err := fmt.Fprintf(w, "%s with the prefix %s found.\n", Count(swept.Found, "key"), swept.Prefix)
			return err
		}
		_, err := fmt.Fprintf(w, "%s with the prefix %s removed in %s.\n", Count(swept.Removed, "key"), swept.Prefix, seconds(swept.Seconds))
		return err
	})
}

func sweep(ctx context.Context, c *Console, db *redis.DB, what, prefix string, opt audit.SweepOptions) (audit.Swept, error) {
	bar := c.Progress(what)
	defer bar.End()
	opt.Progress = func(p audit.Progress) { bar.Show(int64(1000*p.Part), 1000, Count(p.Keys, "key")) }
	return audit.Sweep(ctx, db, prefix, opt)
}

// confirm asks the operator to type the prefix, which is unlikely to happen by mistake.
func confirm(in io.Reader, out io.Writer, prefix string, n int64) error {
	fmt.Fprintf(out, "This removes %s with the prefix %s for good. Type the prefix to go on: ", Count(n, "key"), prefix)
	line, err := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(line) == prefix {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return cmp.Or(err, ErrDeclined)
}
