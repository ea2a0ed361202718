package transfers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ownershipSetting is the name of the row in settings.
const ownershipSetting = "files_owner"

func (o ownership) String() string {
	return o.mark + " " + strconv.FormatInt(o.since, 10) + " " + o.next
}

func (s *sqlStore) ownership(ctx context.Context) (o ownership, err error) {
	var value string
	switch err := s.db.QueryRowContext(ctx, "SELECT value FROM settings WHERE name = ?", ownershipSetting).Scan(&value); {
	case errors.Is(err, sql.ErrNoRows):
		return o, nil
	case err != nil:
		return o, err
	}
	parts := strings.Split(value, " ")
	if len(parts) != 3 {
		return o, fmt.Errorf("the setting %s has the value %q", ownershipSetting, value)
	}
	o.mark, o.next = parts[0], parts[2]
	o.since, err = strconv.ParseInt(parts[1], 10, 64)
	return o, err
}

// setOwnership stores an ownership. It returns an error if the row has changed since it was read, because another node
// sweeps.
func (s *sqlStore) setOwnership(ctx context.Context, was, o ownership) error {
	var res sql.Result
	var err error
	if was == (ownership{}) {
		put := s.db.Dialect().Compile(sqldb.Upsert{Table: "settings", Columns: []string{"name", "value"}, Key: []string{"name"}})
		res, err = s.db.ExecContext(ctx, put.For(1), ownershipSetting, o.String())
	} else {
		res, err = s.db.ExecContext(ctx, "UPDATE settings SET value = ? WHERE name = ? AND value = ?", o.String(), ownershipSetting, was.String())
	}
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errors.New("another node is sweeping the files"), err)
	}
	return nil
}
