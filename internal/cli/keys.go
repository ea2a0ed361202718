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
	liveKeys
}

// settingsOf are the settings of the subcommands that have some.
func (r *keysCmd) settingsOf() []*settings { return r.liveKeys.settingsOf() }

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
