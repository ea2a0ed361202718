// Command keyspace inspects the keys of any Redis, without a program that declares them:
//
//	go run github.com/stoa-dev/stoa/lib/keyspace/tools/cmd/keyspace adopt --redis redis://127.0.0.1:6379 -o keys.go
//
// A program that declares its keys gets the same commands from package cli, and the commands that need the
// declarations.
package main

import "github.com/stoa-dev/stoa/lib/keyspace/tools/cli"

func main() { cli.Main() }
