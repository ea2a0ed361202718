package accounts

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// A sessionRow is a stored session.
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
	_, err := tx.ExecContext(ctx, `INSERT INTO sessions (user_id, device_id, name, agent, ip, created, used, access_hash, access_expires,
		refresh_hash, refresh_expires, prev_refresh_hash, prev_until, nonce) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, ?)`,
		s.user, s.Device, s.Name, s.Agent, s.IP, s.Created.UnixMilli(), s.Used.UnixMilli(), s.accessHash, s.accessExpires.UnixMilli(),
		s.refreshHash, s.refreshExpires.UnixMilli(), s.nonce)
	return err
}

// rotateSession replaces the pair if presented is the hash of the current refresh token. Of many callers with the same
// token one gets true. The replaced token is stored until replay.
func rotateSession(ctx context.Context, tx *sqldb.Tx, s sessionRow, presented string, replay time.Time) (bool, error) {
	return sqldb.AffectedOne(tx.ExecContext(ctx, `UPDATE sessions SET prev_refresh_hash = refresh_hash, prev_until = ?, refresh_hash = ?, refresh_expires = ?,
		access_hash = ?, access_expires = ?, nonce = ?, used = ?
		WHERE user_id = ? AND device_id = ? AND refresh_hash = ? AND refresh_expires > ?`,
		replay.UnixMilli(), s.refreshHash, s.refreshExpires.UnixMilli(), s.accessHash, s.accessExpires.UnixMilli(), s.nonce, s.Used.UnixMilli(),
		s.user, s.Device, presented, s.Used.UnixMilli()))
}

// A rotation is the stored state of the last refresh of a session.
type rotation struct {
	hash          string // of the current refresh token
	prevHash      string // of the rotated refresh token; empty before the first refresh
	prevUntil     time.Time
	nonce         string
	accessExpires time.Time
}

// selectRotation returns false if there is no such session; lock is "" or a clause.
func selectRotation(ctx context.Context, q sqldb.Querier, user ID, device DeviceID, lock string) (r rotation, found bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT refresh_hash, prev_refresh_hash, prev_until, nonce, access_expires FROM sessions WHERE user_id = "+
		"? AND device_id = ?"+lock, user, device).
		Scan(&r.hash, &r.prevHash, (*millis)(&r.prevUntil), &r.nonce, (*millis)(&r.accessExpires))
	if errors.Is(err, sql.ErrNoRows) {
		return rotation{}, false, nil
	}
	return r, err == nil, err
}

// recordReplay records that the pair of a session is returned once more, and ends the replay window at until, unless it
// ends earlier. It also changes the last use of the session, even within the same millisecond.
func recordReplay(ctx context.Context, tx *sqldb.Tx, user ID, device DeviceID, until time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE sessions SET prev_until = CASE WHEN prev_until > ? THEN ? ELSE prev_until END,
		used = CASE WHEN used < ? THEN ? ELSE used + 1 END WHERE user_id = ? AND device_id = ?`,
		until.UnixMilli(), until.UnixMilli(), tx.Now().UnixMilli(), tx.Now().UnixMilli(), user, device)
	return err
}

// restartReplay extends the replay window of a rotated session to until, unless the session was used since.
func restartReplay(ctx context.Context, db *sqldb.DB, s sessionRow, until time.Time) error {
	_, err := db.ExecContext(ctx, "UPDATE sessions SET prev_until = ? WHERE "+asRotated, until.UnixMilli(), s.user, s.Device, s.nonce,
		s.Used.UnixMilli())
	return err
}

// extendReplays extends the replay window of each rotated session until its access token expires.
func extendReplays(ctx context.Context, db *sqldb.DB, list []sessionRow) error {
	args := make([]any, 0, 4*len(list))
	for _, s := range list {
		args = append(args, s.user, s.Device, s.nonce, s.Used.UnixMilli())
	}
	_, err := db.ExecContext(ctx, "UPDATE sessions SET prev_until = access_expires WHERE "+sqldb.AnyOf(asRotated, len(list)), args...)
	return err
}

// asRotated is the condition for a session that was not used since its rotation.
const asRotated = "user_id = ? AND device_id = ? AND nonce = ? AND used = ?"

// selectAccess returns the data for a check of a session, or ErrNoSession.
func selectAccess(ctx context.Context, q sqldb.Querier, user ID, device DeviceID) (a access, err error) {
	err = q.QueryRowContext(ctx, "SELECT access_hash, access_expires FROM sessions WHERE user_id = ? AND device_id = ?", user, device).
		Scan(&a.Hash, &a.Expires)
	return a, sqldb.Missing(err, ErrNoSession)
}

// selectSurplus returns the devices beyond the keep last used ones.
func selectSurplus(ctx context.Context, q sqldb.Querier, user ID, keep int) ([]DeviceID, error) {
	return sqldb.Column[DeviceID](q.QueryContext(ctx,
		"SELECT device_id FROM sessions WHERE user_id = ? ORDER BY used DESC, created DESC, device_id LIMIT 1000 OFFSET ?", user, keep))
}

// selectDevices returns the devices of the user except one.
func selectDevices(ctx context.Context, q sqldb.Querier, user ID, except DeviceID) ([]DeviceID, error) {
	return sqldb.Column[DeviceID](q.QueryContext(ctx, "SELECT device_id FROM sessions WHERE user_id = ? AND device_id <> ?", user, except))
}

// lockDevices is selectDevices that locks the rows until tx ends.
func lockDevices(ctx context.Context, tx *sqldb.Tx, user ID, except DeviceID) ([]DeviceID, error) {
	return sqldb.Column[DeviceID](tx.QueryContext(ctx, "SELECT device_id FROM sessions WHERE user_id = ? AND device_id <> ?"+
		tx.Dialect().ForUpdate(), user, except))
}

// deleteSessions returns the number of deleted sessions.
func deleteSessions(ctx context.Context, tx *sqldb.Tx, user ID, devices []DeviceID) (int64, error) {
	if len(devices) == 0 {
		return 0, nil
	}
	return sqldb.Affected(tx.ExecContext(ctx, "DELETE FROM sessions WHERE user_id = ? AND device_id IN (?)", user, bun.List(devices)))
}

// selectSessions returns the sessions that are alive at now, at most Config.Devices.
func selectSessions(ctx context.Context, q sqldb.Querier, user ID, now time.Time) ([]Session, error) {
	rows, err := q.QueryContext(ctx,
		"SELECT device_id, name, agent, ip, created, used FROM sessions WHERE user_id = ? AND refresh_expires > ?",
		user, now.UnixMilli())
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (s Session, err error) {
		err = rows.Scan(&s.Device, &s.Name, &s.Agent, &s.IP, (*millis)(&s.Created), (*millis)(&s.Used))
		return s, err
	})
}

// sessionsPerStatement is the number of sessions of several users per statement. A statement names both parts of each
// key, because SQLite and MySQL write lists of pairs differently.
const sessionsPerStatement = 100

// keyCondition returns the condition for up to sessionsPerStatement keys, and its arguments.
func keyCondition(keys []sessionKey) (where string, args []any) {
	args = make([]any, 0, 2*len(keys))
	for _, k := range keys {
		args = append(args, k.A, k.B)
	}
	return sqldb.AnyOf("user_id = ? AND device_id = ?", len(keys)), args
}

// selectFacts returns the existing sessions of up to sessionsPerStatement keys.
func selectFacts(ctx context.Context, q sqldb.Querier, keys []sessionKey) (map[sessionKey]Session, error) {
	where, args := keyCondition(keys)
	rows, err := q.QueryContext(ctx, "SELECT user_id, device_id, name, agent, ip, created, used FROM sessions WHERE "+where, args...)
	found := make(map[sessionKey]Session, len(keys))
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var user ID
		var s Session
		err := rows.Scan(&user, &s.Device, &s.Name, &s.Agent, &s.IP, (*millis)(&s.Created), (*millis)(&s.Used))
		found[sessionKey{A: user, B: s.Device}] = s
		return err
	})
}

// updateUsed stores the last use of up to sessionsPerStatement sessions whose stored use is older than before. All
// nodes lock the rows in the order of their keys.
func updateUsed(ctx context.Context, db *sqldb.DB, batch []lastUse, before time.Time) error {
	slices.SortFunc(batch, func(a, b lastUse) int {
		return cmp.Or(a.key.A.Compare(b.key.A), a.key.B.Compare(b.key.B))
	})
	args := make([]any, 0, 4*len(batch)+1)
	keys := make([]sessionKey, len(batch))
	for i, u := range batch {
		keys[i], args = u.key, append(args, u.key.B, u.at)
	}
	where, condArgs := keyCondition(keys)
	_, err := db.ExecContext(ctx, "UPDATE sessions SET used = CASE device_id "+strings.Repeat("WHEN ? THEN ? ", len(batch))+
		"ELSE used END WHERE "+where+" AND used < ?",
		append(append(args, condArgs...), before.UnixMilli())...)
	return err
}

// sweepSessions deletes up to sweepChunk sessions with an expired refresh token. Their access tokens expired before,
// because Config.AccessLife is shorter.
func sweepSessions(ctx context.Context, db *sqldb.DB) (int64, error) {
	return sqldb.DeleteSome(ctx, db, "sessions", []string{"user_id", "device_id"}, sweepChunk, "refresh_expires <= ?", db.Now().UnixMilli())
}
