package messaging

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

func (s *sqlStore) createGroup(ctx context.Context, tx *sqldb.Tx, id ConversationID) error {
	_, err := tx.ExecContext(ctx, s.newConversations.For(1), conversation{id: id, kind: group}.row()...)
	return err
}

// join makes users members of a locked conversation. They see only later messages.
func (s *sqlStore) join(ctx context.Context, tx *sqldb.Tx, c conversation, users []accounts.ID, now int64) error {
	for chunk := range slices.Chunk(slices.SortedFunc(slices.Values(users), accounts.ID.Compare), maxConditions) {
		var args []any
		for _, u := range chunk {
			args = append(args, member{user: u, conv: c.id, read: c.seq, delivered: c.seq, cleared: c.seq, changed: now}.row()...)
		}
		if _, err := tx.ExecContext(ctx, s.joinedMembers.For(len(chunk)), args...); err != nil {
			return err
		}
	}
	return nil
}

// leave removes users from a locked conversation.
func (s *sqlStore) leave(ctx context.Context, tx *sqldb.Tx, id ConversationID, users []accounts.ID, now int64) error {
	for chunk := range slices.Chunk(slices.SortedFunc(slices.Values(users), accounts.ID.Compare), maxConditions) {
		if _, err := tx.ExecContext(ctx, "UPDATE chat_members SET gone = ?, pinned = 0, draft = '', changed = ?, version = version + 1 WHERE "+
			"conversation = ? AND user_id IN (?)", now, now, id, bun.List(chunk)); err != nil {
			return err
		}
	}
	return nil
}

// deleteChunk is the number of rows that one step of deleteMessages reads.
const deleteChunk = 1000

// deleteMessages deletes, in steps, the messages and the name of a conversation without members.
func (s *sqlStore) deleteMessages(ctx context.Context, id ConversationID) error {
	for _, t := range []struct {
		table string
		key   []string
		where string
	}{
		// By its key.
		{"hidden_messages", []string{"user_id", "conversation", "seq"},
			"user_id IN (SELECT m.user_id FROM chat_members m WHERE m.conversation = ?) AND conversation = ?"},
		{"chat_pins", []string{"conversation", "seq"}, "conversation = ?"},
		{"reactions", []string{"conversation", "seq", "user_id", "emoji"}, "conversation = ?"},
		{"message_edits", []string{"conversation", "seq", "rev"}, "conversation = ?"},
		{"messages", []string{"conversation", "seq"}, "conversation = ?"},
	} {
		args := []any{id, id}[:strings.Count(t.where, "?")]
		for deleted := int64(1); deleted > 0; {
			var err error
			if deleted, err = sqldb.DeleteSome(ctx, s.db, t.table, t.key, deleteChunk, t.where, args...); err != nil {
				return err
			}
		}
	}
	_, err := s.db.ExecContext(ctx, "UPDATE conversations SET title = '' WHERE id = ?", id)
	return err
}

// storeSystemMessages writes system messages of a locked conversation, and the conversation. They move no marks.
func (s *sqlStore) storeSystemMessages(ctx context.Context, tx *sqldb.Tx, c conversation, messages []message) error {
	if len(messages) > 0 {
		if err := s.insert(ctx, tx, messages); err != nil {
			return err
		}
	}
	return s.updateConversations(ctx, tx, []conversation{c})
}

// readers returns the members who have read up to a message, except one.
func (s *sqlStore) readers(ctx context.Context, id ConversationID, without accounts.ID, seq int64) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](s.db.QueryContext(ctx,
		"SELECT m.user_id FROM chat_members m JOIN conversations c ON c.id = m.conversation WHERE m.conversation = ? AND m.gone = 0 AND "+
			"(m.read_seq >= ? OR "+sentMark+" >= ?) AND m.cleared_seq < ? AND m.user_id <> ? ORDER BY m.user_id", id, seq, seq, seq, without))
}

// selectUnaware returns up to n members who do not see a message, because they joined or cleared the chat after it. The
// value is the seq of the last message that the member does not see.
func (s *sqlStore) selectUnaware(ctx context.Context, id ConversationID, seq int64, n int) (map[accounts.ID]int64, error) {
	found := map[accounts.ID]int64{}
	rows, err := s.db.QueryContext(ctx, "SELECT user_id, cleared_seq FROM chat_members WHERE conversation = ? AND gone = 0 AND cleared_seq "+
		">= ? LIMIT ?", id, seq, n)
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var user accounts.ID
		var cleared int64
		err := rows.Scan(&user, &cleared)
		found[user] = cleared
		return err
	})
}

// selectUnseen returns the members who have deleted a message for themselves, or cleared the chat after it.
func (s *sqlStore) selectUnseen(ctx context.Context, id ConversationID, seq int64, members []accounts.ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](s.db.QueryContext(ctx, `SELECT user_id FROM hidden_messages WHERE user_id IN (?) AND conversation = ? AND seq = ?
		UNION SELECT user_id FROM chat_members WHERE user_id IN (?) AND conversation = ? AND cleared_seq >= ?`,
		bun.List(members), id, seq, bun.List(members), id, seq))
}

// setPin pins or unpins a message, and reports whether that changed anything.
func (s *sqlStore) setPin(ctx context.Context, tx *sqldb.Tx, id ConversationID, seq int64, by accounts.ID, on bool) (bool, error) {
	if !on {
		n, err := sqldb.Affected(tx.ExecContext(ctx, "DELETE FROM chat_pins WHERE conversation = ? AND seq = ?", id, seq))
		return n > 0, err
	}
	list, err := sqldb.Column[int64](tx.QueryContext(ctx, "SELECT messages.seq"+pinned+"chat_pins.conversation = ?", id))
	switch {
	case err != nil || slices.Contains(list, seq):
		return false, err
	case len(list) >= maxPins:
		return false, ErrPins
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO chat_pins (conversation, seq, by_id, at) VALUES "+sqldb.Tuples(4, 1), id, seq, by,
		tx.Now().UnixMilli())
	return true, err
}

// pinned selects the pins of messages that were not recalled.
const pinned = " FROM chat_pins JOIN messages ON messages.conversation = chat_pins.conversation AND messages.seq = chat_pins.seq AND " +
	"messages.recalled = 0 WHERE "

// pins returns the pinned messages above a number, the last pinned one first. It omits messages that the user has
// deleted for themselves.
func (s *sqlStore) pins(ctx context.Context, user accounts.ID, id ConversationID, above int64) ([]int64, error) {
	return sqldb.Column[int64](s.db.QueryContext(ctx, "SELECT messages.seq"+pinned+"chat_pins.conversation = ? AND chat_pins.seq > ? AND"+
		notHidden+" ORDER BY chat_pins.at DESC, messages.seq DESC", id, above, user))
}
