package reconcile

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
)

// The stages of a snapshot. In redis-first mode, it first takes what Redis has. The first snapshot then includes all
// users, and later ones the users with new rows.
const (
	fromTheClaims  = "claims"
	everybodyAnew  = "everybody"
	fromTheLog     = "log"
	fromTheTouched = "touched"
)

// snapshotSlice persists months and totals, from the log alone. The data in Redis makes no difference.
func (rc *Reconciler) snapshotSlice(ctx context.Context, r *Run, until time.Time) (finished bool, err error) {
	if r.Resume.Stage == "" {
		r.Resume.Stage = fromTheClaims
	}
	for r.Resume.Stage == fromTheClaims {
		if !time.Now().Before(until) {
			return false, nil
		}
		if err := rc.claimsOfSnapshot(ctx, r); err != nil {
			return false, err
		}
	}
	for time.Now().Before(until) {
		users, stage, err := rc.nextOfSnapshot(ctx, r)
		if err != nil {
			return false, err
		}
		if len(users) == 0 {
			if stage == "" {
				return true, nil
			}
			continue
		}
		histories, err := rc.cfg.Logged(ctx, users)
		if err != nil {
			return false, err
		}
		abnormal, persisted, err := rc.persist(ctx, users, histories, false)
		if err != nil {
			return false, err
		}
		r.Done += int64(len(users))
		r.Summary.Abnormal += abnormal
		r.Summary.Persisted += persisted
	}
	return false, nil
}

// claimsOfSnapshot does a step of the first stage, or begins the next one.
func (rc *Reconciler) claimsOfSnapshot(ctx context.Context, r *Run) (err error) {
	n, next, err := rc.cfg.FlushSome(ctx, r.Resume.Cursor)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		// A snapshot needs SQL only. The claims still exist tomorrow.
		rc.log.LogAttrs(ctx, slog.LevelWarn, "the check-ins that redis keeps were not compared with sql", slog.Any("err", err))
	case next != "":
		r.Done += int64(n)
		r.Resume.Cursor = next
		return nil
	}
	r.Done, r.Resume.Cursor = 0, ""
	if r.Resume.Stage, r.Resume.At, err = rc.snapshotFrom(ctx, r); err != nil {
		r.Resume.Stage = fromTheClaims
		return err
	}
	if r.Resume.Stage == everybodyAnew {
		r.Total, err = rc.sql.countUsers(ctx, "", "")
	}
	return err
}

// snapshotFrom returns where a snapshot begins: at the start of the last one that is done, less the time that a commit
// may take.
func (rc *Reconciler) snapshotFrom(ctx context.Context, r *Run) (stage string, since int64, err error) {
	done, err := rc.Runs.LastDone(ctx, SnapshotRun, func(done *Run) bool { return done.ID < r.ID })
	if err != nil {
		return "", 0, err
	}
	if done == nil {
		return everybodyAnew, 0, nil
	}
	return fromTheLog, done.Started.Add(-Settled).UnixMilli(), nil
}

// nextOfSnapshot returns the next users and moves the run's cursor behind them. If it returns a stage and no users,
// that stage follows.
func (rc *Reconciler) nextOfSnapshot(ctx context.Context, r *Run) (users []accounts.ID, stage string, err error) {
	if r.Resume.Stage == everybodyAnew {
		users, err = rc.sql.usersAfter(ctx, r.Resume.Cursor, "", chunkUsers)
		if n := len(users); n > 0 {
			r.Resume.Cursor = users[n-1].String()
		}
		return users, "", err
	}
	touched := r.Resume.Stage == fromTheTouched
	at := transfer.Arrival{At: r.Resume.At}
	if r.Resume.Cursor != "" {
		if err := at.User.UnmarshalText([]byte(r.Resume.Cursor)); err != nil {
			return nil, "", err
		}
	}
	arrivals, err := transfer.Arrivals(ctx, rc.cfg.DB, touched, at, chunkUsers)
	switch {
	case err != nil:
		return nil, "", err
	case len(arrivals) > 0:
		last := arrivals[len(arrivals)-1]
		r.Resume.At, r.Resume.Cursor = last.At, last.User.String()
		users = mapped(arrivals, func(a transfer.Arrival) accounts.ID { return a.User })
		slices.SortFunc(users, accounts.ID.Compare)
		return slices.Compact(users), "", nil
	case touched:
		return nil, "", nil
	}
	_, since, err := rc.snapshotFrom(ctx, r)
	r.Resume = runs.Resume{Stage: fromTheTouched, At: since}
	return nil, fromTheTouched, err
}

// persist writes the months and totals of users that have changed, unless dryRun is set. It returns how many users
// changed in a way that no check-in causes, and how many changed at all.
func (rc *Reconciler) persist(ctx context.Context, users []accounts.ID, histories map[accounts.ID]streak.History,
	dryRun bool) (abnormal, changed int, err error) {
	sums, months, err := rc.sql.persisted(ctx, users)
	if err != nil {
		return 0, 0, err
	}
	heldSums := make(map[accounts.ID]totals, len(sums))
	for _, t := range sums {
		heldSums[t.User] = t
	}
	heldMonths := make(map[accounts.ID]map[int]month, len(users))
	for _, m := range months {
		if heldMonths[m.User] == nil {
			heldMonths[m.User] = map[int]month{}
		}
		heldMonths[m.User][m.Month] = m
	}
	sums, months = sums[:0], months[:0]
	now := rc.now()
	for _, user := range users {
		is, was := totalsOf(user, histories[user]), heldSums[user]
		if changes := monthChanges(user, histories[user], heldMonths[user]); len(changes) > 0 {
			months = append(months, changes...)
		}
		is.AsOf = was.AsOf
		if is == was || was.User.IsZero() && is.Total == 0 && len(histories[user].Marks) == 0 {
			continue
		}
		if is.AsOf = now.UnixMilli(); was.AsOf != 0 {
			bad, err := rc.abnormal(ctx, was, is, histories[user])
			if err != nil {
				return 0, 0, err
			}
			if bad {
				abnormal++
				rc.log.LogAttrs(ctx, slog.LevelError, "a user's days in sql changed in a way that no check-in makes",
					slog.String("user", user.String()),
					slog.Any("was", was), slog.Any("is", is))
			}
		}
		sums = append(sums, is)
	}
	if dryRun || len(sums)+len(months) == 0 {
		return abnormal, 0, nil
	}
	rc.metrics.abnormal.Add(float64(abnormal))
	return abnormal, len(sums), rc.sql.persist(ctx, sums, months)
}

// abnormal reports whether longest or total fell, or the streak rose by more than the days that were added. A day that
// is added before others may join two streaks. Late check-ins, make-ups and imports therefore raise no alarm.
func (rc *Reconciler) abnormal(ctx context.Context, was, is totals, h streak.History) (bool, error) {
	if is.Longest < was.Longest || is.Total < was.Total {
		return true, nil
	}
	if is.Streak <= was.Streak+is.Total-was.Total {
		return false, nil
	}
	since := time.UnixMilli(was.AsOf).Add(-Settled)
	for _, m := range h.Marks {
		if int32(m.Day) < was.LastDay && m.At.After(since) {
			return false, nil
		}
	}
	touched, err := transfer.TouchedAt(ctx, rc.cfg.DB, []accounts.ID{is.User})
	return touched[is.User].Before(since), err
}

func totalsOf(user accounts.ID, h streak.History) totals {
	var t streak.Tally
	for _, m := range h.Marks {
		t.Add(m)
	}
	return totals{User: user, Streak: t.Run, Longest: t.Longest, Total: t.Total, LastDay: int32(t.Last)}
}

// monthChanges returns the months of a history that differ from the stored ones.
func monthChanges(user accounts.ID, h streak.History, held map[int]month) (out []month) {
	is := make(map[int]month, len(held))
	for n := range held {
		is[n] = month{User: user, Month: n} // its days may be gone
	}
	for _, mark := range h.Marks {
		year, mon, day := mark.Day.Date()
		n := 100*year + int(mon)
		m := is[n]
		m.User, m.Month = user, n
		if mark.Kind.Signs() {
			m.Days |= 1 << (day - 1)
		} else {
			m.Covered |= 1 << (day - 1)
		}
		is[n] = m
	}
	for n, m := range is {
		if held[n] != m {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b month) int { return a.Month - b.Month })
	return out
}
