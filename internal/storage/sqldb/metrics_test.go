package sqldb_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// pools returns the values of stoa_sql_* by name, pool and state.
func pools(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func TestMetrics_ShowPoolsAndWaits(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db := e.Open(t, func(c *sqldb.Config) { c.MaxConns = 1 })
			reg := prometheus.NewRegistry()
			reg.MustRegister(db.Metrics())
			writer := "all"
			if db.Dialect() == sqldb.SQLite {
				writer = "writer"
			}
			before := pools(t, reg)
			if before["stoa_sql_up"] != 1 {
				t.Errorf("stoa_sql_up is 0: %v", before)
			}
			if before["stoa_sql_connections_max "+writer] != 1 || before["stoa_sql_connections "+writer+" in_use"] != 0 ||
				before["stoa_sql_connections "+writer+" idle"] != 1 {
				t.Errorf("at rest: got %v", before)
			}
			err := db.Tx(t.Context(), func(context.Context, *sqldb.Tx) error {
				if v := pools(t, reg); v["stoa_sql_connections "+writer+" in_use"] != 1 {
					t.Errorf("in a transaction: got %v", v)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				answer := make(chan error, 1)
				go func() {
					_, err := db.ExecContext(ctx, "SELECT 1")
					answer <- err
				}()
				eventually.True(t, "a statement to wait", func() bool {
					return pools(t, reg)["stoa_sql_waits_total "+writer] > before["stoa_sql_waits_total "+writer]
				})
				cancel()
				if err := <-answer; err == nil {
					t.Error("a pool of one gave a second connection")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			after := pools(t, reg)
			if n := after["stoa_sql_waits_total "+writer] - before["stoa_sql_waits_total "+writer]; n != 1 {
				t.Errorf("%v waits, want 1; %v", n, slices.Sorted(maps.Keys(after)))
			}
			if s := after["stoa_sql_wait_seconds_total "+writer] - before["stoa_sql_wait_seconds_total "+writer]; s <= 0 {
				t.Errorf("waited %v s, want some", s)
			}
		})
	}
}
