package keyspace_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Order identifies an order by its number.
type Order struct{ keyspace.Int }

type status struct{}

func (status) Words() []string { return []string{"open", "paid", "sent"} }

// Status is one of open, paid and sent.
type Status = keyspace.Word[status]

var paid = keyspace.WordOf[status]("paid")

var shop = keyspace.New("shop")

var (
	orderKey = keyspace.Def1[Order](shop, "order:{{number}}:view", keyspace.JSONOf[map[string]int](),
		keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "an order as the customer sees it", InvalidatedBy: []string{"order changed"}})

	countKey = keyspace.Def2[Order, Status](shop, "order:{{number}}:visits:{status}", keyspace.CounterKind(),
		keyspace.UpTo(24*time.Hour),
		keyspace.Doc{Purpose: "how often an order was looked at in each status", MaxBytes: 20})

	mailKey = keyspace.Def1[keyspace.Hashed](shop, "order:asked:{email}", keyspace.CounterKind(),
		keyspace.UpTo(time.Minute),
		keyspace.Doc{Purpose: "questions by address and minute", MaxBytes: 20})
)

// printer is an Executor that prints the commands.
type printer struct{}

func (printer) Do(_ context.Context, c keyspace.Cmd) keyspace.Reply {
	fmt.Println(c.Name, c.Key, strings.Join(c.Args, " "))
	return keyspace.Reply{}
}

func (p printer) DoMulti(ctx context.Context, cmds []keyspace.Cmd) []keyspace.Reply {
	replies := make([]keyspace.Reply, len(cmds))
	for i, c := range cmds {
		replies[i] = p.Do(ctx, c)
	}
	return replies
}

func Example() {
	if err := keyspace.Lint(shop); err != nil {
		fmt.Println(err)
	}

	ctx, order := context.Background(), Order{keyspace.Int{N: 10001}}
	err := orderKey.At(order).Set(ctx, printer{}, map[string]int{"pens": 3})
	fmt.Println(err)

	key := countKey.At(order, paid).Key
	found, ok := keyspace.NewParser(shop).Key(key.String())
	fmt.Println(ok, found.Family.Pattern, found.Args[:2])

	fmt.Println(mailKey.At(keyspace.Hashed{S: "ada@example.org"}))
	// Output:
	// SET order:{10001}:view {"pens":3} PX 3600000
	// <nil>
	// true order:{{number}}:visits:{status} [10001 paid]
	// order:asked:z-AN3kbvlCYB_6-54oJegA
}

func ExampleAtomic() {
	tx := keyspace.Atomic(Order{keyspace.Int{N: 7}})
	view, visits := orderKey.In(tx), countKey.In(tx, paid)
	fmt.Println(view, visits, keyspace.SameSlot(view.Key, visits.Key))
	// Output: order:{7}:view order:{7}:visits:paid true
}

func ExampleLint() {
	s := keyspace.New("cluster")
	keyspace.Def1[keyspace.Text](s, "cluster:nodes:{node}", keyspace.JSONOf[string](),
		keyspace.Lease(5*time.Second), keyspace.Doc{Purpose: "one node"})
	keyspace.Def0(s, "cluster:nodes:active", keyspace.ZSetOf("node → Unix ms"),
		keyspace.Forever("swept by the janitor"), keyspace.Doc{Purpose: "all nodes"})
	fmt.Println(keyspace.Lint(s))
	// Output:
	// keyspace: cluster: "cluster:nodes:active" can meet "cluster:nodes:{node}" of cluster: both can be "cluster:nodes:active"
}
