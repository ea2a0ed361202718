package projection

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// sqlStore stores marks in SQL, for nodes that cannot reach Redis. The table projection_marks is empty while all nodes
// can.
type sqlStore struct {
	db   *sqldb.DB
	name string // the projection's name
	put  *sqldb.Statement
}

func newSQLStore(db *sqldb.DB, name string) *sqlStore {
	return &sqlStore{db, name, db.Dialect().Compile(sqldb.Upsert{Table: "projection_marks", Columns: []string{"projection", "node", "mark"},
		Key: []string{"projection", "node"}, Set: []string{"mark"}})}
}

func (s *sqlStore) write(ctx context.Context, node, mark string) error {
	_, err := s.db.ExecContext(ctx, s.put.For(1), s.name, node, mark)
	return err
}

// anyMark is the probe for marks.
func (s *sqlStore) anyMark() sqldb.Probe {
	return sqldb.Probe{Query: "SELECT 1 FROM projection_marks WHERE projection = ?", Args: func() []any { return []any{s.name} }}
}

// all returns the marks by node.
func (s *sqlStore) all(ctx context.Context) (map[string]string, error) {
	marks := map[string]string{}
	rows, err := s.db.QueryContext(ctx, "SELECT node, mark FROM projection_marks WHERE projection = ?", s.name)
	return marks, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var node, mark string
		err := rows.Scan(&node, &mark)
		marks[node] = mark
		return err
	})
}

func (s *sqlStore) remove(ctx context.Context, node string) error {
	_, err := s.db.ExecContext(ctx, "DELETE FROM projection_marks WHERE projection = ? AND node = ?", s.name, node)
	return err
}

// swap is a [swapFunc] for the marks in SQL.
func (s *sqlStore) swap(ctx context.Context, node, from, to string) (swapped bool, err error) {
	var res sql.Result
	if to == "" {
		res, err = s.db.ExecContext(ctx, "DELETE FROM projection_marks WHERE projection = ? AND node = ? AND mark = ?", s.name, node, from)
	} else {
		res, err = s.db.ExecContext(ctx, "UPDATE projection_marks SET mark = ? WHERE projection = ? AND node = ? AND mark = ?", to, s.name, node,
			from)
	}
	if err != nil {
		return false, fmt.Errorf("change a mark in sql: %w", err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}
