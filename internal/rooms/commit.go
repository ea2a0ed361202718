package rooms

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/groupcommit"

	"github.com/stoa-dev/stoa/api"
)

// Lines and danmaku that are sent at the same time share a transaction. It locks their rooms in the order of ids,
// checks each sender's permissions, numbers the lines, and writes each table with one statement. If another transaction
// holds a room's lock for seconds, the batch refuses the entries of that room and writes the others.

// pendingEntry is a line or a danmaku that is not yet in SQL.
type pendingEntry struct {
	room    ID
	user    ParticipantID
	line    *Line
	comment *Comment
}

// entryResult is the result of a pendingEntry.
type entryResult struct {
	line    Line
	comment Comment
	refusal error
}

// maxBatch is the largest batch; it bounds the number of conditions in a statement for SQLite.
const maxBatch = 256

// batchTime bounds all tries of a batch.
const batchTime = 5 * time.Second

func newCommitter(s *Service) *groupcommit.Committer[pendingEntry, entryResult] {
	return groupcommit.New(s.commit, groupcommit.Options[pendingEntry, entryResult]{
		MaxBatch: maxBatch,
		// A batch with unknown outcome is not retried, because its rows may exist. A retry of each caller finds them.
		Retry: sqldb.IsRetryable,
		Split: sqldb.IsRowError,
		After: s.publishEntries,
	})
}

func (s *Service) commit(ctx context.Context, batch []pendingEntry) (out []entryResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	for waited := 0; ; waited++ {
		err = transactBatch(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
			out, err = s.commitIn(ctx, tx, batch, waited)
			return err
		})
		if !errors.Is(err, sqldb.ErrHeld) {
			return out, err
		}
	}
}

// commitIn writes a batch. waited is the number of earlier tries that waited for locked rooms without success.
func (s *Service) commitIn(ctx context.Context, tx *sqldb.Tx, batch []pendingEntry, waited int) ([]entryResult, error) {
	var list []ID
	var keys []MemberKey
	for _, u := range batch {
		list, keys = append(list, u.room), append(keys, MemberKey{A: u.room, B: u.user})
	}
	slices.SortFunc(list, ID.Compare)
	rooms, locked, err := s.locks.Lock(ctx, tx, slices.Compact(list), waited)
	if err != nil {
		return nil, err
	}
	members, err := membersAt(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	out, now := make([]entryResult, len(batch)), tx.Now().UnixMilli()
	stale := tx.Now().Add(-touchEvery)
	var lines []roomLine
	var comments []roomComment
	var newlyActive []ID // not active for a minute; [Service.tidyEntries] checks the rooms that were active
	for i, u := range batch {
		room, m := rooms[u.room], members[keys[i]]
		if slices.Contains(locked, u.room) {
			out[i].refusal = ErrStore
			continue
		}
		if out[i].refusal = refuse(tx, room, m, u); out[i].refusal != nil {
			continue
		}
		if room.active < stale.UnixMilli() {
			room.active, newlyActive = now, append(newlyActive, u.room)
		}
		if u.line != nil {
			room.lastSeq++
			l := *u.line
			l.Seq, l.At = room.lastSeq, now
			out[i].line, lines = l, append(lines, roomLine{u.room, l})
		} else {
			c := *u.comment
			c.At = s.Clock()
			out[i].comment, comments = c, append(comments, roomComment{u.room, c})
		}
	}
	// A deadlock ends the transaction. A statement sent after it would be committed alone.
	if err := insertLines(ctx, tx, rooms, lines); err != nil {
		return nil, err
	}
	if err := insertComments(ctx, tx, comments); err != nil {
		return nil, err
	}
	return out, touchRooms(ctx, tx, newlyActive, stale)
}

// refuse returns the reason why a member may not send an entry, or nil. It returns ErrRoom, ErrMay, ErrMuted or
// ErrWord.
func refuse(tx *sqldb.Tx, room *lockedRoom, m Member, u pendingEntry) error {
	if room == nil || m.User != u.user {
		return ErrRoom
	}
	v, text := sendLine, ""
	if u.line != nil {
		text = u.line.Text
	} else {
		v, text = sendDanmaku, u.comment.Text
	}
	if err := m.mayDo(v, room.room, tx.Now()); err != nil {
		return err
	}
	if room.room.mutes(text) && m.may(room.room)&Moderate == 0 {
		return ErrWord
	}
	return nil
}

// publishEntries publishes the committed entries of a batch.
func (s *Service) publishEntries(_ context.Context, batch []pendingEntry, results []entryResult) {
	var batchEvents []events.Event
	for i, u := range batch {
		r := &results[i]
		switch {
		case r.refusal != nil:
		case u.line != nil:
			batchEvents = s.appendEvent(batchEvents, u.room, u.user, api.EventRoomSaid, sqldb.Time(r.line.At), r.line.wire(u.room))
		default:
			batchEvents = s.appendEvent(batchEvents, u.room, u.user, api.EventRoomDanmaku, sqldb.Time(r.comment.At), r.comment.wire(u.room))
		}
	}
	s.cfg.Bus.Publish(batchEvents)
}
