package queue

import (
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
)

func TestAClaimReadsNothingOfOtherTopics(t *testing.T) {
	query, args := nextOf([]string{"mail", "other"}, 10)
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
		if _, _, err := s.claim(t.Context(), []string{"mail", "other"}, 10, 1, 1); err != nil {
			t.Error(err)
		}
	}); n > backlog/5 {
		t.Errorf("%d rows are read where nothing of the topics waits", n)
	}
}
