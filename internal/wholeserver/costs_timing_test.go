//go:build timing

package wholeserver

import (
	"bytes"
	"context"
	"fmt"
	"math"
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

// costsFile has the counts of each guarded operation.
const costsFile = "testdata/costs.golden"

const updateCosts = "run go test -tags timing ./internal/wholeserver -run Costs -update"

// MariaDB counts the statements, and Redis the commands. The operations are those of the benchmark bench/cost. The node's
// other work counts too, so the test needs a machine that does nothing else.
func TestTiming_CostsDoNotGrow(t *testing.T) {
	const minTries, maxTries = 6, 60
	guarded := []string{costs.Connect, costs.SendDirect, costs.SendGroup, costs.MarkRead, costs.CheckIn, costs.RequestFriend,
		costs.AcceptFriend}
	ctx, server, cfg := t.Context(), redistest.Server(t), sqldbtest.Engine{Name: "mariadb"}.Config(t)
	sqldbtest.CopySchema(t, cfg)
	db := sqldbtest.Open(t, cfg)
	people, err := costs.People(ctx, db, costs.PeopleFor(maxTries))
	must(t, err)
	s := testkit.Start(t, func(c *app.Config) { c.SQL, c.Redis = cfg.URL, server.URL })
	w, err := costs.NewWorld(ctx, s.URL, s.HTTP, people)
	must(t, err)
	defer w.Close()
	counter := &costs.Counter{SQL: db, Stats: func(context.Context) (string, error) {
		text, err := server.Do("INFO", "commandstats")
		return strings.Join(text, ""), err
	}}
	// settled returns the counts when the work after the last response has ended. On a slow machine, other work may
	// change them at each read; such a try has a larger result and does not count.
	settled := func() (last costs.Counts) {
		t.Helper()
		equal, reads := 0, 0
		eventually.True(t, "the counts to stay the same", func() bool {
			now, err := counter.Read(ctx)
			must(t, err)
			if equal++; now != last {
				last, equal = now, 0
			}
			reads++
			return equal == 3 || reads == 8
		})
		return last
	}
	text, err := os.ReadFile(costsFile)
	if !*update {
		must(t, err)
	}
	golden := map[string]costs.Counts{}
	for line := range strings.Lines(string(text)) {
		name, counts, _ := strings.Cut(line, ": ")
		var c costs.Counts
		_, err := fmt.Sscanf(counts, "%d statements, %d scripts, %d commands", &c.Statements, &c.Scripts, &c.Commands)
		must(t, err)
		golden[name] = c
	}
	var got bytes.Buffer
	for _, o := range w.Operations() {
		if !slices.Contains(guarded, o.Name) {
			continue
		}
		if o.Prepare != nil {
			must(t, o.Prepare(ctx, maxTries))
		}
		most, before := golden[o.Name], settled()
		least := costs.Counts{Statements: math.MaxInt, Scripts: math.MaxInt, Commands: math.MaxInt}
		for i := 0; i < minTries || i < maxTries && !least.Within(most) && !*update; i++ { // other work may fall in between
			must(t, o.Do(ctx, i))
			after := settled()
			least, before = least.Min(after.Minus(before)), after
		}
		fmt.Fprintf(&got, "%s: %s\n", o.Name, least)
		if !least.Within(most) && !*update {
			t.Errorf("%s: got %s, want at most %s; if this is intended, %s", o.Name, least, most, updateCosts)
		}
	}
	switch {
	case *update:
		must(t, os.WriteFile(costsFile, got.Bytes(), 0o644))
	case got.String() != string(text) && !t.Failed():
		t.Logf("operations cost less than in %s; %s:\n%s", costsFile, updateCosts, &got)
	}
}
