package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
)

const (
	// defaultActive is the number of days that a user counts as active: the TTL of a record.
	defaultActive = 45
	// warmAtOnce is the number of users that are loaded at a time, far fewer than [transfer.LoadWithin] allows. 50
	// users of ten years have at most 180,000 rows.
	warmAtOnce = 50
	// progressEvery is the number of users between two updates of the progress.
	progressEvery = 5000
)

// rebuildSlice loads the boards in one slice and the records in several.
func (rc *Reconciler) rebuildSlice(ctx context.Context, r *Run, until time.Time) (finished bool, err error) {
	if !rc.cfg.Up() {
		return false, errNotNow
	}
	boards, days := r.Options.Boards, r.Options.Days
	if !boards && days == 0 {
		boards, days = true, defaultActive
	}
	if r.Resume.Stage == "" {
		if boards {
			n, err := rc.sql.countUsers(ctx, "", "")
			if err != nil {
				return false, err
			}
			r.Done, r.Total = 0, n*int64(len(ranking.Current(rc.now()))) // at most
			placed, err := rc.rebuildBoardsAnew(ctx, r)
			if err != nil {
				return false, err
			}
			r.Summary.Placed = placed
		}
		r.Resume.Stage, r.Done, r.Total = "records", 0, 0
		if days != 0 {
			if r.Total, err = rc.sql.countActive(ctx, activeSince(rc.now(), days)); err != nil {
				return false, err
			}
		}
	}
	if days == 0 {
		return true, nil
	}
	now := rc.now()
	for time.Now().Before(until) {
		began := time.Now()
		users, err := rc.sql.activeAfter(ctx, r.Resume.Cursor, activeSince(now, days), chunkUsers)
		if err != nil || len(users) == 0 {
			return err == nil, err
		}
		if err := rc.warm(ctx, users); err != nil {
			return false, err
		}
		r.Summary.Loaded += len(users)
		r.Done += int64(len(users))
		r.Resume.Cursor = users[len(users)-1].String()
		if err := rc.pace(ctx, len(users), began); err != nil {
			return false, err
		}
	}
	return false, nil
}

func activeSince(now time.Time, days int) civil.Day {
	return civil.Clock{}.Today(now) - civil.Day(days)
}

// rebuildBoardsAnew deletes the current boards and loads them from SQL.
func (rc *Reconciler) rebuildBoardsAnew(ctx context.Context, r *Run) (placed int, err error) {
	for _, b := range ranking.Current(rc.now()) {
		err := rc.boards.Renew(ctx, b, func() (err error) {
			placed++
			if r.Done++; r.Done%progressEvery == 0 {
				err = rc.Runs.Save(ctx, r)
			}
			return err
		})
		if err != nil {
			return placed, fmt.Errorf("board %s: %w", b.Key(), err)
		}
	}
	return placed, nil
}

// warm loads users' present year.
func (rc *Reconciler) warm(ctx context.Context, users []accounts.ID) error {
	clocks, err := rc.cfg.Clocks(ctx, users)
	if err != nil {
		return err
	}
	now := rc.now()
	for chunk := range slices.Chunk(users, warmAtOnce) {
		keys := mapped(chunk, func(u accounts.ID) records.Key { return records.Key{User: u, Year: clocks[u].Today(now).Year()} })
		if err := rc.load(ctx, keys); err != nil {
			return err
		}
	}
	return nil
}

// load computes records from the log and merges them into Redis.
func (rc *Reconciler) load(ctx context.Context, keys []records.Key) error {
	ctx, cancel := context.WithTimeout(ctx, transfer.LoadWithin)
	defer cancel()
	histories, err := rc.cfg.Histories(ctx, mapped(keys, func(k records.Key) accounts.ID { return k.User }))
	if err != nil {
		return err
	}
	return rc.records.Load(ctx, keys, mapped(keys, func(k records.Key) *streak.Record { return streak.RecordOf(k.Year, histories[k.User]) }))
}
