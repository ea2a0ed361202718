package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/rooms"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

type roomsCmd struct {
	List  roomsListCmd  `cmd:"" help:"List rooms, those that were active last first."`
	Show  roomsShowCmd  `cmd:"" help:"Show one room, and how much is in it."`
	Close roomsCloseCmd `cmd:"" help:"Close a room, for all; a server does it, at once where one runs."`
}

// roomView is a room in the commands' JSON.
type roomView struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Owner    string   `json:"owner"`
	Access   string   `json:"access"`
	Password bool     `json:"password"`
	Listed   bool     `json:"listed"`
	Guests   bool     `json:"guests"`
	Members  int      `json:"members"` // including guests
	Lines    int      `json:"lines"`
	Danmaku  int      `json:"danmaku"`
	Items    int      `json:"items"`
	Created  api.Time `json:"created"`
	Active   api.Time `json:"active"`
}

func viewRoom(s rooms.Summary) roomView {
	return roomView{ID: s.ID.String(), Name: s.Name, Owner: s.Owner.String(), Access: s.Access.String(), Password: s.Password,
		Listed: s.Listed, Guests: s.Guests,
		Members: s.Members, Lines: s.Lines, Danmaku: s.Comments, Items: s.Items, Created: api.At(sqldb.Time(s.Created)),
		Active: api.At(sqldb.Time(s.Active))}
}

// mostRooms is the largest number of rooms in a list.
const mostRooms = 1000

type roomsListCmd struct {
	settings
	Limit int `default:"50" help:"How many at most, up to 1000."`
}

func (cmd *roomsListCmd) Validate() error {
	if cmd.Limit < 1 || cmd.Limit > mostRooms {
		return fmt.Errorf("--limit is 1 to %d", mostRooms)
	}
	return nil
}

// Run lists rooms.
func (cmd *roomsListCmd) Run(ctx context.Context, c *console) error {
	return cmd.database(ctx, c, func(db *sqldb.DB) error {
		found, err := rooms.Summaries(ctx, db, cmd.Limit)
		if err != nil {
			return err
		}
		list := make([]roomView, len(found))
		for i, s := range found {
			list[i] = viewRoom(s)
		}
		return c.result(map[string]any{"rooms": list}, func(w io.Writer) error {
			if len(list) == 0 {
				_, err := fmt.Fprintln(w, "No rooms.")
				return err
			}
			tab := keycli.NewTable(w, 3)
			fmt.Fprintln(tab, "ID\tNAME\tOWNER\tACCESS\tMEMBERS\tACTIVE")
			for _, r := range list {
				fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%d\t%s\n", r.ID, r.Name, r.Owner, r.Access, r.Members, r.Active.Local().Format(time.DateTime))
			}
			return tab.Flush()
		})
	})
}

// someRoom names the room of a command.
type someRoom struct {
	settings
	Room string `arg:"" help:"The room's id."`
}

// with opens the database and calls fn with the room.
func (cmd *someRoom) with(ctx context.Context, c *console, fn func(*sqldb.DB, rooms.Summary) error) error {
	return cmd.database(ctx, c, func(db *sqldb.DB) error {
		id, err := ids.Parse[rooms.Room](cmd.Room)
		var found rooms.Summary
		if err == nil {
			found, err = rooms.Find(ctx, db, id)
		}
		if errors.Is(err, rooms.ErrRoom) || errors.Is(err, ids.ErrMalformed) {
			return fmt.Errorf("%w: no room %s", errNothing, cmd.Room)
		}
		if err != nil {
			return err
		}
		return fn(db, found)
	})
}

type roomsShowCmd struct{ someRoom }

// Run shows a room.
func (cmd *roomsShowCmd) Run(ctx context.Context, c *console) error {
	return cmd.with(ctx, c, func(_ *sqldb.DB, s rooms.Summary) error {
		r := viewRoom(s)
		return c.result(r, func(w io.Writer) error {
			tab := keycli.NewTable(w, 3)
			for _, row := range [][2]any{{"id", r.ID}, {"name", r.Name}, {"owner", r.Owner}, {"access", r.Access}, {"password", r.Password},
				{"listed", r.Listed}, {"guests", r.Guests},
				{"members", r.Members}, {"lines", r.Lines}, {"danmaku", r.Danmaku}, {"items", r.Items},
				{"created", r.Created.Local().Format(time.DateTime)}, {"active", r.Active.Local().Format(time.DateTime)}} {
				fmt.Fprintf(tab, "%s\t%v\n", row[0], row[1])
			}
			return tab.Flush()
		})
	})
}

type roomsCloseCmd struct {
	someRoom
	Yes bool `help:"Do it unasked."`
}

// Run lets a server close a room.
func (cmd *roomsCloseCmd) Run(ctx context.Context, c *console) error {
	return cmd.with(ctx, c, func(db *sqldb.DB, s rooms.Summary) error {
		if err := confirmed(c, cmd.Yes, fmt.Sprintf("%s (%s) is closed for its %d members.", s.Name, s.ID, s.Members)); err != nil {
			return err
		}
		if err := rooms.EnqueueClose(ctx, db, s.ID); err != nil {
			return err
		}
		return c.result(map[string]any{"room": s.ID.String()}, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, "A server closes it, now or when it starts.")
			return err
		})
	})
}
