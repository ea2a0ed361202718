package checkin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/groupcommit"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// request is one day to be written for one user. Day and time were fixed when
// it arrived.
type request struct {
	user  accounts.ID
	clock civil.Clock
	day   civil.Day
	at    time.Time // whole milliseconds
	kind  Kind
	act   Activity
	req   int64 // random; tells whose row it is that the log holds

	replay bool // Redis may hold anything older
}

func (r request) key() rowKey { return rowKey{r.user, r.day} }

// outcome answers one request.
type outcome struct {
	Result
	err   error // committed, but where the user stands could not be told
	ahead *ahead
}

// newCommitter returns the two stages of a check-in: a batch is committed to
// SQL, and while the next one commits, Redis and the boards are brought up to
// date and the callers answered.
func (s *Service) newCommitter() *groupcommit.Committer[request, outcome] {
	// One commit at a time, on every engine: with two, batches are half as large,
	// and what a batch costs beside the flush outweighs the overlap.
	return groupcommit.New(s.commit, groupcommit.Options[request, outcome]{
		Retry:   retryable,
		Split:   sqldb.IsRowError,
		After:   s.applyBatch,
		Failed:  s.failed,
		Observe: s.metrics.batch,
	})
}

// commit writes a batch to the log. Two requests for one day of one user are
// folded: the first that arrived stands.
func (s *Service) commit(ctx context.Context, reqs []request) ([]outcome, error) {
	rows := slices.Clone(reqs)
	slices.SortFunc(rows, func(a, b request) int {
		return cmp.Or(strings.Compare(a.user.String(), b.user.String()), cmp.Compare(a.day, b.day), a.at.Compare(b.at))
	})
	rows = slices.CompactFunc(rows, func(a, b request) bool { return a.key() == b.key() })
	ahead := s.lookAhead(ctx, rows)
	held, err := s.store.write(ctx, rows)
	if err != nil {
		ahead.wait()
		return nil, err
	}
	out := make([]outcome, len(reqs))
	for i, r := range reqs {
		row := held[r.key()]
		out[i] = outcome{Result: Result{New: row.req == r.req, At: time.UnixMilli(row.at)}, ahead: ahead}
	}
	return out, nil
}

// ahead is what Redis held of a batch's users while SQL committed the batch. It
// tells what the check-ins will mean for the boards, so that days and boards go
// to Redis together; what Redis answers then tells whether it was right.
type ahead struct {
	done chan struct{}
	recs map[yearKey]*Record // complete when done is closed; loaded ones only
}

// lookAhead begins to read the users' records, and loads those that Redis does
// not have.
func (s *Service) lookAhead(ctx context.Context, rows []request) *ahead {
	a := &ahead{done: make(chan struct{})}
	if !s.projection.Writable() {
		close(a.done)
		return a
	}
	keys := mapped(rows, func(r request) yearKey { return yearKey{r.user, r.day.Year()} })
	go func() {
		defer close(a.done)
		recs, err := s.fast.readAll(ctx, keys)
		if err == nil {
			err = s.loadMissing(ctx, s.fast, keys, recs)
		}
		if err != nil {
			return // days and boards go one after the other then
		}
		a.recs = make(map[yearKey]*Record, len(keys))
		for i, k := range keys {
			a.recs[k] = recs[i]
		}
	}()
	return a
}

func (a *ahead) wait() {
	if a != nil { // replays are committed long ago
		<-a.done
	}
}

// with returns the record as r will have changed it, or nil when it is not known.
func (a *ahead) with(r request) *Record {
	a.wait()
	if a == nil || a.recs[yearKey{r.user, r.day.Year()}] == nil {
		return nil
	}
	rec := *a.recs[yearKey{r.user, r.day.Year()}]
	rec.setBit(bitOf(r.day, r.kind))
	return &rec
}

// failed is told about requests that SQL did not take, or may have taken
// without saying so.
func (s *Service) failed(r request, err error) {
	if unanswered(err) {
		s.projection.Unsure(r.at, r.key())
	} else {
		s.projection.Done(r.at)
	}
}

// applyBatch brings Redis up to date with committed requests and fills in where
// each user stands. Where Redis does not answer in time, SQL does.
func (s *Service) applyBatch(ctx context.Context, reqs []request, out []outcome) {
	applied := false
	if s.projection.Writable() {
		switch err := s.apply(ctx, s.fast, reqs, out); {
		case err == nil:
			applied = true
		case !errors.Is(err, ErrStore): // else SQL went away, and some records could not be loaded
			s.log.LogAttrs(ctx, slog.LevelWarn, "a batch was not applied to redis in time", slog.Int("rows", len(reqs)), slog.Any("err", err))
			s.projection.Suspect()
		}
	}
	answered := applied || s.answerFromLog(ctx, reqs, out)
	for _, r := range reqs {
		switch {
		case applied:
			s.projection.Done(r.at)
		case answered:
			s.projection.Missed(r.at, r.key())
		default: // nobody is told that it is committed
			s.projection.Unsure(r.at, r.key())
		}
	}
	if answered {
		s.bus.Publish(markedEvents(reqs, out))
	}
}

// answerFromLog tells callers where they stand with one SELECT for the batch.
// If that fails, it tells them that instead and returns false.
func (s *Service) answerFromLog(ctx context.Context, reqs []request, out []outcome) bool {
	users := make([]accounts.ID, len(reqs))
	for i, r := range reqs {
		users[i] = r.user
	}
	histories, err := s.store.histories(ctx, users)
	for i, r := range reqs {
		if out[i].err = err; err == nil {
			out[i].Status = statusOf(recordOf(r.day.Year(), histories[r.user]), r.clock, r.day)
		}
	}
	return err == nil
}

// apply writes committed rows to the records and the boards and fills in each
// user's status: in one round trip where the records were known ahead, else in
// a second one for the boards. After an error nothing is certain and everything
// may be applied again.
func (s *Service) apply(ctx context.Context, f *fast, reqs []request, out []outcome) error {
	expected := make([]*Record, len(reqs))
	places := make([]place, 0, len(reqs))
	for i, r := range reqs {
		if expected[i] = out[i].ahead.with(r); expected[i] == nil {
			continue
		}
		if p, ok := placeOf(expected[i], r, out[i].At); ok {
			places = append(places, p)
		} else {
			expected[i] = nil
		}
	}
	recs, err := f.mark(ctx, reqs, places)
	if err != nil {
		return err
	}
	if err := s.loadAfter(ctx, f, reqs, recs); err != nil {
		return err
	}
	places = places[:0]
	behind := map[accounts.ID]civil.Clock{} // whose newest day is not the one marked
	for i, r := range reqs {
		out[i].Status = statusOf(recs[i], r.clock, r.day)
		if expected[i] != nil && *expected[i] == *recs[i] {
			continue
		}
		if p, ok := placeOf(recs[i], r, out[i].At); ok {
			p.restart = p.restart || expected[i] != nil
			places = append(places, p)
		} else {
			behind[r.user] = r.clock
		}
	}
	if len(behind) > 0 {
		histories, err := s.store.histories(ctx, slices.Collect(maps.Keys(behind)))
		if err != nil {
			return err
		}
		for user, history := range histories {
			if p, ok := placeFrom(user, behind[user], history); ok {
				places = append(places, p)
			}
		}
	}
	return f.rank(ctx, places)
}

// loadAfter loads what marking has shown not to be loaded, and the present year
// of users whose mark fell into an earlier one.
func (s *Service) loadAfter(ctx context.Context, f *fast, reqs []request, recs []*Record) error {
	keys := mapped(reqs, func(r request) yearKey { return yearKey{r.user, r.day.Year()} })
	if err := s.loadMissing(ctx, f, keys, recs); err != nil {
		return err
	}
	var later []yearKey
	for _, r := range reqs {
		if now := r.clock.Today(s.now()).Year(); now != r.day.Year() {
			later = append(later, yearKey{r.user, now})
		}
	}
	if len(later) == 0 {
		return nil
	}
	_, err := s.loadRecords(ctx, f, later)
	return err
}

// loadMissing loads those of the records that are not.
func (s *Service) loadMissing(ctx context.Context, f *fast, keys []yearKey, recs []*Record) error {
	var missing []yearKey
	var at []int
	for i, rec := range recs {
		if !rec.loaded() {
			missing, at = append(missing, keys[i]), append(at, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	loaded, err := s.loadRecords(ctx, f, missing)
	if err != nil {
		return err
	}
	for i, rec := range loaded {
		recs[at[i]] = rec
	}
	return nil
}

// loadRecords computes records from the log and merges them into Redis.
func (s *Service) loadRecords(ctx context.Context, f *fast, keys []yearKey) ([]*Record, error) {
	recs, err := s.recordsFromLog(ctx, keys)
	if err != nil {
		return nil, err
	}
	return recs, f.load(ctx, keys, recs)
}

// recordsFromLog computes records with one SELECT for all.
func (s *Service) recordsFromLog(ctx context.Context, keys []yearKey) ([]*Record, error) {
	histories, err := s.store.histories(ctx, mapped(keys, func(k yearKey) accounts.ID { return k.user }))
	if err != nil {
		return nil, err
	}
	return mapped(keys, func(k yearKey) *Record { return recordOf(k.year, histories[k.user]) }), nil
}

// reapply brings rows to Redis that missed it, as far as the log has them.
func (s *Service) reapply(ctx context.Context, keys []rowKey) error {
	for some := range slices.Chunk(keys, 500) {
		users := make([]accounts.ID, 0, len(some))
		wanted := make(map[rowKey]bool, len(some))
		for _, k := range some {
			users, wanted[k] = append(users, k.user), true
		}
		histories, err := s.store.histories(ctx, users)
		if err != nil {
			return err
		}
		var rows []logRow
		for user, history := range histories {
			for _, m := range history {
				if wanted[rowKey{user, m.Day}] {
					rows = append(rows, logRow{User: user, Day: int32(m.Day), At: m.At.UnixMilli(), Kind: uint8(m.Kind)})
				}
			}
		}
		if err := s.applyRows(ctx, rows); err != nil {
			return err
		}
	}
	return nil
}

// replay applies the log from a time on.
func (s *Service) replay(ctx context.Context, since time.Time) error {
	if err := s.store.since(ctx, since, func(rows []logRow) error { return s.applyRows(ctx, rows) }); err != nil {
		return err
	}
	return s.followSince(ctx, since)
}

func (s *Service) applyRows(ctx context.Context, rows []logRow) error {
	users := make([]accounts.ID, len(rows))
	for i, r := range rows {
		users[i] = r.User
	}
	clocks, err := s.users.Clocks(ctx, users)
	if err != nil {
		return err
	}
	reqs, out := make([]request, len(rows)), make([]outcome, len(rows))
	for i, r := range rows {
		m := r.mark()
		reqs[i] = request{user: r.User, clock: clocks[r.User], day: m.Day, at: m.At, kind: m.Kind, replay: true}
		out[i].At = m.At
	}
	return s.apply(ctx, s.fast.patient(), reqs, out)
}

// markedEvents has one event for each check-in that was new.
func markedEvents(reqs []request, out []outcome) []events.Event {
	var batch []events.Event
	for i, r := range reqs {
		if !out[i].New || !r.kind.Signs() {
			continue
		}
		data, err := json.Marshal(wireStatus(out[i].Status))
		if err != nil {
			panic(err) // numbers, booleans and a date
		}
		batch = append(batch, events.New("checkin.marked", r.user.String(), r.at, data))
	}
	return batch
}
