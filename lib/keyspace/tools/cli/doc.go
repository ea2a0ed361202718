/*
Package cli gives a program that declares its keys with package keyspace the commands
to manage them: list, lint, doc, diff, acl, explain, audit, sweep and adopt.

A separate program for them needs one line:

	func main() { cli.Main(carts.Keys, orders.Keys) }

"go run ./cmd/keys diff" is then a check for continuous integration. Its exit code is 5
if the next version would lose or misread keys of the last one. New families do not
change the exit code 0. "go run ./cmd/keys audit --redis redis://…" compares a live Redis
with the declarations. With --json, every command writes JSON.

The commands are structs for package kong. A program with its own command line embeds
them in its grammar, binds a [Console] and a [Server], and selects the Redis with its
own settings.
*/
package cli
