package lock_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/lock"
)

func ExampleFile_Diff() {
	before, after := keyspace.New("shop"), keyspace.New("shop")
	keyspace.Def1[keyspace.Int](before, "cart:{user}", keyspace.JSONOf[[]string](), keyspace.UpTo(time.Hour), keyspace.Doc{})
	keyspace.Def1[keyspace.Int](after, "cart:{user}", keyspace.SetOf("items"), keyspace.UpTo(time.Hour), keyspace.Doc{})
	keyspace.Def1[keyspace.Int](after, "seen:{user}", keyspace.CounterKind(), keyspace.UpTo(time.Hour), keyspace.Doc{})

	file := lock.New(before).String() // the file next to the sources
	was, err := lock.Parse(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	changes := was.Diff(lock.New(after))
	for _, c := range changes {
		fmt.Println(c)
	}
	fmt.Println(len(lock.Faults(changes)), "not allowed")
	// Output:
	// layout   cart:{user}: string → set: raise Doc.Version above 1, or put a new word in the pattern
	// layout   cart:{user}: json [string] → items: raise Doc.Version above 1, or put a new word in the pattern
	// added    seen:{user}
	// 2 not allowed
}

// The change of each family, by kind.
func ExampleKind() {
	before, after := keyspace.New("shop"), keyspace.New("shop")
	keyspace.Def1[keyspace.Int](before, "order:{user}", keyspace.ListOf("orders"), keyspace.Forever("they are the truth"), keyspace.Doc{})
	keyspace.Retire(after, "order:{user}", "moved to SQL by the migration of May")
	keyspace.Def1[keyspace.Int](before, "cart:{user}", keyspace.SetOf("items"), keyspace.UpTo(time.Hour), keyspace.Doc{})
	keyspace.Def1[keyspace.Int](after, "cart:{customer}", keyspace.SetOf("items"), keyspace.UpTo(2*time.Hour), keyspace.Doc{})

	was, is := lock.New(before), lock.New(after)
	for _, f := range was.Families {
		fmt.Println(f.Pattern, f.Type, f.Life)
	}
	for _, c := range was.Diff(is) {
		switch c.Kind {
		case lock.Retired, lock.Removed:
			fmt.Println("gone:", c.Pattern)
		case lock.LifeChanged:
			fmt.Println("from", c.Was, "to", c.Is)
		default: // other kinds
			fmt.Println(c.Kind, c.Pattern)
		}
	}
	_, err := lock.Parse(was.String()[:20])
	fmt.Println(errors.Is(err, lock.ErrTruncated))
	// Output:
	// cart:{user} set up to 1 h
	// order:{user} list none
	// renamed cart:{customer}
	// from up to 1 h to up to 2 h
	// gone: order:{user}
	// true
}
