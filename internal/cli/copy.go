package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqlcopy"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

type copyCmd struct {
	From string `required:"" placeholder:"URL" help:"The SQLite database, such as sqlite:data/stoa.db. No server may have it open."`
	To   string `required:"" env:"STOA_COPY_TO" placeholder:"URL" help:"The MySQL or MariaDB database, such as mysql://stoa:secret@db:3306/stoa. It is empty, or holds a part of this copy, which goes on."`
}

// Run copies and compares. Run it again to resume an interrupted copy.
func (cmd *copyCmd) Run(ctx context.Context, c *console) (err error) {
	for flag, url := range map[string]string{"from": cmd.From, "to": cmd.To} {
		if err := sqldb.CheckURL(url); err != nil {
			return usage{fmt.Errorf("--%s: %w", flag, err)}
		}
	}
	path, ok := sqldb.SQLitePath(sqldb.Config{URL: cmd.From})
	if !ok || !strings.HasPrefix(cmd.From, "sqlite:") {
		return usage{errors.New("--from: the source is a SQLite file, such as sqlite:data/stoa.db")}
	}
	if !strings.HasPrefix(cmd.To, "mysql:") {
		return usage{errors.New("--to: the target is MySQL or MariaDB, mysql://user:password@host:port/database")}
	}
	from, err := sqldb.OpenAlone(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return usage{fmt.Errorf("--from: %w", err)}
	} else if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := c.sql(ctx, cmd.To, app.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	var bar *keycli.Progress
	step := ""
	tables, err := sqlcopy.Copy(ctx, from, to, func(p sqlcopy.Progress) {
		if p.Step != step {
			if bar != nil {
				bar.End()
			}
			bar, step = c.progress(p.Step), p.Step
		}
		bar.Show(p.Done, p.Total, p.Table)
	})
	if bar != nil {
		bar.End()
	}
	switch {
	case errors.Is(err, sqlcopy.ErrNotEmpty), errors.Is(err, sqlcopy.ErrOther):
		return usage{fmt.Errorf("--to: %w", err)}
	case err != nil:
		return err
	}
	rows := int64(0)
	for _, t := range tables {
		rows += t.Rows
	}
	return c.result(map[string]any{"tables": tables, "rows": rows}, func(w io.Writer) error {
		tab := keycli.NewTable(w, 3)
		fmt.Fprintln(tab, "TABLE\tROWS\tSUM")
		for _, t := range tables {
			fmt.Fprintf(tab, "%s\t%d\t%s\n", t.Name, t.Rows, t.Sum)
		}
		fmt.Fprintf(tab, "%d tables with %d rows are the same on both sides.\n", len(tables), rows)
		return tab.Flush()
	})
}
