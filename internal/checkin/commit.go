package checkin

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/groupcommit"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// request is one day to be written for one user. Its day and time were fixed when it arrived.
type request struct {
	user  accounts.ID
	clock civil.Clock
	day   civil.Day
	at    time.Time // whole milliseconds
	kind  streak.Kind
	act   Activity
	req   int64 // random; shows which request wrote the row in the log

	late bool // for a day that is over: the caller of submit sets its status and publishes its event
}

// hook returns the payload of the webhook.
func (r request) hook() api.HookCheckin {
	return api.HookCheckin{User: r.user.String(), Day: r.day.String(), Words: r.act.Words, Minutes: r.act.Minutes,
		MadeUp: r.kind == streak.MadeUp}
}

func (r request) key() rowKey { return rowKey{r.user, r.day} }

// record returns the key of the record that has the day.
func (r request) record() records.Key { return records.Key{User: r.user, Year: r.day.Year()} }

// recorded returns the day as that record stores it.
func (r request) recorded() records.Day { return records.Day{User: r.user, Day: r.day, Kind: r.kind} }

// marked returns what the boards need of a request.
func (r request) marked() ranking.Marked {
	return ranking.Marked{User: r.user, Clock: r.clock, Mark: streak.Mark{Day: r.day, Kind: r.kind, At: r.at}}
}

// outcome is the result of one request.
type outcome struct {
	Result
	kind     streak.Kind // of the row in the log
	err      error       // committed, but the status could not be computed
	ahead    *ahead
	streamed bool // in the stream; SQL follows
	lost     bool // refused with err, because it needed SQL, which was away
}

// wrote reports whether this very request wrote the row of that outcome just now.
func (r request) wrote(o outcome) bool { return o.New && r.at.Equal(o.At) }

// newCommitter returns the two stages of a check-in. The first commits a batch to the log. The second, during the next
// commit, updates Redis and the boards and returns results to the callers.
func (s *Service) newCommitter() *groupcommit.Committer[request, outcome] {
	// One commit at a time, on every engine. With two, batches are half as large, and the cost of a batch apart from
	// the flush outweighs the overlap.
	return groupcommit.New(s.commit, groupcommit.Options[request, outcome]{
		Retry:   retryable,
		Split:   refused,
		After:   s.applyBatch,
		Failed:  s.failed,
		Observe: s.metrics.batch,
	})
}

// batchTime bounds the statements of a batch.
const batchTime = 5 * time.Second

// commit writes a batch to the log of the mode. Two requests for one day of one user become one row, that of the first
// request.
func (s *Service) commit(ctx context.Context, reqs []request) ([]outcome, error) {
	rows := sorted(reqs)
	ahead := s.loadAhead(ctx, rows) // it continues after the commit
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	w, err := s.checkins.commit(ctx, rows, ahead)
	if err != nil {
		ahead.wait()
		return nil, err
	}
	out := make([]outcome, len(reqs))
	for i, r := range reqs {
		row := w.rows[r.key()]
		out[i] = outcome{Result: Result{New: row.req == r.req, At: time.UnixMilli(row.at)}, kind: row.kind, ahead: ahead,
			streamed: w.streamed[r.key()]}
		out[i].err, out[i].lost = w.refused[r.key()], w.refused[r.key()] != nil
	}
	return out, nil
}

// sorted returns requests in the order of the primary key. Of several requests for one day of one user, it returns the
// first that arrived.
func sorted(reqs []request) []request {
	order := make([]int, len(reqs)) // a request is large to move
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &reqs[i], &reqs[j]
		return cmp.Or(strings.Compare(a.user.String(), b.user.String()), cmp.Compare(a.day, b.day), a.at.Compare(b.at), cmp.Compare(i, j))
	})
	rows := make([]request, 0, len(reqs))
	for _, i := range order {
		if n := len(rows); n == 0 || rows[n-1].key() != reqs[i].key() {
			rows = append(rows, reqs[i])
		}
	}
	return rows
}

// ahead is the expected content of Redis for a batch's users. It gives the moves on the boards, so that days and boards
// go to Redis in one round trip. The reply of Redis then shows whether the expectation was right.
type ahead struct {
	repeats bool // this node has seen that all days of the batch are signed

	done        chan struct{}
	recs        map[records.Key]*streak.Record // complete when done is closed; loaded ones only
	unavailable bool                           // Redis did not respond; set when done is closed
}

// loadAhead collects the users' records while SQL commits. It uses this node's copy of the last check-in, else Redis,
// else the log. A user who seems to have missed the day before may have checked in on another node. It therefore reads
// that user's record from Redis, unless the day itself is already in the copy.
func (s *Service) loadAhead(ctx context.Context, rows []request) *ahead {
	a := &ahead{done: make(chan struct{}), recs: make(map[records.Key]*streak.Record, len(rows)), repeats: true}
	var unseen []records.Key
	for _, r := range rows {
		k := r.record()
		rec := s.recent.Get(k)
		repeat := rec != nil && rec.Has(r.day, r.kind)
		a.repeats = a.repeats && repeat
		if repeat || rec != nil && rec.Reaches(r.day.OfYear()-1) {
			a.recs[k] = rec
		} else {
			unseen = append(unseen, k)
		}
	}
	if len(unseen) == 0 || !s.projection.Writable() {
		close(a.done)
		return a
	}
	go func() {
		defer close(a.done)
		recs, err := s.redis.ReadAll(ctx, unseen)
		if err != nil {
			a.unavailable = true // days and boards then take one round trip each
			return
		}
		// After an error, the records that are loaded are still usable.
		_ = s.checkins.withSQL(ctx, func(ctx context.Context) error { return s.loadMissing(ctx, unseen, recs) })
		for i, k := range unseen {
			if recs[i].Loaded() {
				a.recs[k] = recs[i]
			}
		}
	}()
	return a
}

func (a *ahead) wait() {
	if a != nil { // nil: the rows were committed long ago
		<-a.done
	}
}

// around returns a user's record before and after r. It returns nil if the record is not available.
func (a *ahead) around(r request) (before, after *streak.Record) {
	a.wait()
	if a == nil {
		return nil, nil
	}
	if before = a.recs[r.record()]; before == nil {
		return nil, nil
	}
	rec := *before
	rec.Set(r.day, r.kind)
	return before, &rec
}

// failed settles a request that SQL did not accept, or whose outcome is unknown.
func (s *Service) failed(r request, err error) {
	if unanswered(err) {
		s.projection.Unsure(r.at, rowChange(r.key()))
	} else {
		s.projection.Done(r.at)
	}
}

// applyBatch applies committed requests to Redis and fills in the status of each user. If Redis does not respond in
// time, it uses SQL.
func (s *Service) applyBatch(ctx context.Context, reqs []request, out []outcome) {
	if slices.ContainsFunc(out, func(o outcome) bool { return o.lost }) {
		s.applyRest(ctx, reqs, out)
		return
	}
	for i := range reqs {
		reqs[i].kind = out[i].kind // the day may already exist, as another kind
	}
	applied, answered := false, false
	if s.projection.Up() {
		switch err := s.apply(ctx, reqs, out); {
		case err == nil:
			// The replies of Redis count only if it was complete all the time.
			applied, answered = true, s.projection.Up()
			s.checkins.secure(ctx, reqs, out)
		case !errors.Is(err, ErrStore): // else SQL was lost, and some records could not be loaded
			s.log.LogAttrs(ctx, slog.LevelWarn, "a batch was not applied to redis in time", slog.Int("rows", len(reqs)), slog.Any("err", err))
			s.projection.Suspect()
		}
	}
	answered = answered || s.answerFromLog(ctx, reqs, out)
	if !applied && answered { // a Redis that is not complete gets the change as a repair
		applied = s.projection.Bring(ctx, 3*s.redis.Budget, mapped(reqs, func(r request) change { return rowChange(r.key()) })...)
	}
	for _, r := range reqs {
		switch {
		case applied:
			s.projection.Done(r.at)
		case answered:
			s.projection.Missed(r.at, rowChange(r.key()))
		default: // no caller is acknowledged
			s.projection.Unsure(r.at, rowChange(r.key()))
		}
	}
	if answered {
		s.bus.Publish(markedEvents(reqs, out))
	}
}

// applyRest is applyBatch for the requests that were not refused.
func (s *Service) applyRest(ctx context.Context, reqs []request, out []outcome) {
	var rest []request
	var theirs []outcome
	var at []int
	for i, r := range reqs {
		if out[i].lost {
			s.failed(r, out[i].err)
		} else {
			rest, theirs, at = append(rest, r), append(theirs, out[i]), append(at, i)
		}
	}
	if len(rest) == 0 {
		return
	}
	s.applyBatch(ctx, rest, theirs)
	for i, j := range at {
		out[j] = theirs[i]
	}
}

// answerFromLog fills in the status of each caller with one SELECT for the batch. If that fails, it fills in the error
// and returns false.
func (s *Service) answerFromLog(ctx context.Context, reqs []request, out []outcome) bool {
	users := make([]accounts.ID, len(reqs))
	for i, r := range reqs {
		users[i] = r.user
	}
	histories, err := s.sqlHistories(ctx, users)
	if err == nil {
		_, err = s.coverGaps(ctx, gapsOf(reqs, out), histories)
	}
	for i, r := range reqs {
		if out[i].err = err; err == nil {
			rec := streak.RecordOf(r.day.Year(), histories[r.user])
			rec.Set(r.day, r.kind) // it may be in the stream alone, and Redis may have been lost since
			out[i].Status = s.freezes.Status(rec, r.clock, r.day)
		}
	}
	return err == nil
}

// apply writes committed rows to the records and the boards and fills in each user's status. It takes one round trip if
// the records were available ahead, else a second one for the boards. After an error the outcome is unknown, and the
// whole batch may be applied again.
func (s *Service) apply(ctx context.Context, reqs []request, out []outcome) error {
	now := s.now()
	expected := make([]*streak.Record, len(reqs))
	sent := make([]*ranking.Placement, len(reqs)) // the moves that were sent, by the expectation
	ms := ranking.Moves{Room: len(reqs)}
	for i, r := range reqs {
		before, after := out[i].ahead.around(r)
		if before == nil || !r.wrote(out[i]) || *before == *after { // a reader was quicker
			continue
		}
		p, ok := ranking.PlacementOf(s.freezes, after, r.marked(), now)
		if !ok || s.freezes.Owes(after, r.day) {
			continue
		}
		was := s.freezes.Score(before, r.clock, r.day.Year())
		p.From = &was
		ms.Add(p)
		expected[i], sent[i] = after, &p
	}
	recs, had, err := s.redis.Mark(ctx, mapped(reqs, request.recorded), s.Boards.AppendCmds(make([]keyspace.Cmd, 0, 2*len(reqs)+8), ms))
	if err != nil {
		return err
	}
	if err := s.loadAfter(ctx, reqs, recs); err != nil {
		return err
	}
	before := make([]streak.Score, len(reqs))
	for i, r := range reqs {
		s.recent.Put(r.record(), recs[i])
		if expected[i] == nil || *expected[i] != *recs[i] {
			rec := *recs[i]
			rec.Clear(r.day, r.kind)
			before[i] = s.freezes.Score(&rec, r.clock, r.day.Year())
		}
	}
	if err := s.closeGaps(ctx, reqs, out, recs); err != nil {
		return err
	}
	ms = ranking.Moves{}
	behind := map[accounts.ID]unplaced{}
	for i, r := range reqs {
		right, wrote := expected[i] != nil && *expected[i] == *recs[i], r.wrote(out[i])
		if !wrote {
			right = had[i] // otherwise the node that wrote the row has not moved the boards
		}
		out[i].Status = s.freezes.Status(recs[i], r.clock, r.day)
		if right {
			continue
		}
		p, ok := ranking.PlacementOf(s.freezes, recs[i], r.marked(), now)
		if !ok || !wrote { // the log may have later rows than an old one
			b := behind[r.user]
			b.rows = append(b.rows, r)
			b.sent = b.sent || sent[i] != nil || !wrote
			behind[r.user] = b
			continue
		}
		p.From, p.Told, p.Restart = &before[i], sent[i], true
		ms.Add(p)
	}
	if err := s.catchUp(ctx, &ms, behind); err != nil {
		return err
	}
	return s.redis.rank(ctx, s.Boards.AppendCmds(nil, ms))
}

// unplaced has rows of a user whose record does not show what they mean for the boards.
type unplaced struct {
	rows []request
	sent bool // the boards may already have one of them
}

// catchUp adds the places of users that only the log can give.
func (s *Service) catchUp(ctx context.Context, ms *ranking.Moves, behind map[accounts.ID]unplaced) error {
	if len(behind) == 0 {
		return nil
	}
	histories, err := s.checkins.histories(ctx, slices.Collect(maps.Keys(behind)))
	if err != nil {
		return err
	}
	for user, b := range behind {
		var signed []civil.Day
		for _, r := range b.rows {
			if r.kind.Signs() {
				signed = append(signed, r.day)
			}
		}
		at := b.rows[0].at
		if len(b.rows) > 1 || b.sent {
			at = time.Time{}
		}
		if p, ok := ranking.PlacementSince(s.freezes, user, b.rows[0].clock, histories[user], signed, at); ok {
			ms.Add(p)
		}
	}
	return nil
}

// loadAfter loads the records that were not loaded when they were marked. It also loads the present year of users whose
// mark is in an earlier one.
func (s *Service) loadAfter(ctx context.Context, reqs []request, recs []*streak.Record) error {
	keys := mapped(reqs, request.record)
	if err := s.loadMissing(ctx, keys, recs); err != nil {
		return err
	}
	var later []records.Key
	for _, r := range reqs {
		if now := r.clock.Today(s.now()).Year(); now != r.day.Year() {
			later = append(later, records.Key{User: r.user, Year: now})
		}
	}
	if len(later) == 0 {
		return nil
	}
	_, err := s.loadRecords(ctx, later)
	return err
}

// loadMissing loads the records that are not loaded.
func (s *Service) loadMissing(ctx context.Context, keys []records.Key, recs []*streak.Record) error {
	var missing []records.Key
	var at []int
	for i, rec := range recs {
		if !rec.Loaded() {
			missing, at = append(missing, keys[i]), append(at, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	loaded, err := s.loadRecords(ctx, missing)
	if err != nil {
		return err
	}
	for i, rec := range loaded {
		recs[at[i]] = rec
	}
	return nil
}

// loadRecords computes records from the log and merges them into Redis, within transfer.LoadWithin.
func (s *Service) loadRecords(ctx context.Context, keys []records.Key) ([]*streak.Record, error) {
	within, cancel := context.WithTimeout(ctx, transfer.LoadWithin)
	defer cancel()
	recs, err := s.recordsFromLog(within, keys)
	if err != nil {
		return nil, asAnswer(ctx, err)
	}
	return recs, s.redis.Load(within, keys, recs)
}

// sqlHistories is histories, but returns what SQL has if the claims cannot be read.
func (s *Service) sqlHistories(ctx context.Context, users []accounts.ID) (map[accounts.ID]streak.History, error) {
	histories, err := s.checkins.histories(ctx, users)
	if errors.Is(err, errClaims) {
		err = nil
	}
	return histories, err
}

// errClaims reports that a history has the rows of SQL only, and that Redis may have more.
var errClaims = errors.New("checkin: the claims cannot be read")

// recordsFromLog computes records with one SELECT for all.
func (s *Service) recordsFromLog(ctx context.Context, keys []records.Key) ([]*streak.Record, error) {
	histories, err := s.checkins.histories(ctx, mapped(keys, func(k records.Key) accounts.ID { return k.User }))
	if err != nil && !errors.Is(err, errClaims) {
		return nil, err
	}
	return mapped(keys, func(k records.Key) *streak.Record { return streak.RecordOf(k.Year, histories[k.User]) }), err
}

// markedEvents returns one event for each new check-in that is not late.
func markedEvents(reqs []request, out []outcome) []events.Event {
	var batch []events.Event
	for i, r := range reqs {
		if out[i].New && r.kind.Signs() && !r.late {
			batch = append(batch, markedEvent(r.user, r.at, out[i].Status))
		}
	}
	return batch
}

func markedEvent(user accounts.ID, at time.Time, st streak.Status) events.Event {
	return events.New("checkin.marked", user.String(), at, appendStatus(make([]byte, 0, 160), st))
}

// appendStatus is json.Marshal for [api.CheckinStatus], written by hand because each check-in runs it.
func appendStatus(b []byte, s streak.Status) []byte {
	b = append(append(append(b, `{"day":"`...), s.Day.String()...), `","today":`...)
	b = append(strconv.AppendBool(b, s.Today), `,"yesterday":`...)
	b = append(strconv.AppendBool(b, s.Yesterday), `,"streak":`...)
	for _, f := range []struct {
		n    int
		then string
	}{{s.Streak, `,"longest":`}, {s.Longest, `,"total":`}, {s.Total, `,"freezes":`}, {s.Freezes, `,"freezes_used":`}, {s.Used, `}`}} {
		b = append(strconv.AppendInt(b, int64(f.n), 10), f.then...)
	}
	return b
}
