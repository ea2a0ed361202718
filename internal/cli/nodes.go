package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
	"github.com/stoa-dev/stoa/lib/redis"
)

type nodesCmd struct {
	List  nodesListCmd  `cmd:"" default:"withargs" help:"List the nodes, those that live and those that were there a minute ago."`
	Drain nodesDrainCmd `cmd:"" help:"Have a node send its sockets and leases to the others, and wait until it has."`
}

type nodesListCmd struct{ settings }

// nodeLine is a node in the command's JSON.
type nodeLine struct {
	cluster.Node
	Started   api.Time `json:"started"`
	Heartbeat api.Time `json:"last_heartbeat"`
	Alive     bool     `json:"alive"`
	AgeMS     int64    `json:"heartbeat_age_ms"`
}

// shared opens the Redis that nodes share.
func shared(ctx context.Context, c *console, s *settings) (*redis.DB, error) {
	cfg, _, err := s.load()
	if err != nil {
		return nil, err
	}
	if !strings.Contains(cfg.Redis, "://") {
		return nil, fmt.Errorf("%w: with the %s Redis there is one node, and nobody else sees it; ask its /readyz", errNothing, cfg.Redis)
	}
	return c.redisOf(cfg).Open(ctx)
}

// Run lists the nodes.
func (cmd *nodesListCmd) Run(ctx context.Context, c *console) (err error) {
	db, err := shared(ctx, c, &cmd.settings)
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
		lines[i] = nodeLine{e.Node, api.At(e.Started), api.At(e.Heartbeat), e.Alive, e.Age.Milliseconds()}
	}
	return c.result(map[string]any{"nodes": lines}, func(w io.Writer) error {
		if len(entries) == 0 {
			_, err := fmt.Fprintln(w, "No nodes.")
			return err
		}
		tab := keycli.NewTable(w, 3)
		fmt.Fprintln(tab, "NODE\tADDRESS\tROLES\tVERSION\tSTARTED\tSTATUS\tSOCKETS\tHEARTBEAT\tLEASE")
		for _, e := range entries {
			lease := "dead"
			if e.Alive {
				lease = "alive"
			}
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s ago\t%s\n", e.ID, e.Address, strings.Join(e.Roles, ","), e.Version,
				e.Started.Local().Format(time.DateTime), e.Status, e.Sockets, e.Age.Round(100*time.Millisecond), lease)
		}
		return tab.Flush()
	})
}

type nodesDrainCmd struct {
	settings
	Node string        `arg:"" help:"The node, as stoa nodes names it."`
	Stop bool          `help:"Have the node end once it is drained. Without it the node stays, drained, until it is stopped or told to serve again." xor:"then"`
	Undo bool          `help:"Have a node that drains, or is drained, serve again." xor:"then"`
	Wait time.Duration `default:"5m" help:"How long to wait for the node; 0 does not."`
}

var (
	errNoNode     = fmt.Errorf("%w: no such node", errNothing)
	errNotDrained = errors.New("the node is not drained")
)

// drainLine is the result of a drain, in the command's JSON.
type drainLine struct {
	Node    cluster.ID     `json:"node"`
	Status  cluster.Status `json:"status"`
	Sockets int            `json:"sockets"`
}

// Validate implements kong.Validator.
func (cmd *nodesDrainCmd) Validate() error {
	if cmd.Wait < 0 {
		return errors.New("--wait is not less than nothing")
	}
	return nil
}

// Run drains a node, or ends its drain.
func (cmd *nodesDrainCmd) Run(ctx context.Context, c *console) (err error) {
	db, err := shared(ctx, c, &cmd.settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	id, err := ids.Parse[cluster.Node](cmd.Node)
	if err != nil {
		return fmt.Errorf("%w: %s; stoa nodes lists them", errNoNode, cmd.Node)
	}
	now, err := entryOf(ctx, db, id)
	if err == nil && !now.Alive {
		err = fmt.Errorf("%w: %s does not live", errNoNode, cmd.Node)
	}
	if err != nil {
		return err
	}
	order := cluster.Order{ID: ids.New[cluster.Order]().String(), Drain: !cmd.Undo, Stop: cmd.Stop}
	if err := cluster.Send(ctx, db, id, order); err != nil {
		return err
	}
	if cmd.Wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, cmd.Wait)
		defer cancel()
		if now, err = cmd.await(waiting, c, db, id, order); err != nil {
			return err
		}
	}
	return c.result(drainLine{id, now.Status, now.Sockets}, func(w io.Writer) error {
		if cmd.Wait == 0 {
			_, err := fmt.Fprintf(w, "%s is told. See stoa nodes.\n", id)
			return err
		}
		_, err := fmt.Fprintf(w, "%s is %s, with %d sockets.\n", id, now.Status, now.Sockets)
		return err
	})
}

// await waits until a node has carried out the order, and shows the number of open sockets.
func (cmd *nodesDrainCmd) await(ctx context.Context, c *console, db *redis.DB, id cluster.ID, order cluster.Order) (cluster.Entry, error) {
	p := c.progress("draining")
	defer p.End()
	most, last := 0, cluster.Entry{}
	for {
		now, err := entryOf(ctx, db, id)
		switch {
		case ctx.Err() != nil:
			return now, fmt.Errorf("%w: it was %s with %d sockets when the time was over; it goes on by itself", errNotDrained, last.Status,
				last.Sockets)
		case err != nil:
			return now, err
		case now.Order == order.ID || now.Status == cluster.Stopped:
			switch {
			case !now.Alive && cmd.Stop, cmd.Undo && now.Status == cluster.Serving, !cmd.Undo && !cmd.Stop && now.Status == cluster.Drained:
				return now, nil
			case !now.Alive:
				return now, fmt.Errorf("%w: it has ended; its last word was %s, with %d sockets", errNotDrained, now.Status, now.Sockets)
			}
			most = max(most, now.Sockets)
			p.Show(int64(most-now.Sockets), int64(most), fmt.Sprintf("%d sockets are left", now.Sockets))
		}
		last = now
		select {
		case <-ctx.Done():
		case <-time.After(cluster.Beat / 2):
		}
	}
}

// entryOf returns a node's entry in the registry.
func entryOf(ctx context.Context, db *redis.DB, id cluster.ID) (cluster.Entry, error) {
	all, err := cluster.List(ctx, db)
	if err != nil {
		return cluster.Entry{}, err
	}
	for _, e := range all {
		if e.ID == id {
			return e, nil
		}
	}
	return cluster.Entry{}, fmt.Errorf("%w: %s; stoa nodes lists them", errNoNode, id)
}
