package notices

import (
	"sync/atomic"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// BenchmarkAnnouncement delivers an announcement to 20,000 users, and reads the unread counts and lists of these users.
func BenchmarkAnnouncement(b *testing.B) {
	const users = 20_000
	for _, e := range sqldbtest.Engines(b) {
		b.Run(e.Name, func(b *testing.B) {
			w := newWorld(b, e.Open(b, func(*sqldb.Config) {}), new(atomic.Int64))
			all := w.users(users, "")
			b.Run("deliver", func(b *testing.B) {
				for b.Loop() {
					w.announce(Draft{Texts: hello})
					w.must(w.deliver(b.Context()))
				}
				b.ReportMetric(float64(users*b.N)/b.Elapsed().Seconds(), "users/s")
			})
			b.Run("count", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					_, err := w.Counts(b.Context(), all[i%users])
					w.must(err)
				}
			})
			b.Run("list", func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					_, _, _, err := w.List(b.Context(), all[i%users], "", 30)
					w.must(err)
				}
			})
		})
	}
}
