package rooms

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func TestARoomThatSomethingElseHoldsHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t), redistest.Open(t, "embedded"), new(atomic.Int64), new(sync.Map), Settings{})
	who := w.people(1)
	var batch []utterance
	for range 5 {
		batch = append(batch, utterance{room: w.open(who[0]), user: ViewerID(who[0]), line: &Line{From: ViewerID(who[0]), Name: "Ann", Text: "Hi"}})
	}
	held := batch[2].room
	sqldbtest.Hold(t, w.db, "SELECT id FROM rooms WHERE id = ? FOR UPDATE", held)
	out, err := w.commit(t.Context(), batch)
	w.must(err)
	for i, u := range batch {
		want, lines := error(nil), 1
		if u.room == held {
			want, lines = ErrStore, 0
		}
		w.fails(fmt.Sprint("line ", i), out[i].refusal, want)
		if got, err := linesOf(t.Context(), w.db, u.room, 100, 10); err != nil || len(got) != lines {
			t.Errorf("line %d: %d are there (%v), want %d", i, len(got), err, lines)
		}
	}
}
