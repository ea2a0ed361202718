package groups

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ErrStore reports that SQL is unavailable.
var ErrStore = errs.New(errs.Unavailable, "group.store_away", "Groups are unavailable. Please try again.").Retry(2 * time.Second)

// asKind gives database errors the kind that callers act on.
func asKind(ctx context.Context, err error) error { return sqldb.AsKindWithin(ctx, err, ErrStore) }

const groupColumns = "g.id, g.name, g.picture, g.announcement, g.announced, g.joins, g.question, g.admins_invite, g.muted, g.members, " +
	"g.version, g.pruned, g.created, g.dissolved"

func (g *Group) fields() []any {
	return []any{&g.ID, &g.Name, &g.Picture, &g.Announcement, &g.Announced, &g.Joins, &g.Question, &g.AdminsInvite, &g.MutedUntil, &g.Members,
		&g.Version, &g.pruned, &g.Created, &g.Dissolved}
}

// selectGroup returns a group, or ErrGroup; lock is "" or a clause.
func selectGroup(ctx context.Context, q sqldb.Querier, id ID, lock string) (g Group, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+groupColumns+" FROM chat_groups g WHERE g.id = ? AND g.dissolved = 0"+lock, id).Scan(g.fields()...)
	return g, sqldb.Missing(err, ErrGroup)
}

func insertGroup(ctx context.Context, tx *sqldb.Tx, g Group) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO chat_groups (id, name, picture, announcement, announced, joins, question, admins_invite, "+
		"muted, members, version, pruned, created, dissolved) VALUES "+sqldb.Tuples(14, 1),
		g.ID, g.Name, g.Picture, g.Announcement, g.Announced, g.Joins, g.Question, g.AdminsInvite, g.MutedUntil, g.Members, g.Version, g.pruned,
		g.Created, g.Dissolved)
	return err
}

func updateGroup(ctx context.Context, tx *sqldb.Tx, g Group) error {
	_, err := tx.ExecContext(ctx, "UPDATE chat_groups SET name = ?, picture = ?, announcement = ?, announced = ?, joins = ?, "+
		"question = ?, admins_invite = ?, muted = ?, members = ?, version = ?, dissolved = ? WHERE id = ?",
		g.Name, g.Picture, g.Announcement, g.Announced, g.Joins, g.Question, g.AdminsInvite, g.MutedUntil, g.Members, g.Version, g.Dissolved,
		g.ID)
	return err
}

const memberColumns = "m.user_id, m.role, m.nickname, m.muted, m.joined, m.inviter, m.remark, m.notify, m.seen, m.own_version, " +
	"m.version, m.gone"

func (m *Membership) fields() []any {
	return []any{&m.User, &m.Role, &m.Nickname, &m.MutedUntil, &m.Joined, &m.Inviter, &m.Remark, &m.Notify, &m.Seen, &m.ownVersion, &m.version,
		&m.gone}
}

func scanMember(rows *sql.Rows) (m Membership, err error) {
	err = rows.Scan(m.fields()...)
	return m, err
}

// selectMembers returns the members among at most 500 users.
func selectMembers(ctx context.Context, q sqldb.Querier, id ID, users []accounts.ID) (map[accounts.ID]Membership, error) {
	return membersAmong(ctx, q, id, users, "m.gone = 0")
}

func membersAmong(ctx context.Context, q sqldb.Querier, id ID, users []accounts.ID, condition string) (map[accounts.ID]Membership, error) {
	found := make(map[accounts.ID]Membership, len(users))
	if len(users) == 0 {
		return found, nil
	}
	rows, err := q.QueryContext(ctx, "SELECT "+memberColumns+" FROM group_members m WHERE m.group_id = ? AND m.user_id IN (?) AND "+condition,
		id, bun.List(users))
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		m, err := scanMember(rows)
		found[m.User] = m
		return err
	})
}

// selectMember returns a member, or ErrMember.
func selectMember(ctx context.Context, q sqldb.Querier, id ID, user accounts.ID) (Membership, error) {
	found, err := selectMembers(ctx, q, id, []accounts.ID{user})
	m, ok := found[user]
	if err == nil && !ok {
		err = ErrMember
	}
	return m, err
}

func allMembers(ctx context.Context, q sqldb.Querier, id ID) ([]Membership, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+memberColumns+" FROM group_members m WHERE m.group_id = ? AND m.gone = 0", id)
	return sqldb.Collect(rows, err, scanMember)
}

// selectStaff returns the admins and the owner of a group.
func selectStaff(ctx context.Context, q sqldb.Querier, id ID) ([]accounts.ID, error) {
	return sqldb.Column[accounts.ID](q.QueryContext(ctx, "SELECT user_id FROM group_members WHERE group_id = ? AND gone = 0 AND role >= ?", id,
		Admin))
}

// pageMembers returns up to n members after a place.
func pageMembers(ctx context.Context, q sqldb.Querier, id ID, after cursor.Place, n int) ([]Membership, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+memberColumns+` FROM group_members m WHERE m.group_id = ? AND m.gone = 0 AND m.role <= ?
		AND (m.role < ? OR m.joined > ? OR (m.joined = ? AND m.user_id > ?)) ORDER BY m.role DESC, m.joined, m.user_id LIMIT ?`,
		id, after.Primary, after.Primary, after.Secondary, after.Secondary, after.ID, n)
	return sqldb.Collect(rows, err, scanMember)
}

// changedMembers returns up to n rows that have changed after a version, in the order of versions. It includes former
// members.
func changedMembers(ctx context.Context, q sqldb.Querier, id ID, since int64, n int) ([]Membership, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+memberColumns+" FROM group_members m WHERE m.group_id = ? AND m.version > ? ORDER BY "+
		"m.version LIMIT ?", id, since, n)
	return sqldb.Collect(rows, err, scanMember)
}

// groupsOf returns a user's groups, the one joined last first.
func groupsOf(ctx context.Context, q sqldb.Querier, user accounts.ID) (groups []Group, mine []Membership, err error) {
	rows, err := q.QueryContext(ctx, "SELECT "+groupColumns+", "+memberColumns+
		" FROM group_members m JOIN chat_groups g ON g.id = m.group_id WHERE m.user_id = ? AND m.gone = 0 ORDER BY m.joined DESC, g.id", user)
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var g Group
		var m Membership
		err := rows.Scan(append(g.fields(), m.fields()...)...)
		groups, mine = append(groups, g), append(mine, m)
		return err
	})
	return groups, mine, err
}

// countGroups returns the number of groups of each user.
func countGroups(ctx context.Context, q sqldb.Querier, users []accounts.ID) (map[accounts.ID]int, error) {
	all := make(map[accounts.ID]int, len(users))
	rows, err := q.QueryContext(ctx, "SELECT user_id, COUNT(*) FROM group_members WHERE user_id IN (?) AND gone = 0 GROUP BY user_id",
		bun.List(users))
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var n int
		err := rows.Scan(&u, &n)
		all[u] = n
		return err
	})
}

func countAdmins(ctx context.Context, q sqldb.Querier, id ID) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) FROM group_members WHERE group_id = ? AND role = ? AND gone = 0", id, Admin).Scan(&n)
	return n, err
}

// countSeen returns the number of members who have seen the newest announcement.
func countSeen(ctx context.Context, q sqldb.Querier, g Group) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) FROM group_members WHERE group_id = ? AND gone = 0 AND seen >= ?", g.ID,
		g.Announced).Scan(&n)
	return n, err
}

// selectFormer returns the rows of at most 500 users who are former members.
func selectFormer(ctx context.Context, q sqldb.Querier, id ID, users []accounts.ID) (map[accounts.ID]Membership, error) {
	return membersAmong(ctx, q, id, users, "m.gone > 0")
}

// insertMembers writes new members. It replaces rows of former memberships.
func insertMembers(ctx context.Context, tx *sqldb.Tx, id ID, list []Membership) error {
	users := make([]accounts.ID, len(list))
	var args []any
	for i, m := range list {
		users[i] = m.User
		args = append(args, id, m.User, m.Role, m.Nickname, m.MutedUntil, m.Joined, m.Inviter, m.Remark, m.Notify, m.Seen, m.ownVersion,
			m.version, 0)
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM group_members WHERE group_id = ? AND user_id IN (?)", id, bun.List(users)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO group_members (group_id, user_id, role, nickname, muted, joined, inviter, remark, notify, "+
		"seen, own_version, version, gone) VALUES "+sqldb.Tuples(13, len(list)), args...)
	return err
}

func updateMember(ctx context.Context, tx *sqldb.Tx, id ID, m Membership) error {
	_, err := tx.ExecContext(ctx, "UPDATE group_members SET role = ?, nickname = ?, muted = ?, remark = ?, notify = ?, seen = ?, "+
		"own_version = ?, version = ?, gone = ? WHERE group_id = ? AND user_id = ?",
		m.Role, m.Nickname, m.MutedUntil, m.Remark, m.Notify, m.Seen, m.ownVersion, m.version, m.gone, id, m.User)
	return err
}

// updateOwn writes the settings that only the member sees. They do not change the group's version.
func updateOwn(ctx context.Context, tx *sqldb.Tx, id ID, m Membership) error {
	_, err := tx.ExecContext(ctx, "UPDATE group_members SET remark = ?, notify = ?, seen = ?, own_version = ? WHERE group_id = ? AND "+
		"user_id = ? AND gone = 0", m.Remark, m.Notify, m.Seen, m.ownVersion, id, m.User)
	return err
}

// deleteMembers deletes all members of a group.
func deleteMembers(ctx context.Context, tx *sqldb.Tx, id ID) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM group_members WHERE group_id = ?", id)
	return err
}

// successor returns the next owner of a group: the admin who joined first, else the member who joined first. It returns
// ErrMember if there is no other member.
func successor(ctx context.Context, q sqldb.Querier, id ID, owner accounts.ID) (m Membership, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+memberColumns+" FROM group_members m WHERE m.group_id = ? AND m.gone = 0 AND "+
		"m.user_id <> ? ORDER BY m.role DESC, m.joined, m.user_id LIMIT 1", id, owner).Scan(m.fields()...)
	return m, sqldb.Missing(err, ErrMember)
}

const requestColumns = "id, group_id, user_id, answer, state, created, expires"

func (r *Request) fields() []any {
	return []any{&r.ID, &r.Group, &r.User, &r.Answer, &r.State, &r.Created, &r.Expires}
}

func scanRequest(rows *sql.Rows) (r Request, err error) {
	err = rows.Scan(r.fields()...)
	return r, err
}

// selectRequest returns a request, or ErrNoRequest.
func selectRequest(ctx context.Context, q sqldb.Querier, id RequestID) (r Request, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+requestColumns+" FROM group_requests WHERE id = ?", id).Scan(r.fields()...)
	return r, sqldb.Missing(err, ErrNoRequest)
}

// unclosedRequest returns a user's unclosed request in a group, or ErrNoRequest.
func unclosedRequest(ctx context.Context, q sqldb.Querier, id ID, user accounts.ID) (r Request, err error) {
	err = q.QueryRowContext(ctx, "SELECT "+requestColumns+" FROM group_requests WHERE waiting = ?", id.String()+user.String()).
		Scan(r.fields()...)
	return r, sqldb.Missing(err, ErrNoRequest)
}

// groupsWithRequest returns the groups with an unclosed request of a user.
func groupsWithRequest(ctx context.Context, q sqldb.Querier, user accounts.ID) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT group_id FROM group_requests WHERE user_id = ? AND waiting IS NOT NULL", user))
}

// unclosedRequests returns the unclosed requests of at most 500 users in a group.
func unclosedRequests(ctx context.Context, q sqldb.Querier, id ID, users []accounts.ID) ([]Request, error) {
	keys := make([]string, len(users))
	for i, u := range users {
		keys[i] = id.String() + u.String()
	}
	rows, err := q.QueryContext(ctx, "SELECT "+requestColumns+" FROM group_requests WHERE waiting IN (?)", bun.List(keys))
	return sqldb.Collect(rows, err, scanRequest)
}

// selectOwner returns the owner of a group, or ErrMember.
func selectOwner(ctx context.Context, q sqldb.Querier, id ID) (owner accounts.ID, err error) {
	err = q.QueryRowContext(ctx, "SELECT user_id FROM group_members WHERE group_id = ? AND role = ? AND gone = 0", id, Owner).Scan(&owner)
	return owner, sqldb.Missing(err, ErrMember)
}

// pagePending returns up to n pending requests of a group, oldest first, after a place.
func pagePending(ctx context.Context, q sqldb.Querier, id ID, after cursor.Place, n int) ([]Request, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+requestColumns+" FROM group_requests WHERE group_id = ? AND state = ? AND expires > ? AND "+
		"created >= ? AND (created > ? OR id > ?) ORDER BY created, id LIMIT ?",
		id, Pending, q.Now().UnixMilli(), after.Secondary, after.Secondary, after.ID, n)
	return sqldb.Collect(rows, err, scanRequest)
}

// countPending returns the number of pending requests of a group.
func countPending(ctx context.Context, q sqldb.Querier, id ID) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT COUNT(*) FROM group_requests WHERE group_id = ? AND state = ? AND expires > ?", id, Pending,
		q.Now().UnixMilli()).Scan(&n)
	return n, err
}

func insertRequest(ctx context.Context, tx *sqldb.Tx, r Request) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO group_requests ("+requestColumns+", waiting) VALUES "+sqldb.Tuples(8, 1), r.ID, r.Group, r.User,
		r.Answer, r.State, r.Created, r.Expires, r.Group.String()+r.User.String())
	return err
}

func closeRequest(ctx context.Context, tx *sqldb.Tx, id RequestID, state State) error {
	_, err := tx.ExecContext(ctx, "UPDATE group_requests SET state = ?, waiting = NULL WHERE id = ?", state, id)
	return err
}

// deleteChildRows deletes the bans, links, requests and the picture of a dissolved group.
func deleteChildRows(ctx context.Context, tx *sqldb.Tx, id ID) error {
	for _, table := range []string{"group_bans", "group_links", "group_requests", "group_pictures"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE group_id = ?", id); err != nil {
			return err
		}
	}
	return nil
}

// dissolvedBefore returns up to n groups that were dissolved before a time.
func dissolvedBefore(ctx context.Context, q sqldb.Querier, before time.Time, n int) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT id FROM chat_groups WHERE dissolved > 0 AND dissolved < ? LIMIT ?",
		before.UnixMilli(), n))
}

// deleteGroup deletes a dissolved group.
func deleteGroup(ctx context.Context, db *sqldb.DB, id ID) error {
	_, err := db.ExecContext(ctx, "DELETE FROM chat_groups WHERE id = ? AND dissolved > 0", id)
	return err
}

// groupIDsOf returns up to n groups of a user.
func groupIDsOf(ctx context.Context, q sqldb.Querier, user accounts.ID, n int) ([]ID, error) {
	return sqldb.Column[ID](q.QueryContext(ctx, "SELECT group_id FROM group_members WHERE user_id = ? AND gone = 0 LIMIT ?", user, n))
}

// deleteUserRows deletes the remaining rows about a user who is in no group.
func deleteUserRows(ctx context.Context, tx *sqldb.Tx, user accounts.ID) error {
	for _, condition := range []string{"group_bans WHERE user_id = ?", "group_requests WHERE user_id = ?", "group_links WHERE by_id = ?"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+condition, user); err != nil {
			return err
		}
	}
	// Otherwise the row of a muted former member would stay until the mute ends.
	_, err := tx.ExecContext(ctx, "UPDATE group_members SET muted = 0 WHERE user_id = ? AND gone > 0", user)
	return err
}

// formerMembersBefore returns up to n former members who left before a time and are no longer muted.
func formerMembersBefore(ctx context.Context, q sqldb.Querier, before time.Time, n int) (map[ID][]Membership, error) {
	all := map[ID][]Membership{}
	rows, err := q.QueryContext(ctx, "SELECT m.group_id, "+memberColumns+
		" FROM group_members m WHERE m.gone > 0 AND m.gone < ? AND m.muted <= ? ORDER BY m.gone LIMIT ?", before.UnixMilli(),
		q.Now().UnixMilli(), n)
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var id ID
		var m Membership
		err := rows.Scan(append([]any{&id}, m.fields()...)...)
		all[id] = append(all[id], m)
		return err
	})
}

// deleteFormerMembers deletes rows of former members, and stores the highest deleted version.
func deleteFormerMembers(ctx context.Context, tx *sqldb.Tx, id ID, former []Membership) error {
	upTo := int64(0)
	users := make([]accounts.ID, len(former))
	for i, m := range former {
		users[i], upTo = m.User, max(upTo, m.version)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE chat_groups SET pruned = ? WHERE id = ? AND pruned < ?", upTo, id, upTo); err != nil {
		return err
	}
	// A user may have joined and left again in the meantime.
	_, err := tx.ExecContext(ctx, "DELETE FROM group_members WHERE group_id = ? AND user_id IN (?) AND gone > 0 AND version <= ?", id,
		bun.List(users), upTo)
	return err
}

// deleteOld deletes requests and links that expired before a time, n at a time.
func deleteOld(ctx context.Context, db *sqldb.DB, before time.Time, n int) error {
	for _, table := range []string{"group_requests", "group_links"} {
		for deleted := int64(n); deleted == int64(n); {
			var err error
			if deleted, err = sqldb.DeleteSome(ctx, db, table, []string{"id"}, n, "expires < ?", before.UnixMilli()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Standings returns the standings of the members among keys. It reads SQL in the caller's transaction, so rules may
// use it.
func Standings(ctx context.Context, q sqldb.Querier, keys []MemberKey) (map[MemberKey]Standing, error) {
	found := make(map[MemberKey]Standing, len(keys))
	if len(keys) == 0 {
		return found, nil
	}
	var args []any
	for _, k := range keys {
		args = append(args, k.Group, k.User)
	}
	now := q.Now().UnixMilli()
	rows, err := q.QueryContext(ctx, "SELECT m.group_id, m.user_id, m.role, m.muted, g.muted FROM group_members m JOIN chat_groups g ON "+
		"g.id = m.group_id WHERE m.gone = 0 AND g.dissolved = 0 AND ("+sqldb.AnyOf("(m.group_id = ? AND m.user_id = ?)", len(keys))+")", args...)
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var k MemberKey
		var st Standing
		var mine, all int64
		err := rows.Scan(&k.Group, &k.User, &st.Role, &mine, &all)
		switch {
		case mine > now:
			st.mute = ErrMuted
		case all > now && st.Role == Member:
			st.mute = ErrAllMuted
		}
		found[k] = st
		return err
	})
}

// Notifies returns the members' settings for pushes. It omits former members.
func Notifies(ctx context.Context, q sqldb.Querier, keys []MemberKey) (map[MemberKey]Notify, error) {
	all := make(map[MemberKey]Notify, len(keys))
	if len(keys) == 0 {
		return all, nil
	}
	args := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		args = append(args, k.Group, k.User)
	}
	rows, err := q.QueryContext(ctx, "SELECT group_id, user_id, notify FROM group_members WHERE gone = 0 AND "+
		sqldb.AnyOf("(group_id = ? AND user_id = ?)", len(keys)), args...)
	return all, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var k MemberKey
		var n Notify
		err := rows.Scan(&k.Group, &k.User, &n)
		all[k] = n
		return err
	})
}
