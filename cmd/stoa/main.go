// Command stoa is the server and its tools. See "stoa --help".
package main

import (
	"context"
	"os"

	"github.com/stoa-dev/stoa/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
