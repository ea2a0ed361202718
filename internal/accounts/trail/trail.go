package trail

import (
	"context"
	"database/sql"
	"encoding/base64"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Kept is the retention of events.
const Kept = 90 * 24 * time.Hour

// Kind is the kind of an event. Kinds are stored in rows and sent to clients, and never change.
type Kind string

// The kinds.
const (
	Registered       Kind = "registered"
	LoggedIn         Kind = "login"
	LoginFailed      Kind = "login_failed"      // a wrong password or code
	LoginLocked      Kind = "login_locked"      // failures have locked log-in for that client network or for all unknown ones
	LoggedOut        Kind = "logout"            // of one device, by the user
	LoggedOutAll     Kind = "logout_all"        // of all devices, or all others, by the user
	RefreshReused    Kind = "refresh_reused"    // a refresh token was used twice; its device was logged out
	PasswordSet      Kind = "password_changed"  // by a logged-in user; other devices were logged out
	PasswordReset    Kind = "password_reset"    // by a mailed code; all devices were logged out
	PasswordWrong    Kind = "password_wrong"    // by a logged-in user who had to confirm the current password
	EmailSet         Kind = "email_changed"     // by a logged-in user
	EmailUndone      Kind = "email_undone"      // the old address undid the change
	Deleted          Kind = "deleted"           // by the user
	Restored         Kind = "restored"          // by a log-in
	Banned           Kind = "banned"            // by an operator
	Unbanned         Kind = "unbanned"          // by an operator
	OperatorKicked   Kind = "operator_kicked"   // an operator logged devices out
	OperatorDeleted  Kind = "operator_deleted"  // an operator deleted the account
	OperatorRestored Kind = "operator_restored" // an operator canceled the deletion
	ProfileSet       Kind = "profile_changed"   // by a service key
)

// Kinds lists all kinds.
var Kinds = []Kind{Registered, LoggedIn, LoginFailed, LoginLocked, LoggedOut, LoggedOutAll, RefreshReused, PasswordSet, PasswordReset,
	PasswordWrong,
	EmailSet, EmailUndone, Deleted, Restored, Banned, Unbanned, OperatorKicked, OperatorDeleted, OperatorRestored, ProfileSet}

// Event is a security event of an account.
type Event struct {
	ID        ids.ID[Event]
	User      string // id
	Device    string // id; empty if no device is concerned
	Kind      Kind
	ClientNet string // an IPv4 address or an IPv6 /64; empty if unknown
	Actor     string // the name of the acting service key; empty if there is none
	At        time.Time
}

type actorKey struct{}

// By returns a context for actions of a service key: [Write] stores its name.
func By(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, actorKey{}, key)
}

// Actor returns the name of the acting service key, or "".
func Actor(ctx context.Context) string {
	name, _ := ctx.Value(actorKey{}).(string)
	return name
}

// Write stores events in their transaction, with its time.
func Write(ctx context.Context, tx *sqldb.Tx, events ...Event) error {
	for i := range events {
		events[i].At, events[i].Actor = tx.Now(), Actor(ctx)
	}
	return insert(ctx, tx, events)
}

func insert(ctx context.Context, tx *sqldb.Tx, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	var args []any
	for _, e := range events {
		if e.ID.IsZero() {
			e.ID = ids.New[Event]()
		}
		args = append(args, e.ID, e.User, e.Device, string(e.Kind), e.ClientNet, e.Actor, e.At.UnixMilli())
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO security_events (id, user_id, device_id, kind, household, actor, at) VALUES "+
		sqldb.Tuples(7, len(events)), args...)
	return err
}

// Knows reports whether the user has registered or logged in from that client network within [Kept].
func Knows(ctx context.Context, db *sqldb.DB, user, clientNet string) (known bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM security_events WHERE user_id = ? AND household = ? AND kind IN (?) AND at "+
		"> ?)",
		user, clientNet, bun.List([]string{string(Registered), string(LoggedIn)}), db.Now().Add(-Kept).UnixMilli()).Scan(&known)
	return known, err
}

// Has reports whether an event has that id.
func Has(ctx context.Context, db *sqldb.DB, id ids.ID[Event]) (has bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM security_events WHERE id = ?)", id).Scan(&has)
	return has, err
}

// ErrCursor reports text that is not a cursor of [Page].
var ErrCursor = errs.New(errs.Invalid, "security.cursor_invalid", "The cursor is not one of this list.")

// Page returns up to limit events of a user, newest first, starting after the cursor, and the next cursor, which is
// empty at the end.
func Page(ctx context.Context, q sqldb.Querier, user, cursor string, limit int) (events []Event, next string, err error) {
	at, id := int64(1<<62), "~"
	if cursor != "" {
		if at, id, err = parseCursor(cursor); err != nil {
			return nil, "", err
		}
	}
	rows, err := q.QueryContext(ctx, `SELECT id, user_id, device_id, kind, household, actor, at FROM security_events
		WHERE user_id = ? AND (at < ? OR at = ? AND id < ?) ORDER BY at DESC, id DESC LIMIT ?`, user, at, at, id, limit+1)
	events, err = sqldb.Collect(rows, err, func(rows *sql.Rows) (e Event, err error) {
		var ms int64
		err = rows.Scan(&e.ID, &e.User, &e.Device, &e.Kind, &e.ClientNet, &e.Actor, &ms)
		e.At = sqldb.Time(ms)
		return e, err
	})
	if err == nil && len(events) > limit {
		events = events[:limit]
		last := events[limit-1]
		next = base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.At.UnixMilli(), 10) + " " + last.ID.String()))
	}
	return events, next, err
}

func parseCursor(cursor string) (at int64, id string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", ErrCursor
	}
	ms, rest, _ := strings.Cut(string(text), " ")
	at, err = strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return 0, "", ErrCursor
	}
	last, err := ids.Parse[Event](rest)
	if err != nil {
		return 0, "", ErrCursor
	}
	return at, last.String(), nil
}

// Erase deletes all events of a user.
func Erase(ctx context.Context, tx *sqldb.Tx, user string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM security_events WHERE user_id = ?", user)
	return err
}

// Sweep deletes up to chunk events older than [Kept] and returns their number.
func Sweep(ctx context.Context, db *sqldb.DB, chunk int) (int64, error) {
	return sqldb.DeleteSome(ctx, db, "security_events", []string{"id"}, chunk, "at <= ?", db.Now().Add(-Kept).UnixMilli())
}

// notesKept bounds the memory of waiting notes; further notes are lost.
const notesKept = 10_000

// notesInOne is the number of notes per statement.
const notesInOne = 100

// Notes are events that wait to be written. The zero Notes is empty. It is safe for concurrent use.
type Notes struct {
	mu      sync.Mutex
	waiting []Event
}

// Add adds an event, and reports whether there was room.
func (n *Notes) Add(e Event) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) >= notesKept {
		return false
	}
	n.waiting = append(n.waiting, e)
	return true
}

// Flush writes the waiting events. After an error they keep waiting.
func (n *Notes) Flush(ctx context.Context, db *sqldb.DB) error {
	n.mu.Lock()
	batch := n.waiting
	n.waiting = nil
	n.mu.Unlock()
	for len(batch) > 0 {
		part := batch[:min(len(batch), notesInOne)]
		if err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return insert(ctx, tx, part) }); err != nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.waiting = append(batch, n.waiting...)
			return err
		}
		batch = batch[len(part):]
	}
	return nil
}
