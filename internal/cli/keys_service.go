package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

type keysServiceCmd struct {
	Create keysServiceCreateCmd `cmd:"" help:"Make a key for an app's own backend, and show it this once."`
	List   keysServiceListCmd   `cmd:"" help:"List the keys, with what each may do and when it was last used."`
	Revoke keysServiceRevokeCmd `cmd:"" help:"End a key; servers refuse it within two seconds."`
	Rotate keysServiceRotateCmd `cmd:"" help:"Give a key another secret, and show it this once; the old one is good for a while still."`
}

// serviceKeys opens the database and calls fn with its keys.
func (s *settings) serviceKeys(ctx context.Context, c *console, fn func(servicekeys.Admin) error) error {
	return s.database(ctx, c, func(db *sqldb.DB) error {
		err := fn(servicekeys.NewAdmin(db))
		if errors.Is(err, servicekeys.ErrUnknown) {
			err = fmt.Errorf("%w: no service key of this name", errNothing)
		}
		return err
	})
}

// serviceKeyView is a key in the commands' JSON.
type serviceKeyView struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Scopes   []string  `json:"scopes"`
	Rate     int       `json:"rate"` // requests per minute
	Created  api.Time  `json:"created"`
	Expires  *api.Time `json:"expires,omitempty"`
	Used     *api.Time `json:"used,omitempty"`
	OldUntil *api.Time `json:"old_until,omitempty"`
	Token    string    `json:"token,omitempty"`
}

func viewServiceKey(k servicekeys.Key) serviceKeyView {
	v := serviceKeyView{ID: k.ID.String(), Name: k.Name, Rate: k.Rate, Created: api.At(k.Created), Expires: api.AtOrNil(k.Expires),
		Used: api.AtOrNil(k.Used), OldUntil: api.AtOrNil(k.OldUntil)}
	for _, s := range k.Scopes {
		v.Scopes = append(v.Scopes, string(s))
	}
	return v
}

type keysServiceCreateCmd struct {
	settings
	Name  string        `arg:"" help:"What the key is called, here and in the trail of what it did."`
	Scope []string      `required:"" help:"What the key may do, such as users:write; several, separated by commas: users:read, users:write, users:ban, users:erase, tokens:issue, messages:send, groups:manage, and read and write of chats, groups, friends, checkin."`
	Rate  int           `default:"6000" help:"How many requests a minute it may make; 1 to 1000000."`
	Life  time.Duration `help:"How long the key is good, such as 8760h; for ever when left out."`
}

// Validate implements kong's interface.
func (cmd *keysServiceCreateCmd) Validate() error {
	switch {
	case cmd.Rate < 1 || cmd.Rate > 1_000_000:
		return errors.New("--rate is 1 to 1000000")
	case cmd.Life < 0:
		return errors.New("--life is a time such as 8760h")
	}
	_, err := servicekeys.ParseScopes(cmd.Scope)
	return err
}

// Run creates a key.
func (cmd *keysServiceCreateCmd) Run(ctx context.Context, c *console) error {
	scopes, err := servicekeys.ParseScopes(cmd.Scope)
	if err != nil {
		return err
	}
	return cmd.serviceKeys(ctx, c, func(d servicekeys.Admin) error {
		k, token, err := d.Create(ctx, cmd.Name, scopes, cmd.Rate, cmd.Life)
		if err != nil {
			return err
		}
		v := viewServiceKey(k)
		v.Token = token
		return c.result(v, func(w io.Writer) error {
			fmt.Fprintln(c.err, "Keep this key secret. Nobody can be shown it again.")
			_, err := fmt.Fprintln(w, token)
			return err
		})
	})
}

type keysServiceListCmd struct{ settings }

// Run lists all keys.
func (cmd *keysServiceListCmd) Run(ctx context.Context, c *console) error {
	return cmd.serviceKeys(ctx, c, func(d servicekeys.Admin) error {
		list, err := d.List(ctx)
		if err != nil {
			return err
		}
		views := make([]serviceKeyView, 0, len(list))
		for _, k := range list {
			views = append(views, viewServiceKey(k))
		}
		return c.result(map[string]any{"keys": views}, func(w io.Writer) error {
			if len(views) == 0 {
				_, err := fmt.Fprintln(w, "No service keys.")
				return err
			}
			local := func(t *api.Time, none string) string {
				if t == nil {
					return none
				}
				return t.Local().Format(time.DateTime)
			}
			tab := keycli.NewTable(w, 3)
			fmt.Fprintln(tab, "NAME\tSCOPES\tPER MINUTE\tCREATED\tEXPIRES\tLAST USED")
			for _, v := range views {
				fmt.Fprintf(tab, "%s\t%s\t%d\t%s\t%s\t%s\n", v.Name, cmp.Or(strings.Join(v.Scopes, " "), "–"), v.Rate,
					v.Created.Local().Format(time.DateOnly), local(v.Expires, "never"), local(v.Used, "never"))
			}
			return tab.Flush()
		})
	})
}

type keysServiceRevokeCmd struct {
	settings
	Name string `arg:"" help:"The key's name."`
	Yes  bool   `short:"y" help:"Do not ask."`
}

// Run revokes a key.
func (cmd *keysServiceRevokeCmd) Run(ctx context.Context, c *console) error {
	if err := confirmed(c, cmd.Yes, fmt.Sprintf("What calls with the key %q will be refused.", cmd.Name)); err != nil {
		return err
	}
	return cmd.serviceKeys(ctx, c, func(d servicekeys.Admin) error {
		if err := d.Revoke(ctx, cmd.Name); err != nil {
			return err
		}
		return c.result(map[string]any{"revoked": cmd.Name}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "The key %q is revoked.\n", cmd.Name)
			return err
		})
	})
}

type keysServiceRotateCmd struct {
	settings
	Name    string        `arg:"" help:"The key's name."`
	Overlap time.Duration `default:"24h" help:"How long the old secret is good still; 0 is not at all."`
}

// Validate implements kong's interface.
func (cmd *keysServiceRotateCmd) Validate() error {
	if cmd.Overlap < 0 {
		return errors.New("--overlap is a time such as 24h")
	}
	return nil
}

// Run replaces the secret of a key.
func (cmd *keysServiceRotateCmd) Run(ctx context.Context, c *console) error {
	return cmd.serviceKeys(ctx, c, func(d servicekeys.Admin) error {
		token, until, err := d.Rotate(ctx, cmd.Name, cmd.Overlap)
		if err != nil {
			return err
		}
		return c.result(map[string]any{"name": cmd.Name, "token": token, "old_until": api.At(until)}, func(w io.Writer) error {
			fmt.Fprintf(c.err, "Keep this key secret. Nobody can be shown it again. The old one is good until %s.\n",
				until.Local().Format(time.DateTime))
			_, err := fmt.Fprintln(w, token)
			return err
		})
	})
}
