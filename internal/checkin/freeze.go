package checkin

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
)

const (
	// dueFor is the time after a row was written when it may still spend freezes. It bounds a repair after a crash.
	// Imported rows are mostly older: their days stay as they are.
	dueFor = 24 * time.Hour

	// settleFor is the time before the last row of the log that a start checks for gaps that a crash left open between
	// two commits. It is longer than any batch takes.
	settleFor = 5 * time.Second
)

// closes reports whether a committed row may close a gap. A request that finds a fresh row may be applied before the
// request that wrote it.
func (r request) closes(o outcome) bool {
	return mayClose(r.kind) && (o.New || r.at.Sub(o.At) < hardenFor)
}

// mayClose reports whether a row of that kind spends the freezes that its gap needs.
func mayClose(k streak.Kind) bool { return k == streak.Tapped || k == streak.Skipped }

// gap is a row of the log that may close a gap.
type gap struct {
	user  accounts.ID
	clock civil.Clock
	day   civil.Day
	at    time.Time
	own   bool // this very request wrote the row just now
}

// gapsOf returns the gaps that committed rows may close.
func gapsOf(reqs []request, out []outcome) (gaps []gap) {
	for i, r := range reqs {
		if r.closes(out[i]) {
			gaps = append(gaps, gap{r.user, r.clock, r.day, out[i].At, r.wrote(out[i])})
		}
	}
	return gaps
}

// closeGaps writes the days that freezes cover because of committed rows, and loads the records that they change. recs
// are the records of the rows' years.
func (s *Service) closeGaps(ctx context.Context, reqs []request, out []outcome, recs []*streak.Record) error {
	var chunk []request
	var theirs []outcome
	for i, r := range reqs {
		if r.closes(out[i]) && s.freezes.Owes(recs[i], r.day) {
			chunk, theirs = append(chunk, r), append(theirs, out[i])
		}
	}
	if len(chunk) == 0 {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, transfer.LoadWithin)
	defer cancel()
	histories, err := s.checkins.histories(within, mapped(chunk, func(r request) accounts.ID { return r.user }))
	if err != nil {
		return asAnswer(ctx, err)
	}
	covered, err := s.coverGaps(within, gapsOf(chunk, theirs), histories)
	if err != nil || len(covered) == 0 {
		return asAnswer(ctx, err)
	}
	var keys []records.Key
	for _, r := range chunk {
		if first, ok := covered[r.user]; ok {
			last := max(r.day.Year(), r.clock.Today(s.now()).Year())
			for year := first.Year(); year <= last; year++ {
				keys = append(keys, records.Key{User: r.user, Year: year})
			}
		}
	}
	loaded := mapped(keys, func(k records.Key) *streak.Record { return streak.RecordOf(k.Year, histories[k.User]) })
	if err := s.redis.Load(within, keys, loaded); err != nil {
		return err
	}
	for i, r := range reqs {
		if at := slices.Index(keys, r.record()); at >= 0 {
			recs[i] = loaded[at]
		}
	}
	return nil
}

// coverGaps writes to the log the days that freezes cover because of rows that close gaps, and adds them to the
// histories. It returns the first such day of each user who has one. A repetition changes nothing, although a later
// import may have earned the user more freezes: a closed gap stays as it was.
func (s *Service) coverGaps(ctx context.Context, gaps []gap, histories map[accounts.ID]streak.History) (map[accounts.ID]civil.Day, error) {
	if s.freezes.Max == 0 {
		return nil, nil
	}
	slices.SortFunc(gaps, func(a, b gap) int { return a.at.Compare(b.at) }) // two rows of one user: the older first
	due := func(g gap) []civil.Day { return s.freezes.Due(histories[g.user], g.clock, g.day, g.at) }
	unwritten := func(user accounts.ID) func(civil.Day) bool {
		return func(d civil.Day) bool { _, found := histories[user].On(d); return !found }
	}
	var doubtful []accounts.ID
	for _, g := range gaps {
		if !g.own && slices.ContainsFunc(due(g), unwritten(g.user)) {
			doubtful = append(doubtful, g.user)
		}
	}
	touched, err := transfer.TouchedAt(ctx, s.sql.db, doubtful)
	if err != nil {
		return nil, err
	}
	covered := map[accounts.ID]civil.Day{}
	var rows []request
	for _, r := range gaps {
		days := due(r)
		if !r.own && !touched[r.user].Before(r.at) {
			days = slices.DeleteFunc(days, unwritten(r.user))
		}
		if len(days) == 0 {
			continue
		}
		if first, ok := covered[r.user]; !ok || days[0] < first {
			covered[r.user] = days[0]
		}
		before := len(histories[r.user].Marks)
		histories[r.user] = histories[r.user].WithFrozen(days, r.at)
		if len(histories[r.user].Marks) > before {
			for _, d := range days {
				rows = append(rows, request{user: r.user, day: d, at: r.at, kind: streak.Frozen})
			}
		}
	}
	slices.SortFunc(rows, func(a, b request) int {
		return cmp.Or(strings.Compare(a.user.String(), b.user.String()), cmp.Compare(a.day, b.day), a.at.Compare(b.at))
	})
	rows = slices.CompactFunc(rows, func(a, b request) bool { return a.key() == b.key() })
	for chunk := range slices.Chunk(rows, 500) {
		held, err := s.sql.write(ctx, chunk)
		if err != nil {
			return nil, asKind(err)
		}
		for _, r := range chunk {
			if row := held[r.key()]; row.kind != streak.Frozen { // the day was signed meanwhile
				histories[r.user] = histories[r.user].With(streak.Mark{Day: r.day, Kind: row.kind, At: time.UnixMilli(row.at)})
			}
		}
	}
	return covered, nil
}

// settle closes the gaps of rows whose node died before it could. The projection does so too, but an embedded Redis and
// its mark are lost with its node.
func (s *Service) settle(ctx context.Context) {
	if s.freezes.Max == 0 {
		return
	}
	newest, err := s.sql.newest(ctx)
	if err == nil {
		err = s.sql.since(ctx, newest.Add(-settleFor), func(rows []logRow) error {
			users := mapped(rows, func(r logRow) accounts.ID { return r.User })
			clocks, err := s.users.Clocks(ctx, users)
			if err != nil {
				return err
			}
			histories, err := s.checkins.histories(ctx, users)
			if err != nil {
				return err
			}
			var gaps []gap
			for _, r := range rows {
				if m := r.mark(); mayClose(m.Kind) {
					gaps = append(gaps, gap{user: r.User, clock: clocks[r.User], day: m.Day, at: m.At})
				}
			}
			covered, err := s.coverGaps(ctx, gaps, histories)
			if err != nil || len(covered) == 0 {
				return err
			}
			return s.sql.enqueueUpdate(ctx, slices.Collect(maps.Keys(covered)), 0) // a Redis that outlived the node lacks them
		})
	}
	if err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "the last check-ins were not looked at for freezes that are due", slog.Any("err", err))
	}
}

// addOpen adds to the record of a year the days that are covered but not yet written.
func (s *Service) addOpen(ctx context.Context, user accounts.ID, clock civil.Clock, rec *streak.Record, year int,
	today civil.Day) (err error) {
	now := rec
	if year != today.Year() && s.freezes.Max > 0 {
		if now, err = s.record(ctx, user, today.Year()); err != nil {
			return err
		}
	}
	newest, last, _ := s.freezes.Open(now, clock, today)
	for d := newest; d < last; d++ {
		if (d + 1).Year() == year {
			rec.Cover(d+1, year)
		}
	}
	if skipped, ok := clock.Skipped(); ok && skipped < today && skipped.Year() == year {
		rec.Cover(skipped, year)
	}
	return nil
}

// ApplyGrant applies a grant to Redis. It may be called twice for one grant. The user's former place is unknown, so the
// counts of the boards are in doubt. One recount settles any number of grants.
func (s *Service) ApplyGrant(ctx context.Context, user accounts.ID) error {
	at := s.now()
	s.projection.Begin(at)
	s.applyChange(ctx, at, change{user: user})
	return nil
}
