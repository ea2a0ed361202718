package acl_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
)

func ExampleUser_Line() {
	shop := keyspace.New("shop")
	keyspace.Def1[keyspace.Int](shop, "cart:{user}", keyspace.BytesOf("items"), keyspace.UpTo(time.Hour), keyspace.Doc{})

	for _, u := range []acl.User{{Name: "shop", Prefix: "eu"}, {Name: "audit", Prefix: "eu", ReadOnly: true}} {
		words := strings.Fields(u.Line(shop))
		fmt.Println(words[1], words[6], "+get:", slices.Contains(words, "+get"), "+set:", slices.Contains(words, "+set"))
	}
	// Output:
	// shop ~eu:cart:* +get: true +set: true
	// audit %R~eu:cart:* +get: true +set: false
}
