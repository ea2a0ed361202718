package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/live"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

type streamsCmd struct {
	List streamsListCmd `cmd:"" help:"List live streams, those that are published first."`
	Show streamsShowCmd `cmd:"" help:"Show one stream, and what was recorded of it."`
	Stop streamsStopCmd `cmd:"" help:"Send whoever publishes a stream away; a server does it, at once where one runs."`
	Keys streamsKeysCmd `cmd:"" help:"Give a stream new keys and show them; whoever came with the old ones is sent away."`
}

// streamView is a stream in the commands' JSON.
type streamView struct {
	ID       string    `json:"id"`
	Title    string    `json:"title"`
	Owner    string    `json:"owner"`
	Access   string    `json:"access"`
	Record   bool      `json:"record"`
	Created  api.Time  `json:"created"`
	Since    *api.Time `json:"since,omitempty"` // start of the publication; the death of a node is detected within a minute
	LastLive *api.Time `json:"last_live,omitempty"`
}

func viewStream(s live.Stream) streamView {
	return streamView{ID: s.ID.String(), Title: s.Title, Owner: s.Owner.String(), Access: s.Access.String(), Record: s.Record,
		Created: api.At(sqldb.Time(s.Created)), Since: api.AtOrNil(sqldb.TimeOrZero(s.Since)), LastLive: api.AtOrNil(sqldb.TimeOrZero(s.Last))}
}

// shownTime formats a time for people.
func shownTime(t *api.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// mostStreams is the largest number of streams in a list.
const mostStreams = 1000

type streamsListCmd struct {
	settings
	Limit int `default:"50" help:"How many at most, up to 1000."`
}

func (cmd *streamsListCmd) Validate() error {
	if cmd.Limit < 1 || cmd.Limit > mostStreams {
		return fmt.Errorf("--limit is 1 to %d", mostStreams)
	}
	return nil
}

// Run lists streams.
func (cmd *streamsListCmd) Run(ctx context.Context, c *console) error {
	return cmd.database(ctx, c, func(db *sqldb.DB) error {
		found, err := live.All(ctx, db, cmd.Limit)
		if err != nil {
			return err
		}
		list := make([]streamView, len(found))
		for i, s := range found {
			list[i] = viewStream(s)
		}
		return c.result(map[string]any{"streams": list}, func(w io.Writer) error {
			if len(list) == 0 {
				_, err := fmt.Fprintln(w, "No streams.")
				return err
			}
			tab := keycli.NewTable(w, 3)
			fmt.Fprintln(tab, "ID\tTITLE\tOWNER\tACCESS\tLIVE SINCE\tLAST")
			for _, s := range list {
				fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.Title, s.Owner, s.Access, shownTime(s.Since), shownTime(s.LastLive))
			}
			return tab.Flush()
		})
	})
}

// someStream names the stream of a command.
type someStream struct {
	settings
	Stream string `arg:"" help:"The stream's id."`
}

// with opens the database and calls fn with the stream.
func (cmd *someStream) with(ctx context.Context, c *console, fn func(*sqldb.DB, live.Stream) error) error {
	return cmd.database(ctx, c, func(db *sqldb.DB) error {
		id, err := ids.Parse[live.Stream](cmd.Stream)
		var found live.Stream
		if err == nil {
			found, err = live.Find(ctx, db, id)
		}
		if errors.Is(err, live.ErrStream) || errors.Is(err, ids.ErrMalformed) {
			return fmt.Errorf("%w: no stream %s", errNothing, cmd.Stream)
		}
		if err != nil {
			return err
		}
		return fn(db, found)
	})
}

// recordingView is a recording in the commands' JSON.
type recordingView struct {
	File     string   `json:"file,omitempty"`
	Fault    string   `json:"fault,omitempty"`
	Started  api.Time `json:"started"`
	Duration int64    `json:"duration"` // milliseconds
	Bytes    int64    `json:"bytes"`
}

type streamsShowCmd struct{ someStream }

// Run shows a stream.
func (cmd *streamsShowCmd) Run(ctx context.Context, c *console) error {
	return cmd.with(ctx, c, func(db *sqldb.DB, s live.Stream) error {
		found, err := live.RecordingsOf(ctx, db, s.ID)
		if err != nil {
			return err
		}
		recordings := make([]recordingView, len(found))
		for i, r := range found {
			recordings[i] = recordingView{r.File, r.Fault, api.At(sqldb.Time(r.Started)), r.Duration, r.Bytes}
		}
		v := viewStream(s)
		return c.result(map[string]any{"stream": v, "recordings": recordings}, func(w io.Writer) error {
			tab := keycli.NewTable(w, 3)
			for _, row := range [][2]any{{"id", v.ID}, {"title", v.Title}, {"owner", v.Owner}, {"access", v.Access}, {"record", v.Record},
				{"created", shownTime(&v.Created)},
				{"live since", shownTime(v.Since)}, {"last live", shownTime(v.LastLive)}, {"recordings", len(recordings)}} {
				fmt.Fprintf(tab, "%s\t%v\n", row[0], row[1])
			}
			return tab.Flush()
		})
	})
}

type streamsStopCmd struct {
	someStream
	Yes bool `help:"Do it unasked."`
}

// Run lets a server disconnect a publisher.
func (cmd *streamsStopCmd) Run(ctx context.Context, c *console) error {
	return cmd.with(ctx, c, func(db *sqldb.DB, s live.Stream) error {
		if err := confirmed(c, cmd.Yes, fmt.Sprintf("Whoever publishes %s (%s) is sent away; with the publish key they may come again.", s.Title,
			s.ID)); err != nil {
			return err
		}
		if err := live.EnqueueStop(ctx, db, s.ID); err != nil {
			return err
		}
		return c.result(map[string]any{"stream": s.ID.String()}, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, "A server does it, now or when it starts.")
			return err
		})
	})
}

type streamsKeysCmd struct {
	someStream
	Publish bool `help:"A new publish key alone."`
	Play    bool `help:"A new play key alone."`
	Yes     bool `help:"Do it unasked."`
}

// Run replaces a stream's keys.
func (cmd *streamsKeysCmd) Run(ctx context.Context, c *console) error {
	set := live.KeySet{Publish: cmd.Publish || !cmd.Play, Play: cmd.Play || !cmd.Publish}
	return cmd.with(ctx, c, func(db *sqldb.DB, s live.Stream) error {
		if err := confirmed(c, cmd.Yes, fmt.Sprintf("Whoever publishes or watches %s (%s) with the old keys is sent away.", s.Title,
			s.ID)); err != nil {
			return err
		}
		keys, err := live.Rotate(ctx, db, s.ID, set)
		if err != nil {
			return err
		}
		out := map[string]any{"stream": s.ID.String()}
		for name, key := range map[string]string{"publish": keys.Publish, "play": keys.Play} {
			if key != "" {
				out[name] = key
			}
		}
		return c.result(out, func(w io.Writer) error {
			tab := keycli.NewTable(w, 3)
			for _, row := range [][2]string{{"publish", keys.Publish}, {"play", keys.Play}} {
				if row[1] != "" {
					fmt.Fprintf(tab, "%s\t%s\n", row[0], row[1])
				}
			}
			return tab.Flush()
		})
	})
}
