package lock_test

import (
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

	file := lock.New(before).String() // what is kept beside the sources
	was, err := lock.Parse(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	changes := was.Diff(lock.New(after))
	for _, c := range changes {
		fmt.Println(c)
	}
	fmt.Println(len(lock.Faults(changes)), "must not be")
	// Output:
	// layout   cart:{user}: string → set: raise Doc.Version above 1, or put a new word in the pattern
	// layout   cart:{user}: json [string] → items: raise Doc.Version above 1, or put a new word in the pattern
	// added    seen:{user}
	// 2 must not be
}
