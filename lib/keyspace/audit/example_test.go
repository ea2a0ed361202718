package audit_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

var (
	library = keyspace.New("library")
	loans   = keyspace.Def1[keyspace.Int](library, "loan:{reader}", keyspace.CounterKind(), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "how many books a reader has"})
)

func Example() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded", Prefix: "city"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	key := loans.At(keyspace.Int{N: 42}).Key
	db.Do(ctx, keyspace.Cmd{Name: "SET", Key: key, Args: []string{"three"}}) // two mistakes

	report, err := audit.Run(ctx, db, []*keyspace.Schema{library}, audit.Options{Full: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range report.Findings {
		fmt.Printf("%s: %d of %d, %s: %s\n", f.Fault, f.Count, f.Of, f.Examples[0].Key, f.Examples[0].Detail)
	}
	// Output:
	// no_life: 1 of 1, city:loan:42: the declared maximum is 1h0m0s
	// undecodable: 1 of 1, city:loan:42: not a whole number
}

// The report has more than faults: the memory of each family, the distribution of keys over servers and slots, and the
// keys of other programs.
func ExampleReport() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded", Prefix: "city"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for n := range int64(3) {
		if err := loans.At(keyspace.Int{N: n}).Set(ctx, db, 1); err != nil {
			log.Fatal(err)
		}
	}
	report, err := audit.Run(ctx, db, []*keyspace.Schema{library}, audit.Options{All: true, Progress: func(p audit.Progress) {
		if p.Part == 1 {
			fmt.Println("all read,", p.Faults, "faults")
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Clean(), report.Keys)
	for _, g := range report.Families {
		fmt.Println(g.Family, g.Keys)
	}
	for _, o := range report.Owners {
		fmt.Println(o.Addr, o.Keys)
	}
	fmt.Println(report.Slots.Used, "slots,", len(report.Slots.Largest) > 0 && report.Slots.Largest[0].Keys == 1)
	for _, f := range report.Foreign {
		fmt.Println("of others:", f.Prefix, f.Keys)
	}
	for _, h := range report.Hot { // if the server evicts by frequency of use
		fmt.Println(h.Key, h.Frequency)
	}
	var beside audit.Ping = report.Ping
	fmt.Println("others waited for more than a minute:", beside.Max > time.Minute.Microseconds())
	// Output:
	// true 3
	// loan:{reader} 3
	// memory 3
	// 3 slots, true
	// others waited for more than a minute: false
}

// The kinds of faults, in the order of a report.
func Example_faults() {
	advice := map[string]string{
		audit.UnknownKey:     "declare it, or find out who writes it",
		audit.WrongType:      "two programs use one name",
		audit.NoLife:         "something writes it without its life",
		audit.LifeTooLong:    "something writes it with another life",
		audit.LifeUndeclared: "what should stay will expire",
		audit.ValueTooBig:    "raise Doc.MaxBytes, or split it",
		audit.Undecodable:    "another program or version writes it",
		audit.KeyTooLong:     "hash the argument",
	}
	for _, fault := range audit.Faults[:2] {
		fmt.Println(fault+":", advice[fault])
	}
	// Output:
	// unknown: declare it, or find out who writes it
	// wrong_type: two programs use one name
}

// A sweep removes all keys of a former deployment. It refuses the own prefix by default.
func ExampleSweep() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded", Prefix: "city-test"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := loans.At(keyspace.Int{N: 7}).Set(ctx, db, 1); err != nil {
		log.Fatal(err)
	}
	_, err = audit.Sweep(ctx, db, "city-test", audit.SweepOptions{})
	fmt.Println(errors.Is(err, audit.ErrOwnPrefix))
	var swept audit.Swept
	swept, err = audit.Sweep(ctx, db, "city-test", audit.SweepOptions{Own: true})
	fmt.Println(swept.Found, swept.Removed, err)
	// Output:
	// true
	// 1 1 <nil>
}

// A dump file is audited without a server.
func ExampleRunRDB() {
	_, err := audit.RunRDB(context.Background(), "no/such/dump.rdb", nil, audit.Options{Prefix: "city"})
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output: true
}
