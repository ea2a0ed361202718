// Command stoa is the server and its tools; "stoa --help" tells more.
package main

import (
	"context"
	"os"

	"github.com/stoa-dev/stoa/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
