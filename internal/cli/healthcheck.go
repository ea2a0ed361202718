package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
)

// healthTime bounds a health check.
const healthTime = 5 * time.Second

type healthcheckCmd struct {
	settings
	Server string `env:"STOA_SERVER" placeholder:"URL" help:"The server to ask; else the one at the address in the settings."`
}

// Run checks whether the server accepts requests, even if it is degraded. It is for containers that have no other
// program for this.
func (cmd *healthcheckCmd) Run(ctx context.Context, c *console) error {
	base, err := cmd.base(cmd.Server, func(cfg app.Config) string { return cfg.Addr })
	if err != nil {
		return err
	}
	cl, err := client.New(base)
	if err != nil {
		return usage{err}
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	err = cl.Ready(ctx)
	if e, ok := errors.AsType[*client.Error](err); ok {
		return fmt.Errorf("the server at %s takes no requests yet: it answers %d", base, e.Status)
	}
	if err != nil {
		return fmt.Errorf("%w at %s: is it running?", client.ErrUnreachable, base)
	}
	return c.result(map[string]any{"ready": true, "server": base}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "The server at %s takes requests.\n", base)
		return err
	})
}
