package messaging

import (
	"context"
	"database/sql"
	"slices"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers"
)

func (s *sqlStore) insertFiles(ctx context.Context, tx *sqldb.Tx, at map[place]transfers.ID) error {
	args := make([]any, 0, 3*len(at))
	for p, id := range at {
		args = append(args, p.conv, p.seq, id)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO message_files (conversation, seq, file) VALUES "+sqldb.Tuples(3, len(at)), args...)
	return err
}

// filesAt returns the files of the messages at places.
func (s *sqlStore) filesAt(ctx context.Context, tx *sqldb.Tx, places []place) (map[place]transfers.ID, error) {
	found := make(map[place]transfers.ID, len(places))
	if len(places) == 0 {
		return found, nil
	}
	args := make([]any, 0, 2*len(places))
	for _, p := range places {
		args = append(args, p.conv, p.seq)
	}
	rows, err := tx.QueryContext(ctx, "SELECT conversation, seq, file FROM message_files WHERE "+sqldb.AnyOf("(conversation = ? AND seq = ?)",
		len(places)), args...)
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var p place
		var id transfers.ID
		err := rows.Scan(&p.conv, &p.seq, &id)
		found[p] = id
		return err
	})
}

// filesOf returns the files of messages of a conversation; without numbers, of all messages.
func (s *sqlStore) filesOf(ctx context.Context, tx *sqldb.Tx, conv ConversationID, seqs []int64) (all []transfers.ID, err error) {
	if len(seqs) == 0 {
		return sqldb.Column[transfers.ID](tx.QueryContext(ctx, "SELECT file FROM message_files WHERE conversation = ?", conv))
	}
	for chunk := range slices.Chunk(seqs, maxConditions) {
		found, err := sqldb.Column[transfers.ID](tx.QueryContext(ctx, "SELECT file FROM message_files WHERE conversation = ? AND seq IN (?)",
			conv, bun.List(chunk)))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// deleteFiles removes files from messages of a conversation; without numbers, from all messages.
func (s *sqlStore) deleteFiles(ctx context.Context, tx *sqldb.Tx, conv ConversationID, seqs []int64, list []transfers.ID) error {
	if len(seqs) == 0 {
		_, err := tx.ExecContext(ctx, "DELETE FROM message_files WHERE conversation = ? AND file IN (?)", conv, bun.List(list))
		return err
	}
	for chunk := range slices.Chunk(seqs, maxConditions) {
		if _, err := tx.ExecContext(ctx, "DELETE FROM message_files WHERE conversation = ? AND seq IN (?) AND file IN (?)", conv, bun.List(chunk),
			bun.List(list)); err != nil {
			return err
		}
	}
	return nil
}

// filesInUse returns the files in list that messages still use.
func (s *sqlStore) filesInUse(ctx context.Context, tx *sqldb.Tx, list []transfers.ID) ([]transfers.ID, error) {
	return sqldb.Column[transfers.ID](tx.QueryContext(ctx, "SELECT DISTINCT file FROM message_files WHERE file IN (?)", bun.List(list)))
}

// visibleFile selects the messages with a file that a user sees. Its arguments are the user, the file, and the user
// again.
const visibleFile = ` FROM message_files f JOIN chat_members m ON m.conversation = f.conversation AND m.user_id = ?
	WHERE f.file = ? AND m.gone = 0 AND f.seq > m.cleared_seq
	AND NOT EXISTS (SELECT 1 FROM hidden_messages h WHERE h.user_id = ? AND h.conversation = f.conversation AND h.seq = f.seq)`

// peersWith returns the other users of the chats with a file that the user sees. The zero id represents groups, and is
// first.
func (s *sqlStore) peersWith(ctx context.Context, user accounts.ID, file transfers.ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](s.db.QueryContext(ctx, "SELECT DISTINCT m.peer"+visibleFile+" ORDER BY m.peer LIMIT ?", user, file, user,
		maxConditions))
}
