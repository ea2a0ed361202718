package groups

import (
	"context"

	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// replacePicture deletes the picture of a group, and writes another one in all its sizes. Each size is one statement,
// because together they could exceed MariaDB's limit.
func replacePicture(ctx context.Context, tx *sqldb.Tx, group ID, id PictureID, sizes []picture.Picture) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM group_pictures WHERE group_id = ?", group); err != nil {
		return err
	}
	for _, p := range sizes {
		if _, err := tx.ExecContext(ctx, "INSERT INTO group_pictures (id, size, group_id, type, data) VALUES (?, ?, ?, ?, ?)", id, p.Size, group,
			p.Type, p.Data); err != nil {
			return err
		}
	}
	return nil
}

// selectPicture returns one size of a picture, or ErrPicture.
func selectPicture(ctx context.Context, q sqldb.Querier, id PictureID, size int) (p picture.Picture, err error) {
	p.Size = size
	err = q.QueryRowContext(ctx, "SELECT type, data FROM group_pictures WHERE id = ? AND size = ?", id, size).Scan(&p.Type, &p.Data)
	return p, sqldb.Missing(err, ErrPicture)
}
