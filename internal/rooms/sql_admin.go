package rooms

import (
	"context"
	"database/sql"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// TopicClose is the outbox topic for rooms that an operator wants to close; the payload is a [Closing].
const TopicClose = "rooms.close"

// Closing identifies a room to close.
type Closing struct {
	Room ID `json:"room"`
}

// Summary is a room as shown to operators.
type Summary struct {
	Room
	Owner    ParticipantID
	Members  int // including guests
	Lines    int
	Comments int
	Items    int
	Active   int64 // Unix ms, exact to a minute
}

const summaryColumns = roomColumns + `, r.active, (SELECT m.user_id FROM room_members m WHERE m.room_id = r.id AND m.role = 3),
	(SELECT COUNT(*) FROM room_lines l WHERE l.room_id = r.id), (SELECT COUNT(*) FROM room_danmaku d WHERE d.room_id = r.id), (SELECT COUNT(*) FROM room_items i WHERE i.room_id = r.id AND i.removed = 0)`

func scanSummary(scan func(...any) error) (s Summary, err error) {
	s.Room, err = scanRoom(scan, &s.Active, &s.Owner, &s.Lines, &s.Comments, &s.Items)
	s.Members = s.members
	return s, err
}

// Summaries returns at most n rooms, the most recently active first. It reads only SQL.
func Summaries(ctx context.Context, db *sqldb.DB, n int) (_ []Summary, err error) {
	defer errs.Wrap(&err, "rooms.Summaries")
	rows, err := db.QueryContext(ctx, "SELECT "+summaryColumns+" FROM rooms r WHERE r.closed = 0 ORDER BY r.active DESC, r.id LIMIT ?", n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (Summary, error) { return scanSummary(rows.Scan) })
}

// Find returns a room, or ErrRoom. It reads only SQL.
func Find(ctx context.Context, db *sqldb.DB, id ID) (s Summary, err error) {
	defer errs.Wrap(&err, "rooms.Find %s", id)
	s, err = scanSummary(db.QueryRowContext(ctx, "SELECT "+summaryColumns+" FROM rooms r WHERE r.id = ? AND r.closed = 0", id).Scan)
	return s, sqldb.Missing(err, ErrRoom)
}

// EnqueueClose enqueues the closing of a room. A running server closes it at once. It returns ErrRoom.
func EnqueueClose(ctx context.Context, db *sqldb.DB, id ID) (err error) {
	defer errs.Wrap(&err, "rooms.EnqueueClose %s", id)
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := selectRoom(ctx, tx, id, ""); err != nil {
			return err
		}
		return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicClose, Key: id.String()}, Closing{id})
	})
}
