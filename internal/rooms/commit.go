package rooms

import (
	"context"
	"errors"
	"slices"

	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/groupcommit"

	"github.com/stoa-dev/stoa/api"
)

// Lines and danmaku that are sent at the same time share a transaction. It locks their rooms in the order of ids,
// checks each sender's permissions, numbers the lines, and writes each table with one statement. If another transaction
// holds a room's lock for seconds, the batch refuses the entries of that room and writes the others.

// utterance is a line or a danmaku that is not yet in SQL.
type utterance struct {
	room    ID
	user    ViewerID
	line    *Line
	comment *Comment
}

// uttered is the result of an utterance.
type uttered struct {
	line    Line
	comment Comment
	refusal error
}

// atMost is the largest batch; it bounds the number of conditions in a statement for SQLite.
const atMost = 256

func newCommitter(s *Service) *groupcommit.Committer[utterance, uttered] {
	return groupcommit.New(s.commit, groupcommit.Options[utterance, uttered]{
		MaxBatch: atMost,
		// A batch with unknown outcome is not retried, because its rows may exist. A retry of each caller finds them.
		Retry: sqldb.IsRetryable,
		Split: sqldb.IsRowError,
		After: s.tellSaid,
	})
}

func (s *Service) commit(ctx context.Context, batch []utterance) (out []uttered, err error) {
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
func (s *Service) commitIn(ctx context.Context, tx *sqldb.Tx, batch []utterance, waited int) ([]uttered, error) {
	var list []ID
	var seats []seat
	for _, u := range batch {
		list, seats = append(list, u.room), append(seats, seat{u.room, u.user})
	}
	slices.SortFunc(list, ID.Compare)
	rooms, held, err := s.locks.Lock(ctx, tx, slices.Compact(list), waited)
	if err != nil {
		return nil, err
	}
	members, err := standings(ctx, tx, seats)
	if err != nil {
		return nil, err
	}
	out, now := make([]uttered, len(batch)), tx.Now().UnixMilli()
	stale := tx.Now().Add(-touchEvery)
	var lines []spoken
	var comments []shot
	var woken []ID // not active for a minute; [Service.tidySaid] checks the rooms that were active
	for i, u := range batch {
		room, m := rooms[u.room], members[seats[i]]
		if slices.Contains(held, u.room) {
			out[i].refusal = ErrStore
			continue
		}
		if out[i].refusal = refuse(tx, room, m, u); out[i].refusal != nil {
			continue
		}
		if room.active < stale.UnixMilli() {
			room.active, woken = now, append(woken, u.room)
		}
		if u.line != nil {
			room.said++
			l := *u.line
			l.Seq, l.At = room.said, now
			out[i].line, lines = l, append(lines, spoken{u.room, l})
		} else {
			c := *u.comment
			c.At = s.Clock()
			out[i].comment, comments = c, append(comments, shot{u.room, c})
		}
	}
	// A deadlock ends the transaction. A statement sent after it would be committed alone.
	if err := insertLines(ctx, tx, rooms, lines); err != nil {
		return nil, err
	}
	if err := insertComments(ctx, tx, comments); err != nil {
		return nil, err
	}
	return out, touchRooms(ctx, tx, woken, stale)
}

// refuse returns the reason why a member may not send an utterance, or nil. It returns ErrRoom, ErrMay, ErrMuted or
// ErrWord.
func refuse(tx *sqldb.Tx, room *numbering, m Member, u utterance) error {
	if room == nil || m.User != u.user {
		return ErrRoom
	}
	v, text := say, ""
	if u.line != nil {
		text = u.line.Text
	} else {
		v, text = shoot, u.comment.Text
	}
	if err := m.can(v, room.room, tx.Now()); err != nil {
		return err
	}
	if room.room.mutes(text) && m.may(room.room)&Moderate == 0 {
		return ErrWord
	}
	return nil
}

// tellSaid publishes the committed entries of a batch.
func (s *Service) tellSaid(_ context.Context, batch []utterance, results []uttered) {
	var told []events.Event
	for i, u := range batch {
		r := &results[i]
		switch {
		case r.refusal != nil:
		case u.line != nil:
			told = s.appendEvent(told, u.room, u.user, api.EventRoomSaid, sqldb.Time(r.line.At), r.line.wire(u.room))
		default:
			told = s.appendEvent(told, u.room, u.user, api.EventRoomDanmaku, sqldb.Time(r.comment.At), r.comment.wire(u.room))
		}
	}
	s.cfg.Bus.Publish(told)
}
