package accounts

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Segment selects users whose accounts are not deleted. The zero Segment selects all of them.
type Segment struct {
	Language         i18n.Language `json:"language,omitempty"` // users without a language count as English
	Zone             string        `json:"zone,omitempty"`     // IANA's name
	RegisteredFrom   time.Time     `json:"registered_from,omitzero"`
	RegisteredBefore time.Time     `json:"registered_before,omitzero"`
	ActiveSince      time.Time     `json:"active_since,omitzero"` // of logged-in users, with a precision of twenty minutes
}

// where returns the segment as a condition on users u, and its arguments.
func (s Segment) where() (text string, args []any) {
	text = "u.erased = 0"
	and := func(condition string, more ...any) { text, args = text+" AND "+condition, append(args, more...) }
	switch {
	case s.Language == i18n.English:
		and("u.lang IN (?, '')", string(s.Language))
	case s.Language != "":
		and("u.lang = ?", string(s.Language))
	}
	if s.Zone != "" {
		and("u.zone = ?", s.Zone)
	}
	if !s.RegisteredFrom.IsZero() {
		and("u.created >= ?", s.RegisteredFrom.UnixMilli())
	}
	if !s.RegisteredBefore.IsZero() {
		and("u.created < ?", s.RegisteredBefore.UnixMilli())
	}
	if !s.ActiveSince.IsZero() {
		and("EXISTS (SELECT 1 FROM sessions s WHERE s.user_id = u.id AND s.used >= ?)", s.ActiveSince.UnixMilli())
	}
	return text, args
}

// Reader is a user with their language.
type Reader struct {
	User     ID
	Language i18n.Language
}

// Readers returns up to n users of a segment after a given user, in the order of their ids.
func (s Segment) Readers(ctx context.Context, q sqldb.Querier, after ID, n int) (_ []Reader, err error) {
	defer errs.Wrap(&err, "accounts.Readers")
	where, args := s.where()
	rows, err := q.QueryContext(ctx, "SELECT u.id, u.lang FROM users u WHERE u.id > ? AND "+where+" ORDER BY u.id LIMIT ?",
		append(append([]any{after}, args...), n)...)
	return sqldb.Collect(rows, err, scanReader)
}

func scanReader(rows *sql.Rows) (r Reader, err error) {
	err = rows.Scan(&r.User, (*string)(&r.Language))
	r.Language = cmp.Or(r.Language, i18n.English)
	return r, err
}

// Count returns the number of users in a segment.
func (s Segment) Count(ctx context.Context, q sqldb.Querier) (n int64, err error) {
	defer errs.Wrap(&err, "accounts.Count")
	where, args := s.where()
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) FROM users u WHERE "+where, args...).Scan(&n)
	return n, asKind(err)
}

// ReadersOf returns the users of up to 500 ids whose accounts are not deleted.
func ReadersOf(ctx context.Context, q sqldb.Querier, users []ID) (all []Reader, err error) {
	defer errs.Wrap(&err, "accounts.ReadersOf")
	return all, eachUser(ctx, q, "id, lang, erased", users, func(rows *sql.Rows) error {
		var r Reader
		var erased int64
		err := rows.Scan(&r.User, (*string)(&r.Language), &erased)
		if erased == 0 {
			r.Language = cmp.Or(r.Language, i18n.English)
			all = append(all, r)
		}
		return err
	})
}
