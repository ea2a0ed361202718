package accounts

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Directory reads accounts only from SQL, for tools that run while a server runs.
type Directory struct{ db *sqldb.DB }

// NewDirectory returns the directory of the accounts in db.
func NewDirectory(db *sqldb.DB) Directory { return Directory{db} }

// Clocks returns the calendars of the users that exist and are not erased.
func (d Directory) Clocks(ctx context.Context, ids []ID) (map[ID]civil.Clock, error) {
	m := make(map[ID]civil.Clock, len(ids))
	for chunk := range slices.Chunk(ids, idsPerStatement) {
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

// Erased returns the ids whose accounts are erased.
func (d Directory) Erased(ctx context.Context, ids []ID) (gone []ID, err error) {
	for chunk := range slices.Chunk(ids, idsPerStatement) {
		part, err := selectErased(ctx, d.db, chunk)
		if err != nil {
			return nil, asKind(err)
		}
		gone = append(gone, part...)
	}
	return gone, nil
}

// ByEmail returns the accounts with the addresses, by the given spelling.
func (d Directory) ByEmail(ctx context.Context, addresses []string) (map[string]User, error) {
	m := make(map[string]User, len(addresses))
	for chunk := range slices.Chunk(addresses, idsPerStatement) {
		if err := d.byEmail(ctx, chunk, m); err != nil {
			return nil, asKind(err)
		}
	}
	return m, nil
}

func (d Directory) byEmail(ctx context.Context, addresses []string, into map[string]User) error {
	asked := map[string][]string{} // addresses by the possible keys of their accounts
	for _, email := range addresses {
		for _, key := range emails.Keys(email) {
			asked[key] = append(asked[key], email)
		}
	}
	keys := slices.Collect(maps.Keys(asked))
	rows, err := d.db.QueryContext(ctx, "SELECT email_key, "+userColumns+" FROM users WHERE email_key IN (?)", bun.List(keys))
	return sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var key string
		var u User
		err := rows.Scan(append([]any{&key}, u.columns()...)...)
		for _, email := range asked[key] {
			into[email] = u
		}
		return err
	})
}

// The following methods are for operators. They change only SQL, and enqueue a message so that a server updates all
// derived data, see [TopicChanged].

// Account is a user as operators see it.
type Account struct {
	User
	Reason   string // of the ban
	Sessions int    // number of logged-in devices
}

const accountColumns = userColumns + ", ban_reason, (SELECT COUNT(*) FROM sessions s WHERE s.user_id = users.id AND s.refresh_expires > ?)"

func (d Directory) accounts(ctx context.Context, where string, args ...any) ([]Account, error) {
	args = append([]any{d.db.Now().UnixMilli()}, args...)
	rows, err := d.db.QueryContext(ctx, "SELECT "+accountColumns+" FROM users WHERE "+where, args...)
	list, err := sqldb.Collect(rows, err, func(rows *sql.Rows) (a Account, err error) {
		err = rows.Scan(append(a.columns(), &a.Reason, &a.Sessions)...)
		return a, err
	})
	return list, asKind(err)
}

// List returns up to n accounts by id, starting after the given id. It includes erased accounts.
func (d Directory) List(ctx context.Context, after ID, n int) (_ []Account, err error) {
	defer errs.Wrap(&err, "accounts.List")
	return d.accounts(ctx, "id > ? ORDER BY id LIMIT ?", after, n)
}

// Search is List for accounts with text as their id, as the start of their address, or anywhere in their name, ignoring
// case. It scans all accounts.
func (d Directory) Search(ctx context.Context, text string, after ID, n int) (_ []Account, err error) {
	defer errs.Wrap(&err, "accounts.Search")
	return d.accounts(ctx, "id > ? AND (id = ? OR erased >= 0 AND (INSTR(LOWER(email), LOWER(?)) = 1 OR INSTR(LOWER(name), LOWER(?)) > 0)) "+
		"ORDER BY id LIMIT ?",
		after, text, text, text, n)
}

// Find returns the account with an id or address, or ErrNoUser.
func (d Directory) Find(ctx context.Context, idOrAddress string) (_ Account, err error) {
	defer errs.Wrap(&err, "accounts.Find")
	where, arg := "email_key IN (?)", any(bun.List(emails.Keys(idOrAddress)))
	if id, err := ids.Parse[User](idOrAddress); err == nil {
		where, arg = "id = ?", id
	}
	list, err := d.accounts(ctx, where, arg)
	if err == nil && len(list) == 0 {
		err = ErrNoUser
	}
	if err != nil {
		return Account{}, err
	}
	return list[0], nil
}

// Sessions returns the logged-in devices, last used first.
func (d Directory) Sessions(ctx context.Context, user ID) (_ []Session, err error) {
	defer errs.Wrap(&err, "accounts.Sessions %s", user)
	list, err := selectSessions(ctx, d.db, user, d.db.Now())
	return list, asKind(err)
}

// Events returns up to limit security events of an account, newest first, starting after the cursor; see [trail.Page].
func (d Directory) Events(ctx context.Context, user ID, cursor string, limit int) (_ []trail.Event, next string, err error) {
	defer errs.Wrap(&err, "accounts.Events %s", user)
	list, next, err := trail.Page(ctx, d.db, user.String(), cursor, limit)
	return list, next, asKind(err)
}

// writeOperators records an action of an operator.
func writeOperators(ctx context.Context, tx *sqldb.Tx, user ID, device DeviceID, kind trail.Kind) error {
	return trail.Write(ctx, tx, trail.Event{User: user.String(), Device: device.String(), Kind: kind})
}

// Kick logs out a device, or all devices if device is zero, and returns their number.
func (d Directory) Kick(ctx context.Context, user ID, device DeviceID) (n int, err error) {
	defer errs.Wrap(&err, "accounts.Kick %s", user)
	err = d.change(ctx, user, func(ctx context.Context, tx *sqldb.Tx, _ User) (c change, err error) {
		if err := writeOperators(ctx, tx, user, device, trail.OperatorKicked); err != nil {
			return c, err
		}
		if device.IsZero() {
			c.Ended, err = endEvery(ctx, tx, user)
			n = len(c.Ended)
			return c, err
		}
		c.Ended = []DeviceID{device}
		ended, err := deleteSessions(ctx, tx, user, c.Ended)
		if n = int(ended); err == nil && n == 0 {
			err = ErrNoSession
		}
		return c, err
	})
	return n, err
}

// Ban is [Service.Ban].
func (d Directory) Ban(ctx context.Context, user ID, until time.Time, reason string) (err error) {
	defer errs.Wrap(&err, "accounts.Ban %s", user)
	return d.change(ctx, user, func(ctx context.Context, tx *sqldb.Tx, _ User) (c change, err error) {
		if err := ban(ctx, tx, user, until, reason); err != nil {
			return c, err
		}
		c.Ended, err = endEvery(ctx, tx, user)
		return c, err
	})
}

// Unban is [Service.Unban].
func (d Directory) Unban(ctx context.Context, user ID) (err error) {
	defer errs.Wrap(&err, "accounts.Unban %s", user)
	return d.change(ctx, user, func(ctx context.Context, tx *sqldb.Tx, _ User) (change, error) {
		return change{}, unban(ctx, tx, user)
	})
}

// Delete is [Service.Delete] without a password, and with a grace that may be zero. A deleted account is erased at the
// earlier of both times.
func (d Directory) Delete(ctx context.Context, user ID, grace time.Duration) (erased time.Time, err error) {
	defer errs.Wrap(&err, "accounts.Delete %s", user)
	err = d.change(ctx, user, func(ctx context.Context, tx *sqldb.Tx, u User) (c change, err error) {
		var fresh bool
		if erased, fresh, err = deleteFor(ctx, tx, u, grace); err != nil || !fresh {
			return c, err
		}
		c.Notice = api.NoticeDeletion
		c.Ended, err = endEvery(ctx, tx, user)
		return c, err
	})
	return erased, err
}

// deleteFor deletes an account for an operator. It returns the time of the erasure and whether that is new.
func deleteFor(ctx context.Context, tx *sqldb.Tx, u User, grace time.Duration) (erased time.Time, fresh bool, err error) {
	erased = tx.Now().Add(grace)
	switch {
	case u.Deleted() && !erased.Before(u.Erased):
		return u.Erased, false, nil
	case u.Deleted() || grace == 0: // a mail would arrive too late
		err = updateErased(ctx, tx, u.ID, erased)
	default:
		err = deleteUser(ctx, tx, u, erased)
	}
	if err != nil {
		return erased, false, err
	}
	return erased, true, writeOperators(ctx, tx, u.ID, DeviceID{}, trail.OperatorDeleted)
}

// Restore cancels a deletion. It returns ErrNotDeleted, or ErrNoUser if the account is already due.
func (d Directory) Restore(ctx context.Context, user ID) (err error) {
	defer errs.Wrap(&err, "accounts.Restore %s", user)
	return d.change(ctx, user, func(ctx context.Context, tx *sqldb.Tx, u User) (change, error) {
		if !u.Deleted() {
			return change{}, ErrNotDeleted
		}
		if err := restore(ctx, tx, u); err != nil {
			return change{}, err
		}
		return change{Notice: api.NoticeRestored}, writeOperators(ctx, tx, user, DeviceID{}, trail.OperatorRestored)
	})
}

// change runs fn with an account that is not due, and enqueues the change that fn returns.
func (d Directory) change(ctx context.Context, user ID, fn func(ctx context.Context, tx *sqldb.Tx, u User) (change, error)) error {
	return asKind(d.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		u, err := lockAccount(ctx, tx, user)
		if err != nil {
			return err
		}
		c, err := fn(ctx, tx, u)
		if err != nil {
			return err
		}
		c.User = user
		return c.enqueue(ctx, tx)
	}))
}

// endEvery deletes all sessions of a user and returns their devices.
func endEvery(ctx context.Context, tx *sqldb.Tx, user ID) ([]DeviceID, error) {
	devices, err := lockDevices(ctx, tx, user, DeviceID{})
	if err != nil || len(devices) == 0 {
		return nil, err
	}
	_, err = deleteSessions(ctx, tx, user, devices)
	return devices, err
}

// Unapplied returns how many messages wait for a server to apply changes of a user, and how many of them are dead
// letters.
func (d Directory) Unapplied(ctx context.Context, user ID) (waiting, dead int, err error) {
	defer errs.Wrap(&err, "accounts.Unapplied %s", user)
	err = d.db.QueryRowContext(ctx, "SELECT COALESCE(SUM(1 - dead), 0), COALESCE(SUM(dead), 0) FROM outbox WHERE topic = ? AND msg_key = ?",
		TopicChanged, user).
		Scan(&waiting, &dead)
	return waiting, dead, asKind(err)
}
