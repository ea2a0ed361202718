package checkin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/projection"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Redis-first mode: a check-in is acknowledged when a stream in Redis has it, and SQL follows.
// docs/decisions/0009-redis-first.md states the guarantees.
//
//	divide      selects the rows that need no SQL, from the record in Redis
//	keep        claims these rows (who was first?) and publishes them, at once
//	batches     a worker writes the stream to SQL
//	histories   writes to SQL what only the claims have, before it reads SQL

// TopicPersist is the topic of the messages that carry check-ins from Redis to SQL.
const TopicPersist = "checkin.persist"

const (
	firstBudget = 250 * time.Millisecond // for Redis, which flushes its file before it responds
	sqlBudget   = time.Second            // for SQL, where a caller waits for it
	sqlPause    = time.Second            // after SQL was away, before a caller waits for it again

	maxPersistMessages = 20 // messages of at most a batch each
	chunkRows          = 500

	// lateAfter is the largest age of a row that reaches SQL without a message. Readers that read the log by time miss
	// older rows.
	lateAfter = reconcile.Settled / 2
	// applyFor bounds a worker's wait until the node that published a row applies it.
	applyFor = time.Second
	// drainFor bounds the wait of a board's load for the workers.
	drainFor = 5 * time.Second
)

// claimedBefore and claimedAfter bound the days that can have claims, counted from today in UTC. They allow for the TTL
// of a claim, and a day for the zones on each side.
const claimedBefore, claimedAfter = 4, 1

// streamLog is the log in redis-first mode. A stream in Redis has the rows that SQL does not have yet, and claims show
// which request was first for each day.
type streamLog struct {
	sql        *sqlStore
	redis      *redisStore
	projection *projection.Projection[change, state]
	freezes    streak.Freezes
	stream     *queue.Redis
	replicas   int           // that acknowledge a check-in before its caller gets the result
	rate       int           // claims per second that a snapshot compares
	budget     time.Duration // for the stream to store rows
	sqlTime    time.Duration // for SQL, where a caller waits for it; zero is sqlBudget
	log        *slog.Logger
	now        func() time.Time

	unchecked bool         // Redis did not respond to check
	sqlUntil  atomic.Int64 // SQL was away: Unix ms until which callers do not wait for it
}

func newStreamLog(cfg Config, s *Service) *streamLog {
	return &streamLog{
		sql: s.sql, redis: s.redis, projection: s.projection, freezes: s.freezes, stream: queue.NewRedis(cfg.Redis),
		replicas: cfg.Replicas, rate: cfg.ReconcileRate, budget: cmp.Or(cfg.Pace.Budget, firstBudget), sqlTime: cfg.Pace.SQL, log: s.log,
		now: s.now,
	}
}

// entryRow is a row on its way to SQL.
type entryRow struct {
	User    accounts.ID `json:"user"`
	Day     int32       `json:"day"`
	At      int64       `json:"at"`
	Kind    streak.Kind `json:"kind"`
	Words   int         `json:"words,omitempty"`
	Minutes int         `json:"minutes,omitempty"`
	Req     int64       `json:"req"`
}

func (e entryRow) request() request {
	return request{user: e.User, day: civil.Day(e.Day), at: time.UnixMilli(e.At), kind: e.Kind, act: Activity{e.Words, e.Minutes}, req: e.Req}
}

func (l *streamLog) publish(ctx context.Context, rows []request) error {
	payload, err := json.Marshal(mapped(rows, func(r request) entryRow {
		return entryRow{r.user, int32(r.day), r.at.UnixMilli(), r.kind, r.act.Words, r.act.Minutes, r.req}
	}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	return l.stream.PublishReplicated(ctx, l.replicas, queue.Message{Topic: TopicPersist, Payload: payload})
}

// withSQL bounds the time of fn. It returns ErrStore without calling fn for a moment after SQL was away. The end of caller
// does not show that SQL is away.
func (l *streamLog) withSQL(caller context.Context, fn func(context.Context) error) error {
	if time.Now().UnixMilli() < l.sqlUntil.Load() {
		return ErrStore
	}
	ctx, cancel := context.WithTimeout(caller, cmp.Or(l.sqlTime, sqlBudget))
	defer cancel()
	err := undeadlocked(func() error { return fn(ctx) })
	if errors.Is(err, redis.ErrUnavailable) {
		return err // a lost connection, but none to SQL
	}
	deadlock := deadlocked(err)
	if err = asKind(err); err != nil && ctx.Err() != nil {
		err = errors.Join(ErrStore, err)
	}
	if errors.Is(err, ErrStore) && !deadlock && caller.Err() == nil {
		l.sqlUntil.Store(time.Now().Add(sqlPause).UnixMilli())
	}
	return err
}

// undeadlocked retries fn after a deadlock, because the worker and the check-ins that need SQL write the same rows.
func undeadlocked(fn func() error) (err error) {
	for range 3 {
		if err = fn(); !deadlocked(err) {
			break
		}
	}
	return err
}

// commit sends rows to the stream if Redis is enough to acknowledge them, else to SQL. While Redis is away, SQL gets
// all the time and all the tries of durable-first mode.
func (l *streamLog) commit(ctx context.Context, rows []request, a *ahead) (written, error) {
	if a.wait(); a.unavailable || !l.projection.Up() {
		held, err := l.sql.write(ctx, rows)
		return written{rows: held}, err
	}
	first, rest := l.divide(rows, a)
	w := written{make(map[rowKey]row, len(rows)), map[rowKey]bool{}, map[rowKey]error{}}
	var both sync.WaitGroup
	var found map[rowKey]row
	var failed error
	if len(rest) > 0 {
		both.Go(func() {
			failed = l.withSQL(ctx, func(ctx context.Context) (err error) { found, err = l.sql.write(ctx, rest); return err })
		})
	}
	unclaimed, failure := first, error(nil)
	if len(first) > 0 {
		var claims map[rowKey]row
		if claims, unclaimed, failure = l.claimAndPublish(ctx, first, a); failure == nil {
			for key, row := range claims {
				w.rows[key], w.streamed[key] = row, true
			}
		}
	}
	both.Wait()
	if errors.Is(failed, ErrStore) && (failure != nil || !l.projection.Up()) {
		found, failed = l.sql.write(ctx, rest) // Redis has just become unavailable
	}
	take := func(rows []request, found map[rowKey]row, err error) error {
		if err != nil && !errors.Is(err, ErrStore) {
			return err // the batch is retried, or split
		}
		for _, r := range rows {
			if row, ok := found[r.key()]; ok && err == nil {
				w.rows[r.key()] = row
			} else {
				w.refused[r.key()] = cmp.Or(err, error(ErrStore))
			}
		}
		return nil
	}
	if err := take(rest, found, failed); err != nil {
		return written{}, err
	}
	if len(unclaimed) == 0 {
		return w, nil
	}
	var err error
	if failure != nil {
		l.log.LogAttrs(ctx, slog.LevelWarn, "redis did not keep a batch; it goes to sql", slog.Int("rows", len(unclaimed)),
			slog.Any("err", failure))
		if found, err = l.sql.write(ctx, unclaimed); err != nil {
			return written{}, err
		}
	} else {
		err = l.withSQL(ctx, func(ctx context.Context) (err error) { found, err = l.sql.write(ctx, unclaimed); return err })
	}
	return w, take(unclaimed, found, err)
}

// divide separates the rows that Redis alone can acknowledge (first) from the rows that need the log (rest). A row
// needs the log if the record is not loaded, if freezes may cover its gap, or if its day is covered or not the newest.
func (l *streamLog) divide(rows []request, a *ahead) (first, rest []request) {
	now := l.now()
	for _, r := range rows {
		before, after := a.around(r)
		ok := before != nil && !before.Covered(r.day.OfYear()) && !l.freezes.Owes(after, r.day)
		if ok {
			_, ok = ranking.PlacementOf(l.freezes, after, r.marked(), now)
		}
		if ok {
			first = append(first, r)
		} else {
			rest = append(rest, r)
		}
	}
	return first, rest
}

// claimAndPublish claims and publishes rows and returns the rows of the claims. Signed days without a claim are
// unclaimed, because SQL has them. After an error, all rows are unclaimed, and Redis may have them or not.
func (l *streamLog) claimAndPublish(ctx context.Context, rows []request, a *ahead) (held map[rowKey]row, unclaimed []request, err error) {
	var published error
	var both sync.WaitGroup
	both.Go(func() { published = l.publish(ctx, rows) })
	claims, err := l.redis.claim(ctx, rows, func(r request) bool {
		before, _ := a.around(r)
		return before.Signed(r.day.OfYear())
	})
	both.Wait()
	if err = errors.Join(published, err); err != nil {
		return nil, rows, err
	}
	held = make(map[rowKey]row, len(rows))
	for i, r := range rows {
		if claims[i] != nil {
			held[r.key()] = *claims[i]
		} else {
			unclaimed = append(unclaimed, r)
		}
	}
	return held, unclaimed, nil
}

// secure writes check-ins that beat a user's longest streak to SQL before they are acknowledged. While SQL is away,
// only the stream has them, like all other check-ins.
func (l *streamLog) secure(ctx context.Context, reqs []request, out []outcome) {
	var broken []request
	for i, r := range reqs {
		if !out[i].streamed || !out[i].New || !r.kind.Signs() {
			continue
		}
		if before, _ := out[i].ahead.around(r); before != nil {
			// A user's first signed day beats no streak.
			if was := before.Longest(); was > 0 && out[i].Status.Longest > was {
				broken = append(broken, r)
			}
		}
	}
	if len(broken) == 0 {
		return
	}
	err := l.withSQL(ctx, func(ctx context.Context) error { return l.persistRows(ctx, sorted(broken)) })
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelWarn, "new longest streaks are in redis alone until sql takes them", slog.Int("rows", len(broken)),
			slog.Any("err", err))
	}
}

// persistRows writes sorted rows to SQL, unless their days exist.
func (l *streamLog) persistRows(ctx context.Context, rows []request) error {
	for chunk := range slices.Chunk(rows, chunkRows) {
		late := slices.ContainsFunc(chunk, func(r request) bool { return l.now().Sub(r.at) > lateAfter })
		err := undeadlocked(func() (err error) {
			if late {
				_, err = l.sql.importRows(ctx, chunk)
			} else {
				_, err = l.sql.write(ctx, chunk)
			}
			return err
		})
		if err != nil {
			return asKind(err)
		}
	}
	return nil
}

func (l *streamLog) journal() *queue.Redis { return l.stream }

func (l *streamLog) batches() []queue.Batch {
	return []queue.Batch{{Topics: []string{TopicPersist}, Size: maxPersistMessages, Handle: l.persistMessages}}
}

// persistMessages writes the messages of the stream to SQL. It applies to the records the rows that a dead node did not
// apply.
func (l *streamLog) persistMessages(ctx context.Context, ds []queue.Delivery) []error {
	answers := make([]error, len(ds))
	var rows []request
	from := map[rowKey][]int{} // the messages that have each row
	for i, d := range ds {
		var entries []entryRow
		if err := json.Unmarshal(d.Payload, &entries); err != nil {
			answers[i] = errors.Join(queue.ErrGiveUp, err)
			continue
		}
		for _, e := range entries {
			r := e.request()
			rows = append(rows, r)
			from[r.key()] = append(from[r.key()], i)
		}
	}
	fail := func(rows []request, err error) {
		for _, r := range rows {
			for _, i := range from[r.key()] {
				answers[i] = err
			}
		}
	}
	rows = sorted(rows)
	if err := l.asClaimed(ctx, rows); err != nil {
		fail(rows, err)
		return answers
	}
	var good []request
	for chunk := range slices.Chunk(rows, chunkRows) {
		good = append(good, l.persistGood(ctx, chunk, fail)...)
	}
	if err := l.reapply(ctx, good); err != nil {
		fail(good, err)
	}
	return answers
}

// asClaimed replaces each row by the one that its day's claim has. If two requests were published at once, the claim
// shows which one was acknowledged. Without a claim, a row stays as it is.
func (l *streamLog) asClaimed(ctx context.Context, rows []request) error {
	for chunk := range slices.Chunk(rows, chunkRows) {
		claims, err := l.redis.patient().claimed(ctx, mapped(chunk, request.key))
		if err != nil {
			return err
		}
		for i, r := range chunk {
			if c, ok := claims[r.key()]; ok {
				chunk[i] = c
			}
		}
	}
	return nil
}

// persistGood writes rows, and returns those that SQL has. A row that SQL refuses does not prevent the others.
func (l *streamLog) persistGood(ctx context.Context, rows []request, fail func([]request, error)) []request {
	err := l.persistRows(ctx, rows)
	switch {
	case err == nil:
		return rows
	case !refused(err):
		fail(rows, err)
		return nil
	case len(rows) == 1:
		fail(rows, errors.Join(queue.ErrGiveUp, fmt.Errorf("%s on %s: %w", rows[0].user, rows[0].day, err)))
		return nil
	}
	half := len(rows) / 2
	return append(slices.Clone(l.persistGood(ctx, rows[:half], fail)), l.persistGood(ctx, rows[half:], fail)...)
}

// reapply applies rows whose days are not in their records, or that left a gap open. The node that published them
// died, or could not read SQL.
func (l *streamLog) reapply(ctx context.Context, rows []request) error {
	for chunk := range slices.Chunk(rows, chunkRows) {
		// Usually the node is alive and about to apply the row. Applying a row twice would leave the counts of the
		// boards in doubt.
		var err error
		for began := time.Now(); len(chunk) > 0; {
			if chunk, err = l.unapplied(ctx, chunk); err != nil {
				return err
			}
			if len(chunk) == 0 || time.Since(began) > applyFor {
				break
			}
			if err := runs.Sleep(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
		if err := l.projection.Renew(ctx, mapped(chunk, func(r request) change { return rowChange(r.key()) })...); err != nil {
			return err
		}
	}
	return nil
}

// unapplied returns the rows that their records do not have, or whose gap is still open.
func (l *streamLog) unapplied(ctx context.Context, rows []request) (out []request, err error) {
	recs, err := l.redis.patient().ReadAll(ctx, mapped(rows, request.record))
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		if !recs[i].Loaded() || !recs[i].Has(r.day, r.kind) || l.freezes.Owes(recs[i], r.day) {
			out = append(out, r)
		}
	}
	return out, nil
}

// histories writes to SQL the rows that only the users' claims have, and then reads SQL.
func (l *streamLog) histories(ctx context.Context, users []accounts.ID) (map[accounts.ID]streak.History, error) {
	histories, err := l.sql.histories(ctx, users)
	if err != nil {
		return nil, err
	}
	today := civil.DayOf(l.now().Date())
	claimed, err := l.redis.patient().claims(ctx, users, today-claimedBefore, today+claimedAfter)
	if err != nil {
		return histories, errors.Join(errClaims, err)
	}
	missing := missingFrom(histories, claimed)
	if len(missing) == 0 {
		return histories, nil
	}
	missing = sorted(missing)
	if err := l.persistRows(ctx, missing); err != nil {
		return nil, err
	}
	return l.sql.histories(ctx, users)
}

func (l *streamLog) flush(ctx context.Context, users []accounts.ID) error {
	_, err := l.histories(ctx, users)
	return err
}

func (l *streamLog) forget(ctx context.Context, user accounts.ID) error {
	today := civil.Clock{}.Today(l.now())
	return l.redis.patient().unclaim(ctx, user, today-claimedBefore, today+claimedAfter)
}

// persistClaims writes to SQL all claims of the last days that it lacks. After it, none of these days depends on the
// stream. If Redis has lost claims, SQL does not change.
func (l *streamLog) persistClaims(ctx context.Context) error {
	for cursor := ""; ; {
		_, next, err := l.flushPage(ctx, cursor)
		if err != nil || next == "" {
			return err
		}
		cursor = next
	}
}

// flushPage is one step of persistClaims.
func (l *streamLog) flushPage(ctx context.Context, cursor string) (n int, next string, err error) {
	began := time.Now()
	claims, next, err := l.redis.patient().claimsPage(ctx, cursor)
	if err != nil {
		return 0, "", err
	}
	var added int64
	for rows := range slices.Chunk(sorted(claims), chunkUsers) {
		n, err := l.importMissing(ctx, rows)
		if err != nil {
			return 0, "", asKind(err)
		}
		added += n
	}
	if added > 0 {
		l.log.LogAttrs(ctx, slog.LevelWarn, "check-ins that redis had and sql had not were written", slog.Int64("rows", added))
	}
	return len(claims), next, runs.Pace(ctx, len(claims), l.rate, began)
}

// importMissing imports the rows that SQL lacks, and returns their number. Users without such a row are not touched: a
// reconciliation would find less of what their records lack.
func (l *streamLog) importMissing(ctx context.Context, rows []request) (added int64, err error) {
	held, err := l.sql.countHeld(ctx, rows)
	if err != nil || held == int64(len(rows)) {
		return 0, err
	}
	histories, err := l.sql.histories(ctx, mapped(rows, func(r request) accounts.ID { return r.user }))
	if err != nil {
		return 0, err
	}
	return l.sql.importRows(ctx, missingFrom(histories, rows))
}

// missingFrom returns the rows that are not in the histories.
func missingFrom(histories map[accounts.ID]streak.History, rows []request) []request {
	return slices.DeleteFunc(rows, func(r request) bool {
		return slices.ContainsFunc(histories[r.user].Marks, func(m streak.Mark) bool { return m.Day == r.day })
	})
}

// drain waits for the workers, and does their work if they take too long.
func (l *streamLog) drain(ctx context.Context) error {
	for began := time.Now(); ; {
		stats, err := l.stream.Stats(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(stats, func(st queue.Stat) bool { return st.Topic == TopicPersist })
		if i < 0 || stats[i].Depth == 0 || stats[i].Age < time.Since(began) {
			return nil
		}
		if time.Since(began) > drainFor {
			return l.persistClaims(ctx) // the workers are away, or one died with a message
		}
		if err := runs.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// check logs what the mode may lose on this Redis.
func (l *streamLog) check(ctx context.Context) error {
	l.log.LogAttrs(ctx, slog.LevelWarn, "check-ins are answered from redis, before sql has them: what redis loses before that is lost",
		slog.String("checkin.mode", RedisFirst), slog.Int("checkin.replicas", l.replicas))
	err := l.logRisks(ctx)
	if errors.Is(err, redis.ErrUnavailable) {
		l.unchecked = true
		l.log.LogAttrs(ctx, slog.LevelWarn, "redis does not answer; it will be asked what it may lose when it does", slog.Any("err", err))
		return nil
	}
	return err
}

// recheckEvery is the pause before check is repeated on a Redis that did not respond.
const recheckEvery = time.Second

// run repeats check until Redis responds.
func (l *streamLog) run(ctx context.Context) {
	for l.unchecked && runs.Sleep(ctx, recheckEvery) == nil {
		err := l.logRisks(ctx)
		l.unchecked = errors.Is(err, redis.ErrUnavailable)
		switch {
		case err == nil:
			l.log.LogAttrs(ctx, slog.LevelInfo, "checkin: durability of redis checked")
		case !l.unchecked:
			l.log.LogAttrs(ctx, slog.LevelError,
				"redis cannot keep check-ins, and the server would not have started: answered check-ins may be lost", slog.Any("err", err))
		}
	}
}

// logRisks logs what Redis may lose. It returns the errors of [redisStore.risks].
func (l *streamLog) logRisks(ctx context.Context) error {
	risks, err := l.redis.risks(ctx)
	for _, risk := range risks {
		l.log.LogAttrs(ctx, slog.LevelWarn, "answered check-ins may be lost", slog.String("why", risk))
	}
	return err
}
