package accounts

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// A credential is the data of an account for a log-in.
type credential struct {
	User
	passwordHash string // empty means no password
}

const userColumns = "id, email, name, bio, avatar, zone, zone_next, zone_from, find_by_id, find_by_email, requests, on_boards, " +
	"presence, password_hash IS NOT NULL, created, erased, banned_until, version"

func (u *User) columns() []any {
	return []any{&u.ID, &u.Email, &u.Name, &u.Bio, &u.Avatar, &u.Clock.Zone, &u.Clock.Next, &u.Clock.From, &u.FindByID, &u.FindByEmail,
		&u.Requests, &u.OnBoards, &u.Presence,
		&u.HasPassword, (*millis)(&u.Created), (*erasure)(&u.Erased), (*millis)(&u.Banned), &u.Version}
}

// millis is a time stored as Unix milliseconds; 0 means none.
type millis time.Time

// Scan implements sql.Scanner.
func (m *millis) Scan(src any) error {
	var n sql.NullInt64
	err := n.Scan(src)
	*m = millis(sqldb.TimeOrZero(n.Int64))
	return err
}

// selectCredential returns the zero credential if no account has the address. If two accounts were stored with
// different spellings of the domain, it returns the one with the given spelling.
func selectCredential(ctx context.Context, q sqldb.Querier, email string) (c credential, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+userColumns+
		", COALESCE(password_hash, '') FROM users WHERE email_key IN (?) ORDER BY email_key = ? DESC LIMIT 1", bun.List(emails.Keys(email)),
		emails.Lower(email)).
		Scan(append(c.columns(), &c.passwordHash)...)
	return c, sqldb.Missing(err, nil)
}

func selectUser(ctx context.Context, q sqldb.Querier, id ID) (u User, err error) {
	return scanUser(q.QueryRowContext(ctx, "SELECT "+userColumns+" FROM users WHERE id = ?", id))
}

// lockUser is selectUser that locks the row until tx ends.
func lockUser(ctx context.Context, tx *sqldb.Tx, id ID) (u User, err error) {
	return scanUser(tx.QueryRowContext(ctx, "SELECT "+userColumns+" FROM users WHERE id = ?"+tx.Dialect().ForUpdate(), id))
}

func scanUser(row *sql.Row) (u User, err error) {
	err = row.Scan(u.columns()...)
	return u, sqldb.Missing(err, ErrNoUser)
}

// insertUser returns ErrEmailTaken if an account has the address.
func insertUser(ctx context.Context, tx *sqldb.Tx, u User, emailKey, passwordHash string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO users (id, email, email_key, name, bio, password_hash, zone, zone_next, zone_from, "+
		"find_by_id, find_by_email, requests, on_boards, presence, created) VALUES (?, ?, ?, ?, ?, NULLIF(?, ''), ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		u.ID, u.Email, emailKey, u.Name, u.Bio, passwordHash, u.Clock.Zone, u.Clock.Next, u.Clock.From, u.FindByID, u.FindByEmail, u.Requests,
		u.OnBoards, u.Presence, u.Created.UnixMilli())
	if sqldb.IsDuplicate(err) {
		return ErrEmailTaken // an id has 71 random bits, so the duplicate is the address
	}
	return err
}

// updateUser stores what the owner may change, see [Change], and increments the version of the row.
func updateUser(ctx context.Context, tx *sqldb.Tx, u User) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET name = ?, bio = ?, zone = ?, zone_next = ?, zone_from = ?, find_by_id = ?, "+
		"find_by_email = ?, requests = ?, on_boards = ?, presence = ?, version = version + 1 WHERE id = ?",
		u.Name, u.Bio, u.Clock.Zone, u.Clock.Next, u.Clock.From, u.FindByID, u.FindByEmail, u.Requests, u.OnBoards, u.Presence, u.ID)
	return err
}

// idsPerStatement is the number of ids per statement.
const idsPerStatement = 500

// selectUsers returns the existing users of up to idsPerStatement ids.
func selectUsers(ctx context.Context, q sqldb.Querier, ids []ID) (map[ID]User, error) {
	all := make(map[ID]User, len(ids))
	return all, eachUser(ctx, q, userColumns, ids, func(rows *sql.Rows) error {
		var u User
		err := rows.Scan(u.columns()...)
		all[u.ID] = u
		return err
	})
}

// activePage is the number of sessions per statement of recentlyActive.
const activePage = 1000

// recentlyActive returns up to n users, most recently active first. It reads ten sessions per user, which is enough
// unless users have more devices.
//
// A log-in and each refresh use a session and set the expiry of its refresh token, which has an index. It may skip
// sessions of the same millisecond at the border of two pages.
func recentlyActive(ctx context.Context, q sqldb.Querier, n int) (ids []ID, err error) {
	seen := make(map[ID]bool, n)
	before := int64(math.MaxInt64)
	for scanned := 0; len(ids) < n && scanned < 10*n; scanned += activePage {
		rows, err := q.QueryContext(ctx, "SELECT user_id, refresh_expires FROM sessions WHERE refresh_expires < ? ORDER BY refresh_expires "+
			"DESC LIMIT ?", before, activePage)
		got := 0
		err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
			var id ID
			err := rows.Scan(&id, &before)
			if got++; !seen[id] && len(ids) < n {
				seen[id] = true
				ids = append(ids, id)
			}
			return err
		})
		if err != nil || got < activePage {
			return ids, err
		}
	}
	return ids, nil
}

// selectClocks adds the calendars of the existing users of up to idsPerStatement ids. If there are many ids in order,
// as in a pass over all users, it reads the users from the first to the last id: that is a tenth of the work of finding
// each. If the range has far more users than ids, it finds each of the rest.
func selectClocks(ctx context.Context, q sqldb.Querier, ids []ID, into map[ID]civil.Clock) error {
	const columns = "id, zone, zone_next, zone_from"
	if len(ids) >= minRangeIDs && slices.IsSortedFunc(ids, ID.Compare) {
		rows, err := q.QueryContext(ctx, "SELECT "+columns+" FROM users WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?", ids[0], ids[len(ids)-1],
			4*len(ids))
		n, rest := 0, ids
		err = eachClock(rows, err, func(id ID, c civil.Clock) {
			n++
			for len(rest) > 0 && rest[0].Compare(id) < 0 {
				rest = rest[1:]
			}
			if len(rest) > 0 && rest[0] == id {
				into[id] = c
			}
		})
		if err != nil || n < 4*len(ids) {
			return err
		}
		ids = rest
	}
	rows, err := q.QueryContext(ctx, "SELECT "+columns+" FROM users WHERE id IN (?)", bun.List(ids))
	return eachClock(rows, err, func(id ID, c civil.Clock) { into[id] = c })
}

// minRangeIDs is the number of ids from which a range read is cheaper.
const minRangeIDs = 50

func eachClock(rows *sql.Rows, err error, fn func(ID, civil.Clock)) error {
	return sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var id ID
		var c civil.Clock
		err := rows.Scan(&id, &c.Zone, &c.Next, &c.From)
		fn(id, c)
		return err
	})
}

// eachUser calls scan for each user of ids, with the given columns.
func eachUser(ctx context.Context, q sqldb.Querier, columns string, ids []ID, scan func(rows *sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, "SELECT "+columns+" FROM users WHERE id IN (?)", bun.List(ids))
	return sqldb.Each(rows, err, scan)
}

// sweepExpired deletes expired rows, up to sweepChunk of each kind, and reports whether there may be more.
func sweepExpired(ctx context.Context, db *sqldb.DB) (more bool, err error) {
	old, err := codes.Sweep(ctx, db, sweepChunk)
	if err != nil {
		return false, err
	}
	sessions, err := sweepSessions(ctx, db)
	if err != nil {
		return false, err
	}
	undos, err := sweepUndos(ctx, db)
	if err != nil {
		return false, err
	}
	events, err := trail.Sweep(ctx, db, sweepChunk)
	return max(old, sessions, undos, events) == sweepChunk, err
}

// sweepChunk keeps each DELETE and its locks short.
const sweepChunk = 1000

// ErrStore reports that SQL is unavailable.
var ErrStore = errs.New(errs.Unavailable, "accounts.store_away",
	"Accounts cannot be reached right now. Please try again.").Retry(2 * time.Second)

// asKind maps errors of the engine to the kinds that callers handle.
func asKind(err error) error { return sqldb.AsKind(err, ErrStore) }
