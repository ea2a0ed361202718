package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/keyspace"
)

// keysCmd is about the declared keys and channels, and what a Redis holds of them.
type keysCmd struct {
	List keysListCmd `cmd:"" help:"List every declared family of keys and channels."`
	Lint keysLintCmd `cmd:"" help:"Check the declarations, and prove that no key belongs to two families."`
	Doc  keysDocCmd  `cmd:"" help:"Write the catalogue of all families."`
	Diff keysDiffCmd `cmd:"" help:"Say what changed since a lock file was written, or write it."`
	ACL  keysACLCmd  `cmd:"" name:"acl" help:"Write the lines of Redis' ACL file for a server of Stoa and for those who look after it."`

	Explain keysExplainCmd `cmd:"" help:"Say what a key or channel is, and what is there."`
	liveKeys
}

// settingsOf are the settings of the subcommands that have some.
func (r *keysCmd) settingsOf() []*settings {
	return append([]*settings{&r.Explain.settings, &r.ACL.settings}, r.liveKeys.settingsOf()...)
}

type keysListCmd struct {
	Owner string `placeholder:"NAME" help:"Only families of this owner."`
	Type  string `placeholder:"TYPE" help:"Only families of this type: string, hash, set, zset, list, stream or channel."`
}

// Run lists the families that were asked for.
func (cmd *keysListCmd) Run(c *console) error {
	cat := keyspace.NewCatalogue(app.Keys()...)
	cat.Families = slices.DeleteFunc(cat.Families, func(e keyspace.Entry) bool {
		return cmd.Owner != "" && e.Owner != cmd.Owner || cmd.Type != "" && e.Type != cmd.Type
	})
	if len(cat.Families) == 0 {
		return fmt.Errorf("%w: no such family", errNothing)
	}
	return c.result(cat, func(w io.Writer) error {
		tab := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
		fmt.Fprintln(tab, "OWNER\tPATTERN\tTYPE\tLIFE\tPURPOSE")
		for _, e := range cat.Families {
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", e.Owner, e.Pattern, e.Type, e.Lives(), e.Purpose)
		}
		return tab.Flush()
	})
}

type keysLintCmd struct{}

// Run lists every fault; one makes it fail.
func (keysLintCmd) Run(c *console) error {
	schemas := app.Keys()
	faults := []string{}
	if err := keyspace.Lint(schemas...); err != nil {
		faults = strings.Split(err.Error(), "\n")
	}
	n := len(keyspace.NewCatalogue(schemas...).Families)
	err := c.result(map[string]any{"families": n, "faults": faults}, func(w io.Writer) error {
		for _, f := range faults {
			fmt.Fprintln(w, f)
		}
		_, err := fmt.Fprintf(w, "%d families, %d faults.\n", n, len(faults))
		return err
	})
	if err == nil && len(faults) > 0 {
		err = errDiffers
	}
	return err
}

type keysDocCmd struct {
	HTML bool `name:"html" help:"As one page of HTML that needs nothing else, instead of Markdown."`
}

// Run writes the catalogue.
func (cmd *keysDocCmd) Run(c *console) error {
	cat := keyspace.NewCatalogue(app.Keys()...)
	return c.result(cat, func(w io.Writer) error {
		text := cat.Markdown()
		if cmd.HTML {
			text = cat.HTML("Keys of Stoa")
		}
		_, err := io.WriteString(w, text)
		return err
	})
}

type keysDiffCmd struct {
	File  string `arg:"" optional:"" default:"keyspace.lock" help:"The lock file; keyspace.lock in this folder by default."`
	Write bool   `help:"Write what is declared now into the file, unless a layout changed without a new version."`
}

// errLayout reports changes that a lock file must not take over.
var errLayout = errors.New("the lock file stays as it is: a layout changed without a new version")

// Run compares, and ends with its own code when something differs.
func (cmd *keysDiffCmd) Run(c *console) error {
	now := keyspace.NewLock(app.Keys()...)
	text, err := os.ReadFile(cmd.File)
	if err != nil && (!cmd.Write || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	was, err := keyspace.ParseLock(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.File, err)
	}
	changes := append([]keyspace.Change{}, was.Diff(now)...)
	faults := keyspace.Faults(changes)
	write := cmd.Write && len(faults) == 0
	if write {
		if err := os.WriteFile(cmd.File, []byte(now.String()), 0o644); err != nil {
			return err
		}
	}
	err = c.result(map[string]any{"changes": changes, "faults": len(faults), "written": write}, func(w io.Writer) error {
		for _, change := range changes {
			fmt.Fprintln(w, change)
		}
		if len(changes) == 0 {
			fmt.Fprintln(w, "Nothing changed.")
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case cmd.Write && !write:
		return errLayout
	case !cmd.Write && len(changes) > 0:
		return errDiffers
	}
	return nil
}

type keysACLCmd struct {
	settings
	Role string `enum:"all,stoa,operator" default:"all" help:"Only the line of this user: stoa, the server itself, or operator, who reads everything and changes nothing."`
	Wide bool   `help:"Allow everything under the prefix instead of each declared family: faster, and another version of Stoa needs no other file."`
	Conf bool   `name:"config-get" help:"Let stoa ask how Redis is set, which a server with checkin.mode = redis does as it starts. Redis then tells it its own password for replication, too."`
	Into string `placeholder:"FILE" help:"Put the lines into this ACL file, in place of those users' former ones, whose passwords stay."`
}

// Run writes one line for each user. A new user's password is a placeholder.
func (cmd *keysACLCmd) Run(c *console) error {
	cfg, _, err := cmd.load()
	if err != nil {
		return err
	}
	server := keyspace.ACL{User: "stoa"}
	if cmd.Conf {
		server.Commands = []string{"config|get"}
	}
	users := []keyspace.ACL{server, {User: "operator", ReadOnly: true, Commands: []string{"latency|latest", "memory|stats"}}}
	users = slices.DeleteFunc(users, func(a keyspace.ACL) bool { return cmd.Role != "all" && cmd.Role != a.User })
	var file []string
	if cmd.Into != "" {
		text, err := os.ReadFile(cmd.Into)
		if err != nil {
			return err
		}
		file = strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	}
	lines := map[string]string{}
	for _, a := range users {
		a.Prefix, a.Wide = cfg.KeyPrefix, cmd.Wide
		at := slices.IndexFunc(file, func(line string) bool { return strings.HasPrefix(line, "user "+a.User+" ") })
		if at < 0 {
			at, file = len(file), append(file, "")
		}
		a.Secret = secretOf(file[at])
		lines[a.User] = a.Line(app.Keys()...)
		file[at] = lines[a.User]
	}
	if cmd.Into != "" {
		if err := os.WriteFile(cmd.Into, []byte(strings.Join(file, "\n")+"\n"), 0o600); err != nil {
			return err
		}
	}
	return c.result(lines, func(w io.Writer) error {
		if cmd.Into != "" {
			return nil
		}
		_, err := fmt.Fprintln(w, strings.Join(file, "\n"))
		return err
	})
}

// secretOf returns the passwords in a user's line as they stand there.
func secretOf(line string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(line), func(rule string) bool {
		return rule != "nopass" && !strings.HasPrefix(rule, "#") && !strings.HasPrefix(rule, ">")
	}), " ")
}
