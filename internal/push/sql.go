package push

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// asKind maps errors of the engine to the kinds that callers handle.
func asKind(err error) error { return sqldb.AsKind(err, ErrStore) }

// inTx calls [sqldb.DB.Tx], because this package caches nothing.
func inTx(ctx context.Context, db *sqldb.DB, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return db.Tx(ctx, fn)
}

// setting returns a setting of the deployment, or "".
func setting(ctx context.Context, q sqldb.Querier, name string) (value string, err error) {
	err = q.QueryRowContext(ctx, "SELECT value FROM settings WHERE name = ?", name).Scan(&value)
	return value, sqldb.Missing(err, nil)
}

const (
	seedName = "push_seed"
	keyName  = "push_key"
	markName = "push_mark"
)

// firstSetting returns the value of a setting. The first node stores its own value.
func firstSetting(ctx context.Context, db *sqldb.DB, name, own string) (value string, err error) {
	if value, err = setting(ctx, db, name); err != nil || value != "" {
		return value, err
	}
	first := db.Dialect().Compile(sqldb.Upsert{Table: "settings", Columns: []string{"name", "value"}, Key: []string{"name"}})
	err = inTx(ctx, db, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.ExecContext(ctx, first.For(1), name, own); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT value FROM settings WHERE name = ?"+tx.Dialect().ForUpdate(), name).Scan(&value)
	})
	return value, err
}

// readMark returns the progress of the follower, or zero.
func readMark(ctx context.Context, q sqldb.Querier) (time.Time, error) {
	value, err := setting(ctx, q, markName)
	if err != nil || value == "" {
		return time.Time{}, err
	}
	ms, err := strconv.ParseInt(value, 10, 64)
	return time.UnixMilli(ms), err
}

func writeMark(ctx context.Context, db *sqldb.DB, at time.Time) error {
	return storeSetting(ctx, db, markName, strconv.FormatInt(at.UnixMilli(), 10))
}

func storeSetting(ctx context.Context, db *sqldb.DB, name, value string) error {
	put := db.Dialect().Compile(sqldb.Upsert{Table: "settings", Columns: []string{"name", "value"}, Key: []string{"name"},
		Set: []string{"value"}})
	_, err := db.ExecContext(ctx, put.For(1), name, value)
	return err
}

const subscriptionColumns = "user_id, device_id, endpoint, p256dh, auth, created"

func scanSubscription(rows *sql.Rows) (s Subscription, err error) {
	err = rows.Scan(&s.User, &s.Device, &s.Endpoint, &s.P256DH, &s.Auth, &s.Created)
	return s, err
}

// Conditions on a member m of a chat for the follower: subscribed selects members with a subscription who want pushes
// of messages. No engine converts a counting subquery into a join, which would read in the order of another table.
const (
	subscribed = "(SELECT COUNT(*) FROM push_subscriptions p LEFT JOIN push_settings o ON o.user_id = p.user_id WHERE p.user_id = " +
		"m.user_id AND COALESCE(o.messages, 1) <> 0) > 0"
	everybody = "1 = 1"
)

// insertSubscription replaces the subscription of a device, and one of the same endpoint if its keys are equal: a
// browser has one subscription for all users who log in there. The keys prove that the caller has that browser. It
// returns ErrKeys if they differ.
func insertSubscription(ctx context.Context, tx *sqldb.Tx, s Subscription) error {
	rows, err := tx.QueryContext(ctx, "SELECT "+subscriptionColumns+" FROM push_subscriptions WHERE hash = ?"+tx.Dialect().ForUpdate(),
		s.hash())
	if err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		old, err := scanSubscription(rows)
		if own := old.User == s.User && old.Device == s.Device; err == nil && !own && !s.sameKeys(old) {
			err = ErrKeys
		}
		return err
	}); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM push_subscriptions WHERE (user_id = ? AND device_id = ?) OR hash = ?", s.User, s.Device,
		s.hash()); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO push_subscriptions ("+subscriptionColumns+", hash) VALUES "+sqldb.Tuples(7, 1),
		s.User, s.Device, s.Endpoint, s.P256DH, s.Auth, s.Created, s.hash())
	return err
}

func deleteSubscription(ctx context.Context, db *sqldb.DB, user accounts.ID, device accounts.DeviceID) error {
	_, err := db.ExecContext(ctx, "DELETE FROM push_subscriptions WHERE user_id = ? AND device_id = ?", user, device)
	return err
}

// deleteEndpoint deletes an ended subscription, unless another one has replaced it.
func deleteEndpoint(ctx context.Context, db *sqldb.DB, s Subscription) error {
	_, err := db.ExecContext(ctx, "DELETE FROM push_subscriptions WHERE user_id = ? AND device_id = ? AND hash = ?", s.User, s.Device,
		s.hash())
	return err
}

// selectSubscriptions returns the subscriptions of up to 500 users.
func selectSubscriptions(ctx context.Context, q sqldb.Querier, users []accounts.ID) ([]Subscription, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+subscriptionColumns+" FROM push_subscriptions WHERE user_id IN (?) ORDER BY user_id, device_id",
		bun.List(users))
	return sqldb.Collect(rows, err, scanSubscription)
}

// liveSubscriptions returns the subscriptions of logged-in devices.
func liveSubscriptions(ctx context.Context, q sqldb.Querier, users []accounts.ID) ([]Subscription, error) {
	rows, err := q.QueryContext(ctx, "SELECT p.user_id, p.device_id, p.endpoint, p.p256dh, p.auth, p.created FROM push_subscriptions p "+
		"JOIN sessions s ON s.user_id = p.user_id AND s.device_id = p.device_id"+
		" WHERE p.user_id IN (?) AND s.refresh_expires > ?", bun.List(users), q.Now().UnixMilli())
	return sqldb.Collect(rows, err, scanSubscription)
}

// choices returns the push settings of up to 500 users.
func choices(ctx context.Context, q sqldb.Querier, users []accounts.ID, lock string) (map[accounts.ID]Choice, error) {
	all := make(map[accounts.ID]Choice, len(users))
	for _, u := range users {
		all[u] = usual
	}
	rows, err := q.QueryContext(ctx, "SELECT user_id, messages, requests, notices, previews FROM push_settings WHERE user_id IN (?)"+lock,
		bun.List(users))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var c Choice
		err := rows.Scan(&u, &c.Messages, &c.Requests, &c.Notices, &c.Previews)
		all[u] = c
		return err
	})
}

// lockChoice creates the row of a user's choice if needed, locks it until tx ends, and returns it.
func lockChoice(ctx context.Context, tx *sqldb.Tx, user accounts.ID) (Choice, error) {
	first := tx.Dialect().Compile(sqldb.Upsert{Table: "push_settings",
		Columns: []string{"user_id", "messages", "requests", "notices", "previews"}, Key: []string{"user_id"}})
	if _, err := tx.ExecContext(ctx, first.For(1), user, usual.Messages, usual.Requests, usual.Notices, usual.Previews); err != nil {
		return Choice{}, err
	}
	all, err := choices(ctx, tx, []accounts.ID{user}, tx.Dialect().ForUpdate())
	return all[user], err
}

// setChoice stores a locked choice.
func setChoice(ctx context.Context, tx *sqldb.Tx, user accounts.ID, c Choice) error {
	_, err := tx.ExecContext(ctx, "UPDATE push_settings SET messages = ?, requests = ?, notices = ?, previews = ? WHERE user_id = ?",
		c.Messages, c.Requests, c.Notices, c.Previews, user)
	return err
}

// pushState is the state of a member of a conversation: the last message with a push, and its time.
type pushState struct {
	seq, at int64
	sent    int64 // the last message whose push was sent and not only queued
}

type memberKey struct {
	user accounts.ID
	conv messaging.ConversationID
}

// lockStates returns the state of some members, and locks it until tx ends.
func lockStates(ctx context.Context, tx *sqldb.Tx, list []messaging.Undelivered) (map[memberKey]pushState, error) {
	args := make([]any, 0, 2*len(list))
	for _, u := range list {
		args = append(args, u.User, u.Conv)
	}
	found := make(map[memberKey]pushState, len(list))
	rows, err := tx.QueryContext(ctx, "SELECT user_id, conversation, seq, at, sent FROM push_chats"+tx.Dialect().ByIndex("PRIMARY")+" WHERE "+
		sqldb.AnyOf("(user_id = ? AND conversation = ?)", len(list))+tx.Dialect().ForUpdate(), args...)
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var k memberKey
		var t pushState
		err := rows.Scan(&k.user, &k.conv, &t.seq, &t.at, &t.sent)
		found[k] = t
		return err
	})
}

var upsertStates = sqldb.Upsert{Table: "push_chats", Columns: []string{"user_id", "conversation", "seq", "at", "sent"},
	Key: []string{"user_id", "conversation"},
	Set: []string{"seq = {greatest}(seq, {new.seq})", "at = CASE WHEN {new.at} = 0 THEN at ELSE {new.at} END",
		"sent = {greatest}(sent, {new.sent})"}}

// storeStates stores the state of members, in the order of their keys. An at of zero keeps the stored time.
func storeStates(ctx context.Context, tx *sqldb.Tx, all map[memberKey]pushState) error {
	keys := make([]memberKey, 0, len(all))
	for k := range all {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b memberKey) int { return cmp.Or(a.user.Compare(b.user), a.conv.Compare(b.conv)) })
	args := make([]any, 0, 5*len(keys))
	for _, k := range keys {
		args = append(args, k.user, k.conv, all[k].seq, all[k].at, all[k].sent)
	}
	_, err := tx.ExecContext(ctx, tx.Dialect().Compile(upsertStates).For(len(keys)), args...)
	return err
}

// recordStates is [storeStates] in its own transaction.
func recordStates(ctx context.Context, db *sqldb.DB, all map[memberKey]pushState) error {
	if len(all) == 0 {
		return nil
	}
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return storeStates(ctx, tx, all) })
}

// erase deletes all data of a user.
func erase(ctx context.Context, db *sqldb.DB, user accounts.ID) error {
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var faults []error
		for _, table := range []string{"push_subscriptions", "push_settings", "push_chats"} {
			_, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE user_id = ?", user)
			faults = append(faults, err)
		}
		return errors.Join(faults...)
	})
}

const pruneBatch = 500

// prune deletes states from before a time, and subscriptions of devices that are logged out.
func prune(ctx context.Context, db *sqldb.DB, before time.Time) error {
	if err := pruneTable(ctx, db, "push_chats", "conversation", "t.at < ?", before.UnixMilli()); err != nil {
		return err
	}
	return pruneTable(ctx, db, "push_subscriptions", "device_id",
		"NOT EXISTS (SELECT 1 FROM sessions s WHERE s.user_id = t.user_id AND s.device_id = t.device_id)")
}

// pruneTable deletes rows that meet a condition on a table t whose key is a user and another column, in batches.
func pruneTable(ctx context.Context, db *sqldb.DB, table, second, where string, args ...any) error {
	for {
		var keys []any
		rows, err := db.QueryContext(ctx, "SELECT t.user_id, t."+second+" FROM "+table+" t WHERE "+where+" LIMIT ?",
			append(slices.Clone(args), pruneBatch)...)
		err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
			var user, other string
			err := rows.Scan(&user, &other)
			keys = append(keys, user, other)
			return err
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		if _, err := db.ExecContext(ctx, "DELETE FROM "+table+" WHERE "+sqldb.AnyOf("(user_id = ? AND "+second+" = ?)", len(keys)/2),
			keys...); err != nil {
			return err
		}
	}
}
