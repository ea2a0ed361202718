package audit_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// The keys of a shop with hand-written names and no prefix.
var (
	legacy = keyspace.New("legacy").Brownfield()

	_ = keyspace.Def1[keyspace.Int](legacy, "app.user-{id}", keyspace.HashOf("name, mail"), keyspace.Forever("accounts are kept"),
		keyspace.Doc{Purpose: "an account"})
	_ = keyspace.Def1[keyspace.Int](legacy, "user_{id}_profile", keyspace.JSONOf[cart](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a profile"})
	_ = keyspace.Def2[keyspace.Int, keyspace.Raw](legacy, "user_{id}_page_{url}", keyspace.BytesOf("HTML"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a page as a user sees it"})
	_ = keyspace.Def1[keyspace.Int](legacy, "{{cart}}/lines", keyspace.ListOf("product"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a cart"})
)

func TestRun_Brownfield(t *testing.T) {
	if err := keyspace.Lint(legacy); err != nil {
		t.Fatal(err)
	}
	s := redistest.Server(t)
	for _, cmd := range [][]string{
		{"HSET", "app.user-1", "name", "Ann"}, {"HSET", "app.user-2", "name", "Bob"},
		{"SET", "user_1_profile", `{"Items":1}`, "EX", "60"},
		{"SET", "user_2_profile", `three`, "EX", "60"}, // not JSON
		{"SET", "user_1_page_https://shop.example/a?b c", "<p>", "EX", "60"},
		{"RPUSH", "{7}/lines", "pen"}, // without a TTL
		{"SET", "app.user-ann", "x"},  // no family declares it
		{"SET", "stoa:user_9_profile", "x"},
	} {
		if _, err := s.Do(cmd...); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"no_life {{cart}}/lines 1", "undecodable user_{id}_profile 1", "unknown app.user-ann 1",
		"unknown stoa:user_{n}_profile 1"}
	check := func(how string, r *audit.Report, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range r.Findings {
			got = append(got, fmt.Sprintf("%s %s %d", f.Fault, f.Family, f.Count))
		}
		if slices.Sort(got); !slices.Equal(got, want) || r.Keys != 8 || r.ForeignKeys != 0 {
			t.Errorf("%s: %d keys, %d foreign, %q, want 8, 0, %q", how, r.Keys, r.ForeignKeys, got, want)
		}
	}
	db, opt := redistest.Open(t, s.URL), audit.Options{Full: true, NoPrefix: true}
	r, err := audit.Run(t.Context(), db, []*keyspace.Schema{legacy}, opt)
	check("live", r, err)
	r, err = audit.Run(t.Context(), db, []*keyspace.Schema{legacy}, audit.Options{NoPrefix: true})
	check("by names", r, err)
	r, err = audit.RunRDB(t.Context(), dump(t, s), []*keyspace.Schema{legacy}, opt)
	check("dump", r, err)
}

func ExampleOptions_noPrefix() {
	old := keyspace.New("old").Brownfield()
	keyspace.Def1[keyspace.Int](old, "app.user-{id}", keyspace.BytesOf("name"), keyspace.Forever("accounts are kept"),
		keyspace.Doc{Purpose: "an account"})

	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	servers, err := db.Owners(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer servers[0].Close()
	servers[0].Do(ctx, []string{"SET", "app.user-1", "Ann"}, []string{"SET", "app.group-1", "x"}) // written by another program

	report, err := audit.Run(ctx, db, []*keyspace.Schema{old}, audit.Options{NoPrefix: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range report.Findings {
		fmt.Println(f.Fault, f.Family)
	}
	// Output: unknown app.group-{n}
}
