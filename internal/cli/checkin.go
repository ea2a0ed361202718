package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

type checkinCmd struct {
	Show      showCmd      `cmd:"" help:"Show where a user stands, the freezes that were granted and the days that were made up."`
	Grant     grantCmd     `cmd:"" help:"Give a user streak freezes."`
	Import    importCmd    `cmd:"" help:"Read check-ins from a file into the database."`
	Export    exportCmd    `cmd:"" help:"Write check-ins to a file, as import reads them."`
	Reconcile reconcileCmd `cmd:"" help:"Have a server compare Redis with SQL and repair what differs."`
	Repairs   repairsCmd   `cmd:"" help:"Show what reconciliations have found."`
	Rebuild   rebuildCmd   `cmd:"" help:"Have a server make boards and records anew from SQL."`
	Snapshot  snapshotCmd  `cmd:"" help:"Have a server write month bitmaps and totals now instead of at night."`
	Runs      runsCmd      `cmd:"" help:"Show what servers were asked for and do by themselves; withdraw what waits."`
}

// errNotTaken reports a run that no server has started.
var errNotTaken = errors.New("no server took it within 10 s; is one running on this database?")

// admin opens the database and calls fn with the operator's functions on it.
func (s *settings) admin(ctx context.Context, c *console, fn func(*checkin.Admin) error) (err error) {
	return s.database(ctx, c, func(db *sqldb.DB) error { return fn(checkin.NewAdmin(db)) })
}

// database opens the database, checks its schema and calls fn with it.
func (s *settings) database(ctx context.Context, c *console, fn func(*sqldb.DB) error) (err error) {
	return s.open(ctx, c, func(db *sqldb.DB) error {
		// A database with another version's schema is not changed.
		if have, _, err := db.Version(ctx); err != nil {
			return err
		} else if want := migrations.Newest(); have != want {
			return fmt.Errorf("%s has schema %04d and this program is made for %04d: run the same stoa as the server, or stoa migrate", db, have,
				want)
		}
		return fn(db)
	})
}

// format returns the given format, or else the format of the file's name.
func format(asked, file string) transfer.Format {
	if asked == "" && (strings.HasSuffix(file, ".jsonl") || strings.HasSuffix(file, ".ndjson")) {
		return transfer.JSONL
	}
	if asked == "" {
		return transfer.CSV
	}
	return transfer.Format(asked)
}

type showCmd struct{ someone }

// shownView is a user's check-in in JSON; times are UTC.
type shownView struct {
	User      string       `json:"user"`
	Zone      string       `json:"zone"`
	Day       string       `json:"day"` // today in the user's calendar
	Today     bool         `json:"today"`
	Yesterday bool         `json:"yesterday"`
	Streak    int          `json:"streak"`
	Longest   int          `json:"longest"`
	Total     int          `json:"total"`
	Freezes   freezesView  `json:"freezes"`
	Grants    []grantView  `json:"grants"`
	Makeups   []madeUpView `json:"makeups"`
}

type freezesView struct {
	Left    int `json:"left"`
	Earned  int `json:"earned"`
	Granted int `json:"granted"`
	Used    int `json:"used"`
}

type grantView struct {
	At      api.Time `json:"at"`
	Freezes int      `json:"freezes"`
	Reason  string   `json:"reason"`
}

type madeUpView struct {
	Day   string   `json:"day"`
	At    api.Time `json:"at"`
	Month string   `json:"month"` // the month whose limit it counts against
}

// Run shows a user's check-in in the database, with grants and make-ups.
func (cmd *showCmd) Run(ctx context.Context, c *console) error {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	return cmd.findIn(ctx, c, func(db *sqldb.DB, a accounts.Account) error {
		x, err := checkin.NewAdmin(db).Show(ctx, a.ID, a.Clock, cfg.Checkin)
		if err != nil {
			return err
		}
		v := shownView{User: a.ID.String(), Zone: a.Clock.In(time.Now()), Day: x.Day.String(), Today: x.Today, Yesterday: x.Yesterday,
			Streak: x.Streak, Longest: x.Longest, Total: x.Total, Freezes: freezesView{x.Freezes, x.Earned, x.Granted, x.Used},
			Grants: []grantView{}, Makeups: []madeUpView{}}
		for _, g := range x.Grants {
			v.Grants = append(v.Grants, grantView{api.At(g.At), g.N, g.Reason})
		}
		for _, m := range x.Makeups {
			v.Makeups = append(v.Makeups, madeUpView{m.Day.String(), api.At(m.At), m.Month})
		}
		return c.result(v, v.write)
	})
}

func (v shownView) write(w io.Writer) error {
	tab := keycli.NewTable(w, 2)
	signed := "not yet"
	if v.Today {
		signed = "checked in"
	}
	fmt.Fprintf(tab, "user\t%s\nzone\t%s\ntoday\t%s, %s\n", v.User, v.Zone, v.Day, signed)
	fmt.Fprintf(tab, "streak\t%d, the longest %d\ndays\t%d\n", v.Streak, v.Longest, v.Total)
	fmt.Fprintf(tab, "freezes\t%d left: %d earned, %d granted, %d used\n", v.Freezes.Left, v.Freezes.Earned, v.Freezes.Granted, v.Freezes.Used)
	for _, g := range v.Grants {
		fmt.Fprintf(tab, "granted\t%s  %d: %s\n", g.At.Local().Format(time.DateTime), g.Freezes, g.Reason)
	}
	for _, m := range v.Makeups {
		fmt.Fprintf(tab, "made up\t%s  %s, of %s\n", m.At.Local().Format(time.DateTime), m.Day, m.Month)
	}
	return tab.Flush()
}

type grantCmd struct {
	settings
	User   string `arg:"" help:"The user's id."`
	N      int    `arg:"" name:"n" help:"How many freezes, 1 to 100."`
	Reason string `required:"" placeholder:"TEXT" help:"Why; kept with the grant."`
}

// Run writes the grant to SQL. A running server applies it to Redis.
func (cmd *grantCmd) Run(ctx context.Context, c *console) error {
	nobody := fmt.Errorf("%w: no user %s", errNothing, cmd.User)
	user, err := ids.Parse[accounts.User](cmd.User)
	if err != nil {
		return nobody
	}
	return cmd.admin(ctx, c, func(x *checkin.Admin) error {
		if err := x.Grant(ctx, user, cmd.N, cmd.Reason); errors.Is(err, accounts.ErrNoUser) {
			return nobody
		} else if err != nil {
			return err
		}
		return c.result(map[string]any{"user": cmd.User, "granted": cmd.N, "reason": cmd.Reason}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s was given %d. It shows within seconds where a server runs.\n", cmd.User, cmd.N)
			return err
		})
	})
}

type importCmd struct {
	settings
	File           string `arg:"" help:"The file to read, or - for standard input."`
	Format         string `enum:"csv,jsonl," default:"" placeholder:"FORMAT" help:"csv or jsonl; else as the file is named, or csv."`
	DryRun         bool   `help:"Check every row and write nothing."`
	CreateAccounts bool   `help:"Open accounts for addresses that have none, with the name and zone of their first row."`
	MaxErrors      int    `default:"100" help:"Faults after which the import ends; rows of one wrong account count once."`
}

// Run imports rows; faulty rows are written to standard error.
func (cmd *importCmd) Run(ctx context.Context, c *console) error {
	return cmd.database(ctx, c, func(db *sqldb.DB) (err error) {
		in, size := io.Reader(os.Stdin), int64(0)
		if cmd.File != "-" {
			f, err := os.Open(cmd.File)
			if err != nil {
				return usage{err}
			}
			defer f.Close()
			if stat, err := f.Stat(); err == nil && stat.Mode().IsRegular() {
				size = stat.Size()
			}
			in = f
		}
		counting := &counter{r: in}
		bar := c.progress("import")
		type report struct {
			transfer.Imported
			DryRun bool             `json:"dry_run,omitempty"`
			Faults []transfer.Fault `json:"faults"`
		}
		r := report{DryRun: cmd.DryRun, Faults: []transfer.Fault{}}
		r.Imported, err = transfer.Import(ctx, db, counting, transfer.ImportOptions{
			Format: format(cmd.Format, cmd.File), DryRun: cmd.DryRun, CreateAccounts: cmd.CreateAccounts, MaxFaults: max(cmd.MaxErrors, 1),
			Fault: func(f transfer.Fault) {
				if r.Faults = append(r.Faults, f); !c.json {
					bar.End()
					fmt.Fprintln(c.err, f.Error())
				}
			},
			Repeated: func(f transfer.Fault) {
				i := slices.IndexFunc(r.Faults, func(g transfer.Fault) bool { return g.Line == f.Line })
				r.Faults[i] = f
				if !c.json {
					bar.End()
					fmt.Fprintf(c.err, "%v: the same in %s more, up to line %d\n", f, keycli.Count(f.Rows-1, "line"), f.Last)
				}
			},
			Progress: func(sum transfer.Imported) error {
				bar.Show(counting.n, size, fmt.Sprintf("%d rows", sum.Rows))
				return nil
			},
		})
		bar.End()
		printErr := c.result(r, func(w io.Writer) error {
			verb := "imported"
			if cmd.DryRun {
				verb = "would be imported"
			}
			_, err := fmt.Fprintf(w, "%d of %d rows %s, %d were there, %d are wrong; %d accounts opened.\n", r.New, r.Rows, verb, r.Existing, r.Bad,
				r.Accounts)
			return err
		})
		if errors.Is(err, transfer.ErrTooManyBad) {
			fmt.Fprintf(c.err, "Ended after %d wrong rows, see --max-errors. What was imported stays, and importing it again changes nothing.\n",
				r.Bad)
			err = nil
		}
		if errors.Is(err, transfer.ErrFormat) {
			err = usage{plain(err)}
		}
		if err = errors.Join(plain(err), printErr); err == nil && r.Bad > 0 {
			err = errDiffers
		}
		return err
	})
}

// plain writes an error with fields in one line.
func plain(err error) error {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || len(e.Fields) == 0 {
		return err
	}
	return fmt.Errorf("%s: %s", e.Fields[0].Where, e.Fields[0].Text)
}

// counter counts the bytes that were read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

type exportCmd struct {
	settings
	File     string `arg:"" optional:"" default:"-" help:"The file to write, or - for standard output."`
	Format   string `enum:"csv,jsonl," default:"" placeholder:"FORMAT" help:"csv or jsonl; else as the file is named, or csv."`
	User     string `placeholder:"ID" help:"Only this user's."`
	From     string `placeholder:"DAY" help:"Only this day and later ones, such as 2026-11-21."`
	To       string `placeholder:"DAY" help:"Only this day and earlier ones."`
	Accounts bool   `help:"With address, name and zone of each user, for an import elsewhere."`
}

// Run exports to a file, which is created atomically.
func (cmd *exportCmd) Run(ctx context.Context, c *console) error {
	o := transfer.ExportOptions{Format: format(cmd.Format, cmd.File), Accounts: cmd.Accounts, Bounded: true, First: civil.DayOf(1970, 1, 1),
		Last: civil.DayOf(9999, 12, 31)}
	var err error
	if o.User, err = userFlag(cmd.User); err != nil {
		return err
	}
	for _, d := range []struct {
		flag, text string
		day        *civil.Day
	}{{"from", cmd.From, &o.First}, {"to", cmd.To, &o.Last}} {
		if d.text == "" {
			continue
		}
		if *d.day, err = civil.ParseDay(d.text); err != nil {
			return usage{fmt.Errorf("--%s: %q is not a day such as 2026-11-21", d.flag, d.text)}
		}
	}
	if o.First > o.Last {
		return usage{errors.New("--from is later than --to")}
	}
	return cmd.database(ctx, c, func(db *sqldb.DB) error {
		bar := c.progress("export")
		defer bar.End()
		o.Progress = func(done, total int64) error {
			bar.Show(done, total, fmt.Sprintf("%d rows", done))
			return nil
		}
		if cmd.File == "-" {
			_, err := transfer.Export(ctx, db, c.out, o)
			return err
		}
		part := cmd.File + ".part"
		f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // check-ins are private
		if err != nil {
			return err
		}
		n, err := transfer.Export(ctx, db, f, o)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return errors.Join(err, os.Remove(part))
		}
		if err := os.Rename(part, cmd.File); err != nil {
			return errors.Join(err, os.Remove(part))
		}
		bar.End()
		return c.result(map[string]any{"file": cmd.File, "rows": n}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%d rows in %s.\n", n, cmd.File)
			return err
		})
	})
}

// usage marks an error in the command line that the grammar does not find.
type usage struct{ error }

func userFlag(text string) (accounts.ID, error) {
	if text == "" {
		return accounts.ID{}, nil
	}
	id, err := ids.Parse[accounts.User](text)
	if err != nil {
		return id, usage{fmt.Errorf("--user: %q is not an id of 12 characters", text)}
	}
	return id, nil
}

type rebuildCmd struct {
	settings
	What string `arg:"" optional:"" enum:"boards,records,all" default:"all" help:"boards, records or all."`
	Days int    `default:"45" help:"Records of users who were active in so many days, 1 to 366."`
}

// Run lets a server rebuild.
func (cmd *rebuildCmd) Run(ctx context.Context, c *console) error {
	o := reconcile.Options{Boards: cmd.What != "records", Days: cmd.Days}
	if cmd.What == "boards" {
		o.Days = 0
	} else if cmd.Days < 1 {
		return usage{reconcile.ErrOptions}
	}
	return cmd.run(ctx, c, reconcile.RebuildRun, o, func(w io.Writer, r *reconcile.Run) {
		fmt.Fprintf(w, "%d places on boards and %d records made anew from SQL in %s.\n", r.Summary.Placed, r.Summary.Loaded, durationOf(r))
	})
}

type reconcileCmd struct {
	settings
	DryRun bool   `help:"Compare and list, repair nothing."`
	User   string `placeholder:"ID" xor:"who" help:"Only this user."`
	All    bool   `xor:"who" help:"Everybody; this is what happens anyway."`
	Part   string `placeholder:"K/N" xor:"who" help:"Only the k-th of n parts of the users, such as 1/10."`
}

// Run lets a server compare and repair.
func (cmd *reconcileCmd) Run(ctx context.Context, c *console) (err error) {
	o := reconcile.Options{DryRun: cmd.DryRun}
	if o.User, err = userFlag(cmd.User); err != nil {
		return err
	}
	if cmd.Part != "" {
		k, n, _ := strings.Cut(cmd.Part, "/")
		var err2 error
		o.Part, err = strconv.Atoi(k)
		o.Parts, err2 = strconv.Atoi(n)
		if err != nil || err2 != nil || o.Part < 1 || o.Parts < o.Part || o.Parts > reconcile.MaxParts {
			return usage{fmt.Errorf("--part: %q is not such as 1/10, with at most %d parts", cmd.Part, reconcile.MaxParts)}
		}
	}
	return cmd.run(ctx, c, reconcile.ReconcileRun, o, func(w io.Writer, r *reconcile.Run) {
		s := r.Summary
		fmt.Fprintf(w, "%d users compared in %s, %d differ: %d differences, %d repaired.\n", s.Compared, durationOf(r), s.Differing,
			s.Differences, s.Repaired)
		if s.Abnormal > 0 {
			fmt.Fprintf(w, "%d users' days in SQL changed in a way that no check-in makes; the server's log names them.\n", s.Abnormal)
		}
		if s.Differences > 0 {
			fmt.Fprintf(w, "stoa checkin repairs --run %d lists them.\n", r.ID)
		}
	})
}

type snapshotCmd struct{ settings }

// Run lets a server write a snapshot.
func (cmd *snapshotCmd) Run(ctx context.Context, c *console) error {
	return cmd.run(ctx, c, reconcile.SnapshotRun, reconcile.Options{}, func(w io.Writer, r *reconcile.Run) {
		fmt.Fprintf(w, "%d users had changed; their months and totals were written in %s.\n", r.Summary.Persisted, durationOf(r))
	})
}

// runView is a run in the commands' JSON.
type runView struct {
	reconcile.Run
	Created api.Time  `json:"created"`
	Started *api.Time `json:"started,omitempty"`
	Ended   *api.Time `json:"ended,omitempty"`
}

func viewRun(r reconcile.Run) runView {
	return runView{r, api.At(r.Created), api.AtOrNil(r.Started), api.AtOrNil(r.Ended)}
}

// repairView is a line of the repair log in the commands' JSON.
type repairView struct {
	runs.Repair
	At api.Time `json:"at"`
}

func durationOf(r *reconcile.Run) time.Duration {
	return r.Ended.Sub(r.Started).Round(time.Millisecond)
}

const lookEvery = 200 * time.Millisecond

// takenWithin bounds how long a run waits for a server. If a server does another run, the command waits until that run
// ends.
const takenWithin = 10 * time.Second

// run requests a run, follows it until it ends and reports its result.
func (s *settings) run(ctx context.Context, c *console, kind runs.Kind, o reconcile.Options, human func(io.Writer, *reconcile.Run)) error {
	return s.admin(ctx, c, func(x *checkin.Admin) error {
		r, err := x.Request(ctx, kind, o)
		if err != nil {
			return err
		}
		bar := c.progress(string(kind))
		r, err = follow(ctx, x, r, bar)
		bar.End()
		if ctx.Err() != nil {
			fmt.Fprintln(c.err, "The server goes on with it.")
		}
		if err != nil {
			return err
		}
		if err := c.result(viewRun(*r), func(w io.Writer) error { human(w, r); return nil }); err != nil {
			return err
		}
		switch {
		case r.State == runs.Failed:
			return fmt.Errorf("run %d: %s", r.ID, r.Error)
		case o.DryRun && r.Summary.Differences > 0, r.Summary.Repaired < r.Summary.Differences, r.Summary.Abnormal > 0:
			return errDiffers
		}
		return nil
	})
}

// follow waits until the run has ended and returns it.
func follow(ctx context.Context, x *checkin.Admin, r *reconcile.Run, bar *keycli.Progress) (*reconcile.Run, error) {
	id, patience, seen := r.ID, time.Now().Add(takenWithin), ""
	for {
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(lookEvery):
		}
		now, err := x.Runs.Run(ctx, id)
		if err != nil {
			return r, err
		}
		r = now
		if !r.Started.IsZero() {
			if !r.Ended.IsZero() {
				return r, nil
			}
			note := fmt.Sprintf("%d users", r.Done)
			if r.Error != "" {
				note = r.Error
			}
			bar.Show(r.Done, r.Total, note)
			continue
		}
		first, err := x.Runs.Next(ctx, reconcile.Kinds...)
		if err != nil {
			return r, err
		}
		if first != nil && first.ID != id {
			if at := fmt.Sprint(first.ID, first.Beat()); at != seen {
				seen, patience = at, time.Now().Add(takenWithin)
			}
			bar.Show(0, 0, fmt.Sprintf("waiting for run %d, %s", first.ID, first.Kind))
		}
		if time.Now().After(patience) {
			if withdrawn, err := x.Runs.Withdraw(ctx, id); err != nil || withdrawn {
				return r, errors.Join(err, errNotTaken)
			}
		}
	}
}

type repairsCmd struct {
	settings
	Of     int64 `name:"run" placeholder:"N" help:"Only what this run found, a dry run included."`
	Limit  int   `default:"50" help:"How many at the most, the newest first; 1 to 1000."`
	Before int64 `placeholder:"ID" help:"Only those older than the one with this id: the next page."`
}

// Run shows the repair log.
func (cmd *repairsCmd) Run(ctx context.Context, c *console) error {
	if cmd.Limit < 1 || cmd.Limit > 1000 {
		return usage{fmt.Errorf("--limit: %d is not between 1 and 1000", cmd.Limit)}
	}
	return cmd.admin(ctx, c, func(x *checkin.Admin) error {
		lines, err := x.Runs.Repairs(ctx, cmd.Before, cmd.Of, cmd.Limit)
		if err != nil {
			return err
		}
		page := struct {
			Repairs []repairView `json:"repairs"`
			Before  int64        `json:"before,omitempty"` // cursor of the next page
		}{make([]repairView, len(lines)), 0}
		for i, l := range lines {
			page.Repairs[i] = repairView{l, api.At(l.At)}
		}
		if len(lines) == cmd.Limit {
			page.Before = lines[len(lines)-1].ID
		}
		return c.result(page, func(w io.Writer) error {
			if len(lines) == 0 {
				_, err := fmt.Fprintln(w, "Nothing was found.")
				return err
			}
			buffered := bufio.NewWriter(w)
			tab := keycli.NewTable(buffered, 3)
			fmt.Fprintln(tab, "AT\tRUN\tUSER\tWHAT\tWAS\tBECOMES\tREPAIRED")
			for _, l := range lines {
				repaired := "yes"
				if !l.Repaired {
					repaired = "no"
				}
				fmt.Fprintf(tab, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", l.At.Local().Format(time.DateTime), l.Run, l.User, l.What, l.Was, l.Becomes, repaired)
			}
			if page.Before != 0 {
				fmt.Fprintf(tab, "More with --before %d.\n", page.Before)
			}
			return errors.Join(tab.Flush(), buffered.Flush())
		})
	})
}

type runsCmd struct {
	settings
	Limit    int   `default:"20" help:"How many at the most, the newest first; 1 to 1000."`
	Before   int64 `placeholder:"ID" help:"Only those older than the one with this id: the next page."`
	Withdraw int64 `placeholder:"ID" help:"Take this run back, if no server has begun it."`
}

// Run lists the runs, or cancels one.
func (cmd *runsCmd) Run(ctx context.Context, c *console) error {
	if cmd.Limit < 1 || cmd.Limit > 1000 {
		return usage{fmt.Errorf("--limit: %d is not between 1 and 1000", cmd.Limit)}
	}
	return cmd.admin(ctx, c, func(x *checkin.Admin) error {
		if cmd.Withdraw != 0 {
			return cmd.withdraw(ctx, c, x)
		}
		all, err := x.Runs.List(ctx, cmd.Before, cmd.Limit)
		if err != nil {
			return err
		}
		page := struct {
			Runs   []runView `json:"runs"`
			Before int64     `json:"before,omitempty"` // cursor of the next page
		}{make([]runView, len(all)), 0}
		for i, r := range all {
			page.Runs[i] = viewRun(r)
		}
		if len(all) == cmd.Limit {
			page.Before = all[len(all)-1].ID
		}
		return c.result(page, func(w io.Writer) error {
			if len(all) == 0 {
				_, err := fmt.Fprintln(w, "There are none.")
				return err
			}
			buffered := bufio.NewWriter(w)
			tab := keycli.NewTable(buffered, 3)
			fmt.Fprintln(tab, "RUN\tWHAT\tSTATE\tASKED FOR\tTOOK\tRESULT")
			for _, r := range all {
				duration, result := "", r.Summary.String()
				if !r.Ended.IsZero() {
					duration = durationOf(&r).String()
				}
				if result == "" && r.State == runs.Done {
					result = "nothing was there"
				}
				if r.Error != "" {
					result = strings.TrimPrefix(result+"; "+r.Error, "; ")
				}
				fmt.Fprintf(tab, "%d\t%s\t%s\t%s\t%s\t%s\n", r.ID, strings.TrimSpace(string(r.Kind)+" "+r.Options.String()), r.State,
					r.Created.Local().Format(time.DateTime), duration, result)
			}
			if page.Before != 0 {
				fmt.Fprintf(tab, "More with --before %d.\n", page.Before)
			}
			return errors.Join(tab.Flush(), buffered.Flush())
		})
	})
}

func (cmd *runsCmd) withdraw(ctx context.Context, c *console, x *checkin.Admin) error {
	if done, err := x.Runs.Withdraw(ctx, cmd.Withdraw); err != nil {
		return err
	} else if !done {
		r, err := x.Runs.Run(ctx, cmd.Withdraw)
		if errors.Is(err, runs.ErrUnknown) {
			return fmt.Errorf("%w: no run %d", errNothing, cmd.Withdraw)
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("run %d is %s; only what waits can be withdrawn", r.ID, r.State)
	}
	return c.result(map[string]any{"withdrawn": cmd.Withdraw}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "Run %d is withdrawn.\n", cmd.Withdraw)
		return err
	})
}
