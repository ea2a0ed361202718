package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	keycli "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
)

// pollEvery is the interval between checks for an expected mail.
const pollEvery = 200 * time.Millisecond

type mailCmd struct {
	settings
	Server string        `env:"STOA_SERVER" placeholder:"URL" help:"The server to ask; else the one at the address in the settings."`
	To     string        `placeholder:"ADDRESS" help:"Only mails to this address."`
	Code   bool          `help:"Only the code in the newest mail that has one."`
	Wait   time.Duration `placeholder:"DURATION" help:"How long to wait for such a mail, such as 10s. One that is older than that counts if no newer one comes."`
}

// Run reads mails from the running server.
func (cmd *mailCmd) Run(ctx context.Context, c *console) error {
	base, err := cmd.base(cmd.Server, func(cfg app.Config) string { return cfg.Addr })
	if err != nil {
		return err
	}
	cl, err := client.New(base)
	if err != nil {
		return err
	}
	mails, err := cmd.list(ctx, cl)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Status == http.StatusNotFound {
		return fmt.Errorf("the server at %s sends its mails, or is no Stoa server", base)
	}
	if errors.Is(err, client.ErrUnreachable) {
		return fmt.Errorf("%w at %s: is it running?", client.ErrUnreachable, base)
	}
	if err != nil {
		return err
	}
	if cmd.Code {
		return c.result(map[string]string{"code": mails[0].Code}, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, mails[0].Code)
			return err
		})
	}
	return c.result(mails, func(w io.Writer) error {
		if len(mails) == 0 {
			_, err := fmt.Fprintln(w, "No mail.")
			return err
		}
		tab := keycli.NewTable(w, 3)
		fmt.Fprintln(tab, "AT\tTO\tSUBJECT\tCODE")
		for _, m := range mails {
			fmt.Fprintf(tab, "%s\t%s\t%s\t%s\n", m.At.Local().Format(time.DateTime), m.To, m.Subject, m.Code)
		}
		return tab.Flush()
	})
}

// base returns the URL of the named server, or of the address in the settings.
func (s *settings) base(server string, address func(app.Config) string) (string, error) {
	if server != "" {
		if _, err := client.New(server); err != nil {
			return "", usage{fmt.Errorf("--server: %w", err)}
		}
		return strings.TrimSuffix(server, "/"), nil
	}
	cfg, _, err := s.load()
	return "http://" + reachable(address(cfg)), err
}

// list returns the requested mails. With Code set it returns at least one.
func (cmd *mailCmd) list(ctx context.Context, cl *client.Client) ([]client.DevMail, error) {
	began := time.Now()
	enough, old := began.Add(cmd.Wait), began.Add(-cmd.Wait)
	for {
		mails, err := cl.DevMails(ctx, cmd.To)
		if err != nil {
			return nil, err
		}
		if cmd.Code {
			mails = slices.DeleteFunc(mails, func(m client.DevMail) bool { return m.Code == "" })
		}
		late := !time.Now().Before(enough)
		switch {
		// The mail that was just requested may not have arrived yet, and an older one may be there.
		case len(mails) > 0 && (late || mails[0].At.After(old)) || late && !cmd.Code:
			return mails, nil
		case late:
			return nil, fmt.Errorf("%w: no mail with a code", errNothing)
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
