package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/foundation/obs"
)

type grantCmd struct {
	settings
	User   string `arg:"" help:"The user's id."`
	N      int    `arg:"" name:"n" help:"How many freezes, 1 to 100."`
	Reason string `required:"" placeholder:"TEXT" help:"Why; kept with the grant."`
}

// Run writes the grant to SQL. A server that runs brings it to Redis, so this
// works beside one as well as without.
func (cmd *grantCmd) Run(ctx context.Context, c *console) (err error) {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	cfg.Redis = "embedded" // the server's own is none of our business
	a, err := app.New(ctx, cfg, obs.NewLogger(c.err, cfg.Log))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	err = a.Grant(ctx, cmd.User, cmd.N, cmd.Reason)
	if errors.Is(err, accounts.ErrNoUser) {
		return fmt.Errorf("%w: no user %s", errNothing, cmd.User)
	}
	if err != nil {
		return err
	}
	return c.result(map[string]any{"user": cmd.User, "granted": cmd.N, "reason": cmd.Reason}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s was given %d. It shows within seconds where a server runs.\n", cmd.User, cmd.N)
		return err
	})
}
