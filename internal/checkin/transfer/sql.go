package transfer

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ErrStore reports that SQL is away, so that no write can be acknowledged.
var ErrStore = errs.New(errs.Unavailable, "checkin.store_away",
	"Check-in cannot be stored right now. Please try again.").Retry(2 * time.Second)

// asKind gives errors of the engine the kind that callers handle.
func asKind(err error) error { return sqldb.AsKind(err, ErrStore) }

// TopicTouched is the topic of the outbox for users who have new rows with times in the past. The payload is a
// [Touched].
const TopicTouched = "checkin.touched"

// Touched is the payload of [TopicTouched]: users, and the first and the last of their new signed days. If First
// and Last are zero, the message has no information about days.
type Touched struct {
	Users []accounts.ID `json:"users"`
	First civil.Day     `json:"first,omitempty"`
	Last  civil.Day     `json:"last,omitempty"`

	// Mark is random. checkin_touched has the mark of each user's latest message, and only that message is applied for
	// the user, because many messages of an import have the same users. Zero: the message is applied for all its users.
	Mark int64 `json:"mark,omitempty"`
}

// LoadWithin bounds the time to read users' days and to write what follows to Redis. A slower load gives up, or, after
// its write, compares Redis with SQL again.
const LoadWithin = 5 * time.Second

// catchUpAfter is the delay of the message after the commit. By then, a load that read the log before the commit has
// reached Redis, so it cannot undo the update of the message.
const catchUpAfter = 2 * LoadWithin

// Tombstone is the time in checkin_touched of a user who is being erased. Imports do not change it.
const Tombstone = 0

// Enqueue enqueues t, due after that time.
func Enqueue(ctx context.Context, tx *sqldb.Tx, t Touched, after time.Duration) error {
	payload, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return tx.Enqueue(ctx, sqldb.Message{Topic: TopicTouched, Payload: payload, Due: tx.Now().Add(after)})
}

// Day is a row of the log.
type Day struct {
	User           accounts.ID
	Day            civil.Day
	At             time.Time // whole milliseconds
	Kind           streak.Kind
	Words, Minutes int
	Req            int64 // random; shows which request wrote the row in the log
}

// key is the primary key of the log.
type key struct {
	user accounts.ID
	day  civil.Day
}

func (a key) compare(b key) int { return cmp.Or(a.user.Compare(b.user), cmp.Compare(a.day, b.day)) }

func (d Day) key() key { return key{d.User, d.Day} }

// makeup is a made-up day, and its number in a month's limit.
type makeup struct {
	key
	month int // 202611
	n     int // the number within the month, from 1
	req   int64
}

// grant is a row of the grants.
type grant struct {
	streak.Grant
	user   accounts.ID
	id     string
	reason string
}

// errTaken reports that another transaction took the number of a make-up. The next try finds a free one.
var errTaken = errors.New("checkin: another request has the number or the day")

// Write adds days with times in the past to the log, enqueues the message for the servers, and returns how many days
// were new. The days must be sorted by user and day and free of duplicates.
func Write(ctx context.Context, db *sqldb.DB, days []Day) (added int64, err error) {
	return importRows(ctx, db, batch{days: days}, nil)
}

// importRows writes a batch, and the accounts that are created in the same transaction. It returns how many rows were
// new.
func importRows(ctx context.Context, db *sqldb.DB, b batch, open []accounts.User) (added int64, err error) {
	defer errs.Wrap(&err, "checkin.importRows")
	for range 3 {
		if added, err = tryImport(ctx, db, b, open); !errors.Is(err, errTaken) {
			break
		}
	}
	return added, err
}

func tryImport(ctx context.Context, db *sqldb.DB, b batch, open []accounts.User) (added int64, err error) {
	news := b.touched()
	if len(news.Users) == 0 {
		return 0, nil
	}
	news.Mark = rand.Int64N(math.MaxInt64) + 1
	touch := db.Dialect().Compile(sqldb.Upsert{Table: "checkin_touched", Columns: []string{"user_id", "at", "mark", "first_day", "last_day"},
		Key: []string{"user_id"},
		Set: []string{fmt.Sprintf("at = CASE WHEN at = %[1]d THEN %[1]d ELSE {new.at} END", Tombstone), "mark",
			"first_day = CASE WHEN first_day = 0 OR {new.first_day} <> 0 AND {new.first_day} < first_day THEN {new.first_day} ELSE first_day END",
			"last_day = CASE WHEN last_day < {new.last_day} THEN {new.last_day} ELSE last_day END"}})
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		added = 0
		if err := accounts.InsertUsers(ctx, tx, open); err != nil {
			return err
		}
		for _, part := range []func(context.Context, *sqldb.DB, *sqldb.Tx, batch) (int64, error){importDays, importMakeups, importGrants} {
			n, err := part(ctx, db, tx, b)
			if added += n; err != nil {
				return err
			}
		}
		if added == 0 {
			return nil
		}
		args := make([]any, 0, 5*len(news.Users))
		for _, user := range news.Users {
			args = append(args, user.String(), tx.Now().UnixMilli(), news.Mark, int32(news.First), int32(news.Last))
		}
		if _, err := tx.SQL().ExecContext(ctx, touch.For(len(news.Users)), args...); err != nil {
			return err
		}
		return Enqueue(ctx, tx, news, catchUpAfter)
	})
	return added, err
}

func importDays(ctx context.Context, db *sqldb.DB, tx *sqldb.Tx, b batch) (added int64, err error) {
	if len(b.days) == 0 {
		return 0, nil
	}
	args := make([]any, 0, 7*len(b.days))
	for _, d := range b.days {
		args = append(args, d.User.String(), int32(d.Day), d.At.UnixMilli(), uint8(d.Kind), d.Words, d.Minutes, d.Req)
	}
	add := db.Dialect().Compile(sqldb.Upsert{Table: "checkins", Columns: []string{"user_id", "day", "at", "kind", "words", "minutes", "req"},
		Key: []string{"user_id", "day"}}) // a day that exists stays as it is
	return sqldb.Affected(tx.SQL().ExecContext(ctx, add.For(len(b.days)), args...))
}

// importMakeups adds the make-ups that the log has and the audit lacks to the audit. It returns how many of their days
// the log had before this batch.
func importMakeups(ctx context.Context, _ *sqldb.DB, tx *sqldb.Tx, b batch) (added int64, err error) {
	rows, log, err := unaudited(ctx, tx, b.makeups)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	args := make([]any, 0, 6*len(rows))
	for _, m := range rows {
		held := log[m.key]
		if held.req != m.req {
			added++
		}
		args = append(args, m.user, m.month, m.n, int32(m.day), held.at, held.req)
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO checkin_makeups (user_id, month, n, day, at, req) VALUES "+
		sqldb.Tuples(6, len(rows)), args...)
	if sqldb.IsDuplicate(err) {
		err = errTaken
	}
	return added, err
}

// logged is the row of a day in the log.
type logged struct {
	at   int64
	kind streak.Kind
	req  int64
}

// unaudited returns the make-ups that the log has as such and the audit lacks, each with a free number: its own, else a
// later one. It also returns the rows of all of them in the log.
func unaudited(ctx context.Context, q sqldb.Querier, all []makeup) (missing []makeup, log map[key]logged, err error) {
	if len(all) == 0 {
		return nil, nil, nil
	}
	var keys, users []any
	for _, m := range all {
		keys, users = append(keys, m.user.String(), int32(m.day)), append(users, m.user.String())
	}
	log = map[key]logged{}
	rows, err := q.QueryContext(ctx, "SELECT user_id, day, at, kind, req FROM checkins WHERE (user_id, day) IN ("+sqldb.Tuples(2, len(all))+
		")", keys...)
	if err := sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var k key
		var l logged
		err := rows.Scan(&k.user, &k.day, &l.at, &l.kind, &l.req)
		log[k] = l
		return err
	}); err != nil {
		return nil, nil, err
	}
	var audit []struct {
		User  accounts.ID `bun:"user_id"`
		Month int         `bun:"month"`
		N     int         `bun:"n"`
		Day   int32       `bun:"day"`
	}
	if err := q.NewRaw("SELECT user_id, month, n, day FROM checkin_makeups WHERE user_id IN (?)", bun.List(users)).Scan(ctx,
		&audit); err != nil {
		return nil, nil, err
	}
	type number struct {
		user     accounts.ID
		month, n int
	}
	used, audited := map[number]bool{}, map[key]bool{}
	for _, a := range audit {
		used[number{a.User, a.Month, a.N}], audited[key{a.User, civil.Day(a.Day)}] = true, true
	}
	for _, m := range all {
		if log[m.key].kind != streak.MadeUp || audited[m.key] {
			continue
		}
		for used[number{m.user, m.month, m.n}] {
			m.n++
		}
		used[number{m.user, m.month, m.n}] = true
		missing = append(missing, m)
	}
	return missing, log, nil
}

func importGrants(ctx context.Context, db *sqldb.DB, tx *sqldb.Tx, b batch) (added int64, err error) {
	if len(b.grants) == 0 {
		return 0, nil
	}
	args := make([]any, 0, 5*len(b.grants))
	for _, g := range b.grants {
		args = append(args, g.user.String(), g.At.UnixMilli(), g.id, g.N, g.reason)
	}
	add := db.Dialect().Compile(sqldb.Upsert{Table: "checkin_grants", Columns: []string{"user_id", "at", "id", "n", "reason"},
		Key: []string{"user_id", "at", "id"}})
	return sqldb.Affected(tx.SQL().ExecContext(ctx, add.For(len(b.grants)), args...))
}

// CountHeld returns how many of some users' days have a row in the log.
func CountHeld(ctx context.Context, db *sqldb.DB, days []Day) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countHeld")
	if len(days) == 0 {
		return 0, nil
	}
	args := make([]any, 0, 2*len(days))
	for _, d := range days {
		args = append(args, d.User.String(), int32(d.Day))
	}
	err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM checkins WHERE (user_id, day) IN ("+
		sqldb.Tuples(2, len(days))+")", args...).Scan(&n)
	return n, asKind(err)
}

// An Arrival is a user whose rows changed, and when.
type Arrival struct {
	At   int64       `bun:"at"` // Unix ms
	User accounts.ID `bun:"user_id"`
}

// Arrivals returns the next n arrivals later than after, in order of time and user. It reads the log or, for rows whose
// own time is in the past, the touched users.
func Arrivals(ctx context.Context, db *sqldb.DB, touched bool, after Arrival, n int) (arrivals []Arrival, err error) {
	defer errs.Wrap(&err, "checkin.arrivals")
	table := "checkins"
	if touched {
		table = "checkin_touched"
	}
	// Two queries: with OR between them, no engine continues in the index, and an import may give a hundred thousand
	// rows one time.
	for _, q := range []struct {
		where string
		args  []any
	}{{"at = ? AND user_id > ?", []any{after.At, after.User}}, {"at > ?", []any{after.At}}} {
		var more []Arrival
		err := db.NewRaw("SELECT DISTINCT at, user_id FROM "+table+" WHERE "+q.where+" ORDER BY at, user_id LIMIT ?",
			append(q.args, n-len(arrivals))...).Scan(ctx, &more)
		if err != nil {
			return nil, asKind(err)
		}
		if arrivals = append(arrivals, more...); len(arrivals) == n {
			break
		}
	}
	return arrivals, nil
}

// TouchedAt returns when the users last got rows with times in the past, for those who have such rows. For a user who
// is being erased, that time is in the future.
func TouchedAt(ctx context.Context, db *sqldb.DB, users []accounts.ID) (_ map[accounts.ID]time.Time, err error) {
	defer errs.Wrap(&err, "checkin.touched")
	out := map[accounts.ID]time.Time{}
	for some := range slices.Chunk(users, 500) {
		var rows []Arrival
		if err := db.NewRaw("SELECT user_id, at FROM checkin_touched WHERE user_id IN (?)", bun.List(some)).Scan(ctx, &rows); err != nil {
			return nil, asKind(err)
		}
		for _, r := range rows {
			if out[r.User] = time.UnixMilli(r.At); r.At == Tombstone {
				out[r.User] = time.UnixMilli(math.MaxInt64)
			}
		}
	}
	return out, nil
}

// Due returns the users of a message whose latest message it is. They have the days of all their messages that were not
// applied. Each different range of days is one Touched.
func Due(ctx context.Context, db *sqldb.DB, t Touched) (_ []Touched, err error) {
	defer errs.Wrap(&err, "checkin.due")
	if t.Mark == 0 {
		return []Touched{t}, nil
	}
	type days struct{ first, last civil.Day }
	ranges, seen := map[days][]accounts.ID{}, map[accounts.ID]bool{}
	for some := range slices.Chunk(t.Users, 500) {
		var rows []struct {
			UserID            accounts.ID
			Mark              int64
			FirstDay, LastDay civil.Day
		}
		if err := db.NewRaw("SELECT user_id, mark, first_day, last_day FROM checkin_touched WHERE user_id IN (?)", bun.List(some)).Scan(ctx,
			&rows); err != nil {
			return nil, asKind(err)
		}
		for _, r := range rows {
			seen[r.UserID] = true
			if r.Mark == t.Mark {
				ranges[days{r.FirstDay, r.LastDay}] = append(ranges[days{r.FirstDay, r.LastDay}], r.UserID)
			}
		}
	}
	for _, user := range t.Users { // the user's row was deleted meanwhile
		if !seen[user] {
			ranges[days{t.First, t.Last}] = append(ranges[days{t.First, t.Last}], user)
		}
	}
	var due []Touched
	for r, users := range ranges {
		due = append(due, Touched{Users: users, First: r.first, Last: r.last, Mark: t.Mark})
	}
	return due, nil
}

// Followed stores that a part of [Due] was applied, for those of its users who still have no later message.
func Followed(ctx context.Context, db *sqldb.DB, part Touched) (err error) {
	defer errs.Wrap(&err, "checkin.followed")
	return asKind(db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for some := range slices.Chunk(part.Users, 500) {
			if _, err := tx.ExecContext(ctx, "UPDATE checkin_touched SET first_day = 0, last_day = 0 WHERE user_id IN (?) AND mark = ?",
				bun.List(some), part.Mark); err != nil {
				return err
			}
		}
		return nil
	}))
}

// countNew returns what importRows would return, and writes nothing.
func countNew(ctx context.Context, db *sqldb.DB, b batch) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countNew")
	held, err := CountHeld(ctx, db, b.days)
	if err != nil {
		return 0, err
	}
	makeups, _, err := unaudited(ctx, db, b.makeups)
	if err != nil {
		return 0, asKind(err)
	}
	n = int64(len(b.days)+len(makeups)+len(b.grants)) - held
	if len(b.grants) == 0 {
		return n, nil
	}
	args := make([]any, 0, 3*len(b.grants))
	for _, g := range b.grants {
		args = append(args, g.user.String(), g.At.UnixMilli(), g.id)
	}
	err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM checkin_grants WHERE (user_id, at, id) IN ("+
		sqldb.Tuples(3, len(b.grants))+")", args...).Scan(&held)
	return n - held, asKind(err)
}

// exported is the user of an exported row, and the time when the row was written.
type exported struct {
	User        accounts.ID
	At          int64
	Email, Name string
	Clock       civil.Clock
}

// exportedDay has the other columns of a row of the log. Month and N are from the audit of make-ups.
type exportedDay struct {
	Day            int32
	Kind           uint8
	Words, Minutes int
	Month, N       int
}

const exportedColumns = "COALESCE(u.email, ''), COALESCE(u.name, ''), COALESCE(u.zone, ''), COALESCE(u.zone_next, ''), " +
	"COALESCE(u.zone_from, 0)"

func (e *exported) columns() []any {
	return []any{&e.Email, &e.Name, &e.Clock.Zone, &e.Clock.Next, &e.Clock.From}
}

// exportDays calls fn with the rows of the log that o selects.
func exportDays(ctx context.Context, db *sqldb.DB, o ExportOptions, fn func(exported, exportedDay) error) (err error) {
	defer errs.Wrap(&err, "checkin.export")
	var e exported
	var d exportedDay
	where, args := o.days()
	// The second join finds a user's few rows of the audit by the prefix of its key.
	return export(ctx, db, "SELECT c.user_id, c.at, c.day, c.kind, c.words, c.minutes, COALESCE(m.month, 0), COALESCE(m.n, 0), "+
		exportedColumns+
		" FROM checkins c LEFT JOIN users u ON u.id = c.user_id LEFT JOIN checkin_makeups m ON m.user_id = c.user_id AND m.day = c.day AND "+
		"c.kind = ?"+
		" WHERE "+where+" ORDER BY c.user_id, c.day", append([]any{uint8(streak.MadeUp)}, args...),
		append([]any{&e.User, &e.At, &d.Day, &d.Kind, &d.Words, &d.Minutes, &d.Month, &d.N}, e.columns()...),
		func() error { return fn(e, d) })
}

// exportGrants calls fn with the grants that o selects.
func exportGrants(ctx context.Context, db *sqldb.DB, o ExportOptions, fn func(exported, grant) error) (err error) {
	defer errs.Wrap(&err, "checkin.exportGrants")
	var e exported
	var g grant
	where, args := o.grants()
	return export(ctx, db, "SELECT g.user_id, g.at, g.id, g.n, g.reason, "+exportedColumns+
		" FROM checkin_grants g LEFT JOIN users u ON u.id = g.user_id WHERE "+where+" ORDER BY g.user_id, g.at, g.id", args,
		append([]any{&e.User, &e.At, &g.id, &g.N, &g.reason}, e.columns()...),
		func() error { return fn(e, g) })
}

// export scans each row of a query into the same variables and calls fn.
func export(ctx context.Context, db *sqldb.DB, query string, args, into []any, fn func() error) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return asKind(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := fn(); err != nil {
			return err
		}
	}
	return asKind(rows.Err())
}

func countExport(ctx context.Context, db *sqldb.DB, o ExportOptions) (n int64, err error) {
	defer errs.Wrap(&err, "checkin.countExport")
	days, args := o.days()
	grants, more := o.grants()
	err = db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM checkins c WHERE "+days+") + (SELECT COUNT(*) FROM checkin_grants g WHERE "+
		grants+")", append(args, more...)...).Scan(&n)
	return n, asKind(err)
}

func (o ExportOptions) days() (where string, args []any) {
	return o.ofUser("c", "c.day BETWEEN ? AND ?", int32(o.First), int32(o.Last))
}

func (o ExportOptions) grants() (where string, args []any) {
	const ms = 24 * 60 * 60 * 1000
	return o.ofUser("g", "g.at >= ? AND g.at < ?", int64(o.First)*ms, (int64(o.Last)+1)*ms)
}

func (o ExportOptions) ofUser(table, where string, args ...any) (string, []any) {
	if o.User.IsZero() {
		return where, args
	}
	return table + ".user_id = ? AND " + where, append([]any{o.User}, args...)
}
