package messaging

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/groupcommit"
)

// asKind gives errors of the engine, and of a stopped committer, the kind that callers handle.
func asKind(ctx context.Context, err error) error {
	if errors.Is(err, groupcommit.ErrClosed) {
		return errors.Join(ErrStore, err)
	}
	return sqldb.AsKindWithin(ctx, err, ErrStore)
}

// sqlStore has every statement of this package.
type sqlStore struct {
	db *sqldb.DB

	newPairs, newConversations, newMembers, joinedMembers, updatedConversations, movedMarks *sqldb.Statement
}

var memberColumns = []string{"user_id", "conversation", "peer", "read_seq", "delivered_seq", "cleared_seq", "pinned", "muted", "draft",
	"changed", "version", "gone", "marked"}

func newSQLStore(db *sqldb.DB) *sqlStore {
	compile := func(u sqldb.Upsert) *sqldb.Statement { return db.Dialect().Compile(u) }
	conversations := strings.Split(conversationColumns, ", ")
	members := sqldb.Upsert{Table: "chat_members", Columns: memberColumns, Key: []string{"user_id", "conversation"}}
	s := &sqlStore{
		db: db,
		newPairs: compile(sqldb.Upsert{Table: "direct_chats", Columns: []string{"low", "high", "conversation"},
			Key: []string{"low", "high"}}),
		newConversations: compile(sqldb.Upsert{Table: "conversations", Columns: conversations, Key: []string{"id"}}),
		updatedConversations: compile(sqldb.Upsert{Table: "conversations", Columns: conversations, Key: []string{"id"},
			Set: []string{"title", "seq", "last_at", "changed", "uncounted", "low_sent", "high_sent"}}),
		newMembers: compile(members),
	}
	members.Set = []string{"read_seq = {greatest}(read_seq, {new.read_seq})", "delivered_seq = {greatest}(delivered_seq, {new.delivered_seq})",
		"changed = {greatest}(changed, {new.changed})", "marked = {greatest}(marked, {new.marked})", "version = chat_members.version + 1"}
	s.movedMarks = compile(members)
	members.Set = []string{"read_seq", "delivered_seq", "cleared_seq", "pinned", "muted", "draft", "changed", "gone",
		"version = chat_members.version + 1"}
	s.joinedMembers = compile(members)
	return s
}

// inTx is [sqldb.DB.Tx], for changes that invalidate no cache.
func (s *sqlStore) inTx(ctx context.Context, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return s.db.Tx(ctx, fn)
}

// transactBatch is inTx for committers.
func (s *sqlStore) transactBatch(ctx context.Context, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return s.db.Batch(ctx, fn)
}

// Kinds of conversations in rows.
const (
	direct = 1 // of two users
	group  = 2 // of a group; it has the group's id
)

// findPairs returns the conversations of pairs.
func (s *sqlStore) findPairs(ctx context.Context, q sqldb.Querier, pairs []pair, lock string) (map[pair]ConversationID, error) {
	args := make([]any, 0, 2*len(pairs))
	for _, p := range pairs {
		args = append(args, p.low, p.high)
	}
	found := make(map[pair]ConversationID, len(pairs))
	rows, err := q.QueryContext(ctx, "SELECT low, high, conversation FROM direct_chats WHERE "+
		sqldb.AnyOf("(low = ? AND high = ?)", len(pairs))+lock, args...)
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var p pair
		var id ConversationID
		err := rows.Scan(&p.low, &p.high, &id)
		found[p] = id
		return err
	})
}

// createPairs creates conversations for pairs that have none, and returns the conversations of all pairs.
func (s *sqlStore) createPairs(ctx context.Context, pairs []pair) (found map[pair]ConversationID, err error) {
	slices.SortFunc(pairs, pair.compare)
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var args []any
		for _, p := range pairs {
			args = append(args, p.low, p.high, ids.New[conversation]())
		}
		if _, err := tx.ExecContext(ctx, s.newPairs.For(len(pairs)), args...); err != nil {
			return err
		}
		if found, err = s.findPairs(ctx, tx, pairs, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		var conversations, members []any
		for _, p := range pairs {
			id := found[p]
			conversations = append(conversations, conversation{id: id, kind: direct}.row()...)
			for _, m := range []member{{user: p.low, peer: p.high, conv: id}, {user: p.high, peer: p.low, conv: id}} {
				members = append(members, m.row()...)
			}
		}
		if _, err := tx.ExecContext(ctx, s.newConversations.For(len(pairs)), conversations...); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.newMembers.For(2*len(pairs)), members...)
		return err
	})
	return found, err
}

func (m member) row() []any {
	return []any{m.user, m.conv, m.peer, m.read, m.delivered, m.cleared, m.pinned, m.muted, m.draft, m.changed, m.version, m.gone, m.marked}
}

func (c conversation) row() []any {
	return []any{c.id, c.kind, c.title, c.seq, c.rev, c.lastAt, c.changed, c.uncounted, c.sent[0], c.sent[1]}
}

const conversationColumns = "id, kind, title, seq, rev, last_at, changed, uncounted, low_sent, high_sent"

func scanConversation(rows *sql.Rows) (c conversation, err error) {
	err = rows.Scan(&c.id, &c.kind, &c.title, &c.seq, &c.rev, &c.lastAt, &c.changed, &c.uncounted, &c.sent[0], &c.sent[1])
	return c, err
}

// lock locks conversations until tx ends, in the order of their ids.
func (s *sqlStore) lock(ctx context.Context, tx *sqldb.Tx, list []ConversationID) (map[ConversationID]conversation, error) {
	found := make(map[ConversationID]conversation, len(list))
	return found, tx.Queries(ctx, lockQuery(tx, list, tx.Dialect().ForUpdate(), found))
}

// lockWithViews is lock, and also reads the views of the users of two.
func (s *sqlStore) lockWithViews(ctx context.Context, tx *sqldb.Tx, list []ConversationID) (map[ConversationID]conversation, error) {
	found := make(map[ConversationID]conversation, len(list))
	return found, tx.Queries(ctx, lockQuery(tx, list, tx.Dialect().ForUpdate(), found), lockedViewsQuery(tx, list, found))
}

// lockFree is lockWithViews for the conversations that no other transaction has locked. It also returns the existing
// locked ones, in the order of their ids.
func (s *sqlStore) lockFree(ctx context.Context, tx *sqldb.Tx,
	list []ConversationID) (found map[ConversationID]conversation, locked []ConversationID, err error) {
	found = make(map[ConversationID]conversation, len(list))
	err = tx.Queries(ctx, lockQuery(tx, list, tx.Dialect().SkipLocked(), found), lockedViewsQuery(tx, list, found))
	if err != nil || len(found) == len(list) {
		return found, nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(list), func(id ConversationID) bool { _, ok := found[id]; return ok })
	locked, err = sqldb.Column[ConversationID](tx.QueryContext(ctx, "SELECT id FROM conversations WHERE id IN (?) ORDER BY id",
		bun.List(rest)))
	return found, locked, err
}

// lockQuery locks conversations and adds their rows to found.
func lockQuery(tx *sqldb.Tx, list []ConversationID, clause string, found map[ConversationID]conversation) sqldb.Query {
	return sqldb.Query{
		Text: "SELECT " + conversationColumns + " FROM conversations" + tx.Dialect().ByIndex("PRIMARY") + " WHERE id IN (?) ORDER BY id" + clause,
		Args: []any{bun.List(list)},
		Scan: func(rows *sql.Rows) error {
			c, err := scanConversation(rows)
			found[c.id] = c
			return err
		},
	}
}

// lockedViewsQuery adds the views of the users of two to the conversations in found. In this order of tables it reads no
// members of groups.
func lockedViewsQuery(tx *sqldb.Tx, list []ConversationID, found map[ConversationID]conversation) sqldb.Query {
	return sqldb.Query{
		Text: "SELECT " + viewColumns + " FROM conversations c" + tx.Dialect().ByIndex("PRIMARY") + tx.Dialect().JoinInOrder() +
			"chat_members m" + tx.Dialect().ByIndex("chat_members_conversation") + " ON m.conversation = c.id" + otherMember +
			"WHERE c.id IN (?) AND c.kind = ?",
		Args: []any{bun.List(list), direct},
		Scan: func(rows *sql.Rows) error {
			v, err := scanView(rows)
			if c, locked := found[v.id]; locked {
				c.lockedViews = append(c.lockedViews, v)
				found[v.id] = c
			}
			return err
		},
	}
}

const messageColumns = "conversation, seq, id, sender, client_id, hash, body, reply, at, edited, recalled, rev"

func scanMessage(rows *sql.Rows) (m message, err error) {
	var body []byte
	if err = rows.Scan(&m.conv, &m.seq, &m.id, &m.from, &m.clientID, &m.hash, &body, &m.reply, &m.at, &m.edited, &m.recalled,
		&m.rev); err != nil {
		return m, err
	}
	return m, json.Unmarshal(body, &m.body)
}

// sentBefore returns the messages of a batch that are stored already.
func (s *sqlStore) sentBefore(ctx context.Context, q sqldb.Querier, batch []sending) (map[sendingKey]message, error) {
	args := make([]any, 0, 3*len(batch))
	for _, in := range batch {
		args = append(args, in.conv, in.from, in.clientID)
	}
	rows, err := q.QueryContext(ctx, "SELECT "+messageColumns+" FROM messages WHERE "+
		sqldb.AnyOf("(conversation = ? AND sender = ? AND client_id = ?)", len(batch)), args...)
	list, err := sqldb.Collect(rows, err, scanMessage)
	if err != nil {
		return nil, err
	}
	if err := s.addReactions(ctx, q, list); err != nil { // their events are published again
		return nil, err
	}
	found := make(map[sendingKey]message, len(list))
	for _, m := range list {
		found[sendingKey{m.conv, m.from, m.clientID}] = m
	}
	return found, nil
}

func (s *sqlStore) insert(ctx context.Context, tx *sqldb.Tx, messages []message) error {
	args := make([]any, 0, 12*len(messages))
	for i := range messages {
		m := &messages[i]
		body, err := json.Marshal(m.body)
		if err != nil {
			return err
		}
		args = append(args, m.conv, m.seq, m.id, m.from, m.clientID, m.hash, string(body), m.reply, m.at, 0, 0, 0)
	}
	return tx.ExecLater(ctx, "INSERT INTO messages ("+messageColumns+") VALUES "+sqldb.Tuples(12, len(messages)), args...)
}

// updateConversations writes the rows of conversations after new messages.
func (s *sqlStore) updateConversations(ctx context.Context, tx *sqldb.Tx, list []conversation) error {
	var args []any
	for _, c := range list {
		args = append(args, c.row()...)
	}
	return tx.ExecLater(ctx, s.updatedConversations.For(len(list)), args...)
}

// mark moves members' marks forward.
func (s *sqlStore) mark(ctx context.Context, q sqldb.Querier, list []member) error {
	_, err := q.ExecContext(ctx, s.movedMarks.For(len(list)), memberRows(list)...)
	return err
}

// markLater is mark with [sqldb.Tx.ExecLater].
func (s *sqlStore) markLater(ctx context.Context, tx *sqldb.Tx, list []member) error {
	return tx.ExecLater(ctx, s.movedMarks.For(len(list)), memberRows(list)...)
}

func memberRows(list []member) (args []any) {
	for _, m := range list {
		args = append(args, m.row()...)
	}
	return args
}

// lockFreeMembers locks the members' rows that no other transaction has locked, and returns them.
func (s *sqlStore) lockFreeMembers(ctx context.Context, tx *sqldb.Tx, list []memberKey) ([]memberKey, error) {
	var args []any
	for _, k := range list {
		args = append(args, k.user, k.conv)
	}
	rows, err := tx.QueryContext(ctx, "SELECT user_id, conversation FROM chat_members WHERE "+sqldb.AnyOf("(user_id = ? AND conversation = ?)",
		len(list))+tx.Dialect().SkipLocked(), args...)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (k memberKey, err error) {
		err = rows.Scan(&k.user, &k.conv)
		return k, err
	})
}

// view is a conversation from the view of one member.
type view struct {
	conversation
	me                member
	peerRead, peerGot int64
	peerMarked        int64
	peerVersion       int64
}

const viewColumns = `c.id, c.kind, c.title, c.seq, c.rev, c.last_at, c.changed, c.uncounted, c.low_sent, c.high_sent, m.user_id, m.peer, m.read_seq, m.delivered_seq, m.cleared_seq, m.pinned, m.muted, m.draft, m.changed, m.version, m.gone,
	COALESCE(o.read_seq, 0), COALESCE(o.delivered_seq, 0), COALESCE(o.marked, 0), COALESCE(o.version, 9007199254740991)` // no row of the other user is the newest one: it was erased

const (
	otherMember = " LEFT JOIN chat_members o ON o.conversation = m.conversation AND o.user_id = m.peer "
	viewTables  = " FROM chat_members m JOIN conversations c ON c.id = m.conversation" + otherMember
)

func scanView(rows *sql.Rows) (v view, err error) {
	err = rows.Scan(&v.id, &v.kind, &v.title, &v.seq, &v.rev, &v.lastAt, &v.changed, &v.uncounted, &v.sent[0], &v.sent[1], &v.me.user,
		&v.me.peer, &v.me.read, &v.me.delivered, &v.me.cleared,
		&v.me.pinned, &v.me.muted, &v.me.draft, &v.me.changed, &v.me.version, &v.me.gone, &v.peerRead, &v.peerGot, &v.peerMarked, &v.peerVersion)
	v.me.conv = v.id
	v.raiseMarks()
	return v, err
}

// views returns the views of both users of a locked chat of two.
func (c conversation) views() (all []view) {
	for _, v := range c.lockedViews {
		v.conversation = c // the transaction may have changed it
		v.raiseMarks()
		all = append(all, v)
	}
	return all
}

// raiseMarks moves the marks of both users of two to their own newest messages. Their rows do not store these marks.
func (v *view) raiseMarks() {
	if v.kind != direct {
		return
	}
	mine := side(v.me.user, v.me.peer)
	v.me.read, v.me.delivered = max(v.me.read, v.sent[mine]), max(v.me.delivered, v.sent[mine])
	v.peerRead, v.peerGot = max(v.peerRead, v.sent[1-mine]), max(v.peerGot, v.sent[1-mine])
}

// sentMark is the number of the newest message of a member in a chat of two.
const sentMark = "(CASE WHEN m.user_id < m.peer THEN c.low_sent ELSE c.high_sent END)"

// view returns a chat of the user. It returns ErrChat if the chat has no messages yet, or the user is not in the group.
func (s *sqlStore) view(ctx context.Context, q sqldb.Querier, user accounts.ID, chat ChatRef) (view, error) {
	where, args := "?", []any{user, conversationOf(chat.group)}
	if chat.direct() {
		p := pairOf(user, chat.peer)
		where, args = "(SELECT d.conversation FROM direct_chats d WHERE d.low = ? AND d.high = ?)", []any{user, p.low, p.high}
	}
	rows, err := q.QueryContext(ctx, "SELECT "+viewColumns+viewTables+"WHERE m.user_id = ? AND m.gone = 0 AND c.seq > 0 AND m.conversation = "+
		where, args...)
	found, err := sqldb.Collect(rows, err, scanView)
	if err == nil && len(found) == 0 {
		err = ErrChat
	}
	if err != nil {
		return view{}, err
	}
	return found[0], nil
}

// views returns all chats of users, also of groups that they have left.
func (s *sqlStore) views(ctx context.Context, q sqldb.Querier, users ...accounts.ID) ([]view, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+viewColumns+viewTables+"WHERE m.user_id IN (?) AND c.seq > 0", bun.List(users))
	return sqldb.Collect(rows, err, scanView)
}

// openViews returns the chats of a user without groups that the user has left.
func (s *sqlStore) openViews(ctx context.Context, user accounts.ID) ([]view, error) {
	all, err := s.views(ctx, s.db, user)
	return slices.DeleteFunc(all, func(v view) bool { return v.me.gone != 0 }), err
}

// viewsOf returns the views of all members of conversations.
func (s *sqlStore) viewsOf(ctx context.Context, q sqldb.Querier, list []ConversationID) ([]view, error) {
	if len(list) == 0 {
		return nil, nil
	}
	rows, err := q.QueryContext(ctx, "SELECT "+viewColumns+viewTables+"WHERE m.conversation IN (?) AND c.seq > 0", bun.List(list))
	return sqldb.Collect(rows, err, scanView)
}

// viewsAt returns the views of the given members.
func (s *sqlStore) viewsAt(ctx context.Context, q sqldb.Querier, list []memberKey) (all []view, err error) {
	for chunk := range slices.Chunk(list, maxConditions) {
		var args []any
		for _, k := range chunk {
			args = append(args, k.user, k.conv)
		}
		rows, err := q.QueryContext(ctx, "SELECT "+viewColumns+viewTables+"WHERE "+sqldb.AnyOf("(m.user_id = ? AND m.conversation = ?)",
			len(chunk)), args...)
		found, err := sqldb.Collect(rows, err, scanView)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// conversations returns the rows of conversations.
func (s *sqlStore) conversations(ctx context.Context, list []ConversationID) ([]conversation, error) {
	if len(list) == 0 {
		return nil, nil
	}
	rows, err := s.db.QueryContext(ctx, "SELECT "+conversationColumns+" FROM conversations WHERE id IN (?)", bun.List(list))
	return sqldb.Collect(rows, err, scanConversation)
}

// notHidden excludes messages that a user has deleted for themselves.
const notHidden = " NOT EXISTS (SELECT 1 FROM hidden_messages h WHERE h.user_id = ? AND h.conversation = messages.conversation AND " +
	"h.seq = messages.seq)"

// messages returns messages of a conversation between two numbers, in the order of seq or backwards. It omits messages
// that the user has deleted for themselves.
func (s *sqlStore) messages(ctx context.Context, q sqldb.Querier, user accounts.ID, conv ConversationID, after, before int64,
	backwards bool, n int) ([]message, error) {
	order := ""
	if backwards {
		order = " DESC"
	}
	rows, err := q.QueryContext(ctx, "SELECT "+messageColumns+" FROM messages WHERE conversation = ? AND seq > ? AND seq < ? AND"+notHidden+
		" ORDER BY seq"+order+" LIMIT ?", conv, after, before, user, n)
	found, err := sqldb.Collect(rows, err, scanMessage)
	if err != nil {
		return nil, err
	}
	return found, s.addReactions(ctx, q, found)
}

// searchChunk returns the next messages of chats in a search, up to n of each, backwards. It omits messages that the
// user has deleted for themselves.
func (s *sqlStore) searchChunk(ctx context.Context, chats []*searchedChat, n int) (map[ConversationID][]message, error) {
	var text strings.Builder
	var args []any
	for i, c := range chats {
		if i > 0 {
			text.WriteString(" UNION ALL ")
		}
		text.WriteString("SELECT * FROM (SELECT " + messageColumns +
			" FROM messages WHERE conversation = ? AND seq > ? AND seq < ? AND at <= ? AND" + notHidden + " ORDER BY seq DESC LIMIT ?) s" +
			strconv.Itoa(i))
		args = append(args, c.id, c.me.cleared, c.seq, c.at, c.me.user, n)
	}
	rows, err := s.db.QueryContext(ctx, text.String(), args...)
	list, err := sqldb.Collect(rows, err, scanMessage)
	slices.SortFunc(list, func(a, b message) int { return cmp.Compare(b.seq, a.seq) })
	found := map[ConversationID][]message{}
	for _, m := range list {
		found[m.conv] = append(found[m.conv], m)
	}
	return found, err
}

// changedMessages returns messages that have changed after a rev, in the order of their last change. It omits messages
// that the user has deleted for themselves.
func (s *sqlStore) changedMessages(ctx context.Context, q sqldb.Querier, user accounts.ID, conv ConversationID, cleared, rev int64,
	n int) ([]message, error) {
	rows, err := q.QueryContext(ctx, "SELECT "+messageColumns+" FROM messages WHERE conversation = ? AND rev > ? AND seq > ? AND"+notHidden+
		" ORDER BY rev LIMIT ?", conv, rev, cleared, user, n)
	found, err := sqldb.Collect(rows, err, scanMessage)
	if err != nil {
		return nil, err
	}
	return found, s.addReactions(ctx, q, found)
}

type hidden struct{ seq, rev int64 }

func (s *sqlStore) hiddenSince(ctx context.Context, q sqldb.Querier, user accounts.ID, conv ConversationID, rev int64,
	n int) ([]hidden, error) {
	rows, err := q.QueryContext(ctx, "SELECT seq, rev FROM hidden_messages WHERE user_id = ? AND conversation = ? AND rev > ? ORDER BY rev "+
		"LIMIT ?", user, conv, rev, n)
	return sqldb.Collect(rows, err, func(rows *sql.Rows) (h hidden, err error) {
		err = rows.Scan(&h.seq, &h.rev)
		return h, err
	})
}

// memberKey names a member's row.
type memberKey struct {
	user accounts.ID
	conv ConversationID
}

// latestHidden returns the latest messages of chats that their members have deleted for themselves.
func (s *sqlStore) latestHidden(ctx context.Context, q sqldb.Querier, views []view) (map[memberKey][]int64, error) {
	args := make([]any, 0, 3*len(views))
	for _, v := range views {
		args = append(args, v.me.user, v.id, v.seq-maxLatest)
	}
	found := map[memberKey][]int64{}
	if len(views) == 0 {
		return found, nil
	}
	rows, err := q.QueryContext(ctx, "SELECT user_id, conversation, seq FROM hidden_messages WHERE "+
		sqldb.AnyOf("(user_id = ? AND conversation = ? AND seq > ?)", len(views))+" ORDER BY seq", args...)
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var k memberKey
		var seq int64
		err := rows.Scan(&k.user, &k.conv, &seq)
		found[k] = append(found[k], seq)
		return err
	})
}

// latest returns the latest messages of a conversation up to a number, including those that members have deleted for
// themselves.
func (s *sqlStore) latest(ctx context.Context, c conversation, n int) ([]message, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT "+messageColumns+" FROM messages WHERE conversation = ? AND seq > ? AND seq <= ? ORDER BY seq",
		c.id, c.seq-int64(n), c.seq)
	found, err := sqldb.Collect(rows, err, scanMessage)
	if err != nil {
		return nil, err
	}
	return found, s.addReactions(ctx, s.db, found)
}

// changedChunk is the number of rows that [sqlStore.changedSince] reads with one statement.
const changedChunk = 1000

// changedSince calls fn with the conversations that have changed since a time, and with the members whose marks and
// settings have changed. It may pass the same one more than once.
func (s *sqlStore) changedSince(ctx context.Context, since time.Time, fn func([]change) error) error {
	for _, log := range []struct {
		text   string
		behind string // the rest of the rows with the same time, in the order of their index
		args   func(last memberKey) []any
	}{
		{"SELECT changed, id, kind, '', '' FROM conversations" + s.db.Dialect().ByIndex("conversations_changed") +
			" WHERE %s ORDER BY changed, id LIMIT ?",
			"id > ?", func(last memberKey) []any { return []any{last.conv} }},
		{"SELECT changed, conversation, 0, user_id, peer FROM chat_members" + s.db.Dialect().ByIndex("chat_members_changed") +
			" WHERE %s ORDER BY changed, user_id, conversation LIMIT ?",
			"(user_id > ? OR (user_id = ? AND conversation > ?))", func(last memberKey) []any { return []any{last.user, last.user, last.conv} }},
	} {
		for at, last := since.UnixMilli()-1, (memberKey{}); ; {
			var list []change
			// In two steps, because with OR no engine continues in the index.
			for _, step := range []struct {
				where string
				args  []any
			}{{"changed = ? AND " + log.behind, append([]any{at}, log.args(last)...)}, {"changed > ?", []any{at}}} {
				rows, err := s.db.QueryContext(ctx, fmt.Sprintf(log.text, step.where), append(step.args, changedChunk-len(list))...)
				err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
					var c change
					var peer accounts.ID
					last = memberKey{}
					err := rows.Scan(&at, &c.conv, &c.kind, &last.user, &peer)
					last.conv = c.conv
					if !last.user.IsZero() {
						c.users, c.ownOnly, c.kind = []accounts.ID{last.user}, true, direct
						if peer.IsZero() {
							c.kind = group
						}
					}
					list = append(list, c)
					return err
				})
				if err != nil {
					return err
				}
				if len(list) == changedChunk {
					break
				}
			}
			if len(list) == 0 {
				break
			}
			if err := fn(list); err != nil {
				return err
			}
		}
	}
	return nil
}

// place identifies a message.
type place struct {
	conv ConversationID
	seq  int64
}

func (p place) compare(q place) int {
	return cmp.Or(p.conv.Compare(q.conv), cmp.Compare(p.seq, q.seq))
}

// messagesAt returns the messages at places.
func (s *sqlStore) messagesAt(ctx context.Context, q sqldb.Querier, places []place) (map[place]message, error) {
	found := make(map[place]message, len(places))
	if len(places) == 0 {
		return found, nil
	}
	args := make([]any, 0, 2*len(places))
	for _, p := range places {
		args = append(args, p.conv, p.seq)
	}
	rows, err := q.QueryContext(ctx, "SELECT "+messageColumns+" FROM messages WHERE "+sqldb.AnyOf("(conversation = ? AND seq = ?)",
		len(places)), args...)
	list, err := sqldb.Collect(rows, err, scanMessage)
	if err != nil {
		return nil, err
	}
	if err := s.addReactions(ctx, q, list); err != nil {
		return nil, err
	}
	for _, m := range list {
		found[place{m.conv, m.seq}] = m
	}
	return found, nil
}

// visibleMessage returns a message that the member can see, or ErrMessage.
func (s *sqlStore) visibleMessage(ctx context.Context, q sqldb.Querier, v view, seq int64) (message, error) {
	if seq <= v.me.cleared || seq > v.seq {
		return message{}, ErrMessage
	}
	found, err := s.messages(ctx, q, v.me.user, v.id, seq-1, seq+1, false, 1)
	if err == nil && len(found) == 0 {
		err = ErrMessage
	}
	if err != nil {
		return message{}, err
	}
	return found[0], nil
}

// addReactions adds the reactions to messages.
func (s *sqlStore) addReactions(ctx context.Context, q sqldb.Querier, list []message) error {
	changed := map[place]*message{} // a message with a reaction has changed
	var args []any
	for i := range list {
		if m := &list[i]; m.rev > 0 && m.recalled == 0 {
			changed[place{m.conv, m.seq}] = m
			args = append(args, m.conv, m.seq)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	rows, err := q.QueryContext(ctx, "SELECT conversation, seq, emoji, user_id FROM reactions WHERE "+
		sqldb.AnyOf("(conversation = ? AND seq = ?)", len(changed))+" ORDER BY at, user_id", args...)
	err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var p place
		var r reaction
		err := rows.Scan(&p.conv, &p.seq, &r.emoji, &r.user)
		if form, ok := words.Emoji(r.emoji); ok { // an earlier version stored several forms
			r.emoji = form
		}
		if m := changed[p]; m != nil && !slices.Contains(m.reactions, r) {
			m.reactions = append(m.reactions, r)
		}
		return err
	})
	for _, m := range changed { // groups reactions by emoji, in the order of the first of each
		first := map[string]int{}
		for i, r := range m.reactions {
			if _, ok := first[r.emoji]; !ok {
				first[r.emoji] = i
			}
		}
		slices.SortStableFunc(m.reactions, func(a, b reaction) int { return first[a.emoji] - first[b.emoji] })
	}
	return err
}

// bump gives a locked conversation its next rev, and stores the messages that need no reading.
func (s *sqlStore) bump(ctx context.Context, tx *sqldb.Tx, c conversation) (int64, error) {
	_, err := tx.ExecContext(ctx, "UPDATE conversations SET rev = ?, changed = ?, uncounted = ? WHERE id = ?", c.rev+1,
		max(c.changed, tx.Now().UnixMilli()), c.uncounted, c.id)
	return c.rev + 1, err
}

// nextRev gives a locked conversation its next rev, for a change that only one member sees.
func (s *sqlStore) nextRev(ctx context.Context, tx *sqldb.Tx, c conversation) (int64, error) {
	_, err := tx.ExecContext(ctx, "UPDATE conversations SET rev = ? WHERE id = ?", c.rev+1, c.id)
	return c.rev + 1, err
}

// setMessage stores a message after an edit or a recall.
func (s *sqlStore) setMessage(ctx context.Context, tx *sqldb.Tx, m message) error {
	body, err := json.Marshal(m.body)
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE messages SET body = ?, reply = ?, edited = ?, recalled = ?, rev = ? WHERE conversation = ? AND "+
			"seq = ?",
			string(body), m.reply, m.edited, m.recalled, m.rev, m.conv, m.seq)
	}
	return err
}

// storeEdit stores the earlier content of a message.
func (s *sqlStore) storeEdit(ctx context.Context, tx *sqldb.Tx, m message, rev int64) error {
	body, err := json.Marshal(m.body)
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO message_edits (conversation, seq, rev, body, until) VALUES (?, ?, ?, ?, ?)", m.conv, m.seq, rev,
			string(body), tx.Now().UnixMilli())
	}
	return err
}

// edits returns the earlier contents of messages.
func (s *sqlStore) edits(ctx context.Context, places []place) (map[place][]api.EarlierContent, error) {
	found := map[place][]api.EarlierContent{}
	for chunk := range slices.Chunk(places, maxConditions) {
		var args []any
		for _, p := range chunk {
			args = append(args, p.conv, p.seq)
		}
		rows, err := s.db.QueryContext(ctx, "SELECT conversation, seq, body, until FROM message_edits WHERE "+
			sqldb.AnyOf("(conversation = ? AND seq = ?)", len(chunk))+" ORDER BY rev", args...)
		err = sqldb.Each(rows, err, func(rows *sql.Rows) error {
			var p place
			var body []byte
			var until int64
			if err := rows.Scan(&p.conv, &p.seq, &body, &until); err != nil {
				return err
			}
			var was messageBody
			err := json.Unmarshal(body, &was)
			found[p] = append(found[p], api.EarlierContent{Content: was.Content, Until: api.At(sqldb.Time(until))})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// deleteReactionsAndEdits deletes the reactions and earlier contents of a recalled message.
func (s *sqlStore) deleteReactionsAndEdits(ctx context.Context, tx *sqldb.Tx, m message) error {
	for _, table := range []string{"reactions", "message_edits"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE conversation = ? AND seq = ?", m.conv, m.seq); err != nil {
			return err
		}
	}
	return nil
}

// addReaction adds a reaction, and reads all reactions of the message, because only SQL has their order.
func (s *sqlStore) addReaction(ctx context.Context, tx *sqldb.Tx, m *message, r reaction) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO reactions (conversation, seq, user_id, emoji, at) VALUES (?, ?, ?, ?, ?)", m.conv, m.seq,
		r.user, r.emoji, tx.Now().UnixMilli()); err != nil {
		return err
	}
	return s.readReactions(ctx, tx, m)
}

// removeReaction removes a reaction, also in the form without U+FE0F that an earlier version stored.
func (s *sqlStore) removeReaction(ctx context.Context, tx *sqldb.Tx, m *message, r reaction) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM reactions WHERE conversation = ? AND seq = ? AND user_id = ? AND emoji IN (?, ?)", m.conv,
		m.seq, r.user, r.emoji, strings.ReplaceAll(r.emoji, "\uFE0F", "")); err != nil {
		return err
	}
	return s.readReactions(ctx, tx, m)
}

// readReactions reads the reactions to a message during its change. It uses the next rev, because a message at rev 0
// has no reactions.
func (s *sqlStore) readReactions(ctx context.Context, tx *sqldb.Tx, m *message) error {
	one := []message{{conv: m.conv, seq: m.seq, rev: m.rev + 1}}
	err := s.addReactions(ctx, tx, one)
	m.reactions = one[0].reactions
	return err
}

// isHidden reports whether a user has deleted a message for themselves.
func (s *sqlStore) isHidden(ctx context.Context, tx *sqldb.Tx, user accounts.ID, conv ConversationID, seq int64) (bool, error) {
	found, err := sqldb.Column[int64](tx.QueryContext(ctx,
		"SELECT seq FROM hidden_messages WHERE user_id = ? AND conversation = ? AND seq = ?", user, conv, seq))
	return len(found) > 0, err
}

func (s *sqlStore) hide(ctx context.Context, tx *sqldb.Tx, user accounts.ID, m message, rev int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO hidden_messages (user_id, conversation, seq, rev) VALUES (?, ?, ?, ?)", user, m.conv, m.seq,
		rev)
	return err
}

// setMember stores a member's settings, and the seq of the last cleared message.
func (s *sqlStore) setMember(ctx context.Context, tx *sqldb.Tx, m member) error {
	_, err := tx.ExecContext(ctx, "UPDATE chat_members SET pinned = ?, muted = ?, draft = ?, cleared_seq = ?, read_seq = "+
		tx.Dialect().Greatest()+"(read_seq, ?), changed = ?, marked = "+tx.Dialect().Greatest()+
		"(marked, ?), version = version + 1 WHERE user_id = ? AND conversation = ?",
		m.pinned, m.muted, m.draft, m.cleared, m.read, m.changed, m.marked, m.user, m.conv)
	return err
}

// settings are a user's chat settings.
type settings struct {
	From     social.Policy `json:"from"`
	Receipts bool          `json:"receipts"`
	Version  int64         `json:"version"`
}

func (s *sqlStore) settings(ctx context.Context, users []accounts.ID) (map[accounts.ID]settings, error) {
	return selectSettings(ctx, s.db, users)
}

func selectSettings(ctx context.Context, q sqldb.Querier, users []accounts.ID) (map[accounts.ID]settings, error) {
	found := make(map[accounts.ID]settings, len(users))
	for _, u := range users {
		found[u] = settings{From: social.Unset, Receipts: true}
	}
	rows, err := q.QueryContext(ctx, "SELECT user_id, messages_from, receipts, version FROM chat_settings WHERE user_id IN (?)",
		bun.List(users))
	return found, sqldb.Each(rows, err, func(rows *sql.Rows) error {
		var u accounts.ID
		var from social.Policy
		var receipts int
		var version int64
		err := rows.Scan(&u, &from, &receipts, &version)
		found[u] = settings{from, receipts != 0, version}
		return err
	})
}

// setSettings updates the settings that u has, and returns all of them.
func setSettings(ctx context.Context, tx *sqldb.Tx, user accounts.ID, u api.ChatSettingsUpdate) (settings, error) {
	var set []string
	from, receipts := social.Unset, 1
	if u.MessagesFrom != nil {
		from, set = social.ParsePolicy(*u.MessagesFrom), append(set, "messages_from")
	}
	if u.Receipts != nil {
		if set = append(set, "receipts"); !*u.Receipts {
			receipts = 0
		}
	}
	if len(set) > 0 {
		set = append(set, "version = chat_settings.version + 1")
	}
	text := tx.Dialect().Compile(sqldb.Upsert{Table: "chat_settings", Columns: []string{"user_id", "messages_from", "receipts", "version"},
		Key: []string{"user_id"}, Set: set})
	if _, err := tx.ExecContext(ctx, text.For(1), user, int(from), receipts, 1); err != nil {
		return settings{}, err
	}
	found, err := selectSettings(ctx, tx, []accounts.ID{user})
	return found[user], err
}
