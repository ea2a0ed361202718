package keyspace_test

import (
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// The keys of an existing Redis keep their names: each shape of key is declared as it is.
func ExampleSchema_Brownfield() {
	old := keyspace.New("old").Brownfield()
	user := keyspace.Def1[keyspace.Int](old, "app.user-{id}", keyspace.HashOf("name, mail"),
		keyspace.Forever("accounts are kept"), keyspace.Doc{Purpose: "an account"})
	keyspace.Def1[keyspace.Int](old, "user_{id}_profile", keyspace.BytesOf("JSON"),
		keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "a profile"})
	keyspace.Def2[keyspace.Int, keyspace.Raw](old, "user_{id}_page_{url}", keyspace.BytesOf("HTML"),
		keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "a page as a user sees it"})
	fmt.Println("faults:", keyspace.Lint(old))

	fmt.Println(user.At(keyspace.Int{N: 42}))
	found, _ := keyspace.NewParser(old).Key("user_42_page_https://example.org/?q=a b")
	fmt.Println(found.Family.Pattern, found.Args[0], found.Args[1])

	keyspace.Def1[keyspace.Raw](old, "user_{key}", keyspace.BytesOf("anything"),
		keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "the rest"})
	fmt.Println(keyspace.Disjoint(old))
	// Output:
	// faults: <nil>
	// app.user-42
	// user_{id}_page_{url} 42 https://example.org/?q=a b
	// keyspace: old: "user_{key}" can meet "user_{id}_profile" of old: both can be "user_0_profile"
	// keyspace: old: "user_{key}" can meet "user_{id}_page_{url}" of old: both can be "user_0_page_a"
}

func ExampleSchema_BadWords() {
	s := keyspace.New("stock").BadWords("stuff")
	keyspace.Def1[keyspace.Int](s, "item:{id}", keyspace.CounterKind(), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "an item is a thing here"})
	keyspace.Def1[keyspace.Int](s, "stuff:{id}", keyspace.CounterKind(), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "what nobody knows"})
	fmt.Println(keyspace.Lint(s))
	// Output: keyspace: stock: "stuff:{id}" begins with "stuff"; the first level must be a word that states the subject of the key
}
