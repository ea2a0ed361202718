package cli

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/stoa-dev/stoa/internal/obs"
)

type versionCmd struct{}

// versionFlag is the command as a flag, because people try it first.
type versionFlag bool

// BeforeReset runs before any command.
func (versionFlag) BeforeReset(c *console, k *kong.Kong) error {
	err := versionCmd{}.Run(c)
	k.Exit(exitCode(err))
	return err
}

// Run shows the build.
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
