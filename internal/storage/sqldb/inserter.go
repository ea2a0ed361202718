package sqldb

import (
	"context"
	"database/sql"
	"slices"
	"sync"
)

// prepared are the statements of one text for changing numbers of rows. The server parses
// each size once and not each batch, which is a quarter of what a row costs it.
type prepared struct {
	db   *DB
	text func(rows int) string
	cols int // values of a row

	mu     sync.Mutex
	bySize map[int]*sql.Stmt
}

// For returns the text for n rows, for [Tx.SQL].
func (p *prepared) For(n int) string { return p.text(n) }

// fill repeats the last row until there are as many as a statement has.
func (p *prepared) fill(args []any) (size int, _ []any) {
	n := len(args) / p.cols
	size = roundUp(n)
	args = slices.Grow(args, (size-n)*p.cols)
	for last := args[len(args)-p.cols:]; n < size; n++ {
		args = append(args, last...)
	}
	return size, args
}

// statement returns nil where nothing can be prepared: the server is away, or
// has too many statements. Then sending the text works, or its error says why not.
func (p *prepared) statement(ctx context.Context, size int) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.bySize[size]; s != nil {
		return s
	}
	s, err := p.db.w.DB.PrepareContext(ctx, p.text(size))
	if err != nil {
		return nil
	}
	p.bySize[size] = s // lives as long as the pool
	return s
}

// roundUp keeps the number of statements small: 8 up to 8 rows, 7 up to 64, and
// one for each further 64.
func roundUp(n int) int {
	switch {
	case n <= 8:
		return n
	case n <= 64:
		return (n + 7) &^ 7
	}
	return (n + 63) &^ 63
}

// Inserter adds rows in batches of changing size by prepared statements. Make one with
// [DB.Inserter]; it is safe for concurrent use.
type Inserter struct{ prepared }

// Inserter prepares for adding rows as u says. Where u has a Set, it must change
// nothing when the same row comes a second time: a batch is filled up with its last row.
func (db *DB) Inserter(u Upsert) *Inserter {
	return &Inserter{prepared{db: db, text: db.dialect.Compile(u).For, cols: len(u.Columns), bySize: map[int]*sql.Stmt{}}}
}

// Insert adds rows, at least one, whose values follow each other in args. It
// returns how many were new, if there is no Set. All of them are one statement, which is one
// transaction and one round trip.
func (in *Inserter) Insert(ctx context.Context, args []any) (added int64, err error) {
	size, args := in.fill(args) // a row that was just written changes nothing
	var res sql.Result
	stmt := in.statement(ctx, size)
	if stmt != nil {
		res, err = stmt.ExecContext(ctx, args...)
	}
	if stmt == nil || tooManyStatements(err) {
		res, err = in.db.w.DB.ExecContext(ctx, in.text(size), args...)
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Finder reads rows by their keys, in batches of changing size by prepared statements. Make
// one with [DB.Finder]; it is safe for concurrent use.
type Finder struct{ prepared }

// Finder prepares for reading rows. The query ends where a list of keys of that many columns
// follows: "SELECT … WHERE (user_id, day) IN ". The lock is that of [Dialect.ForUpdate], or none.
func (db *DB) Finder(query string, columns int, lock string) *Finder {
	text := func(n int) string { return query + "(" + Tuples(columns, n) + ")" + lock }
	return &Finder{prepared{db: db, text: text, cols: columns, bySize: map[int]*sql.Stmt{}}}
}

// Find returns the rows that there are, each once, of keys whose values follow each other in
// args, at least one. It reads what the writer has.
func (f *Finder) Find(ctx context.Context, args []any) (*sql.Rows, error) {
	size, args := f.fill(args)
	if stmt := f.statement(ctx, size); stmt != nil {
		rows, err := stmt.QueryContext(ctx, args...)
		if !tooManyStatements(err) {
			return rows, err
		}
	}
	return f.db.w.DB.QueryContext(ctx, f.text(size), args...)
}
