package redis

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkStats is what counting adds to a command and to a pipeline, with all
// processors at the same counters.
func BenchmarkStats(b *testing.B) {
	b.Run("command", func(b *testing.B) {
		var s stats
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if rand.Uint32()%sampled == 0 {
					began := clock()
					s.lone.add(clock()-began, sampled, 1)
				}
			}
		})
	})
	b.Run("pipeline", func(b *testing.B) {
		var s stats
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				began := clock()
				s.batch.add(clock()-began, 1, 96)
			}
		})
	})
}
