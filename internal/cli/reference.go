package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/stoa-dev/stoa/internal/cli/reference"
)

type referenceCmd struct {
	Dir string `arg:"" help:"Folder to write them to."`
}

// Run writes every page.
func (cmd *referenceCmd) Run(ctx context.Context, c *console) error {
	files, err := reference.Write(ctx, cmd.Dir, reference.Program{Model: c.model, ExitCodes: exitCodes})
	if err != nil {
		return err
	}
	return c.result(files, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, strings.Join(files, "\n"))
		return err
	})
}
