package leaderboard

import "iter"

// Rows is what a query found, as *sql.Rows of package database/sql has it.
type Rows interface {
	Next() bool
	Err() error
	Close() error
}

// FromRows returns the entries that a query finds, for [Ensure] and [Board.Load]: query is called when they are
// asked for, and scan sets an entry, which is zero, to the present row. An error ends the sequence, so that a
// board which was read half does not count as loaded.
func FromRows[R Rows](query func() (R, error), scan func(R, *Entry) error) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		rows, err := query()
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer rows.Close() //nolint:errcheck // what it would say, Err has said
		for rows.Next() {
			var e Entry
			if err := scan(rows, &e); err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(Entry{}, err)
		}
	}
}
