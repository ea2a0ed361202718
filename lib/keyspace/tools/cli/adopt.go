package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stoa-dev/stoa/lib/keyspace/tools/adopt"
)

// Adopt proposes declarations for the keys of an existing Redis.
type Adopt struct {
	Match   string `placeholder:"PATTERN" help:"Only read keys that match, with * and ?."`
	Rate    int    `placeholder:"N" help:"The largest number of names per second."`
	Package string `default:"keys" placeholder:"NAME" help:"The package of the source."`
	Out     string `short:"o" default:"-" placeholder:"FILE" help:"The file to write, which must not exist yet; - is standard output."`
}

// Run writes the source, or with --json the layout.
func (cmd *Adopt) Run(ctx context.Context, c *Console, s *Server) (err error) {
	if cmd.Rate < 0 {
		return usageError{errors.New("--rate must be positive")}
	}
	db, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	bar := c.Progress("adopt")
	layout, err := adopt.Read(ctx, db, adopt.Options{Match: cmd.Match, Rate: cmd.Rate, Progress: func(names int64) {
		bar.Show(0, 0, Count(names, "key"))
	}})
	bar.End()
	if err != nil {
		return err
	}
	if layout.Keys == 0 {
		return fmt.Errorf("%w: no key matches", ErrNothing)
	}
	source, err := layout.Source(cmd.Package)
	if err != nil {
		return usageError{err}
	}
	return c.Result(layout, func(w io.Writer) error {
		if cmd.Out == "-" {
			_, err := w.Write(source)
			return err
		}
		f, err := os.OpenFile(cmd.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return usageError{err}
		}
		if _, err = f.Write(source); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "Wrote %s of %s to %s. Complete the purposes, and the reasons why keys never expire.\n",
			Count(int64(len(layout.Families)), "pattern"), Count(layout.Keys, "key"), cmd.Out)
		return err
	})
}
