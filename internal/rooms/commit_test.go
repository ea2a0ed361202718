package rooms

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestCommit_LockedRoomDelaysNoOther(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t), redistest.Open(t, "embedded"), new(atomic.Int64), new(sync.Map), Settings{})
	users := w.newUsers(1)
	var batch []pendingEntry
	for range 5 {
		batch = append(batch, pendingEntry{room: w.newRoom(users[0]), user: ParticipantID(users[0]),
			line: &Line{From: ParticipantID(users[0]), Name: "Ann", Text: "Hi"}})
	}
	locked := batch[2].room
	sqldbtest.Busy(t, w.db, "SELECT id FROM rooms WHERE id = ? FOR UPDATE", batch[4].room) // by another node, in an active room
	sqldbtest.Hold(t, w.db, "SELECT id FROM rooms WHERE id = ? FOR UPDATE", locked)
	var out []entryResult
	// two waits of two seconds in a limit of five; a stall makes a try fail
	eventually.NoError(t, "a batch that is in time", func() (err error) {
		out, err = w.commit(t.Context(), batch)
		return err
	})
	for i, u := range batch {
		var want error
		if u.room == locked {
			want = ErrStore
		}
		w.wantErr(fmt.Sprint("line ", i), out[i].refusal, want)
		// A try that exceeded the limit may have been committed as well.
		if got, err := linesOf(t.Context(), w.db, u.room, 100, nil, 10); err != nil || (len(got) > 0) != (want == nil) {
			t.Errorf("line %d: SQL has %d lines, %v", i, len(got), err)
		}
	}
}

func TestJoinAsGuest_CrowdLeavesConnectionsToOtherRooms(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.MaxConns = 8 }), redistest.Open(t, "embedded"), new(atomic.Int64),
		new(sync.Map), Settings{})
	users := w.newUsers(1)
	hot, other := w.newRoom(users[0]), w.newRoom(users[0])
	sqldbtest.Crowd(t, w.db, func(ctx context.Context, i int) error {
		_, _, _, err := w.JoinAsGuest(ctx, fmt.Sprint("address ", i), hot, "Visitor", Admission{})
		return err
	}, "SELECT id FROM rooms WHERE id = ? FOR UPDATE", hot)
	w.newGuest(other)
	_, err := w.SendLine(t.Context(), ParticipantID(users[0]), other, ids.New[Line](), "Hi")
	w.must(err)
}

func TestTidy_SkipsRoomsWithoutNewEntries(t *testing.T) {
	db := sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.MaxConns = 1 })
	w := newWorld(t, db, redistest.Open(t, "embedded"), new(atomic.Int64), new(sync.Map), Settings{})
	users := w.newUsers(1)
	id, user := w.newRoom(users[0]), ParticipantID(users[0])
	const each = 500
	w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		rooms, err := lockRooms(ctx, tx, []ID{id})
		var lines []roomLine
		var shots []roomComment
		for i := range each {
			lines = append(lines, roomLine{id, Line{Seq: int64(i + 1), From: user}})
			shots = append(shots, roomComment{id, Comment{ID: ids.New[Comment](), From: user, At: int64(i + 1)}})
		}
		rooms[id].lastSeq = each
		return errors.Join(err, insertLines(ctx, tx, rooms, lines), insertComments(ctx, tx, shots))
	}))
	_, err := db.ExecContext(t.Context(), "ANALYZE TABLE room_lines, room_danmaku")
	w.must(err)
	w.must(w.tidyEntries(t.Context()))
	if n := sqldbtest.RowsRead(t, db, func() { w.must(w.tidyEntries(t.Context())) }); n > each/2 {
		t.Errorf("%d rows are read of a room without new entries", n)
	}
}

func TestTidy_SkipsInactiveRooms(t *testing.T) {
	ahead := new(atomic.Int64)
	db := sqldbtest.Default(t).Open(t, byClock(ahead), func(c *sqldb.Config) { c.MaxConns = 1 })
	w := newWorld(t, db, redistest.Open(t, "embedded"), ahead, new(sync.Map), Settings{})
	users := w.newUsers(1)
	const unused = 300
	w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		for range unused {
			err = errors.Join(err, insertRoom(ctx, tx, Room{ID: ids.New[Room](), Created: tx.Now().UnixMilli()}))
		}
		return err
	}))
	w.ahead.Add(int64(7 * 24 * time.Hour))
	w.newRoom(users[0])
	_, err := db.ExecContext(t.Context(), "ANALYZE TABLE rooms")
	w.must(err)
	for range 2 {
		if n := sqldbtest.RowsRead(t, db, func() { w.must(w.tidyEntries(t.Context())) }); n > unused/2 {
			t.Errorf("%d rows are read, although only one of %d rooms is active", n, unused+1)
		}
	}
}

func TestTidy_CoversRoomsActiveAgain(t *testing.T) {
	eachEngine(t, Settings{KeepLines: 10, KeepDanmaku: 5}, func(t *testing.T, w *world) {
		users := w.newUsers(1)
		id, user := w.newRoom(users[0]), ParticipantID(users[0])
		other := w.newRoom(users[0])
		w.must(w.tidy(t.Context()))
		w.ahead.Add(int64(7 * 24 * time.Hour))
		w.must(w.tidy(t.Context()))
		for i := range 20 { // no viewers
			_, err := w.SendLine(t.Context(), user, id, ids.New[Line](), fmt.Sprint("line ", i))
			w.must(err)
			c, err := w.SendDanmaku(t.Context(), user, other, Comment{Text: "Wow"})
			w.must(err)
			_, err = w.db.ExecContext(t.Context(), "UPDATE room_danmaku SET at = ? WHERE id = ?", c.At+int64(100*i), c.ID) // no two in the same ms
			w.must(err)
			w.ahead.Add(int64(time.Second))
		}
		w.ahead.Add(int64(time.Minute))
		w.must(w.tidy(t.Context()))
		lines, err := linesOf(t.Context(), w.db, id, 100, nil, 100)
		w.must(err)
		comments, err := latestComments(t.Context(), w.db, other, 0, 100)
		w.must(err)
		if len(lines) != 10 || len(comments) != 5 {
			t.Errorf("%d lines and %d comments are stored, want 10 and 5", len(lines), len(comments))
		}
	})
}

// A node's clock may be ahead for some time.
func TestTidy_WorksAfterAClockThatWasAhead(t *testing.T) {
	eachEngine(t, Settings{KeepLines: 10}, func(t *testing.T, w *world) {
		users := w.newUsers(1)
		id, user := w.newRoom(users[0]), ParticipantID(users[0])
		w.ahead.Store(int64(8 * time.Hour))
		w.must(w.tidy(t.Context()))
		w.ahead.Store(0)
		for i := range 20 {
			_, err := w.SendLine(t.Context(), user, id, ids.New[Line](), fmt.Sprint("line ", i))
			w.must(err)
		}
		w.must(w.tidy(t.Context()))
		if lines, err := linesOf(t.Context(), w.db, id, 100, nil, 100); err != nil || len(lines) != 10 {
			t.Errorf("%d lines are stored, %v, want 10", len(lines), err)
		}
	})
}

// A node of an older version may have deleted rooms and users without their restrictions.
func TestPrune_DeletesStrayRestrictions(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		users := w.newUsers(2)
		id := w.newRoom(users[0])
		present, erased := ParticipantID(users[0]), ParticipantID(users[1])
		exec := func(query string, args ...any) {
			t.Helper()
			_, err := w.db.ExecContext(t.Context(), query, args...)
			w.must(err)
		}
		exec("UPDATE users SET erased = -1 WHERE id = ?", erased)
		for _, at := range []MemberKey{{A: id, B: present}, {A: id, B: erased}, {A: id, B: ids.New[Participant]()},
			{A: ids.New[Room](), B: present}} {
			exec("INSERT INTO room_restrictions (room_id, user_id, muted, less) VALUES (?, ?, 0, 1)", at.A, at.B)
		}
		w.must(w.prune(t.Context()))
		left, err := sqldb.Column[ParticipantID](w.db.QueryContext(t.Context(), "SELECT user_id FROM room_restrictions WHERE room_id = ?", id))
		w.must(err)
		all, err := sqldb.Column[int](w.db.QueryContext(t.Context(), "SELECT COUNT(*) FROM room_restrictions"))
		w.must(err)
		if !slices.Equal(left, []ParticipantID{present}) || all[0] != 1 {
			t.Errorf("%d restrictions are left, in the room those of %v; want only that of %s", all[0], left, present)
		}
	})
}

func TestCommit_StopsAfterAFailedStatement(t *testing.T) {
	w := singleNode(t, Settings{})
	users := w.newUsers(1)
	id, user := w.newRoom(users[0]), ParticipantID(users[0])
	w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		rooms, err := lockRooms(ctx, tx, []ID{id})
		rooms[id].lastSeq++
		return errors.Join(err, insertLines(ctx, tx, rooms, []roomLine{{id, Line{Seq: rooms[id].lastSeq, From: user}}}))
	}))
	if _, err := w.db.ExecContext(t.Context(), "UPDATE rooms SET said = 0"); err != nil {
		t.Fatal(err)
	}
	w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.commitIn(ctx, tx, []pendingEntry{{room: id, user: user, line: &Line{From: user}},
			{room: id, user: user, comment: &Comment{ID: ids.New[Comment](), From: user}}}, 0)
		if !sqldb.IsDuplicate(err) {
			t.Errorf("got %v, want a duplicate", err)
		}
		if n := 0; tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM room_danmaku").Scan(&n) != nil || n != 0 {
			t.Errorf("%d comments were written after the error", n)
		}
		return nil
	}))
}
