package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stoa-dev/stoa/internal/storage/migrations"
)

type migrateCmd struct{ settings }

// Run migrates the database and shows both versions.
func (cmd *migrateCmd) Run(ctx context.Context, c *console) (err error) {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	db, err := c.sql(ctx, cfg.SQL, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	before, _, err := db.Version(ctx)
	if err != nil {
		return err
	}
	if err := db.Migrate(ctx, migrations.FS); err != nil {
		return err
	}
	after, _, err := db.Version(ctx)
	if err != nil {
		return err
	}
	return c.result(map[string]any{"database": db.String(), "before": before, "version": after}, func(w io.Writer) error {
		text := fmt.Sprintf("%s: schema %04d, as before.", db, after)
		if after != before {
			text = fmt.Sprintf("%s: schema %04d, was %04d.", db, after, before)
		}
		_, err := fmt.Fprintln(w, text)
		return err
	})
}
