package rooms

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
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

func TestNothingIsSentAfterAStatementThatEndedTheTransaction(t *testing.T) {
	w := single(t, Settings{})
	who := w.people(1)
	id, user := w.open(who[0]), ViewerID(who[0])
	w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		rooms, err := lockRooms(ctx, tx, []ID{id}, "")
		rooms[id].said++
		return errors.Join(err, insertLines(ctx, tx, rooms, []spoken{{id, Line{Seq: rooms[id].said, From: user}}}))
	}))
	if _, err := w.db.ExecContext(t.Context(), "UPDATE rooms SET said = 0"); err != nil {
		t.Fatal(err)
	}
	w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.commitIn(ctx, tx, []utterance{{room: id, user: user, line: &Line{From: user}}, {room: id, user: user, comment: &Comment{ID: ids.New[Comment](), From: user}}}, false)
		if !sqldb.IsDuplicate(err) {
			t.Errorf("got %v, want a duplicate", err)
		}
		if n := 0; tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM room_danmaku").Scan(&n) != nil || n != 0 {
			t.Errorf("%d comments were written after the error", n)
		}
		return nil
	}))
}
