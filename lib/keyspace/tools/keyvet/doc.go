/*
Package keyvet finds Redis keys and channels that are written outside keys.go. It is an
analyzer for package golang.org/x/tools/go/analysis; the command
[github.com/stoa-dev/stoa/lib/keyspace/tools/cmd/keyvet] runs it, by itself or under go vet:

	go get -tool github.com/stoa-dev/stoa/lib/keyspace/tools/cmd/keyvet
	go vet -vettool=$(go tool -n keyvet) ./...

The compiler already refuses a string where a key is required. The analyzer finds the
remaining cases, in all files except tests:

  - a family, channel or schema that is declared in a file of another name;

  - a string that begins like a key of keyspace.lock, anywhere;

  - a string that looks like a key and is built by package fmt or with +;

  - a Sprintf that makes keys of a family of the same package, whatever they look like;
    with -fix, the family replaces it:

    fmt.Sprintf("app.user-%d", id)  →  appUser.At(keyspace.Int{N: id}).String()

  - a key among the arguments of a keyspace.Cmd, or in the text of a script;

  - a Redis client that bypasses package redis.

If a report is wrong, add a comment with the reason on the same line:

	const route = "user:sign:help" //keyvet:ok a topic of the manual

# The lock file

Each file is checked against the nearest keyspace.lock in its folder or above. go vet caches
results and does not track that file. Therefore [Main] makes the lock files a part of the
tool's version: if one of them changes, go vet runs the tool again.
*/
package keyvet
