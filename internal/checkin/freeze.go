package checkin

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
)

const (
	// noDay stands in a rowKey for a change that is no row of the log.
	noDay civil.Day = math.MinInt32

	// dueFor is for how long after a row was written freezes may still be spent
	// because of it. It bounds a repair after a crash; rows that were imported
	// are mostly older, and what they say stands.
	dueFor = 24 * time.Hour

	// settleFor is how far before the last row of the log a start looks for gaps
	// that a crash left open between two commits: longer than any batch is under
	// way.
	settleFor = 5 * time.Second
)

// closes reports whether a committed row may close a gap. Whoever finds a fresh
// row may be quicker than the one who wrote it.
func (r request) closes(o outcome) bool {
	return (r.kind == Tapped || r.kind == Skipped) && (o.New || r.replay || r.at.Sub(o.At) < hardenFor) && !r.stale
}

// closeGaps writes the days that freezes cover because of committed rows, and
// loads the records that they change. recs are the records of the rows' years.
func (s *Service) closeGaps(ctx context.Context, f *fast, reqs []request, out []outcome, recs []*Record) error {
	var some []request
	var theirs []outcome
	for i, r := range reqs {
		if r.closes(out[i]) && s.freezes.owes(recs[i], r.day) {
			some, theirs = append(some, r), append(theirs, out[i])
		}
	}
	if len(some) == 0 {
		return nil
	}
	histories, err := s.histories(ctx, mapped(some, func(r request) accounts.ID { return r.user }))
	if err != nil {
		return err
	}
	covered, err := s.coverGaps(ctx, some, theirs, histories)
	if err != nil || len(covered) == 0 {
		return err
	}
	var keys []yearKey
	for _, r := range some {
		if first, ok := covered[r.user]; ok {
			last := max(r.day.Year(), r.clock.Today(s.now()).Year())
			for year := first.Year(); year <= last; year++ {
				keys = append(keys, yearKey{r.user, year})
			}
		}
	}
	loaded := mapped(keys, func(k yearKey) *Record { return recordOf(k.year, histories[k.user]) })
	if err := f.load(ctx, keys, loaded); err != nil {
		return err
	}
	for i, r := range reqs {
		if at := slices.Index(keys, yearKey{r.user, r.day.Year()}); at >= 0 {
			recs[i] = loaded[at]
		}
	}
	return nil
}

// coverGaps writes the days that freezes cover because of committed rows to the
// log and adds them to the histories. It returns the first such day of each user
// who has one. Doing so again changes nothing.
func (s *Service) coverGaps(ctx context.Context, reqs []request, out []outcome, histories map[accounts.ID]History) (map[accounts.ID]civil.Day, error) {
	if s.freezes.Max == 0 {
		return nil, nil
	}
	order := make([]int, 0, len(reqs)) // two rows of one user: the older first
	for i, r := range reqs {
		if r.closes(out[i]) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int { return out[i].At.Compare(out[j].At) })
	covered := map[accounts.ID]civil.Day{}
	var rows []request
	for _, i := range order {
		r, at := reqs[i], out[i].At
		days := s.freezes.due(histories[r.user], r.clock, r.day, at)
		if len(days) == 0 {
			continue
		}
		if first, ok := covered[r.user]; !ok || days[0] < first {
			covered[r.user] = days[0]
		}
		before := len(histories[r.user].Marks)
		histories[r.user] = histories[r.user].frozen(days, at)
		if len(histories[r.user].Marks) > before {
			for _, d := range days {
				rows = append(rows, request{user: r.user, day: d, at: at, kind: Frozen})
			}
		}
	}
	slices.SortFunc(rows, func(a, b request) int {
		return cmp.Or(strings.Compare(a.user.String(), b.user.String()), cmp.Compare(a.day, b.day), a.at.Compare(b.at))
	})
	rows = slices.CompactFunc(rows, func(a, b request) bool { return a.key() == b.key() })
	for some := range slices.Chunk(rows, 500) {
		if _, err := s.store.write(ctx, some); err != nil {
			return nil, asKind(err)
		}
	}
	return covered, nil
}

// settle closes the gaps of rows whose node died before it could. The projection
// does so too, but an embedded Redis dies with its node, and its mark as well.
func (s *Service) settle(ctx context.Context) {
	if s.freezes.Max == 0 {
		return
	}
	newest, err := s.store.newest(ctx)
	if err == nil {
		err = s.store.since(ctx, newest.Add(-settleFor), func(rows []logRow) error {
			users := mapped(rows, func(r logRow) accounts.ID { return r.User })
			clocks, err := s.users.Clocks(ctx, users)
			if err != nil {
				return err
			}
			histories, err := s.histories(ctx, users)
			if err != nil {
				return err
			}
			// What was imported stands as it is.
			imported, err := s.store.touchedSince(ctx, users, newest.Add(-settleFor))
			if err != nil {
				return err
			}
			var reqs []request
			var out []outcome
			for _, r := range rows {
				if imported[r.User] {
					continue
				}
				m := r.mark()
				reqs = append(reqs, request{user: r.User, clock: clocks[r.User], day: m.Day, at: m.At, kind: m.Kind, replay: true})
				out = append(out, outcome{Result: Result{At: m.At}})
			}
			covered, err := s.coverGaps(ctx, reqs, out, histories)
			if err != nil || len(covered) == 0 {
				return err
			}
			return s.store.tellLater(ctx, slices.Collect(maps.Keys(covered)), 0) // a Redis that outlived the node lacks them
		})
	}
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "the last check-ins were not looked at for freezes that are due", slog.Any("err", err))
	}
}

// renewals are users whose part of Redis is computed anew.
type renewals map[accounts.ID]renewal

type renewal struct {
	days []civil.Day // that were written; none: only places have changed
	at   time.Time   // when; zero: perhaps Redis has them already
}

func (rs renewals) add(user accounts.ID, day civil.Day) {
	r := rs[user]
	if day != noDay {
		r.days = append(r.days, day)
	}
	rs[user] = r
}

// refresh computes what Redis holds of some users anew: their records from the
// year of the first day on, and their places.
func (s *Service) refresh(ctx context.Context, f *fast, anew renewals) error {
	if len(anew) == 0 {
		return nil
	}
	users := slices.Collect(maps.Keys(anew))
	clocks, err := s.users.Clocks(ctx, users)
	if err != nil {
		return err
	}
	histories, err := s.histories(ctx, users)
	if err != nil {
		return err
	}
	var keys []yearKey
	var recs []*Record
	ms := moves{}
	for _, user := range users {
		days := anew[user].days
		now := clocks[user].Today(s.now()).Year()
		first := now
		if len(days) > 0 {
			first = min(now, slices.Min(days).Year())
		}
		for year := first; year <= now; year++ {
			keys, recs = append(keys, yearKey{user, year}), append(recs, recordOf(year, histories[user]))
		}
		signed := histories[user].signed(days)
		if p, ok := s.freezes.since(user, clocks[user], histories[user], signed, anew[user].at); ok {
			ms.add(p)
		}
	}
	if err := f.load(ctx, keys, recs); err != nil {
		return err
	}
	return f.rank(ctx, ms)
}

// bring is refresh for a change that was announced to the projection and is
// committed: what Redis does not take now it gets later.
func (s *Service) bring(ctx context.Context, key rowKey, at time.Time, anew renewal) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if s.projection.Writable() {
		err := s.refresh(ctx, s.fast, renewals{key.user: anew})
		if err == nil {
			s.projection.Done(at)
			return
		}
		s.log.LogAttrs(ctx, slog.LevelWarn, "a change was not applied to redis in time", slog.String("user", key.user.String()), slog.Any("err", err))
		s.projection.Suspect()
	}
	s.projection.Missed(at, key)
}

// addOpen adds to the record of a year the days that are covered and not yet
// written.
func (s *Service) addOpen(ctx context.Context, user accounts.ID, clock civil.Clock, rec *Record, year int, today civil.Day) (err error) {
	now := rec
	if year != today.Year() && s.freezes.Max > 0 {
		if now, err = s.record(ctx, user, today.Year()); err != nil {
			return err
		}
	}
	newest, last, _ := s.freezes.open(now, clock, today)
	for d := newest; d < last; d++ {
		if (d + 1).Year() == year {
			rec.cover(d+1, year)
		}
	}
	if skipped, ok := clock.Skipped(); ok && skipped < today && skipped.Year() == year {
		rec.cover(skipped, year)
	}
	return nil
}

// Granted brings a grant to Redis. It may be told of it twice, and where the user
// stood before is not known: the boards' counts are in doubt then, and one count
// makes good as many grants as there were.
func (s *Service) Granted(ctx context.Context, user accounts.ID) error {
	at := s.now()
	s.projection.Begin(at)
	s.bring(ctx, rowKey{user, noDay}, at, renewal{})
	return nil
}
