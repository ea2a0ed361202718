package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/stoa-dev/stoa/internal/cli/demo"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

type demoCmd struct{ settings }

// Run fills a database without accounts. Others it does not touch.
func (cmd *demoCmd) Run(ctx context.Context, c *console) error {
	return cmd.open(ctx, c, func(db *sqldb.DB) error {
		there, err := demo.Fill(ctx, db)
		if err != nil {
			return err
		}
		return c.result(map[string]any{"people": there.People, "days": there.Days, "chats": there.Chats, "log_in": there.LogIn}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%d people, %d days of theirs and %d chats are there now. Log in as %s by a code, which a server under development shows at /dev/mail.\n", there.People, there.Days, there.Chats, there.LogIn)
			return err
		})
	})
}
