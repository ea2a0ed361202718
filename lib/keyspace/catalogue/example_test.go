package catalogue_test

import (
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/catalogue"
)

// Order identifies an order by its number.
type Order struct{ keyspace.Int }

type status struct{}

func (status) Words() []string { return []string{"open", "paid", "sent"} }

// Status is one of open, paid and sent.
type Status = keyspace.Word[status]

var shop = keyspace.New("shop")

var (
	viewKey = keyspace.Def1[Order](shop, "order:{{number}}:view", keyspace.JSONOf[map[string]int](),
		keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "an order as the customer sees it", InvalidatedBy: []string{"order changed"}})

	_ = keyspace.Def2[Order, Status](shop, "order:{{number}}:visits:{status}", keyspace.CounterKind(),
		keyspace.UpTo(24*time.Hour),
		keyspace.Doc{Purpose: "how often an order was looked at in each status", MaxBytes: 20})

	_ = keyspace.Def1[keyspace.Hashed](shop, "order:asked:{email}", keyspace.CounterKind(),
		keyspace.UpTo(time.Minute),
		keyspace.Doc{Purpose: "questions by address and minute", MaxBytes: 20})
)

func ExampleCatalogue_Markdown() {
	fmt.Print(catalogue.New(shop).Markdown())
	// Output:
	// ## shop
	//
	// | pattern | type | form | arguments | life | purpose | invalidated by | max bytes |
	// |---|---|---|---|---|---|---|---|
	// | `order:asked:{email}` | string | int | email: base64url, 22 bytes | up to 1 min | questions by address and minute |  | 20 B |
	// | `order:{{number}}:view` | string | json {string: int} | number: digits, 1 to 20 bytes | 1 h | an order as the customer sees it | order changed | 64 KiB |
	// | `order:{{number}}:visits:{status}` | string | int | number: digits, 1 to 20 bytes; status: one of open, paid, sent | up to 24 h | how often an order was looked at in each status |  | 20 B |
}

// One family, for a custom page.
func ExampleDescribe() {
	var e catalogue.Entry = catalogue.Describe(viewKey.Family)
	fmt.Println(e.Pattern, "of", e.Owner, "lives", e.Life)
	for _, arg := range e.Arguments {
		fmt.Println(arg.Name, arg.Form, arg.HashTag)
	}
	// Output:
	// order:{{number}}:view of shop lives 1 h
	// number digits, 1 to 20 bytes true
}
