package rooms

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
)

const (
	// sweepBatch bounds what a sweep does at a time.
	sweepBatch = 200
	// closedFor is how long the rows of a closed room stay: what was under way when it was closed has ended by then.
	closedFor = 10 * time.Minute
	// guestIdle is how long a guest stays in a room without having its channel.
	guestIdle = 10 * time.Minute
	// tidyOverlap is how long after the time that it has a comment may be committed: nodes' clocks differ by up to a minute. When a room
	// was active last is behind by a minute besides.
	tidyOverlap = 3 * time.Minute
	// tidyAtFirst is in how long a time before it begins a process looks for what is said beyond what rooms keep. A room with more from
	// before is found when something is said there again.
	tidyAtFirst = 24 * time.Hour
)

// Jobs are what this domain does by itself. Nothing waits for it.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{
		{Name: "rooms.tidy", Every: time.Minute, Singleton: true, RunWithoutLease: true, Run: s.tidy},
		{Name: "rooms.prune", Every: time.Hour, Singleton: true, RunWithoutLease: true, Run: s.prune},
	}
}

// tidy takes out guests whose time is over and idle ones, forgets old lines, danmaku, links and mutes, and what closed rooms have left.
func (s *Service) tidy(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "rooms.tidy")
	now := s.db.Now()
	return asKind(ctx, errors.Join(s.tidyGuests(ctx), s.tidyIdle(ctx), s.tidyClosed(ctx, now.Add(-closedFor)), deleteOldLinks(ctx, s.db, now, sweepBatch), deleteOldRestrictions(ctx, s.db, now), s.tidySaid(ctx)))
}

// prune forgets restrictions of rooms and users that are not there any more. A node of a version that knew of none leaves them where it
// removes a room, or erases a user, beside nodes of this one.
func (s *Service) prune(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "rooms.prune")
	for {
		n, err := deleteStrayRestrictions(ctx, s.db, sweepBatch)
		if err != nil || n < sweepBatch {
			return asKind(ctx, err)
		}
	}
}

func (s *Service) tidyGuests(ctx context.Context) error {
	old, err := lapsed(ctx, s.db, sweepBatch)
	return errors.Join(err, s.dismiss(ctx, old))
}

// tidyIdle puts guests out who have had no connection for guestIdle. While Redis cannot say who watches it does nothing.
func (s *Service) tidyIdle(ctx context.Context) error {
	idle, err := unseen(ctx, s.db, s.db.Now().Add(-guestIdle), sweepBatch)
	if err != nil || len(idle) == 0 {
		return err
	}
	watching, err := s.onlineIn(ctx, slices.Collect(maps.Keys(idle)), 0, nil)
	if away(err) {
		return nil
	}
	for id, a := range watching {
		idle[id] = slices.DeleteFunc(idle[id], func(user ViewerID) bool {
			return slices.ContainsFunc(a.users, func(p Presence) bool { return p.User == user })
		})
	}
	return errors.Join(err, s.dismiss(ctx, idle))
}

// dismiss puts guests out of rooms.
func (s *Service) dismiss(ctx context.Context, guests map[ID][]ViewerID) (err error) {
	for id, users := range guests {
		if len(users) == 0 {
			continue
		}
		_, enterErr := s.enter(ctx, id, s.seats(id, users...), func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
			still, err := stillIn(ctx, tx, id, users)
			if err != nil || len(still) == 0 {
				return err
			}
			return d.putOut(ctx, tx, api.RoomLeft, still...)
		})
		if !errors.Is(enterErr, ErrRoom) { // else it was closed
			err = errors.Join(err, enterErr)
		}
	}
	return err
}

func (s *Service) tidyClosed(ctx context.Context, before time.Time) error {
	for {
		list, err := closedRooms(ctx, s.db, before, sweepBatch)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := s.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) error { return sweepRooms(ctx, tx, list) }); err != nil {
			return err
		}
	}
}

// warm reads the most recently active rooms and their playlists, so that they are in this process.
func (s *Service) warm(ctx context.Context) {
	worker.Warm(ctx, s.log, "rooms", s.cfg.Bus.Nodes().Wait, s.cfg.Warm, s.Warm)
}

// Warm reads up to n rooms, the most recently active, and returns how many there were. progress is told how many of how many
// copies were read.
func (s *Service) Warm(ctx context.Context, n int, progress func(done, total int)) (_ int, err error) {
	defer errs.Wrap(&err, "rooms.Warm")
	list, err := activeRooms(ctx, s.db, n)
	if err != nil {
		return 0, asKind(ctx, err)
	}
	slices.Reverse(list) // the most wanted last
	if err := s.copies.rooms.Warm(ctx, slices.Values(list), cache.Warming{Progress: func(done int) { progress(done, 2*len(list)) }}); err != nil {
		return 0, err
	}
	err = s.copies.playlists.Warm(ctx, slices.Values(list), cache.Warming{Progress: func(done int) { progress(len(list)+done, 2*len(list)) }})
	return len(list), err
}
