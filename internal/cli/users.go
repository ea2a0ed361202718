package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

type usersCmd struct {
	List     usersListCmd     `cmd:"" help:"List accounts."`
	Search   usersSearchCmd   `cmd:"" help:"Find accounts by id, the beginning of the address, or a part of the name."`
	Show     usersShowCmd     `cmd:"" help:"Show one account, and how many friends, requests and blocks it has."`
	Sessions usersSessionsCmd `cmd:"" help:"List the devices that a user has logged in."`
	Events   usersEventsCmd   `cmd:"" help:"List what happened to the security of an account: log-ins, failures, locks, changes, what operators did."`
	Kick     usersKickCmd     `cmd:"" help:"Log a device of a user out, or all."`
	Ban      usersBanCmd      `cmd:"" help:"Keep a user from logging in, and log all devices out."`
	Unban    usersUnbanCmd    `cmd:"" help:"Let a user log in again."`
	Delete   usersDeleteCmd   `cmd:"" settings:"data,sql,log,accounts.grace" help:"Delete an account; logging in takes that back until it is erased."`
	Restore  usersRestoreCmd  `cmd:"" help:"Take the deletion of an account back."`
}

// followWait is how long a command waits for a server to apply a change.
const followWait = 10 * time.Second

// userView is an account in the commands' JSON.
type userView struct {
	ID       string    `json:"id"`
	Email    string    `json:"email"`
	Name     string    `json:"name"`
	State    string    `json:"state"` // active, banned, deleted or erased
	Created  api.Time  `json:"created"`
	Sessions int       `json:"sessions"`
	Banned   *api.Time `json:"banned_until,omitempty"` // absent: without an end
	Reason   string    `json:"ban_reason,omitempty"`
	Erased   *api.Time `json:"erased,omitempty"` // time of the past or future erasure

	Bio         string `json:"bio,omitempty"`
	Avatar      string `json:"avatar,omitempty"`
	Zone        string `json:"zone"`
	HasPassword bool   `json:"has_password"`
	FindByID    bool   `json:"find_by_id"`
	FindByEmail bool   `json:"find_by_email"`
	Requests    bool   `json:"requests"`
}

// The states of an account.
const (
	stateActive  = "active"
	stateBanned  = "banned"
	stateDeleted = "deleted" // can be restored
	stateErased  = "erased"
)

func viewUser(a accounts.Account, now time.Time) userView {
	v := userView{ID: a.ID.String(), Email: a.Email, Name: a.Name, State: stateActive, Created: api.At(a.Created), Sessions: a.Sessions,
		Bio: a.Bio, Avatar: a.Avatar, Zone: a.Clock.In(now), HasPassword: a.HasPassword,
		FindByID: a.FindByID, FindByEmail: a.FindByEmail, Requests: a.Requests}
	if now.Before(a.Banned) {
		v.State, v.Reason = stateBanned, a.Reason
		if a.Banned.Before(accounts.Forever) {
			v.Banned = new(api.At(a.Banned))
		}
	}
	if a.Deleted() {
		v.State, v.Erased = stateDeleted, new(api.At(a.Erased))
	}
	if a.Deleted() && a.Email == "" {
		v.State = stateErased
	}
	return v
}

// about returns the state and its end.
func (v userView) about() string {
	local := func(t *api.Time) string { return t.Local().Format(time.DateTime) }
	switch {
	case v.State == stateBanned && v.Banned == nil:
		return "banned for ever"
	case v.State == stateBanned:
		return "banned until " + local(v.Banned)
	case v.State == stateDeleted:
		return "deleted, erased on " + local(v.Erased)
	case v.State == stateErased:
		return "erased on " + local(v.Erased)
	}
	return v.State
}

// directory opens the database and calls fn with its accounts.
func (s *settings) directory(ctx context.Context, c *console, fn func(accounts.Directory) error) error {
	return s.database(ctx, c, func(db *sqldb.DB) error { return fn(accounts.NewDirectory(db)) })
}

// someone names the account of a command.
type someone struct {
	settings
	User string `arg:"" name:"user" help:"The user's id or address."`
}

// find opens the database and calls fn with the account.
func (cmd *someone) find(ctx context.Context, c *console, fn func(accounts.Directory, accounts.Account) error) error {
	return cmd.findIn(ctx, c, func(db *sqldb.DB, a accounts.Account) error { return fn(accounts.NewDirectory(db), a) })
}

// findIn is find for data outside the accounts' tables.
func (cmd *someone) findIn(ctx context.Context, c *console, fn func(*sqldb.DB, accounts.Account) error) error {
	return cmd.database(ctx, c, func(db *sqldb.DB) error {
		a, err := accounts.NewDirectory(db).Find(ctx, strings.TrimSpace(cmd.User))
		if err == nil {
			err = fn(db, a)
		}
		switch {
		case errors.Is(err, accounts.ErrNoUser) && a.Deleted():
			return fmt.Errorf("%w: the account of %s is erased", errNothing, cmd.User)
		case errors.Is(err, accounts.ErrNoUser):
			return fmt.Errorf("%w: no user %s", errNothing, cmd.User)
		}
		return err
	})
}

// followed waits until a server has applied a change of a user, and shows the result.
func (cmd *someone) followed(ctx context.Context, c *console, d accounts.Directory, user accounts.ID, result map[string]any,
	text string) error {
	err := wait(ctx, d, user)
	result["user"], result["followed"] = user.String(), err == nil
	shown := c.result(result, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	})
	return cmp.Or(shown, err)
}

// errNotFollowed reports a change that no server has applied.
var errNotFollowed = fmt.Errorf("%w The change stands in the database; servers that run may go by old copies until one has followed",
	errNotTaken)

func wait(ctx context.Context, d accounts.Directory, user accounts.ID) error {
	for end := time.Now().Add(followWait); ; {
		waiting, dead, err := d.Unapplied(ctx, user)
		switch {
		case err != nil:
			return err
		case dead > 0:
			return fmt.Errorf("a server failed to follow: see stoa queue list --dead --topic %s", accounts.TopicChanged)
		case waiting == 0:
			return nil
		case time.Now().After(end):
			return errNotFollowed
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// confirmed asks for confirmation on a terminal. Elsewhere it requires --yes.
func confirmed(c *console, yes bool, question string) error {
	if yes {
		return nil
	}
	if c.json || !isatty.IsTerminal(os.Stdin.Fd()) {
		return usage{errors.New("nobody can be asked here: --yes does it unasked")}
	}
	fmt.Fprintf(c.err, "%s Go on? [y/N] ", question)
	return agreement(os.Stdin)
}

// agreement reads yes, or returns errDeclined.
func agreement(r io.Reader) error {
	line, err := bufio.NewReader(r).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return cmp.Or(err, errDeclined)
}

// usersPage selects a page of a list.
type usersPage struct {
	Limit int    `default:"50" help:"How many at most, up to 1000."`
	After string `placeholder:"ID" help:"Go on after this account: the last one of the page before."`
}

func (p *usersPage) Validate() error {
	if p.Limit < 1 || p.Limit > 1000 {
		return errors.New("--limit is 1 to 1000")
	}
	if _, err := p.after(); err != nil {
		return fmt.Errorf("--after: %q is not an id", p.After)
	}
	return nil
}

func (p *usersPage) after() (id accounts.ID, err error) {
	if p.After == "" {
		return id, nil
	}
	return ids.Parse[accounts.User](p.After)
}

// show writes a page.
func (p *usersPage) show(c *console, list []accounts.Account) error {
	now, next := time.Now(), ""
	views := make([]userView, 0, len(list))
	for _, a := range list {
		views = append(views, viewUser(a, now))
	}
	if len(views) == p.Limit {
		next = views[len(views)-1].ID
	}
	return c.result(map[string]any{"users": views, "next": next}, func(w io.Writer) error {
		if len(views) == 0 {
			_, err := fmt.Fprintln(w, "No accounts.")
			return err
		}
		tab := keycli.NewTable(w, 3)
		fmt.Fprintln(tab, "ID\tADDRESS\tNAME\tDEVICES\tCREATED\tSTATE")
		for _, v := range views {
			fmt.Fprintf(tab, "%s\t%s\t%s\t%d\t%s\t%s\n", v.ID, cmp.Or(v.Email, "–"), cmp.Or(v.Name, "–"), v.Sessions,
				v.Created.Local().Format(time.DateOnly), v.about())
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

type usersListCmd struct {
	settings
	usersPage
}

// Run lists one page, by id.
func (cmd *usersListCmd) Run(ctx context.Context, c *console) error {
	after, err := cmd.after()
	if err != nil {
		return err
	}
	return cmd.directory(ctx, c, func(d accounts.Directory) error {
		list, err := d.List(ctx, after, cmd.Limit)
		if err != nil {
			return err
		}
		return cmd.show(c, list)
	})
}

type usersSearchCmd struct {
	settings
	usersPage
	Text string `arg:"" help:"What to look for. Every account is looked at."`
}

// Run lists one page of the results, by id.
func (cmd *usersSearchCmd) Run(ctx context.Context, c *console) error {
	after, err := cmd.after()
	if err != nil {
		return err
	}
	text := strings.TrimSpace(cmd.Text)
	if text == "" {
		return usage{errors.New("there is nothing to look for")}
	}
	return cmd.directory(ctx, c, func(d accounts.Directory) error {
		list, err := d.Search(ctx, text, after, cmd.Limit)
		if err == nil && len(list) == 0 {
			err = fmt.Errorf("%w: no account has %q", errNothing, text)
		}
		if err != nil {
			return err
		}
		return cmd.show(c, list)
	})
}

type usersShowCmd struct{ someone }

// userPage is an account with figures of its relations to other users.
type userPage struct {
	userView
	Friends     int `json:"friends"`
	RequestsIn  int `json:"requests_in"`
	RequestsOut int `json:"requests_out"`
	Blocks      int `json:"blocks"`
}

// Run shows an account, even if it is erased.
func (cmd *usersShowCmd) Run(ctx context.Context, c *console) error {
	return cmd.findIn(ctx, c, func(db *sqldb.DB, a accounts.Account) error {
		n, err := social.Count(ctx, db, a.ID)
		if err != nil {
			return err
		}
		v := userPage{viewUser(a, time.Now()), n.Friends, n.RequestsIn, n.RequestsOut, n.Blocks}
		return c.result(v, func(w io.Writer) error {
			tab := keycli.NewTable(w, 2)
			line := func(name, text string) {
				if text != "" {
					fmt.Fprintf(tab, "%s\t%s\n", name, text)
				}
			}
			yes := func(b bool) string {
				if b {
					return "yes"
				}
				return "no"
			}
			line("id", v.ID)
			line("address", v.Email)
			line("name", v.Name)
			line("state", v.about())
			line("reason", v.Reason)
			line("created", v.Created.Local().Format(time.DateTime))
			if v.State != stateErased {
				line("devices", fmt.Sprint(v.Sessions))
				line("password", yes(v.HasPassword))
				line("zone", v.Zone)
				line("bio", strings.ReplaceAll(v.Bio, "\n", " "))
				line("avatar", v.Avatar)
				line("found by", strings.Join(foundBy(v.userView), ", "))
				line("takes requests", yes(v.Requests))
				line("friends", fmt.Sprint(v.Friends))
				line("requests", fmt.Sprintf("%d to answer, %d sent", v.RequestsIn, v.RequestsOut))
				line("blocks", fmt.Sprint(v.Blocks))
			}
			return tab.Flush()
		})
	})
}

// foundBy returns how other users may find a user.
func foundBy(v userView) (by []string) {
	if v.FindByID {
		by = append(by, "id")
	}
	if v.FindByEmail {
		by = append(by, "address")
	}
	if by == nil {
		by = []string{"nothing"}
	}
	return by
}

type usersSessionsCmd struct{ someone }

// sessionView is a session in the command's JSON.
type sessionView struct {
	Device  string   `json:"device"`
	Name    string   `json:"name"`
	Agent   string   `json:"agent,omitempty"`
	IP      string   `json:"ip"`
	Created api.Time `json:"created"`
	Used    api.Time `json:"used"`
}

// Run lists the sessions in SQL. The time of their last use may be ten minutes old.
func (cmd *usersSessionsCmd) Run(ctx context.Context, c *console) error {
	return cmd.find(ctx, c, func(d accounts.Directory, a accounts.Account) error {
		list, err := d.Sessions(ctx, a.ID)
		if err != nil {
			return err
		}
		views := make([]sessionView, 0, len(list))
		for _, s := range list {
			views = append(views, sessionView{s.Device.String(), s.Name, s.Agent, s.IP, api.At(s.Created), api.At(s.Used)})
		}
		return c.result(map[string]any{"user": a.ID.String(), "sessions": views}, func(w io.Writer) error {
			if len(views) == 0 {
				_, err := fmt.Fprintln(w, "No device is logged in.")
				return err
			}
			tab := keycli.NewTable(w, 3)
			fmt.Fprintln(tab, "DEVICE\tNAME\tADDRESS\tLOGGED IN\tUSED\tPROGRAM")
			for _, s := range views {
				fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Device, cmp.Or(s.Name, "–"), cmp.Or(s.IP, "–"),
					s.Created.Local().Format(time.DateTime), s.Used.Local().Format(time.DateTime), oneLine(s.Agent))
			}
			return tab.Flush()
		})
	})
}

type usersEventsCmd struct {
	someone
	Limit int    `default:"50" help:"How many at most, up to 1000."`
	After string `placeholder:"CURSOR" help:"Go on where the page before ended."`
}

func (cmd *usersEventsCmd) Validate() error {
	if cmd.Limit < 1 || cmd.Limit > 1000 {
		return errors.New("--limit is 1 to 1000")
	}
	return nil
}

// eventView is a security event in the command's JSON.
type eventView struct {
	Time   api.Time `json:"time"`
	Kind   string   `json:"kind"`
	Device string   `json:"device,omitempty"`
	From   string   `json:"from,omitempty"`
}

// Run lists one page, the newest first.
func (cmd *usersEventsCmd) Run(ctx context.Context, c *console) error {
	return cmd.find(ctx, c, func(d accounts.Directory, a accounts.Account) error {
		list, next, err := d.Events(ctx, a.ID, cmd.After, cmd.Limit)
		if errors.Is(err, trail.ErrCursor) {
			return usage{fmt.Errorf("--after: %q is no cursor", cmd.After)}
		} else if err != nil {
			return err
		}
		views := make([]eventView, 0, len(list))
		for _, e := range list {
			views = append(views, eventView{api.At(e.At), string(e.Kind), e.Device, e.ClientNet})
		}
		return c.result(map[string]any{"user": a.ID.String(), "events": views, "next": next}, func(w io.Writer) error {
			if len(views) == 0 {
				_, err := fmt.Fprintln(w, "Nothing happened within 90 days.")
				return err
			}
			tab := keycli.NewTable(w, 3)
			fmt.Fprintln(tab, "TIME\tEVENT\tFROM\tDEVICE")
			for _, v := range views {
				fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", v.Time.Local().Format(time.DateTime), v.Kind, cmp.Or(v.From, "–"), cmp.Or(v.Device, "–"))
			}
			if err := tab.Flush(); err != nil {
				return err
			}
			if next != "" {
				fmt.Fprintln(c.err, "There may be more: --after "+next)
			}
			return nil
		})
	})
}

type usersKickCmd struct {
	someone
	unasked
	Device string `arg:"" optional:"" help:"The device, as stoa users sessions names it."`
	All    bool   `help:"All devices."`
}

func (cmd *usersKickCmd) Validate() error {
	if (cmd.Device == "") != cmd.All {
		return errors.New("name a device, or say --all")
	}
	return nil
}

// Run ends sessions.
func (cmd *usersKickCmd) Run(ctx context.Context, c *console) error {
	return cmd.find(ctx, c, func(d accounts.Directory, a accounts.Account) error {
		nobody := fmt.Errorf("%w: %s has no device %s logged in", errNothing, a.ID, cmd.Device)
		var device accounts.DeviceID
		if !cmd.All {
			var err error
			if device, err = ids.Parse[accounts.Session](cmd.Device); err != nil {
				return nobody
			}
		}
		n, err := d.Kick(ctx, a.ID, device)
		if errors.Is(err, accounts.ErrNoSession) {
			return nobody
		} else if err != nil {
			return err
		}
		return cmd.followed(ctx, c, d, a.ID, map[string]any{"ended": n}, keycli.Count(int64(n), "device")+" logged out.")
	})
}

type usersBanCmd struct {
	someone
	For    *time.Duration `placeholder:"72h" help:"For how long."`
	Until  time.Time      `placeholder:"TIME" help:"Until when, such as 2027-01-31T12:00:00Z."`
	Reason string         `placeholder:"TEXT" help:"Why; the user is shown it."`
	Yes    bool           `help:"Do not ask."`
}

func (cmd *usersBanCmd) Validate() error {
	switch {
	case cmd.For != nil && !cmd.Until.IsZero():
		return errors.New("say --for or --until, or neither: for ever")
	case cmd.For != nil && *cmd.For <= 0:
		return errors.New("--for is more than nothing")
	}
	return nil
}

// Run bans.
func (cmd *usersBanCmd) Run(ctx context.Context, c *console) error {
	return cmd.find(ctx, c, func(d accounts.Directory, a accounts.Account) error {
		until, text := accounts.Forever, "for ever"
		switch {
		case cmd.For != nil:
			until = time.Now().Add(*cmd.For)
		case !cmd.Until.IsZero():
			until = cmd.Until
		}
		result := map[string]any{"banned": true, "reason": cmd.Reason}
		if until = until.UTC().Truncate(time.Millisecond); until.Before(accounts.Forever) {
			text, result["until"] = "until "+until.Local().Format(time.DateTime), api.At(until)
		}
		if err := confirmed(c, cmd.Yes, fmt.Sprintf("%s (%s) will be banned %s.", a.Name, a.Email, text)); err != nil {
			return err
		}
		if err := d.Ban(ctx, a.ID, until, cmd.Reason); errors.Is(err, accounts.ErrBan) {
			return usage{err}
		} else if err != nil {
			return err
		}
		return cmd.followed(ctx, c, d, a.ID, result, fmt.Sprintf("%s is banned %s.", a.ID, text))
	})
}

// unasked is for commands that never ask for confirmation, but accept the flag of those that do.
type unasked struct {
	Yes bool `help:"Do not ask; this command never does."`
}

type usersUnbanCmd struct {
	someone
	unasked
}

// Run ends a ban. It succeeds if there is none.
func (cmd *usersUnbanCmd) Run(ctx context.Context, c *console) error {
	return cmd.find(ctx, c, func(d accounts.Directory, a accounts.Account) error {
		if err := d.Unban(ctx, a.ID); err != nil {
			return err
		}
		return cmd.followed(ctx, c, d, a.ID, map[string]any{"banned": false}, a.ID.String()+" is not banned.")
	})
}

type usersDeleteCmd struct {
	someone
	Now bool `help:"Have it erased at once: nothing can be brought back."`
	Yes bool `help:"Do not ask."`
}

// Run deletes an account. A server erases it after the grace period.
func (cmd *usersDeleteCmd) Run(ctx context.Context, c *console) error {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	grace, question := cfg.Accounts.Grace, "%s (%s) will be deleted, and can be brought back for a while."
	if cmd.Now {
		grace, question = 0, "%s (%s) will be erased for good."
	}
	return cmd.find(ctx, c, func(d accounts.Directory, a accounts.Account) error {
		if err := confirmed(c, cmd.Yes, fmt.Sprintf(question, a.Name, a.Email)); err != nil {
			return err
		}
		erased, err := d.Delete(ctx, a.ID, grace)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s is deleted, and will be erased on %s.", a.ID, erased.Local().Format(time.DateTime))
		if cmd.Now {
			text = a.ID.String() + " is deleted, and will be erased within seconds where a server runs."
		}
		return cmd.followed(ctx, c, d, a.ID, map[string]any{"erased": erased}, text)
	})
}

type usersRestoreCmd struct {
	someone
	unasked
}

// Run cancels a deletion.
func (cmd *usersRestoreCmd) Run(ctx context.Context, c *console) error {
	return cmd.find(ctx, c, func(d accounts.Directory, a accounts.Account) error {
		if err := d.Restore(ctx, a.ID); err != nil {
			return err
		}
		return cmd.followed(ctx, c, d, a.ID, map[string]any{"restored": true}, a.ID.String()+" is back.")
	})
}
