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
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/queue"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/redis"
)

// Redis-first mode: a check-in is answered when a stream in Redis has it, and
// SQL follows. See docs/decisions/0009-redis-first.md for what is promised.
//
//	divide      who can be answered without SQL, from the record that Redis holds
//	keep        their rows: claimed (who was first?) and published, at once
//	Batches     a worker takes the stream to SQL
//	histories   SQL with what the claims know beyond it: written before it is read

// TopicPersist names the messages that carry check-ins from Redis to SQL.
const TopicPersist = "checkin.persist"

const (
	firstBudget = 250 * time.Millisecond // for Redis, which flushes its file before it answers
	sqlBudget   = time.Second            // for SQL, where a caller waits for it
	sqlPause    = time.Second            // after it was away, before a caller waits again

	persistAtOnce = 20 // messages of at most a batch each
	chunkRows     = 500

	// lateAfter is how old a row may be when it reaches SQL before whoever reads
	// the log by time has to be told. It is less than settled.
	lateAfter = settled / 2
	// applyFor is how long a worker waits for the node that published a row to
	// apply it.
	applyFor = time.Second
	// drainFor is how long the load of a board waits for the workers.
	drainFor = 5 * time.Second
)

// claimedBefore and claimedAfter bound the days, counted from today in UTC, of
// which claims can be there: their life, and a day for the zones on both sides.
const claimedBefore, claimedAfter = 4, 1

// journal is where redis-first mode keeps what SQL does not have yet.
type journal struct {
	stream   *queue.Redis
	replicas int
	sqlUntil atomic.Int64 // SQL was away: Unix ms until which callers do not wait for it
}

func newJournal(db *redis.DB, replicas int) *journal {
	return &journal{stream: queue.NewRedis(db), replicas: replicas}
}

// Journal is the stream that [Service.Batches] consume; nil unless the mode is
// redis.
func (s *Service) Journal() *queue.Redis {
	if s.journal == nil {
		return nil
	}
	return s.journal.stream
}

// entryRow is a row on its way to SQL.
type entryRow struct {
	User    accounts.ID `json:"user"`
	Day     int32       `json:"day"`
	At      int64       `json:"at"`
	Kind    Kind        `json:"kind"`
	Words   int         `json:"words,omitempty"`
	Minutes int         `json:"minutes,omitempty"`
	Req     int64       `json:"req"`
}

func (e entryRow) request() request {
	return request{user: e.User, day: civil.Day(e.Day), at: time.UnixMilli(e.At), kind: e.Kind, act: Activity{e.Words, e.Minutes}, req: e.Req}
}

func (j *journal) publish(ctx context.Context, rows []request) error {
	payload, err := json.Marshal(mapped(rows, func(r request) entryRow {
		return entryRow{r.user, int32(r.day), r.at.UnixMilli(), r.kind, r.act.Words, r.act.Minutes, r.req}
	}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, firstBudget)
	defer cancel()
	return j.stream.PublishReplicated(ctx, j.replicas, queue.Message{Topic: TopicPersist, Payload: payload})
}

// asking calls fn, which asks SQL while a caller waits, unless it was away a
// moment ago.
func (j *journal) asking(ctx context.Context, fn func(context.Context) error) error {
	if time.Now().UnixMilli() < j.sqlUntil.Load() {
		return ErrStore
	}
	ctx, cancel := context.WithTimeout(ctx, sqlBudget)
	defer cancel()
	err := undeadlocked(func() error { return fn(ctx) })
	if errors.Is(err, redis.ErrUnavailable) {
		return err // a lost connection, but none to SQL
	}
	deadlock := sqldb.IsRetryable(err)
	if err = asKind(err); err != nil && ctx.Err() != nil {
		err = errors.Join(ErrStore, err)
	}
	if errors.Is(err, ErrStore) && !deadlock {
		j.sqlUntil.Store(time.Now().Add(sqlPause).UnixMilli())
	}
	return err
}

// undeadlocked calls fn again after a deadlock: the worker and the check-ins that
// go to SQL themselves write the same rows.
func undeadlocked(fn func() error) (err error) {
	for range 3 {
		if err = fn(); !sqldb.IsRetryable(err) {
			break
		}
	}
	return err
}

// loadAhead is loadMissing for records that the commit of their batch waits for.
func (s *Service) loadAhead(ctx context.Context, keys []yearKey, recs []*Record) error {
	if s.journal == nil {
		return s.loadMissing(ctx, s.fast, keys, recs)
	}
	if !slices.ContainsFunc(recs, func(r *Record) bool { return !r.loaded() }) {
		return nil
	}
	return s.journal.asking(ctx, func(ctx context.Context) error { return s.loadMissing(ctx, s.fast, keys, recs) })
}

// writeFirst is store.write in redis-first mode: rows go to the stream where
// Redis can answer their callers, else to SQL. refused has the rows that needed
// SQL while it was away. While it is Redis that is away, SQL gets all the time
// and all the tries that it has in durable-first mode.
func (s *Service) writeFirst(ctx context.Context, rows []request, a *ahead) (held map[rowKey]row, kept map[rowKey]bool, refused map[rowKey]error, err error) {
	if a.wait(); a.away || !s.projection.Up() {
		held, err = s.write(ctx, rows)
		return held, nil, nil, err
	}
	first, rest := s.divide(rows, a)
	held, kept, refused = make(map[rowKey]row, len(rows)), map[rowKey]bool{}, map[rowKey]error{}
	var both sync.WaitGroup
	var there map[rowKey]row
	var failed error
	if len(rest) > 0 {
		both.Go(func() {
			failed = s.journal.asking(ctx, func(ctx context.Context) (err error) { there, err = s.write(ctx, rest); return err })
		})
	}
	unclaimed, failure := first, error(nil)
	if len(first) > 0 {
		var claims map[rowKey]row
		if claims, unclaimed, failure = s.keep(ctx, first, a); failure == nil {
			for key, row := range claims {
				held[key], kept[key] = row, true
			}
		}
	}
	both.Wait()
	if errors.Is(failed, ErrStore) && (failure != nil || !s.projection.Up()) {
		there, failed = s.write(ctx, rest) // it is Redis that is away, since a moment ago
	}
	take := func(rows []request, there map[rowKey]row, err error) error {
		if err != nil && !errors.Is(err, ErrStore) {
			return err // the batch is tried again, or split
		}
		for _, r := range rows {
			if row, ok := there[r.key()]; ok && err == nil {
				held[r.key()] = row
			} else {
				refused[r.key()] = cmp.Or(err, error(ErrStore))
			}
		}
		return nil
	}
	if err := take(rest, there, failed); err != nil {
		return nil, nil, nil, err
	}
	if len(unclaimed) == 0 {
		return held, kept, refused, nil
	}
	if failure != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "redis did not keep a batch; it goes to sql", slog.Int("rows", len(unclaimed)), slog.Any("err", failure))
		if there, err = s.write(ctx, unclaimed); err != nil {
			return nil, nil, nil, err
		}
	} else {
		err = s.journal.asking(ctx, func(ctx context.Context) (err error) { there, err = s.write(ctx, unclaimed); return err })
	}
	return held, kept, refused, take(unclaimed, there, err)
}

// divide tells rows whose callers can be answered from what Redis holds from
// those that need the log: whose record is not known, whose gap freezes may
// cover, whose day is not their newest or is covered.
func (s *Service) divide(rows []request, a *ahead) (first, rest []request) {
	now := s.now()
	for _, r := range rows {
		before, after := a.around(r)
		ok := before != nil && !before.covered(r.day.OfYear()) && !s.freezes.owes(after, r.day)
		if ok {
			_, ok = s.freezes.placeOf(after, r, Result{}, r.clock.Today(now))
		}
		if ok {
			first = append(first, r)
		} else {
			rest = append(rest, r)
		}
	}
	return first, rest
}

// keep claims and publishes rows and returns what the claims hold. Days that are
// signed and that nobody claims are unclaimed: SQL has them. After an error all
// are, and Redis may have them or not.
func (s *Service) keep(ctx context.Context, rows []request, a *ahead) (held map[rowKey]row, unclaimed []request, err error) {
	var published error
	var both sync.WaitGroup
	both.Go(func() { published = s.journal.publish(ctx, rows) })
	claims, err := s.fast.claim(ctx, rows, func(r request) bool {
		before, _ := a.around(r)
		return before.signed(r.day.OfYear())
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

// secureRecords writes check-ins that beat a user's longest streak to SQL before
// they are answered. While SQL is away the stream has them, as all others.
func (s *Service) secureRecords(ctx context.Context, reqs []request, out []outcome) {
	var broken []request
	for i, r := range reqs {
		if !out[i].kept || !out[i].New || !r.kind.Signs() {
			continue
		}
		if before, _ := out[i].ahead.around(r); before != nil {
			// Who signs for the first time breaks no record.
			if was := before.Longest(); was > 0 && out[i].Status.Longest > was {
				broken = append(broken, r)
			}
		}
	}
	if len(broken) == 0 {
		return
	}
	err := s.journal.asking(ctx, func(ctx context.Context) error { return s.persistRows(ctx, sorted(broken)) })
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "new longest streaks are in redis alone until sql takes them", slog.Int("rows", len(broken)), slog.Any("err", err))
	}
}

// persistRows writes sorted rows to SQL, unless their days are there.
func (s *Service) persistRows(ctx context.Context, rows []request) error {
	for some := range slices.Chunk(rows, chunkRows) {
		late := slices.ContainsFunc(some, func(r request) bool { return s.now().Sub(r.at) > lateAfter })
		err := undeadlocked(func() (err error) {
			if late {
				_, err = s.store.importRows(ctx, batch{days: some}, nil)
			} else {
				_, err = s.store.write(ctx, some)
			}
			return err
		})
		if err != nil {
			return asKind(err)
		}
	}
	return nil
}

// Batches are the topics that this domain handles in batches.
func (s *Service) Batches() []queue.Batch {
	if s.journal == nil {
		return nil
	}
	return []queue.Batch{{Topics: []string{TopicPersist}, Size: persistAtOnce, Handle: s.persistMessages}}
}

// persistMessages writes what the stream has to SQL, and takes to the records
// what a node that died did not.
func (s *Service) persistMessages(ctx context.Context, ds []queue.Delivery) []error {
	answers := make([]error, len(ds))
	var rows []request
	from := map[rowKey][]int{} // the messages that have it
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
	if err := s.asClaimed(ctx, rows); err != nil {
		fail(rows, err)
		return answers
	}
	var good []request
	for some := range slices.Chunk(rows, chunkRows) {
		good = append(good, s.persistGood(ctx, some, fail)...)
	}
	if err := s.bringBack(ctx, good); err != nil {
		fail(good, err)
	}
	return answers
}

// asClaimed puts in the place of each row the one that its day's claim has: of two
// requests that were published at once, it tells which one its callers were told
// of. A claim that is lost leaves the row as it came.
func (s *Service) asClaimed(ctx context.Context, rows []request) error {
	for some := range slices.Chunk(rows, chunkRows) {
		claims, err := s.fast.patient().claimed(ctx, mapped(some, request.key))
		if err != nil {
			return err
		}
		for i, r := range some {
			if c, ok := claims[r.key()]; ok {
				some[i] = c
			}
		}
	}
	return nil
}

// persistGood writes rows, and returns those that SQL has. One that it refuses
// does not keep the others out.
func (s *Service) persistGood(ctx context.Context, rows []request, fail func([]request, error)) []request {
	err := s.persistRows(ctx, rows)
	switch {
	case err == nil:
		return rows
	case !sqldb.IsRowError(err):
		fail(rows, err)
		return nil
	case len(rows) == 1:
		fail(rows, errors.Join(queue.ErrGiveUp, fmt.Errorf("%s on %s: %w", rows[0].user, rows[0].day, err)))
		return nil
	}
	half := len(rows) / 2
	return append(slices.Clone(s.persistGood(ctx, rows[:half], fail)), s.persistGood(ctx, rows[half:], fail)...)
}

// bringBack applies rows whose days are not in their records, or left a gap
// open: the node that published them died, or could not ask SQL.
func (s *Service) bringBack(ctx context.Context, rows []request) error {
	for some := range slices.Chunk(rows, chunkRows) {
		// Mostly the node lives and is about to do it: what is applied twice leaves
		// the boards in doubt.
		var err error
		for began := time.Now(); len(some) > 0; {
			if some, err = s.unapplied(ctx, some); err != nil {
				return err
			}
			if len(some) == 0 || time.Since(began) > applyFor {
				break
			}
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return err
			}
		}
		if err := s.reapply(ctx, mapped(some, request.key)); err != nil {
			return err
		}
	}
	return nil
}

// unapplied returns those of the rows whose records are not as they make them.
func (s *Service) unapplied(ctx context.Context, rows []request) (out []request, err error) {
	recs, err := s.fast.patient().readAll(ctx, mapped(rows, func(r request) yearKey { return yearKey{r.user, r.day.Year()} }))
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		if !recs[i].loaded() || !recs[i].bit(bitOf(r.day, r.kind)) || s.freezes.owes(recs[i], r.day) {
			out = append(out, r)
		}
	}
	return out, nil
}

// errClaims reports that a history is what SQL has, and that Redis may know more.
var errClaims = errors.New("checkin: the claims cannot be read")

// histories returns the whole log of some users. In redis-first mode what the
// stream still holds of them is written to SQL first; with errClaims the
// histories are there nevertheless.
func (s *Service) histories(ctx context.Context, users []accounts.ID) (map[accounts.ID]History, error) {
	histories, err := s.store.histories(ctx, users)
	if err != nil || s.journal == nil {
		return histories, err
	}
	today := civil.DayOf(s.now().Date())
	claimed, err := s.fast.patient().claims(ctx, users, today-claimedBefore, today+claimedAfter)
	if err != nil {
		return histories, errors.Join(errClaims, err)
	}
	missing := slices.DeleteFunc(claimed, func(r request) bool {
		return slices.ContainsFunc(histories[r.user].Marks, func(m Mark) bool { return m.Day == r.day })
	})
	if len(missing) == 0 {
		return histories, nil
	}
	missing = sorted(missing)
	if err := s.persistRows(ctx, missing); err != nil {
		return nil, err
	}
	return s.store.histories(ctx, users)
}

// sqlHistories is histories where what SQL has must do.
func (s *Service) sqlHistories(ctx context.Context, users []accounts.ID) (map[accounts.ID]History, error) {
	histories, err := s.histories(ctx, users)
	if errors.Is(err, errClaims) {
		err = nil
	}
	return histories, err
}

// persistClaims writes to SQL what it lacks of all that was claimed in the last
// days: after it nothing of these days depends on the stream. What Redis has lost
// changes nothing in SQL.
func (s *Service) persistClaims(ctx context.Context) error {
	for cursor := ""; ; {
		_, next, err := s.persistSomeClaims(ctx, cursor)
		if err != nil || next == "" {
			return err
		}
		cursor = next
	}
}

// persistSomeClaims is one step of persistClaims. It returns how many claims it
// has looked at and where to go on; next is empty after the last step.
func (s *Service) persistSomeClaims(ctx context.Context, cursor string) (n int, next string, err error) {
	began := time.Now()
	claims, next, err := s.fast.patient().someClaims(ctx, cursor)
	if err != nil {
		return 0, "", err
	}
	var added int64
	for rows := range slices.Chunk(sorted(claims), chunkUsers) {
		held, err := s.store.countHeld(ctx, rows)
		if err == nil && held < int64(len(rows)) {
			var n int64
			n, err = s.store.importRows(ctx, batch{days: rows}, nil)
			added += n
		}
		if err != nil {
			return 0, "", asKind(err)
		}
	}
	if added > 0 {
		s.log.LogAttrs(ctx, slog.LevelWarn, "check-ins that redis had and sql had not were written", slog.Int64("rows", added))
	}
	return len(claims), next, s.pace(ctx, len(claims), began)
}

// drain returns when SQL has what was published before: whoever reads the whole
// log would miss it.
func (s *Service) drain(ctx context.Context) error {
	if s.journal == nil {
		return nil
	}
	for began := time.Now(); ; {
		stats, err := s.journal.stream.Stats(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(stats, func(st queue.Stat) bool { return st.Topic == TopicPersist })
		if i < 0 || stats[i].Depth == 0 || stats[i].Age < time.Since(began) {
			return nil
		}
		if time.Since(began) > drainFor {
			return s.persistClaims(ctx) // the workers are away, or one died with a message
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// CheckMode says what redis-first mode promises on this Redis, and returns an
// error where it cannot be.
func (s *Service) CheckMode(ctx context.Context) error {
	if s.journal == nil {
		return nil
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "check-ins are answered from redis, before sql has them: what redis loses before that is lost",
		slog.String("checkin.mode", RedisFirst), slog.Int("checkin.replicas", s.journal.replicas))
	risks, err := s.fast.risks(ctx)
	for _, risk := range risks {
		s.log.LogAttrs(ctx, slog.LevelWarn, "answered check-ins may be lost", slog.String("why", risk))
	}
	return err
}
