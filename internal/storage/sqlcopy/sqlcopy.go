// Package sqlcopy copies a whole SQLite database to MySQL or MariaDB, table by table, for an installation that outgrew
// SQLite.
//
// The source is locked during the whole copy, so no server can open it. The target is empty, or holds part of the same
// copy. The table stoa_copy stores the progress of each table in the transactions that insert the rows, so that a copy
// resumes after a kill. No server starts on the target while that table exists ([Unfinished]). At the end all rows of
// both sides are read again and compared.
package sqlcopy

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Reasons why a copy is refused or invalid.
var (
	ErrNotEmpty   = errors.New("the target is not empty")
	ErrOther      = errors.New("the target holds a part of another copy: empty it first")
	ErrRunning    = errors.New("another copy to this target is under way")
	ErrSchema     = errors.New("the source has another schema than this program: run stoa migrate on it, or the stoa that served it")
	ErrDiffers    = errors.New("the copy differs from the source: empty the target and copy again")
	ErrUnfinished = errors.New("a copy to this database is not finished: run stoa copy again, or empty the database")
)

const (
	stateTable   = "stoa_copy"
	versionTable = "schema_migrations"

	// A batch is one transaction. It is large enough for a cheap commit, and small enough for the smallest default of
	// max_allowed_packet (16 MiB in MariaDB).
	batchRows  = 500
	batchBytes = 1 << 20
)

// Table is a copied and compared table.
type Table struct {
	Name string `json:"table"`
	Rows int64  `json:"rows"`
	Sum  string `json:"sum"` // of all rows in any order, in hex; equal on both sides
}

// Progress is the progress of a copy.
type Progress struct {
	Step        string // "copy" or "compare"
	Table       string
	Done, Total int64 // rows of all tables
}

// Unfinished returns [ErrUnfinished] if db is the target of an unfinished copy.
func Unfinished(ctx context.Context, db *sqldb.DB) error {
	if db.Dialect() == sqldb.SQLite {
		return nil
	}
	names, err := tablesOf(ctx, db)
	if err == nil && slices.Contains(names, stateTable) {
		err = ErrUnfinished
	}
	return err
}

// Copy copies all rows of from to to, and returns the tables of both. After an error or a kill, call it again with the
// same source to resume.
func Copy(ctx context.Context, from *sqldb.Alone, to *sqldb.DB, progress func(Progress)) (_ []Table, err error) {
	if to.Dialect() == sqldb.SQLite {
		return nil, errors.New("sqlcopy: the target must be MySQL or MariaDB")
	}
	unlock, err := lock(ctx, to)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	c := &copying{from: from, to: to, progress: progress}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	for _, t := range c.tables {
		if err := c.copyTable(ctx, t); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	all, err := c.compare(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range c.tables {
		if err := c.setAutoIncrement(ctx, t); err != nil {
			return nil, err
		}
	}
	_, err = to.ExecContext(ctx, "DROP TABLE "+stateTable)
	return all, err
}

// lockName contains a hash of the database name, because a lock name and a database name both have at most 64
// characters.
const lockName = "CONCAT('" + stateTable + ".', LEFT(SHA2(DATABASE(), 256), 32))"

// lock prevents a second copy while its connection lives.
func lock(ctx context.Context, to *sqldb.DB) (unlock func() error, err error) {
	conn, err := to.Writer().Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	// The connection stays idle until the copy ends. 24 days is the maximum for a server on Windows.
	_, err = conn.ExecContext(ctx, "SET SESSION wait_timeout = 2147483")
	if err == nil {
		// The server may not have noticed yet that a killed copy has ended, so this waits 10 s.
		err = conn.QueryRowContext(ctx, "SELECT GET_LOCK("+lockName+", 10)").Scan(&got)
	}
	if err == nil && got.Int64 != 1 {
		err = ErrRunning
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+lockName+")")
		return errors.Join(err, conn.Close())
	}, nil
}

type table struct {
	name    string
	columns []string
	key     []string // the primary key
	rows    int64
	serial  int64 // the last auto-increment number of SQLite; 0 if there is none

	last []string // the key of the last copied row, one encoded value per column
	done int64
}

type copying struct {
	from     *sqldb.Alone
	to       *sqldb.DB
	progress func(Progress)
	tables   []*table
	total    int64
	done     int64
}

// tablesOf returns the tables of a target.
func tablesOf(ctx context.Context, db *sqldb.DB) (names []string, err error) {
	err = db.NewRaw("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name").Scan(ctx, &names)
	return names, err
}

// begin checks both sides and records in the target that a copy has begun.
func (c *copying) begin(ctx context.Context) error {
	want := migrations.Newest()
	if have, err := c.from.Version(ctx); err != nil {
		return err
	} else if have != want {
		return fmt.Errorf("%w: it has %04d, and this program %04d", ErrSchema, have, want)
	}
	names, err := tablesOf(ctx, c.to)
	if err != nil {
		return err
	}
	resumed := slices.Contains(names, stateTable)
	if !resumed {
		for _, name := range names {
			if name == versionTable {
				continue
			}
			var one int
			err := c.to.QueryRowContext(ctx, "SELECT 1 FROM `"+name+"` LIMIT 1").Scan(&one)
			if err == nil {
				return fmt.Errorf("%w: there are rows in %s", ErrNotEmpty, name)
			} else if !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
	}
	if !resumed { // before the migrations, which take a while: a server that starts in the meantime checks for this table
		_, err = c.to.ExecContext(ctx, "CREATE TABLE "+stateTable+
			" (name VARCHAR(64) NOT NULL PRIMARY KEY, last_key TEXT NOT NULL, copied BIGINT NOT NULL)"+
			" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin")
		if err != nil {
			return err
		}
	}
	if err := c.to.Migrate(ctx, migrations.FS); err != nil {
		return err
	}
	if c.tables, err = c.sourceTables(ctx); err != nil {
		return err
	}
	for _, t := range c.tables {
		c.total += t.rows
	}
	return c.loadProgress(ctx)
}

// loadProgress checks that the unfinished copy is from this source, and loads its progress. The path identifies the source;
// changes of its rows since the copy began are detected by the comparison.
func (c *copying) loadProgress(ctx context.Context) error {
	const source = "from" // no table has this name
	type row struct {
		Name    string
		LastKey string
		Copied  int64
	}
	var rows []row
	if err := c.to.NewRaw("SELECT name, last_key, copied FROM "+stateTable).Scan(ctx, &rows); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if len(rows) == 0 {
		_, err := c.to.ExecContext(ctx, "INSERT INTO "+stateTable+" VALUES (?, ?, 0)", source, c.from.Path)
		return err
	}
	for _, r := range rows {
		if r.Name == source {
			if r.LastKey != c.from.Path {
				return fmt.Errorf("%w, of %s", ErrOther, r.LastKey)
			}
			continue
		}
		i := slices.IndexFunc(c.tables, func(t *table) bool { return t.name == r.Name })
		if i < 0 {
			return ErrOther
		}
		c.tables[i].done = r.Copied
		c.done += r.Copied
		if err := json.Unmarshal([]byte(r.LastKey), &c.tables[i].last); err != nil {
			return err
		}
	}
	return nil
}

// sourceTables returns the tables of the source.
func (c *copying) sourceTables(ctx context.Context) (all []*table, err error) {
	err = c.each(ctx, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name <> '"+
		versionTable+"' ORDER BY name", nil, func(row []any) error {
		all = append(all, &table{name: row[0].(string)})
		return nil
	})
	for _, t := range all {
		type part struct {
			name string
			at   int64
		}
		var key []part
		err = errors.Join(err, c.each(ctx, "SELECT name, pk FROM pragma_table_info('"+t.name+"') ORDER BY cid", nil, func(row []any) error {
			t.columns = append(t.columns, row[0].(string))
			if at := row[1].(int64); at > 0 {
				key = append(key, part{row[0].(string), at})
			}
			return nil
		}))
		slices.SortFunc(key, func(a, b part) int { return int(a.at - b.at) })
		for _, p := range key {
			t.key = append(t.key, p.name)
		}
		if err == nil && len(t.key) == 0 {
			err = fmt.Errorf("table %s has no primary key", t.name)
		}
		err = errors.Join(err, c.each(ctx, "SELECT COUNT(*), COALESCE((SELECT seq FROM sqlite_sequence WHERE name = '"+t.name+"'), 0) FROM "+
			t.name, nil, func(row []any) error {
			t.rows, t.serial = row[0].(int64), row[1].(int64)
			return nil
		}))
	}
	return all, err
}

// each calls fn with each row of a query on the source.
func (c *copying) each(ctx context.Context, query string, args []any, fn func(row []any) error) (err error) {
	rows, err := c.from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := fn(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// copyTable copies the remaining rows of one table.
func (c *copying) copyTable(ctx context.Context, t *table) error {
	key := make([]int, len(t.key))
	for i, name := range t.key {
		key[i] = slices.Index(t.columns, name)
	}
	enough := errors.New("enough")
	for {
		query, args := "SELECT "+strings.Join(t.columns, ", ")+" FROM "+t.name, []any{}
		if t.last != nil {
			query += " WHERE (" + strings.Join(t.key, ", ") + ") > (" + placeholders(len(t.key)) + ")"
			for _, v := range t.last {
				value, err := decodeKey(v)
				if err != nil {
					return err
				}
				args = append(args, value)
			}
		}
		var values []any
		n, bytes := 0, 0
		err := c.each(ctx, query+" ORDER BY "+strings.Join(t.key, ", "), args, func(row []any) error {
			for _, v := range row {
				switch v := v.(type) {
				case string:
					bytes += len(v)
				case []byte:
					bytes += len(v)
				}
			}
			values = append(values, row...)
			t.last = t.last[:0]
			for _, i := range key {
				t.last = append(t.last, encodeKey(row[i]))
			}
			if n++; n == batchRows || bytes >= batchBytes {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) || n == 0 {
			return err
		}
		if err := c.insert(ctx, t, values, n); err != nil {
			return err
		}
		c.done += int64(n)
		c.progress(Progress{Step: "copy", Table: t.name, Done: c.done, Total: c.total})
	}
}

func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// encodeKey encodes a key value as text: its kind and the value.
func encodeKey(v any) string {
	switch v := v.(type) {
	case string:
		return "t" + v
	case []byte:
		return "b" + base64.StdEncoding.EncodeToString(v)
	}
	return fmt.Sprintf("n%d", v)
}

func decodeKey(s string) (any, error) {
	if s == "" {
		return nil, errors.New("a key without a kind")
	}
	switch rest := s[1:]; s[0] {
	case 't':
		return rest, nil
	case 'b':
		return base64.StdEncoding.DecodeString(rest)
	default:
		return json.Number(rest).Int64()
	}
}

// insert inserts rows and stores the progress of the table in one transaction.
func (c *copying) insert(ctx context.Context, t *table, values []any, n int) (err error) {
	tx, err := c.to.Writer().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the first error matters
		}
	}()
	row := "(" + placeholders(len(t.columns)) + ")"
	if _, err := tx.ExecContext(ctx, "INSERT INTO `"+t.name+"` (`"+strings.Join(t.columns, "`, `")+"`) VALUES "+row+
		strings.Repeat(", "+row, n-1), values...); err != nil {
		return fmt.Errorf("the rows up to the key %q: %w", t.last, err)
	}
	last, err := json.Marshal(t.last)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "REPLACE INTO "+stateTable+" VALUES (?, ?, ?)", t.name, string(last), t.done+int64(n)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	t.done += int64(n)
	return nil
}

// compare reads all rows of both sides.
func (c *copying) compare(ctx context.Context) (all []Table, err error) {
	c.done = 0
	var differ []string
	for _, t := range c.tables {
		query := "SELECT `" + strings.Join(t.columns, "`, `") + "` FROM `" + t.name + "`"
		source, err := c.from.QueryContext(ctx, query)
		if err != nil {
			return nil, err
		}
		sourceSum, err := checksum(t.name, source, func(n int64) {
			c.progress(Progress{Step: "compare", Table: t.name, Done: c.done + n, Total: c.total})
		})
		if err != nil {
			return nil, err
		}
		target, err := c.to.Reader().QueryContext(ctx, query)
		if err != nil {
			return nil, err
		}
		targetSum, err := checksum(t.name, target, func(int64) {})
		if err != nil {
			return nil, err
		}
		if sourceSum != targetSum {
			differ = append(differ, fmt.Sprintf("%s (%d rows in the source, %d in the target)", t.name, sourceSum.Rows, targetSum.Rows))
		}
		c.done += sourceSum.Rows
		all = append(all, sourceSum)
	}
	if differ != nil {
		return nil, fmt.Errorf("%w: %s", ErrDiffers, strings.Join(differ, ", "))
	}
	return all, nil
}

// checksum adds the hashes of all rows, so that the result does not depend on their order, which differs between engines.
func checksum(name string, rows *sql.Rows, progress func(int64)) (t Table, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return t, err
	}
	row, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
	for i := range row {
		into[i] = &row[i]
	}
	t.Name = name
	var high, low uint64
	var text []byte
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return t, err
		}
		text = text[:0]
		for _, v := range row {
			if v == nil {
				text = append(text, 0)
				continue
			}
			text = append(binary.AppendUvarint(append(text, 1), uint64(len(v))), v...)
		}
		h := sha256.Sum256(text)
		high += binary.BigEndian.Uint64(h[:8])
		low += binary.BigEndian.Uint64(h[8:16])
		if t.Rows++; t.Rows%(20*batchRows) == 0 {
			progress(t.Rows)
		}
	}
	t.Sum = fmt.Sprintf("%016x%016x", high, low)
	return t, rows.Err()
}

// setAutoIncrement makes the target continue the auto-increment numbers of the source, whose last row may be deleted.
func (c *copying) setAutoIncrement(ctx context.Context, t *table) error {
	if t.serial == 0 {
		return nil
	}
	_, err := c.to.ExecContext(ctx, fmt.Sprintf("ALTER TABLE `%s` AUTO_INCREMENT = %d", t.name, t.serial+1))
	return err
}
