package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
)

const (
	// Settled is the age of a row when its absence in Redis becomes a fault. Between its commit and its application, a
	// node may have died and another one may have taken over.
	Settled = time.Minute

	// chunkUsers is the number of users that are compared or persisted at a time. 200 users of ten years have at most
	// 730,000 rows, and usually some thousand.
	chunkUsers = 200
	// repairTries is the number of tries to repair a record that changes meanwhile.
	repairTries = 3
	// recheckAfter is the time before a user who differs is rechecked. Only differences that both comparisons find are
	// reported. Check-ins are applied well within this time.
	recheckAfter = 2 * time.Second
)

// The stages of a reconciliation after the users of the log.
const (
	strayMembers = "members of " // of a board, who are not in the log
	strayRecords = "records"     // of users or years that are not in the log
)

// reconcileSlice compares the users of the log, then checks the data of other users in Redis.
func (rc *Reconciler) reconcileSlice(ctx context.Context, r *Run, until time.Time) (finished bool, err error) {
	if err := r.Options.Validate(); err != nil {
		return false, err
	}
	if !rc.cfg.Up() {
		return false, errNotNow
	}
	after, before := partOf(r.Options.Part, r.Options.Parts)
	if r.Resume.Stage == "" {
		if user := r.Options.User; !user.IsZero() {
			r.Total = 1
			err := rc.reconcileUsers(ctx, r, []accounts.ID{user})
			return err == nil, err
		}
		if r.Total, err = rc.sql.countUsers(ctx, after, before); err != nil {
			return false, err
		}
		r.Resume = runs.Resume{Stage: "users", Cursor: after}
	}
	for time.Now().Before(until) {
		began, n := time.Now(), 0
		switch stage := r.Resume.Stage; stage {
		case "users":
			if more, err := rc.reconcileNext(ctx, r, before, until); err != nil {
				return false, err
			} else if more {
				continue
			}
			if r.Options.Part > 1 {
				return true, nil // the first part includes the strays
			}
			r.Resume = runs.Resume{Stage: strayMembers + ranking.Current(rc.now())[0].Key(), Cursor: "0"}
		case strayRecords:
			if n, err = rc.reconcileRecords(ctx, r); err != nil {
				return false, err
			}
			if r.Resume.Cursor == "" {
				return true, nil
			}
		default:
			if n, err = rc.reconcileMembers(ctx, r, strings.TrimPrefix(stage, strayMembers)); err != nil {
				return false, err
			}
		}
		if err := rc.pace(ctx, n, began); err != nil {
			return false, err
		}
	}
	return false, nil
}

// alphabet has the characters of an id in the order of their bytes.
const alphabet = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

// partOf returns the bounds of a part of all ids, as usersAfter takes them. Ids are random, so all parts have about the
// same size.
func partOf(part, parts int) (after, before string) {
	if parts == 0 {
		return "", ""
	}
	bound := func(n int) string {
		at := MaxParts * n / parts
		if at == 0 || at == MaxParts {
			return ""
		}
		return string([]byte{alphabet[at/64], alphabet[at%64]})
	}
	return bound(part - 1), bound(part)
}

// subject is a user who is compared, with what Redis and the log have of them. The log is read before Redis and after
// it. The first reading must have all that Redis lacks, and the second one must lack all that Redis has in excess.
type subject struct {
	user   accounts.ID
	years  []int
	boards bool

	clock   civil.Clock
	before  streak.History
	after   streak.History
	touched bool           // got rows with times in the past, a moment ago
	held    []records.Held // of each year
	views   map[ranking.Board]ranking.View
}

// difference is one difference between Redis and the log.
type difference struct {
	what, was, becomes string

	year  int           // of the record; 0 for a board
	merge bool          // something is missing and nothing is wrong: a load repairs it
	board ranking.Board // of the entry
}

// reconcileNext compares the users after the cursor, until the time until or until many differ. It reports whether
// there were any users. All users who differ are rechecked together, because damage seldom affects only one user.
func (rc *Reconciler) reconcileNext(ctx context.Context, r *Run, before string, until time.Time) (more bool, err error) {
	var differ []*subject
	cursor, n := r.Resume.Cursor, 0
	for n == 0 || len(differ) < chunkUsers && time.Now().Before(until) {
		began := time.Now()
		users, err := rc.sql.usersAfter(ctx, cursor, before, chunkUsers)
		if err != nil {
			return false, err
		}
		if len(users) == 0 {
			break
		}
		differing, err := rc.compareUsers(ctx, r, users)
		if err != nil {
			return false, err
		}
		differ = append(differ, differing...)
		n += len(users)
		cursor = users[len(users)-1].String()
		if err := rc.pace(ctx, len(users), began); err != nil {
			return false, err
		}
	}
	if err := rc.recheck(ctx, r, differ); err != nil {
		return false, err
	}
	r.Summary.Compared += n
	r.Done += int64(n)
	r.Resume.Cursor = cursor
	return n > 0, nil
}

// reconcileUsers compares users, and repairs and stores the differences.
func (rc *Reconciler) reconcileUsers(ctx context.Context, r *Run, users []accounts.ID) error {
	differ, err := rc.compareUsers(ctx, r, users)
	if err != nil {
		return err
	}
	if err := rc.recheck(ctx, r, differ); err != nil {
		return err
	}
	r.Summary.Compared += len(users)
	r.Done += int64(len(users))
	return nil
}

// compareUsers compares users and returns those who seem to differ.
func (rc *Reconciler) compareUsers(ctx context.Context, r *Run, users []accounts.ID) (differ []*subject, err error) {
	if !r.Options.DryRun {
		if users, err = rc.cfg.EraseLate(ctx, users); err != nil || len(users) == 0 {
			return nil, err
		}
	}
	first, err := rc.sql.firstYears(ctx, users)
	if err != nil {
		return nil, err
	}
	next := rc.now().Year() + 1 // it has begun in some zones
	subjects := make([]*subject, len(users))
	for i, user := range users {
		subjects[i] = &subject{user: user, boards: true}
		from, known := first[user]
		if !known {
			from = next - 2
		}
		for year := from; year <= next; year++ {
			subjects[i].years = append(subjects[i].years, year)
		}
	}
	if differ, err = rc.findDiffering(ctx, subjects); err != nil {
		return nil, err
	}
	histories := make(map[accounts.ID]streak.History, len(users))
	for _, x := range subjects {
		histories[x.user] = x.before
	}
	abnormal, _, err := rc.persist(ctx, users, histories, r.Options.DryRun)
	r.Summary.Abnormal += abnormal
	return differ, err
}

// reconcileRecords compares the next records whose users or years are not in the log, and returns how many it has read.
func (rc *Reconciler) reconcileRecords(ctx context.Context, r *Run) (n int, err error) {
	keys, cursor, err := rc.records.Scan(ctx, r.Resume.Cursor)
	if err != nil {
		return 0, err
	}
	first, err := rc.sql.firstYears(ctx, mapped(keys, func(k records.Key) accounts.ID { return k.User }))
	if err != nil {
		return 0, err
	}
	next := rc.now().Year() + 1
	var strays []*subject
	for _, k := range keys {
		if from, known := first[k.User]; !known || k.Year < from || k.Year > next {
			strays = append(strays, &subject{user: k.User, years: []int{k.Year}})
		}
	}
	for chunk := range slices.Chunk(strays, chunkUsers) {
		if err := rc.compare(ctx, r, chunk); err != nil {
			return 0, err
		}
	}
	r.Resume.Cursor = cursor
	return len(keys), nil
}

// reconcileMembers checks a board for members who are not in the log, and returns how many it has read.
func (rc *Reconciler) reconcileMembers(ctx context.Context, r *Run, board string) (n int, err error) {
	boards := ranking.Current(rc.now())
	at := slices.IndexFunc(boards, func(b ranking.Board) bool { return b.Key() == board })
	if at < 0 { // a season that has ended meanwhile
		r.Resume = runs.Resume{Stage: strayRecords}
		return 0, nil
	}
	b := boards[at]
	members, next, err := rc.boards.Members(ctx, b, r.Resume.Cursor, chunkUsers)
	if err != nil {
		return 0, err
	}
	strays, err := rc.strays(ctx, members)
	if err == nil && len(strays) > 0 {
		if err = runs.Sleep(ctx, rc.cfg.RecheckAfter); err == nil {
			strays, err = rc.strays(ctx, strays)
		}
	}
	if err != nil {
		return 0, err
	}
	found := make([]runs.Repair, 0, len(strays))
	for _, member := range strays {
		repair := runs.Repair{At: rc.now(), User: member, What: "board " + b.Key() + ": a member without days", Was: "on it",
			Becomes: "not on it"}
		if !r.Options.DryRun {
			if err := rc.boards.Remove(ctx, b, member); err != nil {
				return 0, err
			}
			repair.Repaired = true
		}
		found = append(found, repair)
	}
	if next == "" && !r.Options.DryRun && rc.boards.Kind() == ranking.Compact {
		// Its counts cannot be compared with the log while check-ins change both, so they are counted again.
		if err := rc.recountFor(ctx, r, b); err != nil {
			return 0, err
		}
	}
	switch r.Resume.Cursor = next; {
	case next != "":
	case at+1 < len(boards):
		r.Resume = runs.Resume{Stage: strayMembers + boards[at+1].Key(), Cursor: "0"}
	default:
		r.Resume = runs.Resume{Stage: strayRecords}
	}
	return len(members), rc.storeDifferences(ctx, r, found)
}

// strays returns the members of a board who are not users with days.
func (rc *Reconciler) strays(ctx context.Context, members []string) (out []string, err error) {
	var users []accounts.ID
	for _, member := range members {
		user, err := ids.Parse[accounts.User](member)
		if err != nil {
			out = append(out, member)
			continue
		}
		users = append(users, user)
	}
	if len(users) == 0 {
		return out, nil
	}
	if err := rc.cfg.Flush(ctx, users); err != nil {
		return nil, err
	}
	known, err := rc.sql.firstYears(ctx, users)
	for _, user := range users {
		if _, ok := known[user]; !ok {
			out = append(out, user.String())
		}
	}
	return out, err
}

// compare compares users twice. It repairs the differences that both comparisons find, unless it is a dry run, and
// stores them.
func (rc *Reconciler) compare(ctx context.Context, r *Run, all []*subject) error {
	differ, err := rc.findDiffering(ctx, all)
	if err != nil {
		return err
	}
	return rc.recheck(ctx, r, differ)
}

// findDiffering returns the users who differ, perhaps because of a check-in in progress.
func (rc *Reconciler) findDiffering(ctx context.Context, all []*subject) ([]*subject, error) {
	if len(all) == 0 {
		return nil, nil
	}
	if err := rc.loadSubjects(ctx, all); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(x *subject) bool { return len(rc.differences(x)) == 0 }), nil
}

// recheck rechecks the users who differed a while before, and repairs and stores the differences that remain.
func (rc *Reconciler) recheck(ctx context.Context, r *Run, differ []*subject) error {
	if len(differ) == 0 {
		return nil
	}
	if err := runs.Sleep(ctx, rc.cfg.RecheckAfter); err != nil {
		return err
	}
	if err := rc.loadSubjects(ctx, differ); err != nil {
		return err
	}
	var found []runs.Repair
	for _, x := range differ {
		ds := rc.differences(x)
		if len(ds) == 0 {
			continue
		}
		repaired := false
		if !r.Options.DryRun {
			var err error
			if repaired, err = rc.repair(ctx, x, ds); err != nil {
				return errors.Join(err, rc.storeDifferences(ctx, r, found))
			}
		}
		for _, d := range ds {
			found = append(found, runs.Repair{At: rc.now(), User: x.user.String(), What: d.what, Was: d.was, Becomes: d.becomes, Repaired: repaired})
		}
	}
	return rc.storeDifferences(ctx, r, found)
}

// storeDifferences stores and logs the differences. It does not count a user whom the run has counted before.
func (rc *Reconciler) storeDifferences(ctx context.Context, r *Run, found []runs.Repair) error {
	if len(found) == 0 {
		return nil
	}
	users := map[string]bool{}
	for _, f := range found {
		users[f.User] = true
	}
	known, err := rc.Runs.CountNamed(ctx, r.ID, slices.Collect(maps.Keys(users)))
	if err != nil {
		return err
	}
	r.Summary.Differing += len(users) - known
	for _, f := range found {
		r.Summary.Differences++
		if f.Repaired {
			r.Summary.Repaired++
		}
		rc.log.LogAttrs(ctx, slog.LevelWarn, "redis differed from sql", slog.Int64("run", r.ID), slog.String("user", f.User),
			slog.String("what", f.What), slog.String("was", f.Was), slog.String("becomes", f.Becomes), slog.Bool("repaired", f.Repaired))
	}
	return rc.Runs.Save(ctx, r, found...)
}

// loadSubjects reads all data of the subjects.
func (rc *Reconciler) loadSubjects(ctx context.Context, all []*subject) (err error) {
	users := mapped(all, func(x *subject) accounts.ID { return x.user })
	before, err := rc.cfg.Histories(ctx, users)
	if err != nil {
		return err
	}
	since := rc.now().Add(-Settled)
	touched, err := transfer.TouchedAt(ctx, rc.cfg.DB, users)
	if err != nil {
		return err
	}
	clocks, err := rc.cfg.Clocks(ctx, users)
	if err != nil {
		return err
	}
	var keys []records.Key
	for _, x := range all {
		for _, year := range x.years {
			keys = append(keys, records.Key{User: x.user, Year: year})
		}
	}
	held, err := rc.records.Held(ctx, keys)
	if err != nil {
		return err
	}
	for _, x := range all {
		x.clock, x.before, x.touched = clocks[x.user], before[x.user], !touched[x.user].Before(since)
		x.held, held = held[:len(x.years)], held[len(x.years):]
		x.views = map[ranking.Board]ranking.View{}
	}
	for _, b := range ranking.Current(rc.now()) {
		seen, loaded, err := rc.boards.View(ctx, b, users)
		if err != nil {
			return err
		}
		if !loaded {
			continue // it is loaded from SQL before any read
		}
		for _, x := range all {
			if x.boards {
				x.views[b] = seen
			}
		}
	}
	after, err := rc.cfg.Histories(ctx, users)
	for _, x := range all {
		x.after = after[x.user]
	}
	return err
}

// differences returns the differences of x from the log. A check-in in progress is no difference. Days are only ever
// added, so the data of a user in Redis must be between the log of a minute ago and the log of now.
func (rc *Reconciler) differences(x *subject) (out []difference) {
	now := rc.now()
	old, _ := x.before.Before(now.Add(-Settled), nil)
	if x.touched {
		old = streak.History{}
	}
	for i, year := range x.years {
		if !x.held[i].There {
			continue
		}
		least, most := streak.RecordOf(year, old), streak.RecordOf(year, x.after)
		if year < x.clock.Today(now).Year() { // no read uses its freezes, and no write updates them
			least.PutFreezes(0, 0)
		}
		out = append(out, flawsOf(x.held[i], year, least, most)...)
	}
	same := func(a, b streak.History) bool { return len(a.Marks) == len(b.Marks) && len(a.Grants) == len(b.Grants) }
	if x.touched || !same(x.before, x.after) {
		return out // their places are moving
	}
	for b, seen := range x.views {
		was, becomes, wrong := rc.boards.Wrong(seen, x.user, x.clock, x.after, now)
		if wrong {
			if _, _, wrong = rc.boards.Wrong(seen, x.user, x.clock, old, now); wrong || same(old, x.after) {
				out = append(out, difference{what: "board " + b.Key(), was: was, becomes: becomes, board: b})
			}
		}
	}
	return out
}

// flawsOf compares a record with the least and the most that it may have.
func flawsOf(h records.Held, year int, least, most *streak.Record) []difference {
	flaws := []streak.Flaw{{What: "not a string", Was: "a key of another type", Becomes: "not loaded"}}
	if !h.Foreign {
		flaws = streak.Flaws(h.Text, year, least, most)
	}
	return mapped(flaws, func(f streak.Flaw) difference {
		return difference{what: fmt.Sprintf("record %d: %s", year, f.What), was: f.Was, becomes: f.Becomes, year: year, merge: f.Missing}
	})
}

// repair makes a user's records and entries match the log, and reports whether it could. A record that changes all the
// time is left to the next run.
func (rc *Reconciler) repair(ctx context.Context, x *subject, ds []difference) (done bool, err error) {
	wrong := map[int]bool{} // year: the record must be replaced
	missing, boards := false, false
	for _, d := range ds {
		switch {
		case d.year == 0:
			boards = true
			// Remove first, then read the log, then add: a check-in of this moment is either in the reading or applied
			// later.
			if err := rc.boards.Remove(ctx, d.board, x.user.String()); err != nil {
				return false, err
			}
		case d.merge:
			missing = true
		default:
			wrong[d.year] = true
		}
	}
	done = true
	for year := range wrong {
		ok, err := rc.replaceRecord(ctx, records.Key{User: x.user, Year: year})
		if err != nil {
			return false, err
		}
		done = done && ok
	}
	if !missing && !boards {
		return done, nil
	}
	return done, rc.cfg.Renew(ctx, x.user, boards)
}

func (rc *Reconciler) replaceRecord(ctx context.Context, k records.Key) (done bool, err error) {
	for range repairTries {
		was, err := rc.records.Held(ctx, []records.Key{k})
		if err != nil {
			return false, err
		}
		if !was[0].There {
			return true, nil // the next read loads it
		}
		histories, err := rc.cfg.Histories(ctx, []accounts.ID{k.User})
		if err != nil {
			return false, err
		}
		if done, err = rc.records.Replace(ctx, k, was[0], streak.RecordOf(k.Year, histories[k.User])); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// recountFor counts a board again, and updates the progress for callers that wait for the run.
func (rc *Reconciler) recountFor(ctx context.Context, r *Run, b ranking.Board) error {
	n := 0
	return rc.boards.Recount(ctx, b, func() error {
		if n++; n%progressEvery != 0 {
			return nil
		}
		return rc.Runs.Save(ctx, r)
	})
}
