package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/stoa-dev/stoa/internal/app"
)

type secretCmd struct {
	Rotate secretRotateCmd `cmd:"" help:"Make a new secret; nodes use it after their next start, and accept the one before."`
}

type secretRotateCmd struct{ settings }

// Run generates a secret. It stores it in the data folder if the previous one is there. Otherwise it shows it.
func (cmd *secretRotateCmd) Run(_ context.Context, c *console) error {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	next, path, err := app.RotateSecret(cfg)
	if err != nil {
		return err
	}
	if path != "" {
		return c.result(map[string]any{"file": path}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s has a new secret, and secret_previous beside it the one before. Restart the server; remove "+
				"secret_previous after two days.\n", path)
			return err
		})
	}
	return c.result(map[string]any{"secret": next}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "STOA_SECRET=%s\nSTOA_SECRET_PREVIOUS=(the value of STOA_SECRET so far)\n", next)
		return err
	})
}
