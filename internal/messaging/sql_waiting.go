package messaging

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ActiveConversation is a conversation with new messages.
type ActiveConversation struct {
	Conv    ConversationID
	Changed int64 // Unix ms of the last change of the conversation
	Group   bool
	Seq     int64 // of the newest message

	after accounts.ID // the last of its members that was read
}

// ActiveSince returns up to n conversations with messages since a time, behind after, in the order of their last
// changes. A late commit may have an earlier time than a conversation that was returned before. Therefore callers read
// again from some seconds before.
func ActiveSince(ctx context.Context, q sqldb.Querier, since time.Time, after ActiveConversation, n int) ([]ActiveConversation, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, changed, kind, seq FROM conversations WHERE changed >= ? AND (changed > ? OR changed = ? AND id > ?)
		AND last_at >= ? ORDER BY changed, id LIMIT ?`, max(since.UnixMilli(), after.Changed), after.Changed, after.Changed, after.Conv, since.UnixMilli(), n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (c ActiveConversation, err error) {
		var kind int
		err = rows.Scan(&c.Conv, &c.Changed, &kind, &c.Seq)
		c.Group = kind == group
		return c, err
	})
}

// Undelivered is a chat with messages that no device of a member has received.
type Undelivered struct {
	ActiveConversation
	User accounts.ID
}

// UndeliveredIn returns the chats with undelivered messages in up to 100 conversations, up to n of each. condition is
// an SQL condition on the row m of a member. It omits chats that their members have muted. rest are the conversations
// that may have more; the caller reads them again.
func UndeliveredIn(ctx context.Context, q sqldb.Querier, in []ActiveConversation, n int,
	condition string) (list []Undelivered, rest []ActiveConversation, err error) {
	next, found := slices.Clone(in), make([]int, len(in))
	query, args := undeliveredIn(in, q.Now(), n, condition)
	rows, err := q.QueryContext(ctx, query, args...)
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var i int
		var user accounts.ID
		if err := rows.Scan(&i, &user); err != nil {
			return err
		}
		list = append(list, Undelivered{in[i], user})
		next[i].after = user
		found[i]++
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for i, c := range next {
		if found[i] == n {
			rest = append(rest, c)
		}
	}
	return list, rest, nil
}

// undeliveredIn returns the query for up to n members of each conversation, with the conversation's index. Each
// conversation is read separately and in the order of the index, so that no row is read twice. The sum stops engines
// from using the index on cleared_seq, which has another order.
func undeliveredIn(in []ActiveConversation, now time.Time, n int, condition string) (query string, args []any) {
	parts := make([]string, len(in))
	for i, c := range in {
		parts[i] = fmt.Sprintf(`SELECT * FROM (SELECT %d AS place, m.user_id FROM chat_members m JOIN conversations c ON c.id = m.conversation
			WHERE m.conversation = ? AND m.user_id > ? AND m.gone = 0 AND m.muted <= ? AND m.read_seq < ? AND m.delivered_seq < ? AND %s < ?
			AND m.cleared_seq + 0 < ? AND %s ORDER BY m.user_id LIMIT ?) s%d`, i, sentMark, condition, i)
		args = append(args, c.Conv, c.after, now.UnixMilli(), c.Seq, c.Seq, c.Seq, c.Seq, n)
	}
	return strings.Join(parts, " UNION ALL "), args
}

// unreadChunk is the number of chats whose unread messages are read at a time, because SQLite allows 500 parts in one
// statement.
const unreadChunk = 100

func memberKeys(places []Place) []memberKey {
	keys := make([]memberKey, len(places))
	for i, p := range places {
		keys[i] = memberKey{p.User, p.Conv}
	}
	return keys
}

// unreadMessages returns the unread messages of chats, newest first, among the latest n of their conversations. It
// omits hidden messages and reactions. Members of one conversation share a read.
func (s *sqlStore) unreadMessages(ctx context.Context, views []view, hidden map[memberKey][]int64, n int) (map[memberKey][]message, error) {
	all := make(map[memberKey][]message, len(views))
	if len(views) == 0 {
		return all, nil
	}
	from := make(map[ConversationID]int64, len(views)) // the lowest mark of the conversation's members
	for _, v := range views {
		minSeq, ok := from[v.id]
		if !ok || v.me.mark() < minSeq {
			from[v.id] = v.me.mark()
		}
	}
	var text strings.Builder
	var args []any
	for conv, after := range from {
		if len(args) > 0 {
			text.WriteString(" UNION ALL ")
		}
		text.WriteString("SELECT * FROM (SELECT " + messageColumns +
			" FROM messages WHERE conversation = ? AND seq > ? ORDER BY seq DESC LIMIT ?) s" + strconv.Itoa(len(args)))
		args = append(args, conv, after, n)
	}
	rows, err := s.db.QueryContext(ctx, text.String(), args...)
	list, err := sqldb.Collect(rows, err, scanMessage)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b message) int { return cmp.Compare(b.seq, a.seq) })
	byConversation := map[ConversationID][]message{}
	for _, m := range list {
		byConversation[m.conv] = append(byConversation[m.conv], m)
	}
	for _, v := range views {
		for _, m := range byConversation[v.id] {
			if m.seq > v.me.mark() && m.seq <= v.seq && !slices.Contains(hidden[v.key()], m.seq) {
				all[v.key()] = append(all[v.key()], m)
			}
		}
	}
	return all, nil
}
