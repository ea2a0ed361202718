package leaderboard

import "iter"

// Rows is the result of a query, like *sql.Rows of package database/sql.
type Rows interface {
	Next() bool
	Err() error
	Close() error
}

// FromRows returns the entries of a query, for [Ensure] and [Board.Load]. query is called when the sequence is read,
// and scan sets an entry, which is zero, from the present row. An error ends the sequence, so that a partly loaded
// board does not count as loaded.
func FromRows[R Rows](query func() (R, error), scan func(R, *Entry) error) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		rows, err := query()
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer rows.Close() //nolint:errcheck // Err has already reported the error
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
