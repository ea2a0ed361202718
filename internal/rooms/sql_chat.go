package rooms

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// lockedRoom is a room whose row is locked, with its chat numbers.
type lockedRoom struct {
	room    Room
	lastSeq int64
	active  int64 // Unix ms, exact to a minute
}

// lockRooms locks the rooms of a list that are not closed, in the order of their ids, and returns them.
func lockRooms(ctx context.Context, tx *sqldb.Tx, list []ID) (map[ID]*lockedRoom, error) {
	return lockRoomsWith(ctx, tx, list, tx.Dialect().ForUpdate())
}

// lockFreeRooms is lockRooms without the rooms that another transaction has locked. It returns the ids of these rooms
// as well, in the order of the list.
func lockFreeRooms(ctx context.Context, tx *sqldb.Tx, list []ID) (free map[ID]*lockedRoom, locked []ID, err error) {
	if free, err = lockRoomsWith(ctx, tx, list, tx.Dialect().SkipLocked()); err != nil || len(free) == len(list) {
		return free, nil, err
	}
	open, err := selectRooms(ctx, tx, list)
	for _, id := range list {
		if _, ok := open[id]; ok && free[id] == nil {
			locked = append(locked, id)
		}
	}
	return free, locked, err
}

func lockRoomsWith(ctx context.Context, tx *sqldb.Tx, list []ID, clause string) (map[ID]*lockedRoom, error) {
	all := make(map[ID]*lockedRoom, len(list))
	rows, err := tx.QueryContext(ctx, "SELECT "+roomColumns+", r.active FROM rooms r"+tx.Dialect().ByIndex("PRIMARY")+
		" WHERE r.id IN (?) AND r.closed = 0 ORDER BY r.id"+clause, bun.List(list))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var active int64
		r, err := scanRoom(rows.Scan, &active)
		all[r.ID] = &lockedRoom{room: r, lastSeq: r.lastSeq, active: active}
		return err
	})
}

// insertLines stores lines of several rooms, and the last number of each room.
func insertLines(ctx context.Context, tx *sqldb.Tx, rooms map[ID]*lockedRoom, in []roomLine) error {
	if len(in) == 0 {
		return nil
	}
	var args []any
	for _, l := range in {
		args = append(args, l.room, l.Seq, sql.NullString{String: l.ID.String(), Valid: !l.ID.IsZero()}, l.From, l.Name, l.Guest, l.Text, l.At)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO room_lines (room_id, seq, id, user_id, name, guest, body, at) VALUES "+
		sqldb.Tuples(8, len(in)), args...); err != nil {
		return err
	}
	text, args, moved := "UPDATE rooms SET said = CASE id", []any{}, []ID{}
	for id, n := range rooms {
		if n.lastSeq > n.room.lastSeq {
			text += " WHEN ? THEN ?"
			args, moved = append(args, id, n.lastSeq), append(moved, id)
		}
	}
	_, err := tx.ExecContext(ctx, text+" ELSE said END WHERE id IN (?)", append(args, bun.List(moved))...)
	return err
}

// roomLine is a line with its room.
type roomLine struct {
	room ID
	Line
}

// roomComment is a danmaku with its room.
type roomComment struct {
	room ID
	Comment
}

func insertComments(ctx context.Context, tx *sqldb.Tx, in []roomComment) error {
	if len(in) == 0 {
		return nil
	}
	var args []any
	for _, c := range in {
		args = append(args, c.ID, c.room, c.Item, c.Position, c.From, c.Text, c.Color, c.Mode, c.Size, c.At)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO room_danmaku (id, room_id, item, position, user_id, body, color, flight, scale, at) VALUES "+
		sqldb.Tuples(10, len(in)), args...)
	return err
}

// linesOf returns the latest n lines of a room before a number, newest first. Lines of the users in without are
// omitted.
func linesOf(ctx context.Context, q sqldb.Querier, id ID, before int64, without []accounts.ID, n int) ([]Line, error) {
	others, args := "", []any{id, before}
	if len(without) > 0 {
		others, args = " AND user_id NOT IN (?)", append(args, bun.List(without))
	}
	rows, err := q.QueryContext(ctx, "SELECT "+lineColumns+" FROM room_lines WHERE room_id = ? AND seq < ?"+others+
		" ORDER BY seq DESC LIMIT ?", append(args, n)...)
	return sqldb.Collect(rows, err, scanLine)
}

const lineColumns = "seq, COALESCE(id, ''), user_id, name, guest, body, at"

func (l *Line) fields() []any {
	return []any{&l.Seq, &l.ID, &l.From, &l.Name, &l.Guest, &l.Text, &l.At}
}

func scanLine(rows *sql.Rows) (l Line, err error) {
	err = rows.Scan(l.fields()...)
	return l, err
}

// selectLine returns the line that an earlier try of a request stored. It waits for the transaction that caused a
// duplicate. It returns ErrRoom if the id belongs to another sender or room.
func selectLine(ctx context.Context, db *sqldb.DB, id ID, by ParticipantID, line ids.ID[Line]) (l Line, err error) {
	err = db.QueryRowContext(ctx, "SELECT "+lineColumns+" FROM room_lines WHERE id = ? AND room_id = ? AND user_id = ?"+
		db.Dialect().ForUpdate(), line, id, by).Scan(l.fields()...)
	return l, sqldb.Missing(err, ErrRoom)
}

const commentColumns = "id, item, position, user_id, body, color, flight, scale, at"

func (c *Comment) fields() []any {
	return []any{&c.ID, &c.Item, &c.Position, &c.From, &c.Text, &c.Color, &c.Mode, &c.Size, &c.At}
}

func scanComment(rows *sql.Rows) (c Comment, err error) {
	err = rows.Scan(c.fields()...)
	return c, err
}

// commentsAt returns at most n danmaku of an item, from a position or after a place, up to but not including another
// position.
func commentsAt(ctx context.Context, q sqldb.Querier, id ID, item string, after cursor.Place, to int64, n int) ([]Comment, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+commentColumns+` FROM room_danmaku WHERE room_id = ? AND item = ? AND position >= ? AND position < ?
		AND (position > ? OR id > ?) ORDER BY position, id LIMIT ?`, id, item, after.Primary, to, after.Primary, after.ID, n)
	return sqldb.Collect(rows, err, scanComment)
}

// selectComment is [selectLine] for a danmaku.
func selectComment(ctx context.Context, db *sqldb.DB, id ID, by ParticipantID, comment ids.ID[Comment]) (c Comment, err error) {
	err = db.QueryRowContext(ctx, "SELECT "+commentColumns+" FROM room_danmaku WHERE id = ? AND room_id = ? AND user_id = ?"+
		db.Dialect().ForUpdate(), comment, id, by).Scan(c.fields()...)
	return c, sqldb.Missing(err, ErrRoom)
}

// latestComments returns at most n danmaku of a room that were sent after a time, newest first.
func latestComments(ctx context.Context, q sqldb.Querier, id ID, after int64, n int) ([]Comment, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+commentColumns+" FROM room_danmaku WHERE room_id = ? AND at > ? ORDER BY at DESC, id LIMIT ?",
		id, after, n)
	return sqldb.Collect(rows, err, scanComment)
}

func deleteComments(ctx context.Context, tx *sqldb.Tx, id ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM room_danmaku WHERE room_id = ?", id)
	return err
}

// roomsOverLineLimit returns at most n rooms that have too many lines and were active after a time. For each it returns
// the last number to delete. It reads only the first line of each room.
func roomsOverLineLimit(ctx context.Context, q sqldb.Querier, after time.Time, limit, n int) (map[ID]int64, error) {
	all := map[ID]int64{}
	rows, err := q.QueryContext(ctx, `SELECT r.id, r.said - ? FROM rooms r WHERE r.closed = 0 AND r.active > ?
		AND (SELECT l.seq FROM room_lines l WHERE l.room_id = r.id ORDER BY l.room_id, l.seq LIMIT 1) <= r.said - ? LIMIT ?`, limit, after.UnixMilli(), limit, n)
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var id ID
		var upTo int64
		err := rows.Scan(&id, &upTo)
		all[id] = upTo
		return err
	})
}

func deleteLines(ctx context.Context, db *sqldb.DB, id ID, upTo int64) error {
	_, err := db.ExecContext(ctx, "DELETE FROM room_lines WHERE room_id = ? AND seq <= ?", id, upTo)
	return err
}

// roomsOverDanmakuLimit returns at most n rooms that have too many danmaku and were active after a time. It counts only
// rooms whose last danmaku is later than since, by the clock of danmaku.
func roomsOverDanmakuLimit(ctx context.Context, q sqldb.Querier, active time.Time, since int64, limit, n int) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, `SELECT r.id FROM rooms r WHERE r.closed = 0 AND r.active > ?
		AND CASE WHEN (SELECT d.at FROM room_danmaku d WHERE d.room_id = r.id ORDER BY d.room_id DESC, d.at DESC LIMIT 1) > ?
			THEN (SELECT COUNT(*) FROM room_danmaku d WHERE d.room_id = r.id) ELSE 0 END > ? LIMIT ?`, active.UnixMilli(), since, limit, n))
}

// deleteOldComments deletes all danmaku of a room except the latest ones.
func deleteOldComments(ctx context.Context, db *sqldb.DB, id ID, limit int) error {
	_, err := db.ExecContext(ctx, `DELETE FROM room_danmaku WHERE room_id = ? AND at <
		(SELECT at FROM (SELECT at FROM room_danmaku WHERE room_id = ? ORDER BY at DESC LIMIT 1 OFFSET ?) kept)`, id, id, limit-1)
	return err
}
