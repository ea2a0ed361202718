/*
Package keyvet finds Redis keys and channels that are spelled outside keys.go. It is an
analyzer for package golang.org/x/tools/go/analysis; the command
[github.com/stoa-dev/stoa/lib/keyspace/keyvet/cmd/keyvet] runs it, by itself or under go vet:

	go get -tool github.com/stoa-dev/stoa/lib/keyspace/keyvet/cmd/keyvet
	go vet -vettool=$(go tool -n keyvet) ./...

The compiler already refuses a string where a key is wanted. What is left, and
found here, in everything but tests:

  - a family, channel or schema that is declared in a file of another name;

  - a text that begins like a key of keyspace.lock, wherever it stands;

  - a text that looks like a key and is put together, by package fmt or with +;

  - a Sprintf that makes keys of a family which the same package declares, of whatever look;
    with -fix the family takes its place:

    fmt.Sprintf("app.user-%d", id)  →  appUser.At(keyspace.Int{N: id}).String()

  - a key among the arguments of a keyspace.Cmd, or in a script that is sent;

  - a Redis client that is used past package redis.

Where such a text is none of these, a comment on its line says so:

	const route = "user:sign:help" //keyvet:ok a topic of the manual

# The lock file

Each file is held against the nearest keyspace.lock in its folder or above. go vet keeps
results and knows nothing of that file, so [Main] makes the lock files a part of the tool's
version: when one of them changes, go vet asks again.
*/
package keyvet
