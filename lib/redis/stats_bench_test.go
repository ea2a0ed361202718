package redis

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// BenchmarkStats measures the cost of the counts for a command and for a pipeline, with all processors using the same
// counters.
func BenchmarkStats(b *testing.B) {
	b.Run("command", func(b *testing.B) {
		var s stats
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if rand.Uint32()%sampleRate == 0 {
					began := clock()
					s.lone.add(clock()-began, sampleRate, 1)
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
	b.Run("hot key of a command", func(b *testing.B) {
		h, cmd := newHot(), benchCmd()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				h.lone(&cmd, rand.Uint32())
			}
		})
	})
	b.Run("hot keys of a pipeline", func(b *testing.B) {
		h, cmds := newHot(), slices.Repeat([]keyspace.Cmd{benchCmd()}, 96)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				h.batch(cmds)
			}
		})
	})
}

var benchKeys = keyspace.Def1[keyspace.Int](keyspace.New("bench"), "bench:{n}", keyspace.CounterKind(), keyspace.Forever("a benchmark's"),
	keyspace.Doc{})

func benchCmd() keyspace.Cmd {
	return keyspace.Cmd{Name: "GET", Key: benchKeys.At(keyspace.Int{N: 1}).Key}
}
