/*
Package cli gives a program that declares its keys with package keyspace the commands
to look after them: list, lint, doc, diff, acl, explain, audit and sweep.

A program of its own is one line:

	func main() { cli.Main(carts.Keys, orders.Keys) }

"go run ./cmd/keys diff" is then a gate for continuous integration: its exit code is 5
when the next version would lose or misread keys that the last one wrote, and 0 also
when families came. "go run ./cmd/keys audit --redis redis://…" holds a live Redis
against the declarations. --json makes every command write JSON.

The commands are structs for package kong, so that a program with a command line of its
own embeds them in its grammar, binds a [Console] and a [Server], and has its own
settings say which Redis is meant.
*/
package cli
