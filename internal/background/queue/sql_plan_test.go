package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

func TestSQL_ClaimReadsOnlyItsTopics(t *testing.T) {
	query, args := nextOf([]string{"mail", "other"}, 10, tried)
	if plan := sqldbtest.Plan(t, sqldbtest.SQLite(t), query, args...); strings.Count(plan, "(topic=? AND dead=?)") != 2 {
		t.Errorf("SQLite claims by %s", plan)
	}
	db := sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.MaxConns = 1 })
	const backlog = 1000
	s, ms := NewSQL(db), make([]Message, backlog)
	for i := range ms {
		ms[i] = Message{Topic: "webhook"}
	}
	if err := s.Publish(t.Context(), ms...); err != nil {
		t.Fatal(err)
	}
	if n := sqldbtest.RowsRead(t, db, func() {
		if _, _, err := s.claim(t.Context(), []string{"mail", "other"}, 10, 1, 1, 1, 0); err != nil {
			t.Error(err)
		}
	}); n > backlog/5 {
		t.Errorf("%d rows are read where nothing of the topics waits", n)
	}
}

// execs runs statements on the database of a store.
func execs(t *testing.T, s *SQL, queries ...string) {
	t.Helper()
	for _, query := range queries {
		if _, err := s.db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStats_CountsEachTopicSeparately(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			s := &SQL{e.Open(t), 3}
			if stats, err := s.Stats(t.Context()); err != nil || len(stats) != 0 {
				t.Errorf("of no messages: %+v, %v", stats, err)
			}
			var ms []Message
			for topic, n := range map[string]int{"dead": 5, "many": 5, "one": 1} {
				for range n {
					ms = append(ms, Message{Topic: topic})
				}
			}
			if err := s.Publish(t.Context(), ms...); err != nil {
				t.Fatal(err)
			}
			execs(t, s, "UPDATE outbox SET dead = 1 WHERE topic = 'dead'", "UPDATE outbox SET claim = 'somebody' WHERE topic = 'many'",
				"UPDATE outbox SET created = created - 600000 WHERE topic = 'one'")
			stats, err := s.Stats(t.Context())
			if err != nil || len(stats) != 3 {
				t.Fatalf("%+v, %v", stats, err)
			}
			if age := stats[2].Age; age < 10*time.Minute {
				t.Errorf("the oldest waits for %s, want ten minutes", age)
			}
			stats[1].Age, stats[2].Age = 0, 0
			if want := []Stat{{Topic: "dead", Dead: 3}, {Topic: "many", Depth: 3, InFlight: 3},
				{Topic: "one", Depth: 1}}; !slices.Equal(stats, want) {
				t.Errorf("%+v, want %+v", stats, want)
			}
		})
	}
}

func TestStats_ReadsBoundedRowsPerTopic(t *testing.T) {
	const most, backlog = 10, 1000
	s := &SQL{sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.MaxConns = 1 }), most}
	ms := make([]Message, backlog)
	for i := range ms {
		ms[i] = Message{Topic: fmt.Sprint("topic ", i%2)}
	}
	if err := s.Publish(t.Context(), ms...); err != nil {
		t.Fatal(err)
	}
	execs(t, s, "UPDATE outbox SET dead = 1 WHERE id % 4 < 2", "ANALYZE TABLE outbox")
	if n := sqldbtest.RowsRead(t, s.db, func() {
		if stats, err := s.Stats(t.Context()); err != nil || len(stats) != 2 {
			t.Errorf("%+v, %v", stats, err)
		}
	}); n > backlog/5 {
		t.Errorf("%d rows are read to count %d messages at most of a topic", n, 2*most)
	}
}

// TestSQL_FastClockDelaysNoRetry checks retries. Messages for later wait.
func TestSQL_FastClockDelaysNoRetry(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			ahead := time.Duration(0)
			s := NewSQL(e.Open(t, func(c *sqldb.Config) { c.Now = func() time.Time { return time.Now().Add(ahead) } }))
			claim := func(bound time.Duration) []Delivery {
				t.Helper()
				ds, _, err := s.claim(t.Context(), []string{"mail"}, 10, time.Minute, time.Second, time.Minute, bound)
				if err != nil {
					t.Fatal(err)
				}
				return ds
			}
			settle := func(ds []Delivery, kind string) {
				t.Helper()
				for _, d := range ds {
					if err := s.settle(t.Context(), time.Minute, []outcome{{Delivery: d, kind: kind, wait: 30 * time.Second, err: "away"}}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := s.Publish(t.Context(), Message{Topic: "mail"}, Message{Topic: "mail"}); err != nil {
				t.Fatal(err)
			}
			enqueue := func(key string, in time.Duration) {
				t.Helper()
				if err := s.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					return tx.Enqueue(ctx, sqldb.Message{Topic: "mail", Key: key, Due: tx.Now().Add(in)})
				}); err != nil {
					t.Fatal(err)
				}
			}
			enqueue("later", 12*time.Hour)
			ahead = 8 * time.Hour
			ds := claim(0)
			settle(ds[:1], "retry")
			settle(ds[1:], "postponed")
			if again := claim(0); len(ds) != 2 || len(again) != 0 {
				t.Fatalf("%d are claimed, and %d again at once; want two, and none", len(ds), len(again))
			}
			ahead = 0
			if ds = claim(0); len(ds) != 2 {
				t.Fatalf("after the clock was set back %d are claimed, want two", len(ds))
			}
			if again := claim(0); len(again) != 0 {
				t.Errorf("%d that are under way are claimed again", len(again))
			}
			settle(ds, "retry")
			if again := claim(0); len(again) != 0 {
				t.Errorf("%d are claimed before they are due", len(again))
			}
			enqueue("soon", 30*time.Minute)
			if ds = claim(time.Hour); len(ds) != 1 || ds[0].Key != "later" {
				t.Errorf("with a bound %+v are claimed, want what is due later than that", ds)
			}
			ahead = 11 * time.Hour
			ds = claim(time.Hour)
			ahead = 0
			if again := claim(time.Hour); len(ds) != 4 || len(again) != 0 {
				t.Errorf("of %d that are under way %d are claimed again, want none of four", len(ds), len(again))
			}
		})
	}
}
