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

// What people say at the same time shares a transaction. It locks the rooms concerned in the order of their ids, looks
// at what each speaker may do there, numbers the lines, and writes all with a statement for each table. Where
// another transaction holds a room for seconds, what is said in that one is refused, and the rest written.

// utterance is a line or a comment on its way to SQL.
type utterance struct {
	room    ID
	user    ViewerID
	line    *Line
	comment *Comment
}

// uttered is what became of it.
type uttered struct {
	line    Line
	comment Comment
	refusal error
}

// atMost keeps a batch's conditions within what SQLite takes.
const atMost = 256

func newCommitter(s *Service) *groupcommit.Committer[utterance, uttered] {
	return groupcommit.New(s.commit, groupcommit.Options[utterance, uttered]{
		MaxBatch: atMost,
		// A batch whose outcome is unknown is not tried again: its rows may be there. A retry of each caller finds them.
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

// commitIn writes a batch, which has waited so often in vain for rooms.
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
	var woken []ID // not active for a minute; [Service.tidySaid] looks into those that were active
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
	// A deadlock ends the transaction: what were sent after it would be written by itself.
	if err := insertLines(ctx, tx, rooms, lines); err != nil {
		return nil, err
	}
	if err := insertComments(ctx, tx, comments); err != nil {
		return nil, err
	}
	return out, touchRooms(ctx, tx, woken, stale)
}

// refuse returns why somebody may not say something in a room. ErrRoom, ErrMay, ErrMuted, ErrWord.
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

// tellSaid tells of what a batch has committed.
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
