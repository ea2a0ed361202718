package leaderboard_test

import (
	"fmt"
	"testing"

	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// BenchmarkEmbedded reads from the server in this process, which sorts a sorted set for each query. bench/boards
// measures real servers.
func BenchmarkEmbedded(b *testing.B) {
	for _, compact := range []bool{false, true} {
		for _, n := range []int{100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("compact=%v/%d", compact, n), func(b *testing.B) {
				s := suite{redistest.Open(b, "embedded"), compact}
				board, _ := s.fresh()
				es := many(n, noon.AddDate(1, 0, 0))
				must(b, board.Load(b.Context(), noon, all(es...)))
				for b.Loop() {
					_, _, _, err := board.Read(b.Context(), noon, 10, es[n/2])
					must(b, err)
				}
			})
		}
	}
}
