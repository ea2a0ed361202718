package messaging

import (
	"context"
	"database/sql"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// Undelivered is a chat with messages that no device of a member has got.
type Undelivered struct {
	Changed int64 // Unix ms of the last change of the conversation
	Conv    ConversationID
	User    accounts.ID
	Group   bool
	Seq     int64 // of the newest message
}

// UndeliveredSince returns up to n chats of users among a subquery's, in conversations with messages since a moment, behind after,
// in the order of these changes. Chats that their members have muted are left out. A conversation whose change was committed late may have changed
// before one that was seen: look again from some seconds before.
func UndeliveredSince(ctx context.Context, q sqldb.Querier, since time.Time, after Undelivered, n int, among string) ([]Undelivered, error) {
	now := q.Now().UnixMilli()
	rows, err := q.QueryContext(ctx, `SELECT c.changed, c.id, m.user_id, c.kind, c.seq FROM conversations c JOIN chat_members m ON m.conversation = c.id
		WHERE c.changed >= ? AND (c.changed > ? OR (c.changed = ? AND (c.id > ? OR (c.id = ? AND m.user_id > ?))))
		AND c.last_at >= ? AND m.gone = 0 AND m.muted <= ? AND c.seq > m.read_seq AND c.seq > m.delivered_seq AND c.seq > m.cleared_seq AND m.user_id IN (`+among+`)
		ORDER BY c.changed, c.id, m.user_id LIMIT ?`, max(since.UnixMilli(), after.Changed), after.Changed, after.Changed, after.Conv, after.Conv, after.User, since.UnixMilli(), now, n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (u Undelivered, err error) {
		var kind int
		err = rows.Scan(&u.Changed, &u.Conv, &u.User, &kind, &u.Seq)
		u.Group = kind == group
		return u, err
	})
}

// waitingView returns a conversation as a member has it. ErrChat.
func (s *store) waitingView(ctx context.Context, user accounts.ID, conv ConversationID) (view, error) {
	found, err := s.viewsAt(ctx, []memberKey{{user, conv}})
	if err == nil && (len(found) == 0 || found[0].me.gone != 0) {
		err = ErrChat
	}
	if err != nil {
		return view{}, err
	}
	return found[0], nil
}
