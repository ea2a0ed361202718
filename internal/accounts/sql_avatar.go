package accounts

import (
	"context"

	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// deleteAvatars deletes all pictures of a user.
func deleteAvatars(ctx context.Context, tx *sqldb.Tx, user ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM avatars WHERE user_id = ?", user)
	return err
}

// insertAvatar stores a picture in all its sizes with one statement per size, because together they could exceed the
// packet limit of MariaDB.
func insertAvatar(ctx context.Context, tx *sqldb.Tx, user ID, id AvatarID, sizes []picture.Picture) error {
	for _, p := range sizes {
		if _, err := tx.ExecContext(ctx, "INSERT INTO avatars (id, size, user_id, type, data) VALUES (?, ?, ?, ?, ?)", id, p.Size, user, p.Type,
			p.Data); err != nil {
			return err
		}
	}
	return nil
}

func updateAvatar(ctx context.Context, tx *sqldb.Tx, user ID, id AvatarID) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET avatar = ?, version = version + 1 WHERE id = ?", id, user)
	return err
}

// selectAvatar returns ErrNoAvatar also if the owner is deleted.
func selectAvatar(ctx context.Context, q sqldb.Querier, id AvatarID, size int) (p picture.Picture, err error) {
	p.Size = size
	err = q.QueryRowContext(ctx, "SELECT a.type, a.data FROM avatars a JOIN users u ON u.id = a.user_id WHERE a.id = ? AND a.size = ? AND "+
		"u.erased = 0", id, size).
		Scan(&p.Type, &p.Data)
	return p, sqldb.Missing(err, ErrNoAvatar)
}
