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
	// sweepBatch is the largest number of rows in one step of a sweep.
	sweepBatch = 200
	// closedDelay is the time until the rows of a closed room are deleted. Requests that were running when it was
	// closed have ended by then.
	closedDelay = 10 * time.Minute
	// guestIdle is the time until a guest who does not subscribe to the room's channel is removed.
	guestIdle = 10 * time.Minute
	// tidyOverlap is the time that two runs of tidyEntries both search. A danmaku may be committed this long after its
	// time: clocks of nodes differ by up to a minute, and a room's last activity is up to a minute late.
	tidyOverlap = 3 * time.Minute
	// tidyAtFirst is how far back a new process searches for rooms beyond their limits. A room that was active only
	// before that is found after its next line or danmaku.
	tidyAtFirst = 24 * time.Hour
)

// Jobs returns the background jobs of this package. No request waits for them.
func (s *Service) Jobs() []worker.Job {
	return []worker.Job{
		{Name: "rooms.tidy", Every: time.Minute, Singleton: true, RunWithoutLease: true, Run: s.tidy},
		{Name: "rooms.prune", Every: time.Hour, Singleton: true, RunWithoutLease: true, Run: s.prune},
	}
}

// tidy removes expired and idle guests. It deletes old lines, danmaku, links and mutes, and the rows of closed rooms.
func (s *Service) tidy(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "rooms.tidy")
	now := s.db.Now()
	return asKind(ctx, errors.Join(s.tidyGuests(ctx), s.tidyIdle(ctx), s.tidyClosed(ctx, now.Add(-closedDelay)),
		deleteOldLinks(ctx, s.db, now, sweepBatch), deleteOldRestrictions(ctx, s.db, now), s.tidyEntries(ctx)))
}

// prune deletes restrictions of missing rooms and erased users. A node of an older version leaves such rows when it
// deletes a room or erases a user.
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
	old, err := expiredGuests(ctx, s.db, sweepBatch)
	return errors.Join(err, s.removeGuestsOf(ctx, old))
}

// tidyIdle removes guests without a connection for guestIdle. It does nothing while Redis is unavailable.
func (s *Service) tidyIdle(ctx context.Context) error {
	idle, err := idleGuests(ctx, s.db, s.db.Now().Add(-guestIdle), sweepBatch)
	if err != nil || len(idle) == 0 {
		return err
	}
	online, err := s.onlineIn(ctx, slices.Collect(maps.Keys(idle)), 0, nil)
	if redisUnavailable(err) {
		return nil
	}
	for id, a := range online {
		idle[id] = slices.DeleteFunc(idle[id], func(user ParticipantID) bool {
			return slices.ContainsFunc(a.users, func(p Presence) bool { return p.User == user })
		})
	}
	return errors.Join(err, s.removeGuestsOf(ctx, idle))
}

// removeGuestsOf removes guests from rooms.
func (s *Service) removeGuestsOf(ctx context.Context, guests map[ID][]ParticipantID) (err error) {
	for id, users := range guests {
		if len(users) == 0 {
			continue
		}
		_, enterErr := s.changeUnchecked(ctx, id, s.memberTargets(id, users...), func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
			present, err := guestsAmong(ctx, tx, id, users)
			if err != nil || len(present) == 0 {
				return err
			}
			return d.removeMembers(ctx, tx, api.RoomLeft, present...)
		})
		if !errors.Is(enterErr, ErrRoom) { // otherwise the room was closed
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

// warm loads the most recently active rooms and their playlists into the caches.
func (s *Service) warm(ctx context.Context) {
	worker.Warm(ctx, s.log, "rooms", s.cfg.Bus.Nodes().Wait, s.cfg.Warm, s.Warm)
}

// Warm loads at most n rooms into the caches, the most recently active, and returns their number. It calls progress
// with the number of loaded entries and the total.
func (s *Service) Warm(ctx context.Context, n int, progress func(done, total int)) (_ int, err error) {
	defer errs.Wrap(&err, "rooms.Warm")
	list, err := activeRooms(ctx, s.db, n)
	if err != nil {
		return 0, asKind(ctx, err)
	}
	slices.Reverse(list) // the most recently active last
	if err := s.copies.rooms.Warm(ctx, slices.Values(list), cache.Warming{Progress: func(done int) {
		progress(done, 2*len(list))
	}}); err != nil {
		return 0, err
	}
	err = s.copies.playlists.Warm(ctx, slices.Values(list), cache.Warming{Progress: func(done int) { progress(len(list)+done, 2*len(list)) }})
	return len(list), err
}
