package rooms

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Some columns have other names than their fields in Go:
//
//	rooms.said           Room.lastSeq
//	rooms.repeats        Room.Loop
//	room_playback.fence  playback.State.Stamp
//	room_playback.given  the last generation of the register
//	room_danmaku.flight  Comment.Mode
//	room_danmaku.scale   Comment.Size

// ErrStore reports that SQL is unavailable.
var ErrStore = errs.New(errs.Unavailable, "room.store_away", "Rooms are unavailable. Please try again.").Retry(2 * time.Second)

// asKind gives database errors the kind that callers act on.
func asKind(ctx context.Context, err error) error { return sqldb.AsKindWithin(ctx, err, ErrStore) }

// blocksAsKind gives an error from loading blocks the kind and code of this package.
func blocksAsKind(ctx context.Context, err error) error {
	if errs.KindOf(err) == errs.Unavailable {
		return errors.Join(ErrStore, err)
	}
	return asKind(ctx, err)
}

// transactBatch runs the committer's transaction.
func transactBatch(ctx context.Context, db *sqldb.DB, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return db.Batch(ctx, fn)
}

const roomColumns = "r.id, r.name, r.password, r.access, r.listed, r.guests, r.member_may, r.guest_may, r.hold, r.drift, r.jump, " +
	"r.repeats, r.words, r.members, r.said, r.created, r.version"

// scanRoom reads roomColumns and the columns selected after them.
func scanRoom(scan func(...any) error, more ...any) (r Room, err error) {
	var words string
	err = scan(append([]any{&r.ID, &r.Name, &r.hash, &r.Access, &r.Listed, &r.Guests, &r.MemberMay, &r.GuestMay, &r.Hold, &r.Drift, &r.Jump,
		&r.Loop, &words, &r.members, &r.lastSeq, &r.Created, &r.Version}, more...)...)
	r.Password = r.hash != ""
	if err == nil && words != "" {
		err = json.Unmarshal([]byte(words), &r.Words)
	}
	return r, err
}

// selectRoom returns a room that is not closed, or ErrRoom. lock is "" or a locking clause.
func selectRoom(ctx context.Context, q sqldb.Querier, id ID, lock string) (Room, error) {
	r, err := scanRoom(q.QueryRowContext(ctx, "SELECT "+roomColumns+" FROM rooms r WHERE r.id = ? AND r.closed = 0"+lock, id).Scan)
	return r, sqldb.Missing(err, ErrRoom)
}

// selectRooms returns those of at most 500 rooms that are not closed.
func selectRooms(ctx context.Context, q sqldb.Querier, list []ID) (map[ID]Room, error) {
	all := make(map[ID]Room, len(list))
	rows, err := q.QueryContext(ctx, "SELECT "+roomColumns+" FROM rooms r WHERE r.id IN (?) AND r.closed = 0", bun.List(list))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		r, err := scanRoom(rows.Scan)
		all[r.ID] = r
		return err
	})
}

// wordsText returns the muted words as stored in a row.
func (r Room) wordsText() string {
	if len(r.Words) == 0 {
		return ""
	}
	text, _ := json.Marshal(r.Words) // strings can always be encoded
	return string(text)
}

// folded returns a name as searches compare it, cut to the column's length: one character may fold to three.
func folded(name string) string {
	text := []rune(fold(name))
	return string(text[:min(len(text), 120)])
}

func insertRoom(ctx context.Context, tx *sqldb.Tx, r Room) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO rooms (id, name, folded, password, access, listed, guests, member_may, guest_may, hold, "+
		"drift, jump, repeats, words, members, said, created, active, closed) VALUES "+sqldb.Tuples(19, 1),
		r.ID, r.Name, folded(r.Name), r.hash, r.Access, r.Listed, r.Guests, r.MemberMay, r.GuestMay, r.Hold, r.Drift, r.Jump, r.Loop,
		r.wordsText(), r.members, r.lastSeq, r.Created, r.Created, 0); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO room_playback (room_id, given, fence, item, position, at, rate, paused) VALUES "+
		sqldb.Tuples(8, 1), r.ID, 0, 0, "", 0, r.Created, playback.Normal, true)
	return err
}

func updateRoom(ctx context.Context, tx *sqldb.Tx, r Room) error {
	_, err := tx.ExecContext(ctx, "UPDATE rooms SET name = ?, folded = ?, password = ?, access = ?, listed = ?, guests = ?, "+
		"member_may = ?, guest_may = ?, hold = ?, drift = ?, jump = ?, repeats = ?, words = ?, members = ?, version = ? WHERE id = ?",
		r.Name, folded(r.Name), r.hash, r.Access, r.Listed, r.Guests, r.MemberMay, r.GuestMay, r.Hold, r.Drift, r.Jump, r.Loop, r.wordsText(),
		r.members, r.Version, r.ID)
	return err
}

// closeRoom closes a room. [sweepRooms] deletes its content later.
func closeRoom(ctx context.Context, tx *sqldb.Tx, id ID) error {
	_, err := tx.ExecContext(ctx, "UPDATE rooms SET closed = ?, listed = ?, members = 0 WHERE id = ?", tx.Now().UnixMilli(), false, id)
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM room_members WHERE room_id = ?", id)
	}
	return err
}

// listed is a row of a list of rooms.
type listed struct {
	room   Room
	active int64 // Unix ms, exact to a minute
}

// searchRooms returns at most n rooms of the public list whose name contains a text, the most recently active first.
// The list has only rooms with open access.
func searchRooms(ctx context.Context, q sqldb.Querier, text string, n int) ([]listed, error) {
	condition, args := "", []any{true, Open}
	if text != "" {
		condition, args = ` AND r.folded LIKE ? ESCAPE '!'`, append(args, "%"+likeText.Replace(fold(text))+"%")
	}
	rows, err := q.QueryContext(ctx, "SELECT "+roomColumns+", r.active FROM rooms r WHERE r.listed = ? AND r.closed = 0 AND r.access = ?"+
		condition+" ORDER BY r.active DESC, r.id LIMIT ?", append(args, n)...)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (l listed, err error) {
		l.room, err = scanRoom(rows.Scan, &l.active)
		return l, err
	})
}

var likeText = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// activeRooms returns at most n rooms, the most recently active first.
func activeRooms(ctx context.Context, q sqldb.Querier, n int) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT id FROM rooms WHERE closed = 0 ORDER BY active DESC LIMIT ?", n))
}

// touchRooms updates the last activity of rooms that were not active since a time.
func touchRooms(ctx context.Context, q sqldb.Querier, list []ID, since time.Time) error {
	if len(list) == 0 {
		return nil
	}
	_, err := q.ExecContext(ctx, "UPDATE rooms SET active = ? WHERE id IN (?) AND active < ?", q.Now().UnixMilli(), bun.List(list),
		since.UnixMilli())
	return err
}

const memberColumns = "m.user_id, m.role, m.name, m.more, m.less, m.muted, m.joined, m.expires, m.secret"

func (m *Member) fields() []any {
	return []any{&m.User, &m.Role, &m.Name, &m.More, &m.Less, &m.MutedUntil, &m.Joined, &m.Expires, &m.Secret}
}

func scanMember(rows *sql.Rows) (m Member, err error) {
	err = rows.Scan(m.fields()...)
	return m, err
}

// notExpired excludes guests whose time has expired.
const notExpired = "(m.expires = 0 OR m.expires > ?)"

// selectMember returns a member of a room, or ErrMember.
func selectMember(ctx context.Context, q sqldb.Querier, id ID, user ParticipantID) (m Member, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+memberColumns+" FROM room_members m WHERE m.room_id = ? AND m.user_id = ? AND "+notExpired, id,
		user, q.Now().UnixMilli()).Scan(m.fields()...)
	return m, sqldb.Missing(err, ErrMember)
}

// membersAt returns the members for the keys that exist.
func membersAt(ctx context.Context, q sqldb.Querier, keys []MemberKey) (map[MemberKey]Member, error) {
	found := make(map[MemberKey]Member, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	args := []any{q.Now().UnixMilli()}
	for _, k := range keys {
		args = append(args, k.A, k.B)
	}
	rows, err := q.QueryContext(ctx, "SELECT m.room_id, "+memberColumns+" FROM room_members m WHERE "+notExpired+" AND ("+
		sqldb.AnyOf("(m.room_id = ? AND m.user_id = ?)", len(keys))+")", args...)
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var at MemberKey
		var m Member
		err := rows.Scan(append([]any{&at.A}, m.fields()...)...)
		at.B = m.User
		found[at] = m
		return err
	})
}

// pageMembers returns at most n members after a place.
func pageMembers(ctx context.Context, q sqldb.Querier, id ID, after cursor.Place, n int) ([]Member, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+memberColumns+" FROM room_members m WHERE m.room_id = ? AND "+notExpired+` AND m.role <= ?
		AND (m.role < ? OR m.joined > ? OR (m.joined = ? AND m.user_id > ?)) ORDER BY m.role DESC, m.joined, m.user_id LIMIT ?`,
		id, q.Now().UnixMilli(), after.Primary, after.Primary, after.Secondary, after.Secondary, after.ID, n)
	return sqldb.Collect(rows, err, scanMember)
}

// roomsOf returns at most n rooms of a user after a place, the one joined last first.
func roomsOf(ctx context.Context, q sqldb.Querier, user ParticipantID, after cursor.Place, n int) (list []Room, mine []Member, err error) {
	rows, err := q.QueryContext(ctx, "SELECT "+roomColumns+", "+memberColumns+" FROM room_members m JOIN rooms r ON r.id = m.room_id "+
		"WHERE m.user_id = ? AND r.closed = 0 AND (m.joined < ? OR (m.joined = ? AND r.id > ?)) ORDER BY m.joined DESC, r.id LIMIT ?",
		user, after.Primary, after.Primary, after.ID, n)
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var m Member
		r, err := scanRoom(rows.Scan, m.fields()...)
		list, mine = append(list, r), append(mine, m)
		return err
	})
	return list, mine, err
}

func countOwned(ctx context.Context, q sqldb.Querier, user ParticipantID) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) FROM room_members WHERE user_id = ? AND role = ?", user, Owner).Scan(&n)
	return n, err
}

func insertMember(ctx context.Context, tx *sqldb.Tx, id ID, m Member) error {
	seen := int64(0) // not used for users
	if m.Role == Guest {
		seen = m.Joined
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO room_members (room_id, user_id, role, name, more, less, muted, joined, expires, secret, "+
		"seen) VALUES "+sqldb.Tuples(11, 1),
		id, m.User, m.Role, m.Name, m.More, m.Less, m.MutedUntil, m.Joined, m.Expires, m.Secret, seen)
	return err
}

func updateMember(ctx context.Context, tx *sqldb.Tx, id ID, m Member) error {
	_, err := tx.ExecContext(ctx, "UPDATE room_members SET role = ?, more = ?, less = ?, muted = ? WHERE room_id = ? AND user_id = ?", m.Role,
		m.More, m.Less, m.MutedUntil, id, m.User)
	return err
}

func deleteMembers(ctx context.Context, tx *sqldb.Tx, id ID, users []ParticipantID) error {
	for chunk := range slices.Chunk(users, 500) {
		if _, err := tx.ExecContext(ctx, "DELETE FROM room_members WHERE room_id = ? AND user_id IN (?)", id, bun.List(chunk)); err != nil {
			return err
		}
	}
	return nil
}

// guestsOf returns the guests of a room.
func guestsOf(ctx context.Context, q sqldb.Querier, id ID) ([]ParticipantID, error) {
	return sqldb.Column[ParticipantID](q.QueryContext(ctx, "SELECT user_id FROM room_members WHERE room_id = ? AND role = ? ORDER BY user_id",
		id, Guest))
}

// selectRestrictions returns the end of the mute and the removed permissions of a user who left a room.
func selectRestrictions(ctx context.Context, q sqldb.Querier, id ID, user ParticipantID) (muted int64, less Permission, err error) {
	err = q.QueryRowContext(ctx, "SELECT muted, less FROM room_restrictions WHERE room_id = ? AND user_id = ?", id, user).Scan(&muted, &less)
	return muted, less, sqldb.Missing(err, nil)
}

// storeRestrictions stores the restrictions of a user who leaves, and replaces those of an earlier stay.
func storeRestrictions(ctx context.Context, tx *sqldb.Tx, id ID, m Member) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM room_restrictions WHERE room_id = ? AND user_id = ?", id, m.User); err != nil {
		return err
	}
	if m.Role != Ordinary {
		m.Less = 0 // admins always have all permissions
	}
	if m.Less == 0 && m.MutedUntil <= tx.Now().UnixMilli() {
		return nil
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO room_restrictions (room_id, user_id, muted, less) VALUES (?, ?, ?, ?)", id, m.User,
		m.MutedUntil, m.Less)
	return err
}

// deleteOldRestrictions deletes restrictions whose mute ended before a time and that remove no permission.
func deleteOldRestrictions(ctx context.Context, db *sqldb.DB, before time.Time) error {
	_, err := db.ExecContext(ctx, "DELETE FROM room_restrictions WHERE less = 0 AND muted <= ?", before.UnixMilli())
	return err
}

// deleteStrayRestrictions deletes at most n restrictions of missing rooms or erased users, and returns the number.
func deleteStrayRestrictions(ctx context.Context, db *sqldb.DB, n int) (int64, error) {
	return sqldb.DeleteSome(ctx, db, "room_restrictions", []string{"room_id", "user_id"}, n, `(NOT EXISTS (SELECT 1 FROM rooms r WHERE r.id = room_restrictions.room_id)
		OR NOT EXISTS (SELECT 1 FROM users u WHERE u.id = room_restrictions.user_id AND u.erased >= 0))`)
}

// staffOf returns the owner and at most 50 admins of a room.
func staffOf(ctx context.Context, q sqldb.Querier, id ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, "SELECT user_id FROM room_members WHERE room_id = ? AND role >= ? ORDER BY role "+
		"DESC LIMIT 51", id, Admin))
}

func countGuests(ctx context.Context, q sqldb.Querier, id ID) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) FROM room_members WHERE room_id = ? AND role = ?", id, Guest).Scan(&n)
	return n, err
}

// expiredGuests returns at most n guests whose time has expired, by room.
func expiredGuests(ctx context.Context, q sqldb.Querier, n int) (map[ID][]ParticipantID, error) {
	return guestsWhere(ctx, q, "expires > 0 AND expires <= ? LIMIT ?", q.Now().UnixMilli(), n)
}

// idleGuests returns at most n guests whom no node has seen since a time, by room.
func idleGuests(ctx context.Context, q sqldb.Querier, since time.Time, n int) (map[ID][]ParticipantID, error) {
	return guestsWhere(ctx, q, "seen > 0 AND seen <= ? LIMIT ?", since.UnixMilli(), n)
}

func guestsWhere(ctx context.Context, q sqldb.Querier, condition string, args ...any) (map[ID][]ParticipantID, error) {
	all := map[ID][]ParticipantID{}
	rows, err := q.QueryContext(ctx, "SELECT room_id, user_id FROM room_members WHERE "+condition, args...)
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var id ID
		var u ParticipantID
		err := rows.Scan(&id, &u)
		all[id] = append(all[id], u)
		return err
	})
}

// guestsAmong returns those of the given guests who are in a room.
func guestsAmong(ctx context.Context, tx *sqldb.Tx, id ID, users []ParticipantID) ([]ParticipantID, error) {
	return sqldb.Column[ParticipantID](tx.QueryContext(ctx, "SELECT user_id FROM room_members WHERE room_id = ? AND user_id IN (?)", id,
		bun.List(users)))
}

// markSeen records the present time for those of the given viewers who are guests.
func markSeen(ctx context.Context, q sqldb.Querier, keys []MemberKey) error {
	args := []any{q.Now().UnixMilli()}
	for _, k := range keys {
		args = append(args, k.A, k.B)
	}
	_, err := q.ExecContext(ctx, "UPDATE room_members SET seen = ? WHERE seen > 0 AND ("+
		sqldb.AnyOf("(room_id = ? AND user_id = ?)", len(keys))+")", args...)
	return err
}

// successor returns the next owner of a room whose owner leaves: the admin, or else the member, who joined first. It
// returns ErrMember if no user can become the owner.
func successor(ctx context.Context, q sqldb.Querier, id ID, owner ParticipantID) (m Member, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+memberColumns+" FROM room_members m WHERE m.room_id = ? AND m.user_id <> ? AND m.role >= ? "+
		"ORDER BY m.role DESC, m.joined, m.user_id LIMIT 1", id, owner, Ordinary).Scan(m.fields()...)
	return m, sqldb.Missing(err, ErrMember)
}

const itemColumns = "room_id, id, kind, source, title, duration, by_id, added, removed"

func (it *Item) fields(room *ID) []any {
	return []any{room, &it.ID, &it.Kind, &it.Source, &it.Title, &it.Duration, &it.By, &it.Added, &it.Removed}
}

// itemsOf returns a room's playlist in its order, with removed items.
func itemsOf(ctx context.Context, q sqldb.Querier, id ID) ([]Item, error) {
	all, err := playlistsOf(ctx, q, []ID{id})
	return all[id], err
}

// playlistsOf returns the playlists of at most 500 rooms, with an empty one for a room without items.
func playlistsOf(ctx context.Context, q sqldb.Querier, list []ID) (map[ID][]Item, error) {
	all := make(map[ID][]Item, len(list))
	for _, id := range list {
		all[id] = nil
	}
	rows, err := q.QueryContext(ctx, "SELECT "+itemColumns+" FROM room_items WHERE room_id IN (?) ORDER BY room_id, place, id", bun.List(list))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var of ID
		var it Item
		err := rows.Scan(it.fields(&of)...)
		all[of] = append(all[of], it)
		return err
	})
}

// selectItem returns an item of any room, and its room. It returns ErrItem.
func selectItem(ctx context.Context, q sqldb.Querier, id ItemID) (it Item, room ID, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+itemColumns+" FROM room_items WHERE id = ?", id).Scan(it.fields(&room)...)
	return it, room, sqldb.Missing(err, ErrItem)
}

func insertItem(ctx context.Context, tx *sqldb.Tx, id ID, at int, it Item) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO room_items (id, room_id, place, kind, source, title, duration, by_id, added) VALUES "+
		sqldb.Tuples(9, 1), it.ID, id, at, it.Kind, it.Source, it.Title, it.Duration, it.By, it.Added)
	return err
}

func deleteItems(ctx context.Context, tx *sqldb.Tx, list []ItemID) error {
	if len(list) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM room_items WHERE id IN (?)", bun.List(list))
	return err
}

func markRemoved(ctx context.Context, tx *sqldb.Tx, id ItemID, at time.Time) error {
	_, err := tx.ExecContext(ctx, "UPDATE room_items SET removed = ? WHERE id = ?", at.UnixMilli(), id)
	return err
}

// arrangeItems numbers the places of all items of a room, in the order of list.
func arrangeItems(ctx context.Context, tx *sqldb.Tx, id ID, list []Item) error {
	if len(list) == 0 {
		return nil
	}
	var cases strings.Builder
	var args []any
	for i, it := range list {
		cases.WriteString(" WHEN ? THEN ?")
		args = append(args, it.ID, i)
	}
	_, err := tx.ExecContext(ctx, "UPDATE room_items SET place = CASE id"+cases.String()+" ELSE place END WHERE room_id = ?",
		append(args, id)...)
	return err
}

// selectCheckpoint returns a room's checkpoint, or ErrRoom.
func selectCheckpoint(ctx context.Context, q sqldb.Querier, id ID) (s playback.State, err error) {
	var stamp int64
	err = q.QueryRowContext(ctx, "SELECT fence, item, position, at, rate, paused FROM room_playback WHERE room_id = ?", id).Scan(&stamp,
		&s.Item, &s.Position, &s.Time, &s.Rate, &s.Paused)
	s.Generation, s.Version = playback.Stamped(stamp).Generation, playback.Stamped(stamp).Version
	return s, sqldb.Missing(err, ErrRoom)
}

// selectStamps returns the stamps of rooms' checkpoints.
func selectStamps(ctx context.Context, q sqldb.Querier, list []ID) (map[ID]int64, error) {
	all := make(map[ID]int64, len(list))
	rows, err := q.QueryContext(ctx, "SELECT room_id, fence FROM room_playback WHERE room_id IN (?)", bun.List(list))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var id ID
		var stamp int64
		err := rows.Scan(&id, &stamp)
		all[id] = stamp
		return err
	})
}

// nextGeneration returns a register for a Redis that has lost a room's register or its latest state. It has the state
// of the checkpoint, or of old if that is newer, and a generation that no earlier register of the room had. now is the
// servers' time in Unix ms. It returns ErrRoom.
func nextGeneration(ctx context.Context, db *sqldb.DB, id ID, old playback.State, now int64) (s playback.State, err error) {
	err = db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		given := int64(0)
		err := tx.QueryRowContext(ctx, "SELECT p.given FROM room_playback p JOIN rooms r ON r.id = p.room_id "+
			"WHERE p.room_id = ? AND r.closed = 0"+tx.Dialect().ForUpdate(), id).Scan(&given)
		if err != nil {
			return sqldb.Missing(err, ErrRoom)
		}
		if s, err = selectCheckpoint(ctx, tx, id); err != nil {
			return err
		}
		if old.Newer(s) {
			s = old
		}
		if s.Held { // waiting players report again
			s.Paused, s.Held, s.Time = false, false, now
		}
		s.Generation, s.Version, s.Time = max(given, s.Generation)+1, 0, s.Made(now)
		_, err = tx.ExecContext(ctx, "UPDATE room_playback SET given = ? WHERE room_id = ?", s.Generation, id)
		return err
	})
	return s, err
}

// checkpoints stores registers of rooms that are newer than the stored ones.
var checkpoints = sqldb.Upsert{Table: "room_playback", Columns: []string{"room_id", "given", "fence", "item", "position", "at", "rate",
	"paused"}, Key: []string{"room_id"},
	// fence is last, because the other columns are compared with its old value
	Set: []string{newer("item"), newer("position"), newer("at"), newer("rate"), newer("paused"), newer("fence")}}

func newer(column string) string {
	return column + " = CASE WHEN {new.fence} > room_playback.fence THEN {new." + column + "} ELSE room_playback." + column + " END"
}

// saveCheckpoints stores the registers of rooms that are not closed.
func saveCheckpoints(ctx context.Context, db *sqldb.DB, states map[ID]playback.State) error {
	if len(states) == 0 {
		return nil
	}
	return db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		list := make([]ID, 0, len(states))
		for id := range states {
			list = append(list, id)
		}
		slices.SortFunc(list, ID.Compare)
		open, err := sqldb.Column[ID](tx.QueryContext(ctx, "SELECT id FROM rooms WHERE id IN (?) AND closed = 0", bun.List(list)))
		if err != nil || len(open) == 0 {
			return err
		}
		slices.SortFunc(open, ID.Compare)
		var args []any
		for _, id := range open {
			s := states[id]
			args = append(args, id, s.Generation, s.Stamp(), s.Item, s.Position, s.Time, s.Rate, s.Paused && !s.Held)
		}
		_, err = tx.ExecContext(ctx, tx.Dialect().Compile(checkpoints).For(len(open)), args...)
		return err
	})
}

// childTables are the tables whose rows are deleted with a room.
var childTables = []string{"room_members", "room_bans", "room_restrictions", "room_links", "room_items", "room_playback", "room_lines",
	"room_danmaku"}

// closedRooms returns at most n rooms that were closed before a time.
func closedRooms(ctx context.Context, q sqldb.Querier, before time.Time, n int) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT id FROM rooms WHERE closed > 0 AND closed < ? LIMIT ?", before.UnixMilli(), n))
}

// sweepRooms deletes rooms and all their rows.
func sweepRooms(ctx context.Context, tx *sqldb.Tx, list []ID) error {
	for _, table := range childTables {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE room_id IN (?)", bun.List(list)); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM rooms WHERE id IN (?)", bun.List(list))
	return err
}

// deleteOldLinks deletes at most n links that expired before a time.
func deleteOldLinks(ctx context.Context, db *sqldb.DB, before time.Time, n int) error {
	_, err := sqldb.DeleteSome(ctx, db, "room_links", []string{"id"}, n, "expires < ?", before.UnixMilli())
	return err
}

// roomIDsOf returns at most n rooms of a user.
func roomIDsOf(ctx context.Context, q sqldb.Querier, user ParticipantID, n int) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT room_id FROM room_members WHERE user_id = ? LIMIT ?", user, n))
}

// deleteUserRows deletes the remaining rows of a user who is in no room.
func deleteUserRows(ctx context.Context, tx *sqldb.Tx, user accounts.ID) error {
	for _, condition := range []string{"room_bans WHERE user_id = ?", "room_restrictions WHERE user_id = ?", "room_links WHERE by_id = ?",
		"room_lines WHERE user_id = ?", "room_danmaku WHERE user_id = ?"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+condition, user); err != nil {
			return err
		}
	}
	return nil
}
