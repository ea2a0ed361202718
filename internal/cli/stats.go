package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/activity"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

type statsCmd struct {
	Days      statsDaysCmd      `cmd:"" default:"withargs" help:"Show how many users were active on each day, today until now; what stoa stats alone does."`
	Weeks     statsWeeksCmd     `cmd:"" help:"Show how many users were active in each week, Monday to Sunday."`
	Months    statsMonthsCmd    `cmd:"" help:"Show how many users were active in each month."`
	Retention statsRetentionCmd `cmd:"" help:"Show how many of those who registered on a day were active some days later."`
	Range     statsRangeCmd     `cmd:"" settings:"data,sql,redis,key_prefix,log,activity.zone" help:"Count the users who were active on any day of a range, within the last 30 days. Asks Redis."`
}

// activesText formats a count for people.
func activesText(c activity.Count) string {
	text := strconv.FormatInt(c.Actives, 10)
	if !c.Exact {
		text = "about " + text
	}
	if c.Partial {
		text = "at least " + text
	}
	return text
}

// kept opens the database and calls fn with its counts.
func (s *settings) kept(ctx context.Context, c *console, fn func(activity.Admin) error) error {
	return s.database(ctx, c, func(db *sqldb.DB) error { return fn(activity.NewAdmin(db)) })
}

// statsPage selects the size of a list.
type statsPage struct {
	settings
	Limit int `default:"30" help:"How many at most, the newest first; 1 to 1000."`
}

// Validate implements kong's interface.
func (p *statsPage) Validate() error {
	if p.Limit < 1 || p.Limit > 1000 {
		return errors.New("--limit is 1 to 1000")
	}
	return nil
}

// nothingCounted is the text of a table without rows.
const nothingCounted = "Nothing was counted yet."

// table writes rows of cells below their headers.
func table(w io.Writer, names string, rows [][]string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, nothingCounted)
		return err
	}
	tab := keycli.NewTable(w, 3)
	fmt.Fprintln(tab, names)
	for _, r := range rows {
		fmt.Fprintln(tab, strings.Join(r, "\t"))
	}
	return tab.Flush()
}

type statsDaysCmd struct{ statsPage }

// dayView is a day in the command's JSON.
type dayView struct {
	Day string `json:"day"`
	activity.Count
	Closed  bool     `json:"closed"` // the day has ended, and was counted after its end
	Updated api.Time `json:"updated"`
}

// Run shows days.
func (cmd *statsDaysCmd) Run(ctx context.Context, c *console) error {
	return cmd.kept(ctx, c, func(k activity.Admin) error {
		days, err := k.Days(ctx, cmd.Limit)
		if err != nil {
			return err
		}
		views, rows := make([]dayView, len(days)), make([][]string, len(days))
		for i, d := range days {
			views[i] = dayView{d.Date.String(), d.Count, !d.Closed.IsZero(), api.At(d.Updated)}
			rows[i] = []string{d.Date.String(), activesText(d.Count), goes(!d.Closed.IsZero(), "until "+d.Updated.Local().Format(time.DateTime))}
		}
		return c.result(map[string]any{"days": views}, func(w io.Writer) error { return table(w, "DAY\tACTIVE\tCOUNTED", rows) })
	})
}

// goes returns the text for how far an incomplete count goes.
func goes(whole bool, far string) string {
	if whole {
		return "whole"
	}
	return far
}

// rangeView is a week or month in the commands' JSON.
type rangeView struct {
	Week    string `json:"week,omitempty"`
	Month   string `json:"month,omitempty"`
	First   string `json:"first"`
	Last    string `json:"last"`
	Through string `json:"through"` // the last day that is included
	activity.Count
	Updated api.Time `json:"updated"`
}

// ranges shows weeks or months.
func (p *statsPage) ranges(ctx context.Context, c *console, period activity.Period) error {
	return p.kept(ctx, c, func(k activity.Admin) error {
		all, err := k.Ranges(ctx, period, p.Limit)
		if err != nil {
			return err
		}
		views, rows := make([]rangeView, len(all)), make([][]string, len(all))
		for i, r := range all {
			v := rangeView{First: r.First.String(), Last: r.Last.String(), Through: r.Through.String(), Count: r.Count, Updated: api.At(r.Updated)}
			year, month, _ := r.First.Date()
			name := fmt.Sprintf("%04d-%02d", year, month)
			if period == activity.Week {
				isoYear, week := r.First.ISOWeek()
				name = fmt.Sprintf("%04d-W%02d", isoYear, week)
				v.Week = name
			} else {
				v.Month = name
			}
			views[i], rows[i] = v, []string{name, v.First, v.Last, activesText(r.Count), goes(r.Through == r.Last, "until the end of "+v.Through)}
		}
		return c.result(map[string]any{string(period) + "s": views}, func(w io.Writer) error {
			return table(w, strings.ToUpper(string(period))+"\tFIRST DAY\tLAST DAY\tACTIVE\tCOUNTED", rows)
		})
	})
}

type statsWeeksCmd struct{ statsPage }

// Run shows weeks.
func (cmd *statsWeeksCmd) Run(ctx context.Context, c *console) error {
	return cmd.ranges(ctx, c, activity.Week)
}

type statsMonthsCmd struct{ statsPage }

// Run shows months.
func (cmd *statsMonthsCmd) Run(ctx context.Context, c *console) error {
	return cmd.ranges(ctx, c, activity.Month)
}

type statsRetentionCmd struct{ statsPage }

// cohortView is the cohort of a day in the command's JSON.
type cohortView struct {
	Day   string      `json:"day"`
	Size  int64       `json:"size"`
	After []afterView `json:"after"`
}

type afterView struct {
	Days    int   `json:"days"`
	Active  int64 `json:"active"`
	Partial bool  `json:"partial"` // a lower bound
}

// shownAfter are the days after registration that a table shows. The JSON has all days.
var shownAfter = []int{1, 2, 3, 7, 14, 30, 60, 90}

// Run shows cohorts.
func (cmd *statsRetentionCmd) Run(ctx context.Context, c *console) error {
	return cmd.kept(ctx, c, func(k activity.Admin) error {
		all, err := k.Retention(ctx, cmd.Limit)
		if err != nil {
			return err
		}
		views := []cohortView{}
		for _, one := range all {
			if n := len(views); n == 0 || views[n-1].Day != one.Date.String() {
				views = append(views, cohortView{Day: one.Date.String()})
			}
			v := &views[len(views)-1]
			v.Size = max(v.Size, one.Size)
			v.After = append(v.After, afterView{one.After, one.Active, one.Partial})
		}
		names := "REGISTERED\tUSERS"
		for _, days := range shownAfter {
			names += "\t+" + strconv.Itoa(days)
		}
		rows := make([][]string, len(views))
		for i, v := range views {
			rows[i] = []string{v.Day, strconv.FormatInt(v.Size, 10)}
			for _, days := range shownAfter {
				rows[i] = append(rows[i], v.share(days))
			}
		}
		return c.result(map[string]any{"cohorts": views}, func(w io.Writer) error { return table(w, names, rows) })
	})
}

// share returns the percentage of users who were active that many days later.
func (v cohortView) share(days int) string {
	i := slices.IndexFunc(v.After, func(a afterView) bool { return a.Days == days })
	if i < 0 {
		return "–"
	}
	text := fmt.Sprintf("%.0f%%", 100*float64(v.After[i].Active)/float64(v.Size))
	if v.After[i].Partial {
		text = "≥" + text
	}
	return text
}

type statsRangeCmd struct {
	settings
	From string `arg:"" help:"The first day, such as 2026-11-02."`
	To   string `arg:"" help:"The last day."`
}

// Run counts the active users of a range of days.
func (cmd *statsRangeCmd) Run(ctx context.Context, c *console) (err error) {
	first, err := dayOf(cmd.From)
	if err != nil {
		return err
	}
	last, err := dayOf(cmd.To)
	if err != nil {
		return err
	}
	span := activity.Span{First: first, Last: last}
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	if !strings.Contains(cfg.Redis, "://") {
		return fmt.Errorf("%w: nobody but the server sees the %s Redis; days, weeks and months are in the database", errNothing, cfg.Redis)
	}
	fast, err := c.redisOf(cfg).Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fast.Close()) }()
	return cmd.kept(ctx, c, func(k activity.Admin) error {
		n, err := k.CountBetween(ctx, fast, cfg.Activity, span)
		if err != nil {
			return err
		}
		view := struct {
			From string `json:"from"`
			To   string `json:"to"`
			activity.Count
		}{cmd.From, cmd.To, n}
		return c.result(view, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, activesText(n))
			return err
		})
	})
}

func dayOf(text string) (civil.Day, error) {
	d, err := civil.ParseDay(text)
	if err != nil {
		return 0, usage{fmt.Errorf("%q is no day, such as 2026-11-02", text)}
	}
	return d, nil
}
