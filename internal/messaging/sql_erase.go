package messaging

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// eraseFromChats erases the user from up to n chats, and finally the user's settings. It returns the chats. drop
// removes the files of messages.
func (s *sqlStore) eraseFromChats(ctx context.Context, user accounts.ID, n int,
	removeFiles func(ctx context.Context, tx *sqldb.Tx, id ConversationID, seqs ...int64) error) (all []conversation, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT conversation FROM chat_members WHERE user_id = ? ORDER BY conversation LIMIT ?", user, n)
		list, err := sqldb.Column[ConversationID](rows, err)
		if all = nil; err != nil {
			return err
		}
		if len(list) == 0 {
			_, err := tx.ExecContext(ctx, "DELETE FROM chat_settings WHERE user_id = ?", user)
			return err
		}
		locked, err := s.lock(ctx, tx, list)
		if err != nil {
			return err
		}
		now := tx.Now().UnixMilli()
		for _, id := range list {
			c := locked[id]
			all = append(all, c)
			rows, err := tx.QueryContext(ctx, "SELECT seq FROM messages WHERE conversation = ? AND sender = ? AND recalled = 0 AND hash <> '' "+
				"ORDER BY seq", id, user)
			own, err := sqldb.Column[int64](rows, err)
			if err != nil {
				return err
			}
			rows, err = tx.QueryContext(ctx, "SELECT DISTINCT seq FROM reactions WHERE conversation = ? AND user_id = ?", id, user)
			reacted, err := sqldb.Column[int64](rows, err)
			if err != nil {
				return err
			}
			if len(own) > 0 {
				if err := removeFiles(ctx, tx, id, own...); err != nil {
					return err
				}
			}
			if err := s.eraseFrom(ctx, tx, user, id, own, reacted, c.rev, now); err != nil {
				return err
			}
			c.uncount(own...)
			// The rev is above the revs of the messages.
			if _, err := tx.ExecContext(ctx, "UPDATE conversations SET rev = rev + seq + 1, changed = ?, uncounted = ? WHERE id = ?", now,
				c.uncounted, id); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM chat_members WHERE user_id = ? AND conversation IN (?)", user, bun.List(list))
		return err
	})
	return all, err
}

// eraseFrom removes the user's messages and reactions from a locked conversation with the given rev. Each message gets
// its own rev, because a page of changes could end between messages with the same rev.
func (s *sqlStore) eraseFrom(ctx context.Context, tx *sqldb.Tx, user accounts.ID, id ConversationID, own, reacted []int64,
	rev, now int64) error {
	exec := func(text string, args ...any) error {
		_, err := tx.ExecContext(ctx, text, args...)
		return err
	}
	if len(own) > 0 {
		const gone = `{"kind":"` + api.MessageText + `"}`
		if err := exec("DELETE FROM message_edits WHERE conversation = ? AND seq IN (SELECT m.seq FROM messages m WHERE m.conversation = ? "+
			"AND m.sender = ?)", id, id, user); err != nil {
			return err
		}
		if err := exec("DELETE FROM reactions WHERE conversation = ? AND seq IN (SELECT m.seq FROM messages m WHERE m.conversation = ? AND "+
			"m.sender = ?)", id, id, user); err != nil {
			return err
		}
		if err := exec("UPDATE messages SET body = ?, reply = 0, hash = '', recalled = ?, rev = ? + seq WHERE conversation = ? AND sender = ? "+
			"AND recalled = 0 AND hash <> ''", gone, now, rev, id, user); err != nil {
			return err
		}
	}
	if len(reacted) > 0 {
		if err := exec("UPDATE messages SET rev = ? + seq WHERE conversation = ? AND seq IN (?)", rev, id, bun.List(reacted)); err != nil {
			return err
		}
		if err := exec("DELETE FROM reactions WHERE conversation = ? AND user_id = ?", id, user); err != nil {
			return err
		}
	}
	return exec("DELETE FROM hidden_messages WHERE conversation = ? AND user_id = ?", id, user)
}
