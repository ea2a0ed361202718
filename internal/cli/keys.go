package cli

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/keyspace"
)

// keysCmd is about the declared keys and channels, and what a Redis holds of them.
type keysCmd struct {
	List keysListCmd `cmd:"" help:"List every declared family of keys and channels."`
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
