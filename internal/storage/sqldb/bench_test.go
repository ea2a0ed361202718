package sqldb_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// BenchmarkInsert compares a durable INSERT of new rows through Tx with the same through database/sql, with one caller.
// "tx/s" is the number of transactions per second.
func BenchmarkInsert(b *testing.B) {
	upsert := sqldb.Upsert{Table: "bench", Columns: []string{"id", "day", "at", "req"}, Key: []string{"id", "day"}}
	for _, engine := range []string{"sqlite", "mariadb"} {
		b.Run(engine, func(b *testing.B) {
			cfg := sqldb.Config{Dir: b.TempDir()}
			if engine == "mariadb" {
				cfg.URL = sqldbtest.OwnServer(b, sqldbtest.Options{Durable: true}).URL
			}
			db, err := sqldb.Open(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			ddl, err := db.Dialect().ExpandDDL("CREATE TABLE bench (id {{id}} NOT NULL, day INTEGER NOT NULL, at BIGINT NOT NULL, " +
				"req BIGINT NOT NULL, PRIMARY KEY (id, day)) {{table}}")
			if err == nil {
				_, err = db.ExecContext(b.Context(), ddl)
			}
			if err != nil {
				b.Fatal(err)
			}
			statement := db.Dialect().Compile(upsert)
			day := 0
			for _, rows := range []int{1, 64} {
				args := make([]any, 0, 4*rows)
				fill := func() []any {
					day++
					args = args[:0]
					for i := range rows {
						args = append(args, fmt.Sprintf("user%08d", i), day, 1234567890123, i)
					}
					return args
				}
				b.Run(fmt.Sprintf("rows=%d/Tx", rows), func(b *testing.B) {
					for b.Loop() {
						err := db.Tx(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
							_, err := tx.SQL().ExecContext(ctx, statement.For(rows), fill()...)
							return err
						})
						if err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
				})
				b.Run(fmt.Sprintf("rows=%d/raw", rows), func(b *testing.B) {
					for b.Loop() {
						tx, err := db.Writer().BeginTx(b.Context(), nil)
						if err == nil {
							_, err = tx.ExecContext(b.Context(), statement.For(rows), fill()...)
						}
						if err == nil {
							err = tx.Commit()
						}
						if err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
				})
			}
		})
	}
}
