package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

type queueCmd struct {
	List   queueListCmd   `cmd:"" help:"List the messages that wait, or the dead letters."`
	Show   queueShowCmd   `cmd:"" help:"Show one message whole."`
	Replay queueReplayCmd `cmd:"" help:"Have dead letters tried again, five times."`
	Drop   queueDropCmd   `cmd:"" help:"Remove messages for good."`
}

// openQueue returns the outbox and, if messages wait in Redis, that queue in front of it.
func (s *settings) openQueue(ctx context.Context, c *console) (stores queue.Stores, closeAll func() error, err error) {
	cfg, _, err := s.load()
	if err != nil {
		return nil, nil, err
	}
	if cfg.SQL == "sqlite" { // opening would create an empty one
		if _, err := os.Stat(filepath.Join(cfg.Data, sqldb.FileName)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%w: there is no database in %s", errNothing, cfg.Data)
		}
	}
	db, err := c.sql(ctx, cfg.SQL, cfg)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if version, _, err := db.Version(ctx); err != nil {
		return nil, nil, err
	} else if version == 0 {
		return nil, nil, fmt.Errorf("%w: the database has no schema yet, run stoa migrate", errNothing)
	}
	outbox := queue.NewSQL(db)
	if !cfg.UsesStreams() {
		return queue.Stores{outbox}, db.Close, nil
	}
	r, err := c.redisOf(cfg).Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return queue.Stores{queue.NewRedis(r), outbox}, func() error { return errors.Join(r.Close(), db.Close()) }, nil
}

// chosen selects the messages of a list.
type chosen struct {
	Dead  bool   `help:"Dead letters: messages given up after five tries."`
	Topic string `placeholder:"NAME" help:"Only messages of this topic."`
}

type queueListCmd struct {
	settings
	chosen
	Limit int    `default:"50" help:"How many at most, up to 1000."`
	After string `placeholder:"ID" help:"Go on after this message: the last one of the page before."`
}

func (cmd *queueListCmd) Validate() error {
	if cmd.Limit < 1 || cmd.Limit > queue.MaxList {
		return fmt.Errorf("--limit is 1 to %d", queue.MaxList)
	}
	return nil
}

// Run lists one page.
func (cmd *queueListCmd) Run(ctx context.Context, c *console) (err error) {
	stores, closeAll, err := cmd.openQueue(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	es, err := stores.List(ctx, queue.Filter{Dead: cmd.Dead, Topic: cmd.Topic, After: cmd.After, Limit: cmd.Limit})
	if err != nil {
		return err
	}
	next := ""
	if len(es) == cmd.Limit {
		next = es[len(es)-1].ID
	}
	views := make([]entryView, len(es))
	for i, e := range es {
		views[i] = viewEntry(e)
	}
	return c.result(map[string]any{"messages": views, "next": next}, func(w io.Writer) error {
		if len(es) == 0 {
			_, err := fmt.Fprintln(w, "No messages.")
			return err
		}
		tab := keycli.NewTable(w, 3)
		fmt.Fprintln(tab, "ID\tTOPIC\tSTATE\tTRIES\tCREATED\tDUE\tERROR")
		for _, e := range es {
			fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", e.ID, e.Topic, e.State, e.Attempts,
				e.Created.Local().Format(time.DateTime), dueText(e), oneLine(e.Error))
		}
		if err := tab.Flush(); err != nil {
			return err
		}
		if next != "" {
			fmt.Fprintln(c.err, "There may be more: --after "+next)
		}
		return nil
	})
}

// entryView is a message in the commands' JSON.
type entryView struct {
	queue.Entry
	Created api.Time `json:"created"`
	Due     api.Time `json:"due"`
}

func viewEntry(e queue.Entry) entryView { return entryView{e, api.At(e.Created), api.At(e.Due)} }

func dueText(e queue.Entry) string {
	if e.State == queue.Dead {
		return "never"
	}
	return e.Due.Local().Format(time.DateTime)
}

// oneLine shortens an error to fit in a table.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

type queueShowCmd struct {
	settings
	ID string `arg:"" help:"The message, as stoa queue list names it."`
}

// Run shows a message. A payload that is text is shown as text.
func (cmd *queueShowCmd) Run(ctx context.Context, c *console) (err error) {
	stores, closeAll, err := cmd.openQueue(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	e, err := stores.Show(ctx, cmd.ID) // it may already be handled
	if err != nil {
		return err
	}
	return c.result(viewEntry(e), func(w io.Writer) error {
		tab := keycli.NewTable(w, 3)
		payload := string(e.Payload)
		if !utf8.ValidString(payload) {
			payload = fmt.Sprintf("%x", payload)
		}
		for _, line := range [][2]string{{"id", e.ID}, {"topic", e.Topic}, {"key", e.Key}, {"state", string(e.State)},
			{"created", e.Created.Local().Format(time.DateTime)}, {"due", dueText(e)}, {"tries", fmt.Sprint(e.Attempts)},
			{"error", e.Error}, {"payload", payload}} {
			fmt.Fprintf(tab, "%s\t%s\n", line[0], line[1])
		}
		return tab.Flush()
	})
}

// several selects the messages of replay and drop.
type several struct {
	settings
	chosen
	IDs   []string `arg:"" optional:"" name:"id" help:"The messages, as stoa queue list names them; else --dead for all dead letters."`
	Limit int      `placeholder:"N" help:"With --dead: how many at most, oldest first."`
}

func (cmd *several) Validate() error {
	switch {
	case len(cmd.IDs) == 0 && !cmd.Dead:
		return errors.New("name messages, or say --dead for all dead letters")
	case len(cmd.IDs) > 0 && (cmd.Dead || cmd.Topic != "" || cmd.Limit != 0):
		return errors.New("name messages, or choose dead letters with --dead, --topic and --limit: not both")
	case cmd.Limit < 0:
		return errors.New("--limit is 1 or more")
	}
	return nil
}

// run processes the messages page by page and shows the progress.
func (cmd *several) run(ctx context.Context, c *console, done string,
	do func(queue.Stores) func(context.Context, ...string) (int, error)) (err error) {
	stores, closeAll, err := cmd.openQueue(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	n := 0
	if len(cmd.IDs) > 0 {
		n, err = do(stores)(ctx, cmd.IDs...)
	} else {
		n, err = cmd.all(ctx, c, stores, done, do(stores))
	}
	if err != nil {
		return fmt.Errorf("%d %s, then: %w", n, done, err)
	}
	if err := c.result(map[string]int{done: n}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%d %s.\n", n, done)
		return err
	}); err != nil {
		return err
	}
	if missing := len(cmd.IDs) - n; missing > 0 {
		return fmt.Errorf("%w: %d of the %d messages cannot be %s: they are gone, or no dead letters", errNothing, missing, len(cmd.IDs), done)
	}
	return nil
}

func (cmd *several) all(ctx context.Context, c *console, stores queue.Stores, done string,
	do func(context.Context, ...string) (int, error)) (n int, err error) {
	const page = 500
	reported := time.Now()
	// Later messages are skipped, because messages that are replayed and fail again would make the loop endless.
	began := reported.Truncate(time.Millisecond)
	after := ""
	for scanned := 0; cmd.Limit == 0 || scanned < cmd.Limit; {
		f := queue.Filter{Dead: true, Topic: cmd.Topic, After: after, Limit: page}
		if cmd.Limit > 0 {
			f.Limit = min(page, cmd.Limit-scanned)
		}
		es, err := stores.List(ctx, f)
		if err != nil || len(es) == 0 {
			return n, err
		}
		var ids []string
		for _, e := range es {
			if e.Created.Before(began) {
				ids = append(ids, e.ID)
			}
		}
		changed, err := do(ctx, ids...)
		n, scanned, after = n+changed, scanned+len(ids), es[len(es)-1].ID
		if err != nil {
			return n, err
		}
		if time.Since(reported) > time.Second {
			reported = time.Now()
			fmt.Fprintf(c.err, "%d %s so far\n", n, done)
		}
	}
	return n, nil
}

type queueReplayCmd struct{ several }

// Run replays dead letters.
func (cmd *queueReplayCmd) Run(ctx context.Context, c *console) error {
	return cmd.run(ctx, c, "replayed", func(s queue.Stores) func(context.Context, ...string) (int, error) { return s.Replay })
}

type queueDropCmd struct{ several }

// Run deletes messages.
func (cmd *queueDropCmd) Run(ctx context.Context, c *console) error {
	return cmd.run(ctx, c, "dropped", func(s queue.Stores) func(context.Context, ...string) (int, error) { return s.Drop })
}
