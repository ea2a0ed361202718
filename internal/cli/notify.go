package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

type notifyCmd struct {
	Send notifySendCmd `cmd:"" help:"Tell all users, or a part of them, something: a server puts it into their notices."`
	List notifyListCmd `cmd:"" help:"List what users were told, and how far each has come."`
	Show notifyShowCmd `cmd:"" help:"Show one announcement, and how far it has come."`
	Stop notifyStopCmd `cmd:"" help:"Take an announcement out of everybody's notices, and end its delivery."`
}

// announcer opens the database and calls fn with its announcements.
func (s *settings) announcer(ctx context.Context, c *console, fn func(notices.Admin) error) error {
	return s.database(ctx, c, func(db *sqldb.DB) error { return fn(notices.NewAdmin(db)) })
}

type notifySendCmd struct {
	settings
	Title map[string]string `required:"" mapsep:"none" placeholder:"LANGUAGE=TEXT" help:"A line in one language, such as en=Hello; once for each language. Whoever reads none of them gets English, else the first."`
	Text  map[string]string `mapsep:"none" placeholder:"LANGUAGE=TEXT" help:"What is below the title, in the same language."`
	Link  string            `placeholder:"URL" help:"Where more is to be found: an https address, or a path of this server."`
	Life  time.Duration     `placeholder:"DURATION" help:"How long it stays in users' lists, such as 72h; as long as all notices unless said."`

	Everybody  bool   `help:"It goes to all users."`
	Language   string `enum:",en,zh-CN" default:"" placeholder:"LANGUAGE" help:"It goes to users who read this language: en or zh-CN."`
	Zone       string `placeholder:"ZONE" help:"It goes to users of this time zone, such as Asia/Shanghai."`
	Registered string `name:"registered-from" placeholder:"DAY" help:"It goes to users who registered on this day or later, UTC."`
	Before     string `name:"registered-before" placeholder:"DAY" help:"It goes to users who registered before this day."`
	Active     string `name:"active-since" placeholder:"DAY" help:"It goes to users who are logged in and used that on this day or later."`
	Users      string `placeholder:"FILE" help:"It goes to the users in this file, an id or address in each line; - reads them from standard input."`

	DryRun bool `help:"Say how many users that would be, and tell nobody."`
	Yes    bool `short:"y" help:"Do not ask."`
}

// Validate implements kong's interface.
func (cmd *notifySendCmd) Validate() error {
	narrowed := cmd.Language != "" || cmd.Zone != "" || cmd.Registered != "" || cmd.Before != "" || cmd.Active != ""
	switch {
	case cmd.Everybody && (narrowed || cmd.Users != ""), cmd.Users != "" && narrowed:
		return errors.New("say either --everybody, or --users, or what narrows them down")
	case !cmd.Everybody && !narrowed && cmd.Users == "":
		return errors.New("say to whom it goes; --everybody is all users")
	}
	for tag := range cmd.Text {
		if _, ok := cmd.Title[tag]; !ok {
			return fmt.Errorf("there is a text and no title in %s", tag)
		}
	}
	return nil
}

// draft returns the announcement to send.
func (cmd *notifySendCmd) draft() (d notices.Draft, err error) {
	d = notices.Draft{Texts: map[string]notices.Wording{}, Link: cmd.Link, Lifetime: cmd.Life}
	for tag, title := range cmd.Title {
		d.Texts[tag] = notices.Wording{Title: title, Text: cmd.Text[tag]}
	}
	if cmd.Zone != "" {
		if _, err := civil.LoadZone(cmd.Zone); err != nil {
			return d, usage{fmt.Errorf("--zone: %q is no time zone", cmd.Zone)}
		}
	}
	d.Segment = accounts.Segment{Language: i18n.Language(cmd.Language), Zone: cmd.Zone}
	for _, day := range []struct {
		text string
		at   *time.Time
	}{{cmd.Registered, &d.Segment.RegisteredFrom}, {cmd.Before, &d.Segment.RegisteredBefore}, {cmd.Active, &d.Segment.ActiveSince}} {
		if day.text != "" {
			found, err := dayOf(day.text)
			if err != nil {
				return d, err
			}
			year, month, date := found.Date()
			*day.at = time.Date(year, month, date, 0, 0, 0, 0, time.UTC)
		}
	}
	return d, nil
}

// Run sends an announcement to users.
func (cmd *notifySendCmd) Run(ctx context.Context, c *console) error {
	d, err := cmd.draft()
	if err != nil {
		return err
	}
	return cmd.database(ctx, c, func(db *sqldb.DB) error {
		if cmd.Users != "" {
			if d.Users, err = cmd.named(ctx, db); err != nil {
				return err
			}
		}
		r := notices.NewAdmin(db)
		n, err := r.CountRecipients(ctx, d)
		switch {
		case err != nil:
			return err
		case cmd.DryRun:
			return c.result(map[string]any{"users": n}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "It would go to %s.\n", count(n, "user"))
				return err
			})
		case n == 0:
			return fmt.Errorf("%w: %s", errNothing, notices.ErrNoRecipients.Text)
		}
		if err := confirmed(c, cmd.Yes, fmt.Sprintf("This goes to %s.", count(n, "user"))); err != nil {
			return err
		}
		a, err := r.Announce(ctx, d)
		if err != nil {
			return err
		}
		return c.result(viewAnnouncement(a), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "Announcement %s goes to %s; stoa notify show %s tells how far it has come.\n", a.ID, count(a.Total, "user"),
				a.ID)
			return err
		})
	})
}

// named returns the users of the file. It returns an error with the first line that names no user.
func (cmd *notifySendCmd) named(ctx context.Context, db *sqldb.DB) (users []accounts.ID, err error) {
	in := io.Reader(os.Stdin)
	if cmd.Users != "-" {
		f, err := os.Open(cmd.Users)
		if err != nil {
			return nil, usage{err}
		}
		defer f.Close()
		in = f
	}
	users = []accounts.ID{}
	addresses, keys := map[string]string{}, []string{}
	for lines := bufio.NewScanner(in); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return nil, usage{err}
			}
			break
		}
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if id, err := ids.Parse[accounts.User](line); err == nil {
			users = append(users, id)
			continue
		}
		e, err := emails.Parse(line)
		if err != nil {
			return nil, usage{fmt.Errorf("%q is neither an id nor an address", line)}
		}
		if _, twice := addresses[e.Key]; !twice {
			addresses[e.Key] = line
			keys = append(keys, e.Key)
		}
	}
	found, err := accounts.NewDirectory(db).ByEmail(ctx, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		u, ok := found[key]
		if !ok {
			return nil, fmt.Errorf("%w: no user %s", errNothing, addresses[key])
		}
		users = append(users, u.ID)
	}
	return users, nil
}

// count returns a number with its noun.
func count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// progressText describes the progress of an announcement.
func progressText(a notices.Announcement) string {
	text := string(a.State)
	if a.State == notices.Running && a.Total > 0 {
		text += fmt.Sprintf(", %d%%", min(100, 100*a.Passed/a.Total))
	}
	return text
}

// titleOf returns the English title, or else the first one.
func titleOf(a notices.Announcement) string {
	if w, ok := a.Texts["en"]; ok {
		return w.Title
	}
	return a.Texts[slices.Sorted(maps.Keys(a.Texts))[0]].Title
}

type notifyListCmd struct {
	settings
	Limit int `default:"20" help:"How many at most, the newest first; 1 to 1000."`
}

// Validate implements kong's interface.
func (cmd *notifyListCmd) Validate() error {
	if cmd.Limit < 1 || cmd.Limit > 1000 {
		return errors.New("--limit is 1 to 1000")
	}
	return nil
}

// Run lists announcements.
func (cmd *notifyListCmd) Run(ctx context.Context, c *console) error {
	return cmd.announcer(ctx, c, func(r notices.Admin) error {
		list, err := r.Announcements(ctx, cmd.Limit)
		if err != nil {
			return err
		}
		views := make([]announcementView, len(list))
		for i, a := range list {
			views[i] = viewAnnouncement(a)
		}
		return c.result(map[string]any{"announcements": views}, func(w io.Writer) error {
			if len(list) == 0 {
				_, err := fmt.Fprintln(w, "Users were told nothing yet.")
				return err
			}
			tab := keycli.NewTable(w, 3)
			fmt.Fprintln(tab, "ID\tMADE\tUSERS\tDELIVERED\tSTATE\tTITLE")
			for _, a := range list {
				fmt.Fprintf(tab, "%s\t%s\t%d\t%d\t%s\t%s\n", a.ID, a.Created.Local().Format(time.DateTime), a.Total, a.Delivered, progressText(a),
					titleOf(a))
			}
			return tab.Flush()
		})
	})
}

// announcementView is an announcement in the commands' JSON.
type announcementView struct {
	notices.Announcement
	Created api.Time  `json:"created"`
	Expires *api.Time `json:"expires,omitempty"`
	Started *api.Time `json:"started,omitempty"`
	Ended   *api.Time `json:"ended,omitempty"`
}

func viewAnnouncement(a notices.Announcement) announcementView {
	return announcementView{a, api.At(a.Created), api.AtOrNil(a.Expires), api.AtOrNil(a.Started), api.AtOrNil(a.Ended)}
}

// oneAnnouncement names the announcement of a command.
type oneAnnouncement struct {
	settings
	ID string `arg:"" help:"The announcement's id."`
}

// find calls fn with the announcement's id.
func (cmd *oneAnnouncement) find(ctx context.Context, c *console, fn func(notices.Admin, notices.AnnouncementID) error) error {
	nothing := fmt.Errorf("%w: no announcement %s", errNothing, cmd.ID)
	id, err := ids.Parse[notices.Announcement](cmd.ID)
	if err != nil {
		return nothing
	}
	err = cmd.announcer(ctx, c, func(r notices.Admin) error { return fn(r, id) })
	if errors.Is(err, notices.ErrAnnouncement) {
		return nothing
	}
	return err
}

type notifyShowCmd struct{ oneAnnouncement }

// Run shows an announcement.
func (cmd *notifyShowCmd) Run(ctx context.Context, c *console) error {
	return cmd.find(ctx, c, func(r notices.Admin, id notices.AnnouncementID) error {
		a, err := r.Announcement(ctx, id)
		if err != nil {
			return err
		}
		return c.result(viewAnnouncement(a), func(w io.Writer) error {
			tab := keycli.NewTable(w, 2)
			at := func(name string, t time.Time) {
				if !t.IsZero() {
					fmt.Fprintf(tab, "%s\t%s\n", name, t.Local().Format(time.DateTime))
				}
			}
			fmt.Fprintf(tab, "id\t%s\nstate\t%s\nusers\t%d\npassed\t%d\ndelivered\t%d\n", a.ID, progressText(a), a.Total, a.Passed, a.Delivered)
			at("made", a.Created)
			at("begun", a.Started)
			at("ended", a.Ended)
			at("expires", a.Expires)
			fmt.Fprintf(tab, "link\t%s\n", cmp.Or(a.Link, "–"))
			for _, tag := range slices.Sorted(maps.Keys(a.Texts)) {
				fmt.Fprintf(tab, "title, %s\t%s\ntext, %s\t%s\n", tag, a.Texts[tag].Title, tag,
					cmp.Or(strings.ReplaceAll(a.Texts[tag].Text, "\n", " "), "–"))
			}
			return tab.Flush()
		})
	})
}

type notifyStopCmd struct{ oneAnnouncement }

// Run stops an announcement.
func (cmd *notifyStopCmd) Run(ctx context.Context, c *console) error {
	return cmd.find(ctx, c, func(r notices.Admin, id notices.AnnouncementID) error {
		a, err := r.Stop(ctx, id)
		if err != nil {
			return err
		}
		return c.result(viewAnnouncement(a), func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "Announcement %s is in nobody's notices any more. %s had got it.\n", a.ID, count(a.Delivered, "user"))
			return err
		})
	})
}
