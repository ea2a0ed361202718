package notices

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

const announcementColumns = "id, texts, link, segment, listed, created, expires, state, total, done, delivered, place, started, ended"

func (a Announcement) row() ([]any, error) {
	texts, textsErr := json.Marshal(a.Texts)
	segment, segmentErr := json.Marshal(a.Segment)
	return []any{a.ID, string(texts), a.Link, string(segment), a.Named, sqldb.MillisOrZero(a.Created), sqldb.MillisOrZero(a.Expires),
			string(a.State), a.Total, a.Passed, a.Delivered, a.lastUser, sqldb.MillisOrZero(a.Started), sqldb.MillisOrZero(a.Ended)},
		errors.Join(textsErr, segmentErr)
}

func scanAnnouncement(rows *sql.Rows) (a Announcement, err error) {
	var texts, segment []byte
	var created, expires, started, ended int64
	if err := rows.Scan(&a.ID, &texts, &a.Link, &segment, &a.Named, &created, &expires, &a.State, &a.Total, &a.Passed, &a.Delivered,
		&a.lastUser, &started, &ended); err != nil {
		return a, err
	}
	a.Created, a.Expires, a.Started, a.Ended = sqldb.TimeOrZero(created), sqldb.TimeOrZero(expires), sqldb.TimeOrZero(started),
		sqldb.TimeOrZero(ended)
	return a, errors.Join(json.Unmarshal(texts, &a.Texts), json.Unmarshal(segment, &a.Segment))
}

func insertAnnouncement(ctx context.Context, tx *sqldb.Tx, a Announcement) error {
	row, err := a.row()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO announcements ("+announcementColumns+") VALUES "+sqldb.Tuples(14, 1), row...)
	return err
}

// updateAnnouncement stores the progress of a locked announcement.
func updateAnnouncement(ctx context.Context, tx *sqldb.Tx, a Announcement) error {
	_, err := tx.ExecContext(ctx,
		"UPDATE announcements SET state = ?, done = ?, delivered = ?, place = ?, started = ?, ended = ? WHERE id = ?",
		string(a.State), a.Passed, a.Delivered, a.lastUser, sqldb.MillisOrZero(a.Started), sqldb.MillisOrZero(a.Ended), a.ID)
	return err
}

// selectAnnouncement returns an announcement, or ErrAnnouncement.
func selectAnnouncement(ctx context.Context, q sqldb.Querier, id AnnouncementID, lock string) (Announcement, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+announcementColumns+" FROM announcements WHERE id = ?"+lock, id)
	return firstAnnouncement(sqldb.Collect(rows, err, scanAnnouncement))
}

func firstAnnouncement(found []Announcement, err error) (Announcement, error) {
	if err == nil && len(found) == 0 {
		err = ErrAnnouncement
	}
	if err != nil {
		return Announcement{}, err
	}
	return found[0], nil
}

// waitingAnnouncements is the probe for unfinished announcements.
var waitingAnnouncements = &sqldb.Probe{Query: "SELECT 1 FROM announcements WHERE state IN (?, ?)",
	Args: func() []any { return []any{string(Waiting), string(Running)} }}

// nextAnnouncement returns the oldest unfinished announcement, or ErrAnnouncement.
func nextAnnouncement(ctx context.Context, q sqldb.Querier) (AnnouncementID, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+announcementColumns+" FROM announcements WHERE state IN (?, ?) ORDER BY created, id LIMIT 1",
		string(Waiting), string(Running))
	a, err := firstAnnouncement(sqldb.Collect(rows, err, scanAnnouncement))
	return a.ID, err
}

// announcementsOf returns announcements by id. It omits those that do not exist.
func announcementsOf(ctx context.Context, q sqldb.Querier, list []any) (map[AnnouncementID]Announcement, error) {
	found := map[AnnouncementID]Announcement{}
	if len(list) == 0 {
		return found, nil
	}
	rows, err := q.QueryContext(ctx, "SELECT "+announcementColumns+" FROM announcements WHERE id IN "+sqldb.Tuples(len(list), 1), list...)
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		a, err := scanAnnouncement(rows)
		found[a.ID] = a
		return err
	})
}

func latestAnnouncements(ctx context.Context, q sqldb.Querier, n int) ([]Announcement, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+announcementColumns+" FROM announcements ORDER BY created DESC, id DESC LIMIT ?", n)
	return sqldb.Collect(rows, err, scanAnnouncement)
}

// insertNamed stores the recipients of an announcement, which are sorted and unique.
func insertNamed(ctx context.Context, tx *sqldb.Tx, id AnnouncementID, users []accounts.ID) error {
	for chunk := range slices.Chunk(users, batchSize) {
		args := make([]any, 0, 2*len(chunk))
		for _, u := range chunk {
			args = append(args, id, u)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO announcement_users (announcement, user_id) VALUES "+sqldb.Tuples(2, len(chunk)),
			args...); err != nil {
			return err
		}
	}
	return nil
}

// selectNamedAfter returns up to n named recipients after a user.
func selectNamedAfter(ctx context.Context, q sqldb.Querier, id AnnouncementID, after accounts.ID, n int) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx,
		"SELECT user_id FROM announcement_users WHERE announcement = ? AND user_id > ? ORDER BY user_id LIMIT ?", id, after, n))
}

// deleteNamed deletes the named recipients of an announcement.
func deleteNamed(ctx context.Context, tx *sqldb.Tx, id AnnouncementID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM announcement_users WHERE announcement = ?", id)
	return err
}
