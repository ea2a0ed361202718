// Command keyvet finds Redis keys and channels that are spelled outside keys.go.
// It is a tool of go vet:
//
//	go build -o /tmp/keyvet ./internal/tools/keyvet
//	go vet -vettool=/tmp/keyvet ./...
//
// The compiler already refuses a string where a key is wanted. What is left, and
// found here, in everything but tests:
//
//   - a family, channel or schema that is declared in a file of another name;
//   - a text that begins like a key of keyspace.lock, wherever it stands;
//   - a text that looks like a key and is put together, by package fmt or with +;
//   - a key among the arguments of a [keyspace.Cmd], or in a script that is sent;
//   - a Redis client that is used past package redis.
//
// Where such a text is none of these, a comment on its line says so:
//
//	const route = "user:sign:help" //keyvet:ok a topic of the manual
package main

import "golang.org/x/tools/go/analysis/unitchecker"

func main() { unitchecker.Main(analyzer) }
