package accounts

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// A credential is what a log-in needs of an account.
type credential struct {
	User
	passwordHash string // empty: none was set
}

const userColumns = "id, email, name, bio, avatar, zone, zone_next, zone_from, find_by_id, find_by_email, requests, password_hash IS NOT NULL, created, erased, banned_until"

func (u *User) columns() []any {
	return []any{&u.ID, &u.Email, &u.Name, &u.Bio, &u.Avatar, &u.Clock.Zone, &u.Clock.Next, &u.Clock.From, &u.FindByID, &u.FindByEmail, &u.Requests,
		&u.HasPassword, (*millis)(&u.Created), (*erasure)(&u.Erased), (*millis)(&u.Banned)}
}

// millis is a time kept as Unix milliseconds, 0 for none.
type millis time.Time

// Scan implements sql.Scanner.
func (m *millis) Scan(src any) error {
	var n sql.NullInt64
	err := n.Scan(src)
	*m = millis{}
	if n.Int64 != 0 {
		*m = millis(time.UnixMilli(n.Int64).UTC())
	}
	return err
}

// selectCredential returns the zero credential when there is no such account.
func selectCredential(ctx context.Context, q sqldb.Querier, emailKey string) (c credential, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+userColumns+", COALESCE(password_hash, '') FROM users WHERE email_key = ?", emailKey).
		Scan(append(c.columns(), &c.passwordHash)...)
	if errors.Is(err, sql.ErrNoRows) {
		return credential{}, nil
	}
	return c, err
}

func selectUser(ctx context.Context, q sqldb.Querier, id ID) (u User, err error) {
	return scanUser(q.QueryRowContext(ctx, "SELECT "+userColumns+" FROM users WHERE id = ?", id))
}

// lockUser is selectUser for a change: nobody else changes the row before tx ends.
func lockUser(ctx context.Context, tx *sqldb.Tx, id ID) (u User, err error) {
	return scanUser(tx.QueryRowContext(ctx, "SELECT "+userColumns+" FROM users WHERE id = ?"+tx.Dialect().ForUpdate(), id))
}

func scanUser(row *sql.Row) (u User, err error) {
	if err = row.Scan(u.columns()...); errors.Is(err, sql.ErrNoRows) {
		return User{}, ErrNoUser
	}
	return u, err
}

// insertUser answers ErrEmailTaken for an address that has an account already.
func insertUser(ctx context.Context, tx *sqldb.Tx, u User, emailKey, passwordHash string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO users (id, email, email_key, name, bio, password_hash, zone, zone_next, zone_from, find_by_id, find_by_email, requests, created) VALUES (?, ?, ?, ?, ?, NULLIF(?, ''), ?, ?, ?, ?, ?, ?, ?)",
		u.ID, u.Email, emailKey, u.Name, u.Bio, passwordHash, u.Clock.Zone, u.Clock.Next, u.Clock.From, u.FindByID, u.FindByEmail, u.Requests, u.Created.UnixMilli())
	if sqldb.IsDuplicate(err) {
		return ErrEmailTaken // the id has 71 bits of chance; it is the address
	}
	return err
}

// updateUser writes what its owner may change, see [Change].
func updateUser(ctx context.Context, tx *sqldb.Tx, u User) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET name = ?, bio = ?, zone = ?, zone_next = ?, zone_from = ?, find_by_id = ?, find_by_email = ?, requests = ? WHERE id = ?",
		u.Name, u.Bio, u.Clock.Zone, u.Clock.Next, u.Clock.From, u.FindByID, u.FindByEmail, u.Requests, u.ID)
	return err
}

// inOne is how many identifiers one statement asks for.
const inOne = 500

// selectUsers returns those of up to inOne ids that exist.
func selectUsers(ctx context.Context, q sqldb.Querier, ids []ID) (map[ID]User, error) {
	all := make(map[ID]User, len(ids))
	return all, eachUser(ctx, q, userColumns, ids, func(rows *sql.Rows) error {
		var u User
		err := rows.Scan(u.columns()...)
		all[u.ID] = u
		return err
	})
}

// activePage is how many sessions one statement of recentlyActive reads.
const activePage = 1000

// recentlyActive returns up to n users, who was active last first. It looks at ten
// sessions for each, which is enough unless they have more devices than people do.
//
// A session is used when it is opened and at each refresh, and both set the end of
// its refresh token, which has an index. Sessions of one millisecond at the border
// of two pages may be passed over.
func recentlyActive(ctx context.Context, q sqldb.Querier, n int) (ids []ID, err error) {
	seen := make(map[ID]bool, n)
	before := int64(math.MaxInt64)
	for looked := 0; len(ids) < n && looked < 10*n; looked += activePage {
		rows, err := q.QueryContext(ctx, "SELECT user_id, refresh_expires FROM sessions WHERE refresh_expires < ? ORDER BY refresh_expires DESC LIMIT ?", before, activePage)
		if err != nil {
			return nil, err
		}
		got := 0
		for ; rows.Next(); got++ {
			var id ID
			if err := rows.Scan(&id, &before); err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			if !seen[id] && len(ids) < n {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || got < activePage {
			return ids, err
		}
	}
	return ids, nil
}

func selectClocks(ctx context.Context, q sqldb.Querier, ids []ID, into map[ID]civil.Clock) error {
	return eachUser(ctx, q, "id, zone, zone_next, zone_from", ids, func(rows *sql.Rows) error {
		var id ID
		var c civil.Clock
		err := rows.Scan(&id, &c.Zone, &c.Next, &c.From)
		into[id] = c
		return err
	})
}

// eachUser calls scan for every user among ids, with the columns asked for.
func eachUser(ctx context.Context, q sqldb.Querier, columns string, ids []ID, scan func(rows *sql.Rows) error) error {
	rows, err := q.QueryContext(ctx, "SELECT "+columns+" FROM users WHERE id IN (?)", bun.List(ids))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// A sessionRow is a session as it is stored.
type sessionRow struct {
	Session
	user           ID
	accessHash     string
	accessExpires  time.Time
	refreshHash    string
	refreshExpires time.Time
	nonce          string
}

func insertSession(ctx context.Context, tx *sqldb.Tx, s sessionRow) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions (user_id, device_id, name, ip, created, used, access_hash, access_expires,
		refresh_hash, refresh_expires, prev_refresh_hash, prev_until, nonce, rev) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, ?, 1)`,
		s.user, s.Device, s.Name, s.IP, s.Created.UnixMilli(), s.Used.UnixMilli(), s.accessHash, s.accessExpires.UnixMilli(),
		s.refreshHash, s.refreshExpires.UnixMilli(), s.nonce)
	return err
}

// rotateSession replaces the pair if presented is the hash of the refresh token
// in force; of many callers with the same token one gets true. The one replaced
// is remembered until replay.
func rotateSession(ctx context.Context, tx *sqldb.Tx, s sessionRow, presented string, replay time.Time) (bool, error) {
	return one(tx.ExecContext(ctx, `UPDATE sessions SET prev_refresh_hash = refresh_hash, prev_until = ?, refresh_hash = ?, refresh_expires = ?,
		access_hash = ?, access_expires = ?, nonce = ?, used = ?, rev = rev + 1
		WHERE user_id = ? AND device_id = ? AND refresh_hash = ? AND refresh_expires > ?`,
		replay.UnixMilli(), s.refreshHash, s.refreshExpires.UnixMilli(), s.accessHash, s.accessExpires.UnixMilli(), s.nonce, s.Used.UnixMilli(),
		s.user, s.Device, presented, s.Used.UnixMilli()))
}

// A rotation is what the last refresh of a session left behind.
type rotation struct {
	hash          string // of the refresh token in force
	prevHash      string // of the refresh token traded in; empty before the first
	prevUntil     time.Time
	nonce         string
	accessExpires time.Time
}

// selectRotation reports false when there is no such session.
func selectRotation(ctx context.Context, q sqldb.Querier, user ID, device DeviceID) (r rotation, found bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT refresh_hash, prev_refresh_hash, prev_until, nonce, access_expires FROM sessions WHERE user_id = ? AND device_id = ?", user, device).
		Scan(&r.hash, &r.prevHash, (*millis)(&r.prevUntil), &r.nonce, (*millis)(&r.accessExpires))
	if errors.Is(err, sql.ErrNoRows) {
		return rotation{}, false, nil
	}
	return r, err == nil, err
}

// bumpSessions makes every copy of the user's sessions older than what is
// stored, and returns the devices.
func bumpSessions(ctx context.Context, tx *sqldb.Tx, user ID) ([]DeviceID, error) {
	if _, err := tx.ExecContext(ctx, "UPDATE sessions SET rev = rev + 1 WHERE user_id = ?", user); err != nil {
		return nil, err
	}
	return scanDevices(tx.QueryContext(ctx, "SELECT device_id FROM sessions WHERE user_id = ?", user))
}

// selectSurplus returns the devices beyond the keep last used.
func selectSurplus(ctx context.Context, tx *sqldb.Tx, user ID, keep int) ([]DeviceID, error) {
	return scanDevices(tx.QueryContext(ctx, "SELECT device_id FROM sessions WHERE user_id = ? ORDER BY used DESC, created DESC, device_id LIMIT 1000 OFFSET ?", user, keep))
}

// lockDevices returns all devices of the user, for their deletion.
func lockDevices(ctx context.Context, tx *sqldb.Tx, user ID) ([]DeviceID, error) {
	return scanDevices(tx.QueryContext(ctx, "SELECT device_id FROM sessions WHERE user_id = ?"+tx.Dialect().ForUpdate(), user))
}

func scanDevices(rows *sql.Rows, err error) (devices []DeviceID, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var d DeviceID
		if err := rows.Scan(&d); err != nil {
			return nil, err
		}
		devices = append(devices, d)
	}
	return devices, rows.Err()
}

// deleteSessions returns how many there were.
func deleteSessions(ctx context.Context, tx *sqldb.Tx, user ID, devices []DeviceID) (int64, error) {
	return affected(tx.ExecContext(ctx, "DELETE FROM sessions WHERE user_id = ? AND device_id IN (?)", user, bun.List(devices)))
}

// selectSessions returns the sessions alive at now, the last used first. There
// are never more than Config.Devices.
func selectSessions(ctx context.Context, q sqldb.Querier, user ID, now time.Time) (list []Session, err error) {
	rows, err := q.QueryContext(ctx, "SELECT device_id, name, ip, created, used FROM sessions WHERE user_id = ? AND refresh_expires > ? ORDER BY used DESC, created DESC, device_id",
		user, now.UnixMilli())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s Session
		if err := rows.Scan(&s.Device, &s.Name, &s.IP, (*millis)(&s.Created), (*millis)(&s.Used)); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// selectCopies returns what Redis may know of the user's sessions on devices.
// A device without a session is left out.
func selectCopies(ctx context.Context, q sqldb.Querier, user ID, devices []DeviceID) (list []sessionCopy, err error) {
	rows, err := q.QueryContext(ctx, `SELECT s.device_id, s.rev, s.access_hash, s.access_expires, u.zone, u.zone_next, u.zone_from
		FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.user_id = ? AND s.device_id IN (?)`, user, bun.List(devices))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		c := sessionCopy{user: user}
		if err := rows.Scan(&c.device, &c.rev, &c.hash, &c.expires, &c.clock.Zone, &c.clock.Next, &c.clock.From); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// sweepExpired removes what has expired, up to sweepChunk rows of each kind, and
// reports whether there may be more.
func sweepExpired(ctx context.Context, db *sqldb.DB) (more bool, err error) {
	codes, err := sweepCodes(ctx, db)
	if err != nil {
		return false, err
	}
	sessions, err := sweepSessions(ctx, db)
	return max(codes, sessions) == sweepChunk, err
}

// sweepChunk keeps each deletion, and the locks it holds, short.
const sweepChunk = 1000

// sweepSessions removes up to sweepChunk sessions whose refresh token expired.
// Their access tokens ended before: Config.AccessLife is the shorter one.
func sweepSessions(ctx context.Context, db *sqldb.DB) (int64, error) {
	return affected(db.ExecContext(ctx, `DELETE FROM sessions WHERE (user_id, device_id) IN
		(SELECT user_id, device_id FROM (SELECT user_id, device_id FROM sessions WHERE refresh_expires <= ? LIMIT ?) dead)`, db.Now().UnixMilli(), sweepChunk))
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func one(r sql.Result, err error) (bool, error) {
	n, err := affected(r, err)
	return n == 1, err
}

// ErrStore reports that SQL is away.
var ErrStore = errs.New(errs.Unavailable, "accounts.store_away", "Accounts cannot be reached right now. Please try again.").Retry(2 * time.Second)

// asKind gives errors of the engine the kind that callers act on.
func asKind(err error) error {
	if err != nil && (sqldb.IsUnavailable(err) || sqldb.IsRetryable(err)) {
		return errors.Join(ErrStore, err)
	}
	return err
}

// Directory looks accounts up in SQL alone, for tools beside a running server.
type Directory struct{ db *sqldb.DB }

// NewDirectory returns the directory of the accounts in db.
func NewDirectory(db *sqldb.DB) Directory { return Directory{db} }

// Clocks returns the calendars of those users that exist and are not erased.
func (d Directory) Clocks(ctx context.Context, ids []ID) (map[ID]civil.Clock, error) {
	m := make(map[ID]civil.Clock, len(ids))
	for chunk := range slices.Chunk(ids, inOne) {
		if err := selectClocks(ctx, d.db, chunk, m); err != nil {
			return nil, asKind(err)
		}
		erased, err := selectErased(ctx, d.db, chunk)
		if err != nil {
			return nil, asKind(err)
		}
		for _, id := range erased {
			delete(m, id)
		}
	}
	return m, nil
}

// ByEmail returns the accounts with those addresses, by [Email.Key].
func (d Directory) ByEmail(ctx context.Context, keys []string) (map[string]User, error) {
	m := make(map[string]User, len(keys))
	for chunk := range slices.Chunk(keys, inOne) {
		if err := d.byEmail(ctx, chunk, m); err != nil {
			return nil, asKind(err)
		}
	}
	return m, nil
}

func (d Directory) byEmail(ctx context.Context, keys []string, into map[string]User) error {
	rows, err := d.db.QueryContext(ctx, "SELECT email_key, "+userColumns+" FROM users WHERE email_key IN (?)", bun.List(keys))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var u User
		if err := rows.Scan(append([]any{&key}, u.columns()...)...); err != nil {
			return err
		}
		into[key] = u
	}
	return rows.Err()
}

// NewUser checks what an account is opened with, as Register does, and gives it
// an id. ErrEmail, ErrName, civil.ErrZone.
func NewUser(email, name, zone string) (u User, err error) {
	e, err := ParseEmail(email)
	if err != nil {
		return User{}, err
	}
	u = User{ID: ids.New[User](), Email: e.Given, Clock: civil.Clock{Zone: cmp.Or(zone, "UTC")}, FindByID: true, Requests: true}
	if u.Name, err = cleanName(name); err != nil {
		return User{}, err
	}
	return u, checkZone(u.Clock.Zone)
}

// Open opens accounts without a password, whose owners log in by code. The users
// must come from [NewUser]. ErrEmailTaken.
func Open(ctx context.Context, tx *sqldb.Tx, users []User) error {
	for chunk := range slices.Chunk(users, inOne) {
		args := make([]any, 0, 7*len(chunk))
		for _, u := range chunk {
			args = append(args, u.ID, u.Email, emailKey(u.Email), u.Name, u.Clock.Zone, u.Clock.Next, u.Clock.From, tx.Now().UnixMilli())
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES "+
			strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?, ?, ?, ?, ?), ", len(chunk)), ", "), args...)
		if sqldb.IsDuplicate(err) {
			return ErrEmailTaken
		}
		if err != nil {
			return err
		}
	}
	return nil
}
