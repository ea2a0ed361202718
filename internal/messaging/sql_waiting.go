package messaging

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
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

// waitingAtOnce is of how many chats is read at a time what waits in them: SQLite takes 500 parts of one statement.
const waitingAtOnce = 100

func memberKeys(places []Place) []memberKey {
	keys := make([]memberKey, len(places))
	for i, p := range places {
		keys[i] = memberKey{p.User, p.Conv}
	}
	return keys
}

// waitingMessages returns the latest unread messages of chats, the newest first, among the latest n of their conversations,
// without those that their members have deleted for themselves, and without reactions. Members of one conversation share what is read of it.
func (s *store) waitingMessages(ctx context.Context, views []view, n int) (map[memberKey][]message, error) {
	all := make(map[memberKey][]message, len(views))
	if len(views) == 0 {
		return all, nil
	}
	unread := func(m member) int64 { return max(m.read, m.cleared) }
	from := make(map[ConversationID]int64, len(views)) // up to where each of its members has read
	var hiddenArgs []any
	for _, v := range views {
		least, there := from[v.id]
		if !there || unread(v.me) < least {
			from[v.id] = unread(v.me)
		}
		hiddenArgs = append(hiddenArgs, v.me.user, v.id, unread(v.me))
	}
	var text strings.Builder
	var args []any
	for conv, after := range from {
		if len(args) > 0 {
			text.WriteString(" UNION ALL ")
		}
		text.WriteString("SELECT * FROM (SELECT " + messageColumns + " FROM messages WHERE conversation = ? AND seq > ? ORDER BY seq DESC LIMIT ?) s" + strconv.Itoa(len(args)))
		args = append(args, conv, after, n)
	}
	rows, err := s.db.QueryContext(ctx, text.String(), args...)
	list, err := sqldb.Collect(rows, err, scanMessage)
	if err != nil {
		return nil, err
	}
	type own struct {
		memberKey
		seq int64
	}
	gone := map[own]bool{}
	rows, err = s.db.QueryContext(ctx, "SELECT user_id, conversation, seq FROM hidden_messages WHERE "+sqldb.AnyOf("(user_id = ? AND conversation = ? AND seq > ?)", len(views)), hiddenArgs...)
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var h own
		err := rows.Scan(&h.user, &h.conv, &h.seq)
		gone[h] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b message) int { return cmp.Compare(b.seq, a.seq) })
	of := map[ConversationID][]message{}
	for _, m := range list {
		of[m.conv] = append(of[m.conv], m)
	}
	for _, v := range views {
		k := memberKey{v.me.user, v.id}
		for _, m := range of[v.id] {
			if m.seq > unread(v.me) && m.seq <= v.seq && !gone[own{k, m.seq}] {
				all[k] = append(all[k], m)
			}
		}
	}
	return all, nil
}
