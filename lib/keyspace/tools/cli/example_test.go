package cli_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

var (
	exampleShop = keyspace.New("shop")
	_           = keyspace.Def1[keyspace.Int](exampleShop, "cart:{user}", keyspace.JSONOf[[]string](), keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "the shopping cart of a customer"})
)

// The complete program that manages the keys of another program.
func ExampleMain() {
	cli.Main(exampleShop) // go run ./cmd/keys audit --redis redis://…
}

// Run is Main for tests, and for programs that do more.
func ExampleRun() {
	switch code := cli.Run(context.Background(), []string{"keys", "lint"}, os.Stdout, os.Stderr, exampleShop); code {
	case cli.ExitOK:
	case cli.ExitFaults:
		fmt.Println("faults were found")
	case cli.ExitFailed, cli.ExitUsage, cli.ExitUnreachable, cli.ExitNothing:
		fmt.Println("it did not do what it was asked:", code)
	}
	fmt.Println(cli.Run(context.Background(), []string{"keys", "explain", "basket:7"}, io.Discard, io.Discard, exampleShop) == cli.ExitNothing)
	// Output:
	// 1 families, 0 faults.
	// true
}

// A program with its own command line adds the commands to its grammar and selects the Redis itself.
func Example() {
	var grammar struct {
		Redis string `default:"embedded"`
		Keys  struct {
			List    cli.List    `cmd:"" help:"List the families."`
			Lint    cli.Lint    `cmd:"" help:"Check the declarations."`
			Doc     cli.Doc     `cmd:"" help:"Write the catalogue."`
			Diff    cli.Diff    `cmd:"" help:"Compare with the lock file."`
			ACL     cli.ACL     `cmd:"" name:"acl" help:"Write users for Redis."`
			Explain cli.Explain `cmd:"" help:"Say what a key is."`
			Audit   cli.Audit   `cmd:"" help:"Hold a Redis against the declarations."`
			Adopt   cli.Adopt   `cmd:"" help:"Propose declarations."`
			Sweep   cli.Sweep   `cmd:"" help:"Remove all keys of a prefix."`
		} `cmd:""`
	}
	parser := kong.Must(&grammar)
	console := &cli.Console{Out: os.Stdout, Err: os.Stderr, Title: "Keys of the shop", Schemas: []*keyspace.Schema{exampleShop}}
	for _, args := range [][]string{{"keys", "list"}, {"keys", "explain", "cart:7"}, {"keys", "explain", "basket:7"}} {
		parsed, err := parser.Parse(args)
		if err != nil {
			fmt.Println(err, cli.Try(parsed, err))
			continue
		}
		parsed.BindTo(context.Background(), (*context.Context)(nil))
		err = parsed.Run(console, &cli.Server{URL: grammar.Redis, Prefix: "shop"})
		switch {
		case errors.Is(err, cli.ErrNothing), errors.Is(err, cli.ErrFaults), errors.Is(err, cli.ErrDeclined):
			fmt.Println(cli.ExitCode(err), err)
		case err != nil:
			fmt.Println(cli.ExitCode(err), "failed:", err)
		}
	}
	// Output:
	// OWNER   PATTERN       TYPE     LIFE        PURPOSE
	// shop    cart:{user}   string   up to 1 h   the shopping cart of a customer
	// name     shop:cart:7
	// family   cart:{user}
	// {user}   7
	// owner    shop
	// purpose  the shopping cart of a customer
	// type     string: json [string]
	// life     up to 1 h
	// slot     7616
	// redis    not read: Redis runs inside the server
	// 4 nothing found: no family has "basket:7"
}

// Columns are aligned in every script.
func ExampleTable() {
	t := cli.NewTable(os.Stdout, 2)
	fmt.Fprintf(t, "key\tvisits\n")
	fmt.Fprintf(t, "购物车\t%s\n", cli.Count(1, "visit"))
	fmt.Fprintf(t, "cart\t%s\n", cli.Count(12000, "visit"))
	if err := t.Flush(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// key     visits
	// 购物车  1 visit
	// cart    12000 visits
}

// A custom command that takes long shows its progress.
func ExampleConsole() {
	c := &cli.Console{Out: os.Stdout, Err: io.Discard}
	var p *cli.Progress = c.Progress("counting carts")
	for n := range int64(3) {
		p.Show(n, 3, "")
	}
	p.End()
	err := c.Result(map[string]int{"carts": 3}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "3 carts")
		return err
	})
	fmt.Println(err)
	// Output:
	// 3 carts
	// <nil>
}
