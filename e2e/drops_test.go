package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A drop that Redis did not receive in time waits in SQL. Until it is done, other nodes may return the old value
// (docs/cache.md). A slow machine causes such drops. SQL therefore records how long each drop waited, and only that
// excuses reads of old values.

// noteDrops lets SQL record, on MariaDB and MySQL, when drops wait. It judges the old reads when the test ends.
func (w *world) noteDrops() {
	w.t.Helper()
	const now = "CAST(1000 * UNIX_TIMESTAMP(SYSDATE(3)) AS SIGNED)"
	for _, text := range []string{
		"CREATE TABLE drops_waited (id BIGINT PRIMARY KEY, payload BLOB NOT NULL, since BIGINT NOT NULL, until BIGINT)",
		"CREATE TRIGGER drops_begin AFTER INSERT ON outbox FOR EACH ROW INSERT INTO drops_waited SELECT NEW.id, NEW.payload, " + now +
			", NULL FROM DUAL WHERE NEW.topic = 'cache.drop'",
		"CREATE TRIGGER drops_end AFTER DELETE ON outbox FOR EACH ROW UPDATE drops_waited SET until = " + now + " WHERE id = OLD.id",
	} {
		if _, err := w.db.Writer().ExecContext(w.t.Context(), text); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Cleanup(w.judgeOld)
}

// An oldRead is a read of an old value. A waiting drop whose key contains of may excuse it.
type oldRead struct {
	of           string
	began, ended time.Time
	complaint    string
}

// old records a complaint for judgeOld.
func (w *world) old(of string, began time.Time, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldReads = append(w.oldReads, oldRead{of, began, time.Now(), fmt.Sprintf(format, args...)})
}

func (w *world) judgeOld() {
	type wait struct {
		Payload []byte
		Since   int64
		Until   *int64
	}
	var waits []wait
	if err := w.db.NewRaw("SELECT payload, since, until FROM drops_waited").Scan(context.WithoutCancel(w.t.Context()), &waits); err != nil {
		w.t.Error(err)
	}
	excused := 0
	for _, r := range w.oldReads {
		excuse := false
		for _, d := range waits {
			// After a drop is done, every node gets it within maxStale.
			over := d.Until != nil && time.UnixMilli(*d.Until).Add(maxStale).Before(r.began)
			excuse = excuse || strings.Contains(string(d.Payload), r.of) && time.UnixMilli(d.Since).Before(r.ended) && !over
		}
		if excuse {
			excused++
		} else {
			w.bad("%s", r.complaint)
		}
	}
	w.t.Logf("%d drops waited for Redis, and %d reads of old values with them", len(waits), excused)
}

// quiet waits until every node is ready and no work is pending.
func (w *world) quiet() {
	w.t.Helper()
	for _, n := range w.nodes {
		waitReady(w.t, w.hc, n)
	}
	eventually.Equal(w.t, "what waits in the outbox", 0, func() (n int) {
		if err := w.db.NewRaw("SELECT COUNT(*) FROM outbox").Scan(w.t.Context(), &n); err != nil {
			w.t.Fatal(err)
		}
		return n
	})
}
