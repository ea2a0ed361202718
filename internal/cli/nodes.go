package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/cluster"
	keycli "github.com/stoa-dev/stoa/keyspace/cli"
)

type nodesCmd struct{ settings }

// nodeLine is a node in the command's JSON.
type nodeLine struct {
	cluster.Node
	Alive bool  `json:"alive"`
	AgeMS int64 `json:"heartbeat_age_ms"`
}

// Run lists the nodes.
func (cmd *nodesCmd) Run(ctx context.Context, c *console) (err error) {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	if !strings.Contains(cfg.Redis, "://") {
		return fmt.Errorf("%w: with the %s Redis there is one node, and nobody else sees it; ask its /readyz", errNothing, cfg.Redis)
	}
	db, err := c.redisOf(cfg).Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	entries, err := cluster.List(ctx, db)
	if err != nil {
		return err
	}
	lines := make([]nodeLine, len(entries))
	for i, e := range entries {
		lines[i] = nodeLine{e.Node, e.Alive, e.Age.Milliseconds()}
	}
	return c.result(map[string]any{"nodes": lines}, func(w io.Writer) error {
		if len(entries) == 0 {
			_, err := fmt.Fprintln(w, "No nodes.")
			return err
		}
		tab := keycli.NewTable(w, 3)
		fmt.Fprintln(tab, "NODE\tADDRESS\tROLES\tVERSION\tSTARTED\tSTATUS\tHEARTBEAT\tLEASE")
		for _, e := range entries {
			lease := "dead"
			if e.Alive {
				lease = "alive"
			}
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%s ago\t%s\n", e.ID, e.Address, strings.Join(e.Roles, ","), e.Version,
				e.Started.Local().Format(time.DateTime), e.Status, e.Age.Round(100*time.Millisecond), lease)
		}
		return tab.Flush()
	})
}
