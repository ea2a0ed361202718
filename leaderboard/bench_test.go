package leaderboard_test

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/leaderboard"
	"github.com/stoa-dev/stoa/redis"
	"github.com/stoa-dev/stoa/redis/redistest"
)

// cpuMicros returns how long the server has computed so far, waiting for a
// processor not counted.
func cpuMicros(b *testing.B, s *redistest.Instance) float64 {
	b.Helper()
	text, us := info(b, s, "cpu"), 0.0
	for _, name := range []string{"used_cpu_user_main_thread:", "used_cpu_sys_main_thread:"} {
		_, rest, _ := strings.Cut(text, name)
		seconds, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.ParseFloat(seconds, 64)
		must(b, err)
		us += n * 1e6
	}
	return us
}

// serverMicros returns how long the server worked on a command by its own count,
// which is also the time by the clock.
func serverMicros(b *testing.B, s *redistest.Instance, command string) float64 {
	b.Helper()
	_, rest, _ := strings.Cut(info(b, s, "commandstats"), "cmdstat_"+command+":")
	_, rest, _ = strings.Cut(rest, "usec=")
	text, _, _ := strings.Cut(rest, ",")
	us, err := strconv.ParseFloat(text, 64)
	must(b, err)
	return us
}

func info(b *testing.B, s *redistest.Instance, section string) string {
	b.Helper()
	reply, err := s.Do("INFO", section)
	must(b, err)
	return strings.Join(reply, "\n")
}

func usedMemory(b *testing.B, s *redistest.Instance) float64 {
	b.Helper()
	_, rest, _ := strings.Cut(info(b, s, "memory"), "used_memory:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseFloat(text, 64)
	must(b, err)
	return n
}

// crowd yields n entries with members of twelve bytes and streaks up to a year.
func crowd(n int, at, dies time.Time) iter.Seq2[leaderboard.Entry, error] {
	return func(yield func(leaderboard.Entry, error) bool) {
		for i := range n {
			e := leaderboard.Entry{Member: fmt.Sprintf("u%011d", i*7919%n), Value: int64(i * i % 365), At: at.Add(time.Duration(i) * time.Second), Dies: dies}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func loadedBoard(b *testing.B, db *redis.DB, n int, dies time.Time) leaderboard.Board {
	b.Helper()
	board := leaderboard.Exact(db, fresh())
	must(b, board.Load(b.Context(), noon, crowd(n, noon, dies)))
	return board
}

// BenchmarkWrite writes batches of 500 to a board of 100,000.
func BenchmarkWrite(b *testing.B) {
	for _, restart := range []bool{false, true} {
		name, command := "update", "zadd"
		if restart {
			name, command = "restart", "evalsha"
		}
		b.Run(name, func(b *testing.B) {
			server := redistest.Server(b)
			db := redistest.Open(b, server.URL)
			board := loadedBoard(b, db, 100_000, noon.AddDate(1, 0, 0))
			var all []leaderboard.Entry
			for e, _ := range crowd(100_000, noon, noon.AddDate(1, 0, 1)) {
				e.Restart = restart
				all = append(all, e)
			}
			_, err := server.Do("CONFIG", "RESETSTAT")
			must(b, err)
			cpu := cpuMicros(b, server)
			b.ResetTimer()
			for i := range b.N {
				round, at := i/200, i%200*500
				batch := all[at : at+500]
				for j := range batch { // everybody's next day
					batch[j].Value++
					batch[j].At = noon.AddDate(0, 0, round+3)
				}
				apply(b, db, board, batch...)
			}
			b.ReportMetric(serverMicros(b, server, command)/float64(b.N*500), "server-µs/member")
			b.ReportMetric((cpuMicros(b, server)-cpu)/float64(b.N*500), "cpu-µs/member")
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*500), "µs/member")
		})
	}
}

// BenchmarkRead compares the best ten and a rank with a plain ZREVRANGE of ten
// from a set of a hundred.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		server := redistest.Server(b)
		db := redistest.Open(b, server.URL)
		board := loadedBoard(b, db, n, noon.AddDate(1, 0, 0))
		small := fresh()
		must(b, leaderboard.Exact(db, small).Load(b.Context(), noon, crowd(100, noon, noon.AddDate(1, 0, 0))))
		for _, c := range []struct {
			name, command string
			read          func() error
		}{
			{"top", "zrevrange", func() error { _, err := board.Top(b.Context(), noon, 10); return err }},
			{"rank", "zrevrank", func() error {
				_, _, err := board.Rank(b.Context(), noon, leaderboard.Entry{Member: "u00000000042"})
				return err
			}},
			{"plain", "zrevrange", func() error {
				return db.Do(b.Context(), keyspace.Cmd{Name: "ZREVRANGE", Key: small.Scores.Key, Args: []string{"0", "9", "WITHSCORES"}}).Err
			}},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				must(b, c.read())
				_, err := server.Do("CONFIG", "RESETSTAT")
				must(b, err)
				cpu := cpuMicros(b, server)
				b.ResetTimer()
				for range b.N {
					must(b, c.read())
				}
				b.ReportMetric((cpuMicros(b, server)-cpu)/float64(b.N), "cpu-µs/op")
				b.ReportMetric(serverMicros(b, server, c.command)/float64(b.N), "server-µs/op")
			})
		}
	}
}

// BenchmarkEmbedded reads from the server in this process, which sorts the set
// for each question.
func BenchmarkEmbedded(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			db := redistest.Open(b, "embedded")
			board := loadedBoard(b, db, n, noon.AddDate(1, 0, 0))
			for b.Loop() {
				_, err := board.Top(b.Context(), noon, 10)
				must(b, err)
			}
		})
	}
}

// BenchmarkLoadAndSweep fills a board with 100,000 entries and removes them
// when they are dead: time for each entry, memory, and the longest command of
// the best run, since a busy machine makes single ones as long as it likes.
func BenchmarkLoadAndSweep(b *testing.B) {
	const n = 100_000
	server := redistest.Server(b, "slowlog-log-slower-than 0", "slowlog-max-len 128")
	db := redistest.Open(b, server.URL)
	dies := noon.AddDate(1, 0, 0)
	longest := func() float64 {
		reply, err := server.Do("EVAL", `local worst = 0
for _, e in ipairs(redis.call('SLOWLOG', 'GET', '-1')) do
  if string.upper(e[4][1]) == 'EVALSHA' then worst = math.max(worst, e[3]) end
end
return worst`, "0")
		must(b, err)
		us, err := strconv.ParseFloat(reply[0], 64)
		must(b, err)
		_, err = server.Do("SLOWLOG", "RESET")
		must(b, err)
		return us
	}
	var loading, sweeping time.Duration
	var memory, cpuLoad, cpuSweep float64
	worstLoad, worstSweep := math.Inf(1), math.Inf(1)
	for range b.N {
		before, cpu, began := usedMemory(b, server), cpuMicros(b, server), time.Now()
		board := loadedBoard(b, db, n, dies)
		loading += time.Since(began)
		cpuLoad += cpuMicros(b, server) - cpu
		memory = usedMemory(b, server) - before
		worstLoad = min(worstLoad, longest())
		cpu, began = cpuMicros(b, server), time.Now()
		removed, err := board.Sweep(b.Context(), dies)
		must(b, err)
		sweeping += time.Since(began)
		cpuSweep += cpuMicros(b, server) - cpu
		worstSweep = min(worstSweep, longest())
		if removed != n {
			b.Fatalf("removed %d, want %d", removed, n)
		}
	}
	b.ReportMetric(float64(loading.Microseconds())/float64(b.N*n), "load-µs/entry")
	b.ReportMetric(memory/n, "bytes/entry")
	b.ReportMetric(cpuLoad/float64(b.N*n), "load-cpu-µs/entry")
	b.ReportMetric(cpuSweep/float64(b.N*n), "sweep-cpu-µs/entry")
	b.ReportMetric(worstLoad, "longest-load-µs")
	b.ReportMetric(float64(sweeping.Microseconds())/float64(b.N*n), "sweep-µs/entry")
	b.ReportMetric(worstSweep, "longest-sweep-µs")
}
