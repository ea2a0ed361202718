package queue

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// countRows bounds the rows that Stats reads per topic: waiting messages, and the same number of dead letters.
const countRows = 100_000

// countTopics is the number of topics per counting statement, because SQLite accepts 500 parts.
const countTopics = 100

// claimTime bounds a claim.
const claimTime = 10 * time.Second

// SQL is the store in the table outbox. Transactions write to it with [sqldb.Tx.Enqueue], so a message exists only if
// its transaction committed.
type SQL struct {
	db    *sqldb.DB
	count int // countRows, smaller in tests
}

// NewSQL returns the store of db.
func NewSQL(db *sqldb.DB) *SQL { return &SQL{db, countRows} }

// Name implements [Store].
func (s *SQL) Name() string { return "sql" }

// Publish implements [Store]. It stores all messages or none, in its own transaction.
func (s *SQL) Publish(ctx context.Context, ms ...Message) error {
	if err := checkAll(ms); err != nil {
		return err
	}
	rows := make([]sqldb.Message, len(ms))
	for i, m := range ms {
		rows[i] = sqldb.Message{Topic: m.Topic, Key: m.Key, Payload: m.Payload, NoDedup: true}
	}
	err := s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return tx.Enqueue(ctx, rows...) })
	if err != nil {
		return fmt.Errorf("queue.Publish: %w", err)
	}
	return nil
}

func (s *SQL) claimLife(claim, _ time.Duration) time.Duration { return claim }

func (s *SQL) listen(kick func()) func(ctx context.Context) {
	wake, stop := s.db.OutboxWake()
	remove := s.db.AddProbe(sqldb.Probe{Query: "SELECT 1 FROM outbox WHERE dead = 0 AND due <= ?",
		Args: func() []any { return []any{s.db.Now().UnixMilli()} }}, func(found bool, _ time.Time) {
		if found {
			kick()
		}
	})
	return func(ctx context.Context) {
		defer stop()
		defer remove()
		for {
			select {
			case <-ctx.Done():
				return
			case <-wake:
				kick()
			}
		}
	}
}

// claim relies on the condition of its UPDATE to separate nodes that read the same rows. A claim sets the due time into
// the future and stores a token. The token shows a slow handler that it lost the message. The dedup column is cleared,
// so that an equal message that is enqueued from now on does not replace this one: its handler may have read the old
// state already.
//
// A tried message whose due time is later than the longest wait is due now, because the clock of the node that tried it
// was ahead. With a bound the same holds for untried messages.
func (s *SQL) claim(ctx context.Context, topics []string, n int,
	life, poll, longest, bound time.Duration) (got []Delivery, pause time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	now := s.db.Now()
	bounded := tried
	if bound > 0 {
		longest, bounded = max(longest, bound), waits
	}
	latest := now.Add(longest).UnixMilli()
	var rows []struct{ ID, Due, Bounded int64 }
	query, args := nextOf(topics, n, bounded)
	err = s.db.NewRaw(query, args...).Scan(ctx, &rows)
	if err != nil {
		return nil, poll, err
	}
	var ids []int64
	for _, r := range rows {
		if r.Due <= now.UnixMilli() || r.Bounded != 0 && r.Due > latest {
			ids = append(ids, r.ID)
		} else {
			poll = min(poll, time.UnixMilli(r.Due).Sub(now))
		}
	}
	if len(ids) == 0 {
		return nil, poll, nil
	}
	token := rand.Text()[:21]
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		until := tx.Now().Add(life).UnixMilli()
		_, err := tx.ExecContext(ctx, `UPDATE outbox SET claim = ?, attempts = attempts + 1, due = ?, dedup = NULL
			WHERE id IN (?) AND dead = 0 AND (due <= ? OR due > ? AND `+bounded+`)`, token, until, bun.List(ids), tx.Now().UnixMilli(), latest)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, "SELECT id, topic, msg_key, payload, attempts FROM outbox WHERE id IN (?) AND claim = ? ORDER BY id",
			bun.List(ids), token)
		got, err = sqldb.Collect(rows, err, func(rows *sql.Rows) (Delivery, error) {
			d := Delivery{claim: token}
			err := rows.Scan(&d.ID, &d.Topic, &d.Key, &d.Payload, &d.Attempt)
			return d, err
		})
		return err
	})
	if err != nil {
		return nil, poll, err
	}
	return got, 0, nil // more messages may be due
}

// waits is the condition for unclaimed messages. tried selects those of them that were tried.
const (
	waits = "claim = ''"
	tried = waits + " AND (attempts > 0 OR error <> '')"
)

// nextOf returns the query for the first n messages of some topics by due time. It queries each topic separately,
// because with one condition for all topics an engine also reads the waiting messages of other topics. The result
// contains the value of the condition bounded for each message.
func nextOf(topics []string, n int, bounded string) (query string, args []any) {
	parts := make([]string, len(topics))
	for i, topic := range topics {
		parts[i] = fmt.Sprintf("SELECT * FROM (SELECT id, due, "+bounded+
			" AS bounded FROM outbox WHERE topic = ? AND dead = 0 ORDER BY due, id LIMIT ?) t%d", i)
		args = append(args, topic, n)
	}
	return strings.Join(parts, " UNION ALL ") + " ORDER BY due, id LIMIT ?", append(args, n)
}

// settle is one transaction with one statement for all successful tries, and one statement for each other try.
func (s *SQL) settle(ctx context.Context, _ time.Duration, outcomes []outcome) error {
	return s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var done []int64
		for _, o := range outcomes {
			id, err := strconv.ParseInt(o.ID, 10, 64)
			if err != nil {
				return err
			}
			due := tx.Now().Add(o.wait).UnixMilli()
			switch o.kind {
			case "done":
				done = append(done, id)
			case "dead":
				_, err = tx.ExecContext(ctx, "UPDATE outbox SET dead = 1, error = ?, claim = '' WHERE id = ? AND claim = ?", o.err, id, o.claim)
			case "retry":
				_, err = tx.ExecContext(ctx, "UPDATE outbox SET due = ?, error = ?, claim = '' WHERE id = ? AND claim = ?", due, o.err, id, o.claim)
			case "released": // back in its old place, with the error of the last real try
				_, err = tx.ExecContext(ctx, "UPDATE outbox SET due = created, attempts = attempts - 1, claim = '' WHERE id = ? AND claim = ?", id,
					o.claim)
			default: // the try did not count
				_, err = tx.ExecContext(ctx, "UPDATE outbox SET due = ?, error = ?, attempts = attempts - 1, claim = '' WHERE id = ? AND claim = ?",
					due, o.err, id, o.claim)
			}
			if err != nil {
				return err
			}
		}
		if len(done) == 0 {
			return nil
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM outbox WHERE id IN (?) AND claim = ?", bun.List(done), outcomes[0].claim)
		return err
	})
}

// Waiting returns up to n unfinished messages of a topic with their payloads, whether or not they are due or claimed.
// It is for work that cannot wait for the consumers and that may run twice; see [SQL.Done].
func (s *SQL) Waiting(ctx context.Context, topic string, n int) (_ []Entry, err error) {
	defer errs.Wrap(&err, "queue.Waiting")
	// This uses the index that starts with topic. With an order, or with the index that starts with dead, the engine
	// would read the waiting messages of all topics. The plus stops SQLite from using that index.
	rows, err := s.db.QueryContext(ctx, "SELECT "+entryColumns+", payload FROM outbox WHERE topic = ? AND +dead = 0 LIMIT ?", topic, n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (Entry, error) {
		var payload []byte
		e, err := scanEntry(rows.Scan, &payload)
		e.Payload = payload
		return e, err
	})
}

// Done removes messages that [SQL.Waiting] returned. It keeps a message that was replaced in the meantime, because its
// payload differs.
func (s *SQL) Done(ctx context.Context, es ...Entry) error {
	if len(es) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(es))
	for _, e := range es {
		args = append(args, e.ID, e.Payload)
	}
	_, err := s.db.ExecContext(ctx, "DELETE FROM outbox WHERE "+sqldb.AnyOf("id = ? AND payload = ?", len(es)), args...)
	if err != nil {
		return fmt.Errorf("queue.Done: %w", err)
	}
	return nil
}

func (s *SQL) has(id string) bool {
	_, err := strconv.ParseInt(id, 10, 64)
	return err == nil
}

// numbers returns the ids that belong to this store.
func numbers(ids []string) (ns []int64) {
	for _, id := range ids {
		if n, err := strconv.ParseInt(id, 10, 64); err == nil {
			ns = append(ns, n)
		}
	}
	return ns
}

const entryColumns = "id, topic, msg_key, created, due, attempts, claim <> '', dead, error"

func scanEntry(scan func(...any) error, more ...any) (e Entry, err error) {
	var created, due int64
	var claimed, dead bool
	if err := scan(append([]any{&e.ID, &e.Topic, &e.Key, &created, &due, &e.Attempts, &claimed, &dead, &e.Error}, more...)...); err != nil {
		return Entry{}, err
	}
	e.Created, e.Due, e.State = sqldb.Time(created), sqldb.Time(due), Waiting
	switch {
	case dead:
		e.State = Dead
	case claimed:
		e.State = Claimed
	}
	return e, nil
}

// List implements [Store].
func (s *SQL) List(ctx context.Context, f Filter) (_ []Entry, err error) {
	defer errs.Wrap(&err, "queue.List")
	after := int64(0)
	if f.After != "" {
		if after, err = strconv.ParseInt(f.After, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, f.After)
		}
	}
	query, args := "SELECT "+entryColumns+" FROM outbox WHERE dead = ? AND id > ?", []any{sqldb.Bit(f.Dead), after}
	if f.Topic != "" {
		query, args = query+" AND topic = ?", append(args, f.Topic)
	}
	rows, err := s.db.QueryContext(ctx, query+" ORDER BY id LIMIT ?", append(args, f.limit())...)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (Entry, error) { return scanEntry(rows.Scan) })
}

// Show implements [Store].
func (s *SQL) Show(ctx context.Context, id string) (Entry, error) {
	ns := numbers([]string{id})
	if len(ns) == 0 {
		return Entry{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	var payload []byte
	e, err := scanEntry(s.db.QueryRowContext(ctx, "SELECT "+entryColumns+", payload FROM outbox WHERE id = ?", ns[0]).Scan, &payload)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Entry{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	case err != nil:
		return Entry{}, fmt.Errorf("queue.Show: %w", err)
	}
	e.Payload = payload
	return e, nil
}

// Replay implements [Store]. Consumers find the messages at their next poll.
func (s *SQL) Replay(ctx context.Context, ids ...string) (int, error) {
	return s.change(ctx, "queue.Replay", ids, func(ctx context.Context, tx *sqldb.Tx, ids []int64) (sql.Result, error) {
		return tx.ExecContext(ctx, "UPDATE outbox SET dead = 0, attempts = 0, error = '', due = ? WHERE dead = 1 AND id IN (?)",
			tx.Now().UnixMilli(), bun.List(ids))
	})
}

// Drop implements [Store].
func (s *SQL) Drop(ctx context.Context, ids ...string) (int, error) {
	return s.change(ctx, "queue.Drop", ids, func(ctx context.Context, tx *sqldb.Tx, ids []int64) (sql.Result, error) {
		return tx.ExecContext(ctx, "DELETE FROM outbox WHERE id IN (?)", bun.List(ids))
	})
}

func (s *SQL) change(ctx context.Context, what string, ids []string,
	do func(context.Context, *sqldb.Tx, []int64) (sql.Result, error)) (n int, err error) {
	for part := range slices.Chunk(numbers(ids), MaxList) {
		err := s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			res, err := do(ctx, tx, part)
			if err != nil {
				return err
			}
			changed, err := res.RowsAffected()
			tx.AfterCommit(func() { n += int(changed) })
			return err
		})
		if err != nil {
			return n, fmt.Errorf("%s: %w", what, err)
		}
	}
	return n, nil
}

// Stats implements [Store]. A message whose try did not count, because a dependency was unavailable, has an error and
// counts as due. Each topic is counted separately, and dead letters apart, so that a limit hides no other topic.
func (s *SQL) Stats(ctx context.Context) (_ []Stat, err error) {
	defer errs.Wrap(&err, "queue.Stats")
	now := s.db.Now()
	// MySQL and MariaDB jump from topic to topic in the index, but not with an ORDER BY. SQLite reads only the index.
	topics, err := sqldb.Column[string](s.db.QueryContext(ctx, "SELECT DISTINCT topic FROM outbox"))
	if err != nil {
		return nil, err
	}
	slices.Sort(topics)
	all := make([]Stat, 0, len(topics))
	for some := range slices.Chunk(topics, countTopics) {
		query, args := countsOf(some, now, s.count)
		rows, err := s.db.QueryContext(ctx, query, args...)
		counted := make([]Stat, len(some))
		err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
			var i int
			var st Stat
			var since int64
			err := rows.Scan(&i, &st.Depth, &st.InFlight, &since, &st.Dead)
			st.Topic, st.Age = some[i], max(0, now.Sub(time.UnixMilli(since)))
			counted[i] = st
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, counted...)
	}
	return all, nil
}

// countsOf returns the query that counts some topics, up to most rows each. A result row has the position of the topic,
// the number of waiting and of claimed messages, the time since when the oldest waits, and the number of dead letters.
func countsOf(topics []string, now time.Time, most int) (query string, args []any) {
	parts, ms := make([]string, len(topics)), now.UnixMilli()
	for i, topic := range topics {
		parts[i] = fmt.Sprintf(`SELECT %d, COUNT(*), COALESCE(SUM(claimed), 0), COALESCE(MIN(since), ?),
			(SELECT COUNT(*) FROM (SELECT id FROM outbox WHERE topic = ? AND dead = 1 LIMIT ?) d%d)
			FROM (SELECT CASE WHEN claim <> '' THEN 1 ELSE 0 END AS claimed, CASE WHEN due <= ? OR attempts > 0 OR error <> '' THEN created ELSE ? END AS since
				FROM outbox WHERE topic = ? AND dead = 0 ORDER BY due LIMIT ?) w%d`, i, i, i)
		args = append(args, ms, topic, most, ms, ms, topic, most)
	}
	return strings.Join(parts, " UNION ALL "), args
}
