package social

import (
	"math"
	"sync/atomic"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// MariaDB counts the statements.
func TestBetween_IsOneStatementWithoutRedis(t *testing.T) {
	db, memory := sqldbtest.Default(t).Open(t), redistest.InMemory(t)
	w := newWorld(t, db, memory.Open(t), new(atomic.Int64), Settings{}, unhurried).wait()
	all := w.join(3)
	a, b, c := all[0], all[1], all[2]
	w.befriends(a, b)
	w.must(w.Block(t.Context(), c, a))
	memory.Kill()
	for w.caches.Health().Open == 0 {
		_, _, err := w.Between(t.Context(), a, b)
		w.must(err)
	}
	selects := func() (n int) {
		var name string
		w.must(db.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Com_select'").Scan(&name, &n))
		return n
	}
	least := math.MaxInt
	for i := 0; i < 10 || least > 1 && i < 100; i++ { // other tests' statements and probes of Redis count as well
		before := selects()
		ofA, ofB, err := w.Between(t.Context(), a, b)
		w.must(err)
		least = min(least, selects()-before)
		if want := (Relation{Friend: true}); ofA != want || ofB != want {
			t.Fatalf("got %+v and %+v of two friends", ofA, ofB)
		}
	}
	if least != 1 {
		t.Errorf("got %d statements, want 1", least)
	}
	if ofA, ofC, err := w.Between(t.Context(), a, c); ofA != (Relation{}) || ofC != (Relation{Blocked: true}) || err != nil {
		t.Errorf("got %+v and %+v, %v, want a block of the second", ofA, ofC, err)
	}
}
