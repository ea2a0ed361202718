// Command keyvet finds Redis keys and channels that are written outside keys.go; see package keyvet:
//
//	go run github.com/stoa-dev/stoa/lib/keyspace/tools/cmd/keyvet ./...
//	go vet -vettool=$(which keyvet) ./...
package main

import "github.com/stoa-dev/stoa/lib/keyspace/tools/keyvet"

func main() { keyvet.Main() }
