package rooms

import (
	"context"
	"errors"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// SendLine sends a line to a room's chat. The caller chooses the line's id and uses it again for each retry of a
// request: SendLine then returns the line of the earlier try. It returns ErrRoom, ErrMay, ErrMuted, ErrText or ErrWord.
func (s *Service) SendLine(ctx context.Context, user ParticipantID, id ID, lineID ids.ID[Line], text string) (_ Line, err error) {
	defer errs.Wrap(&err, "rooms.SendLine %s", id)
	if text, err = line("body.text", text, 1, 500); err != nil {
		return Line{}, err
	}
	_, m, err := s.roomAndMember(ctx, id, user)
	if err != nil {
		return Line{}, err
	}
	name := m.Name
	if m.Role != Guest {
		profiles, err := s.cfg.People.Profiles(ctx, []accounts.ID{accounts.ID(user)})
		if err != nil {
			return Line{}, err
		}
		name = profiles[accounts.ID(user)].Name
	}
	result, err := s.send(ctx, pendingEntry{room: id, user: user,
		line: &Line{ID: lineID, From: user, Name: name, Guest: m.Role == Guest, Text: text}})
	if sqldb.IsDuplicate(err) {
		earlier, err := selectLine(ctx, s.db, id, user, lineID)
		return earlier, asKind(ctx, err)
	}
	return result.line, err
}

// SendDanmaku sends a danmaku. The caller chooses its id and uses it again for each retry of a request: SendDanmaku
// then returns the danmaku of the earlier try. A zero id is replaced by a new one. It returns ErrRoom, ErrMay,
// ErrMuted, ErrText, ErrWord or ErrItem.
func (s *Service) SendDanmaku(ctx context.Context, user ParticipantID, id ID, c Comment) (_ Comment, err error) {
	defer errs.Wrap(&err, "rooms.SendDanmaku %s", id)
	if c.Text, err = line("body.text", c.Text, 1, 100); err != nil {
		return Comment{}, err
	}
	if _, err := ids.Parse[Item](c.Item); c.Item != "" && err != nil {
		return Comment{}, ErrItem
	}
	c.From = user
	if c.ID.IsZero() {
		c.ID = ids.New[Comment]()
	}
	result, err := s.send(ctx, pendingEntry{room: id, user: user, comment: &c})
	if sqldb.IsDuplicate(err) {
		earlier, err := selectComment(ctx, s.db, id, user, c.ID)
		return earlier, asKind(ctx, err)
	}
	return result.comment, err
}

func (s *Service) send(ctx context.Context, u pendingEntry) (entryResult, error) {
	result, err := s.entries.Do(ctx, u)
	if err == nil {
		err = result.refusal
	}
	if err == nil {
		s.watched.recordActivity(u.room, u.user, s.db.Now())
	}
	return result, asKind(ctx, err)
}

// Lines returns the latest lines of a room's chat before a number, in their order. A before of 0 starts at the newest
// line. Lines of users whom the caller blocks are omitted. more reports whether older lines exist. It returns ErrRoom.
func (s *Service) Lines(ctx context.Context, user ParticipantID, id ID, before int64, limit int) (_ []Line, more bool, err error) {
	defer errs.Wrap(&err, "rooms.Lines %s", id)
	_, m, err := s.roomAndMember(ctx, id, user)
	if err != nil {
		return nil, false, err
	}
	if before == 0 {
		before = 1 << 62
	}
	var blocked []accounts.ID
	if m.Role != Guest {
		if blocked, err = s.cfg.Blocks.BlockedIDs(ctx, accounts.ID(user)); err != nil {
			return nil, false, blocksAsKind(ctx, err)
		}
	}
	list, err := linesOf(ctx, s.db, id, before, blocked, limit+1)
	if err != nil {
		return nil, false, asKind(ctx, err)
	}
	if more = len(list) > limit; more {
		list = list[:limit]
	}
	slices.Reverse(list)
	return list, more, nil
}

// Comments returns a page of an item's danmaku between two positions, in the order of positions. Danmaku of users whom
// the caller blocks are omitted. It returns ErrRoom or ErrCursor.
func (s *Service) Comments(ctx context.Context, user ParticipantID, id ID, item string, from, to int64, after string,
	limit int) (_ []Comment, next string, err error) {
	defer errs.Wrap(&err, "rooms.Comments %s", id)
	start, err := cursor.ParsePlace(after, cursor.Place{Primary: from}, ErrCursor)
	if err != nil {
		return nil, "", err
	}
	_, m, err := s.roomAndMember(ctx, id, user)
	if err != nil {
		return nil, "", err
	}
	list, err := commentsAt(ctx, s.db, id, item, start, to, limit+1)
	if err != nil {
		return nil, "", asKind(ctx, err)
	}
	list, next = cursor.Page(list, limit, func(c Comment) cursor.Place { return cursor.Place{Primary: c.Position, ID: c.ID.String()} })
	list, err = unblocked(ctx, s, m, list, func(c Comment) ParticipantID { return c.From })
	return list, next, err
}

// unblocked returns the entries of a list whose senders the caller does not block.
func unblocked[T any](ctx context.Context, s *Service, m Member, list []T, from func(T) ParticipantID) ([]T, error) {
	if m.Role == Guest || len(list) == 0 {
		return list, nil
	}
	var senders []accounts.ID
	for _, v := range list {
		senders = append(senders, accounts.ID(from(v)))
	}
	slices.SortFunc(senders, accounts.ID.Compare)
	blocked, err := s.cfg.Blocks.Blocked(ctx, accounts.ID(m.User), slices.Compact(senders))
	return slices.DeleteFunc(list, func(v T) bool { return blocked[accounts.ID(from(v))] }), blocksAsKind(ctx, err)
}

// Hidden returns the ids of users whose events a subscriber does not get: the users whom the subscriber blocks.
func (s *Service) Hidden(ctx context.Context, user, _ string) (hidden []string, err error) {
	defer errs.Wrap(&err, "rooms.Hidden %s", user)
	id, err := ids.Parse[accounts.User](user)
	if err != nil {
		return nil, err
	}
	blocked, err := s.cfg.Blocks.BlockedIDs(ctx, id)
	for _, u := range blocked {
		hidden = append(hidden, u.String())
	}
	return hidden, err
}

// ClearDanmaku deletes all danmaku of a room. It returns ErrRoom or ErrMay.
func (s *Service) ClearDanmaku(ctx context.Context, user ParticipantID, id ID) (err error) {
	defer errs.Wrap(&err, "rooms.ClearDanmaku %s", id)
	_, err = s.change(ctx, id, user, moderate, nil, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		d.addEvent(api.EventRoomDanmakuCleared, api.RoomRef{Room: id.String()})
		return deleteComments(ctx, tx, id)
	})
	return err
}

// tidyEntries deletes lines and danmaku beyond the limits of their rooms, a few rooms per call.
func (s *Service) tidyEntries(ctx context.Context) error {
	now := s.db.Now()
	after := s.tidied
	if after.IsZero() || after.After(now) { // the mark is from a clock that was ahead
		after = now.Add(-tidyAtFirst)
	}
	old, err := roomsOverLineLimit(ctx, s.db, after, s.cfg.KeepLines, sweepBatch)
	for id, upTo := range old {
		err = errors.Join(err, deleteLines(ctx, s.db, id, upTo))
	}
	shots, overErr := roomsOverDanmakuLimit(ctx, s.db, after, s.Clock()-now.Sub(after).Milliseconds(), s.cfg.KeepDanmaku, sweepBatch)
	for _, id := range shots {
		overErr = errors.Join(overErr, deleteOldComments(ctx, s.db, id, s.cfg.KeepDanmaku))
	}
	if err = errors.Join(err, overErr); err == nil && len(old) < sweepBatch && len(shots) < sweepBatch {
		s.tidied = now.Add(-tidyOverlap)
	}
	return err
}

// visibleDanmaku returns the danmaku of the last ten seconds that the member may see.
func (s *Service) visibleDanmaku(ctx context.Context, m Member, id ID) ([]api.Danmaku, error) {
	list, err := s.recentDanmaku(ctx, id)
	if err != nil {
		return nil, err
	}
	return unblocked(ctx, s, m, list, func(d api.Danmaku) (user ParticipantID) {
		_ = user.UnmarshalText([]byte(d.From)) // d.From is the text of an id
		return user
	})
}

func (c Comment) wire(id ID) api.Danmaku {
	return api.Danmaku{ID: c.ID.String(), Room: id.String(), From: c.From.String(), Text: c.Text, Item: c.Item, Position: c.Position,
		Color: c.Color, Mode: modes[c.Mode], Size: sizes[c.Size], At: api.At(sqldb.Time(c.At))}
}

func (l Line) wire(id ID) api.RoomLine {
	return api.RoomLine{Room: id.String(), Seq: l.Seq, From: l.From.String(), Name: l.Name, Guest: l.Guest, Text: l.Text,
		At: api.At(sqldb.Time(l.At))}
}
