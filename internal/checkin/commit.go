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
	"github.com/stoa-dev/stoa/keyspace"
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
	err error // committed, but where the user stands could not be told
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
	held, err := s.store.write(ctx, rows)
	if err != nil {
		return nil, err
	}
	out := make([]outcome, len(reqs))
	for i, r := range reqs {
		row := held[r.key()]
		out[i].New, out[i].At = row.req == r.req, time.UnixMilli(row.at)
	}
	return out, nil
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
	var told []events.Event
	if s.projection.Writable() {
		var err error
		switch told, err = s.apply(ctx, s.fast, reqs, out); {
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
	if !applied && answered {
		told = markedEvents(reqs, out) // the other nodes' listeners look when they reconnect
	}
	s.bus.Deliver(told)
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

// apply writes committed rows to the records and the boards, fills in each
// user's status, and tells the other nodes the events it returns. After an
// error nothing is certain and everything may be applied again.
func (s *Service) apply(ctx context.Context, f *fast, reqs []request, out []outcome) ([]events.Event, error) {
	recs, err := f.mark(ctx, reqs)
	if err != nil {
		return nil, err
	}
	if err := s.loadMissing(ctx, f, reqs, recs); err != nil {
		return nil, err
	}
	places := make([]place, 0, len(reqs))
	behind := map[accounts.ID]civil.Clock{} // whose newest day is not the one marked
	for i, r := range reqs {
		out[i].Status = statusOf(recs[i], r.clock, r.day)
		if p, ok := placeOf(recs[i], r, out[i].At); ok {
			places = append(places, p)
		} else {
			behind[r.user] = r.clock
		}
	}
	if len(behind) > 0 {
		histories, err := s.store.histories(ctx, slices.Collect(maps.Keys(behind)))
		if err != nil {
			return nil, err
		}
		for user, history := range histories {
			if p, ok := placeFrom(user, behind[user], history); ok {
				places = append(places, p)
			}
		}
	}
	told := markedEvents(reqs, out)
	var tell []keyspace.Cmd
	if len(told) > 0 {
		tell = append(tell, s.bus.Cmd(told))
	}
	return told, f.rank(ctx, places, tell...)
}

// loadMissing loads the records that were not, and those of the present year
// for marks that fall into the year before.
func (s *Service) loadMissing(ctx context.Context, f *fast, reqs []request, recs []*Record) error {
	var keys []yearKey
	for i, r := range reqs {
		if !recs[i].loaded() {
			keys = append(keys, yearKey{r.user, r.day.Year()})
		}
		if now := r.clock.Today(s.now()).Year(); now != r.day.Year() {
			keys = append(keys, yearKey{r.user, now})
		}
	}
	if len(keys) == 0 {
		return nil
	}
	loaded, err := s.loadRecords(ctx, f, keys)
	if err != nil {
		return err
	}
	byKey := make(map[yearKey]*Record, len(keys))
	for i, k := range keys {
		byKey[k] = loaded[i]
	}
	for i, r := range reqs {
		if rec := byKey[yearKey{r.user, r.day.Year()}]; rec != nil {
			recs[i] = rec
		}
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
	return s.store.since(ctx, since, func(rows []logRow) error { return s.applyRows(ctx, rows) })
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
	_, err = s.apply(ctx, s.fast.patient(), reqs, out)
	return err
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
