package wholeserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/internal/testkit/costs"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// MariaDB counts the statements, and Redis the commands. The operations are those of the benchmark bench/cost.
func TestCosts_DoNotGrow(t *testing.T) {
	const tries = 12
	guarded := []string{costs.Connect, costs.SendDirect, costs.SendGroup, costs.MarkRead, costs.CheckIn, costs.RequestFriend,
		costs.AcceptFriend}
	ctx, server, cfg := t.Context(), redistest.Server(t), sqldbtest.Engine{Name: "mariadb"}.Config(t)
	sqldbtest.CopySchema(t, cfg)
	db := sqldbtest.Open(t, cfg)
	people, err := costs.People(ctx, db, costs.PeopleFor(tries))
	must(t, err)
	s := testkit.Start(t, func(c *app.Config) { c.SQL, c.Redis = cfg.URL, server.URL })
	w, err := costs.NewWorld(ctx, s.URL, s.HTTP, people)
	defer w.Close()
	must(t, err)
	counter := &costs.Counter{SQL: db, Stats: func(context.Context) (string, error) {
		text, err := server.Do("INFO", "commandstats")
		return strings.Join(text, ""), err
	}}
	// settled returns the counts when the work after the last response has ended.
	settled := func() (last costs.Counts) {
		t.Helper()
		equal := 0
		eventually.True(t, "the counts to stay the same", func() bool {
			now, err := counter.Read(ctx)
			must(t, err)
			if equal++; now != last {
				last, equal = now, 0
			}
			return equal == 5
		})
		return last
	}
	var got bytes.Buffer
	for _, o := range w.Operations() {
		if !slices.Contains(guarded, o.Name) {
			continue
		}
		if o.Prepare != nil {
			must(t, o.Prepare(ctx, tries))
		}
		var least costs.Counts
		for i := range tries { // other work of the server may fall in between
			before := settled()
			must(t, o.Do(ctx, i))
			if spent := settled().Minus(before); i == 0 {
				least = spent
			} else {
				least = least.Min(spent)
			}
		}
		fmt.Fprintf(&got, "%s: %s\n", o.Name, least)
	}
	t.Log("\n" + got.String())
	_ = os.Stdout
}
