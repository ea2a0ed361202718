package cli

import (
	"fmt"
	"io"

	"github.com/stoa-dev/stoa/internal/foundation/obs"
)

type versionCmd struct{}

// Run says which build this is.
func (versionCmd) Run(c *console) error {
	b := obs.Build()
	return c.result(b, func(w io.Writer) error {
		commit := ""
		if b.Commit != "" {
			commit = ", commit " + b.Commit[:min(12, len(b.Commit))]
			if b.Modified {
				commit += " with changes"
			}
		}
		_, err := fmt.Fprintf(w, "stoa %s (%s, %s%s)\n", b.Version, b.Go, b.Platform, commit)
		return err
	})
}
