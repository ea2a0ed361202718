package messaging

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/groupcommit"
)

// Messages that arrive at the same time share a transaction. It locks their conversations in the order of their ids,
// checks which messages are stored already, and assigns numbers to the others. Then it writes messages and
// conversations, and the senders' read marks in groups, with one statement each, and reads what Redis should have. In a
// chat of two, the conversation's row has the newest message of each user, which is also their read mark. A batch may
// be retried: the client ids prevent a second copy. If another transaction holds a conversation for seconds, the
// messages to it are refused, and the others are written.

// sending is a message that is not yet in SQL.
type sending struct {
	conv     ConversationID
	from     accounts.ID
	to       ChatRef
	clientID string
	hash     string
	body     messageBody
	source   *place // the message that it forwards; nil if it forwards none
	reply    int64
	since    time.Time // time of arrival
	trusted  bool      // the backend sends it
}

// sendingKey identifies a message before it has a number.
type sendingKey struct {
	conv     ConversationID
	from     accounts.ID
	clientID string
}

func (s sending) key() sendingKey { return sendingKey{s.conv, s.from, s.clientID} }

// change returns the change that the message makes. Its sender's read mark moves with it.
func (s sending) change() change {
	if s.to.direct() {
		return change{conv: s.conv, kind: direct}
	}
	return change{conv: s.conv, kind: group, users: []accounts.ID{s.from}}
}

func (s sending) memberKey() groups.MemberKey {
	return groups.MemberKey{Group: s.to.group, User: s.from}
}

// sent is the result of a sending.
type sent struct {
	message
	chatRev   int64         // the conversation's rev at the commit of a new message
	duplicate bool          // it was stored by an earlier request
	derived   *derivedState // of its conversation; nil if another message of the batch has it
	refusal   error
}

// batchTimeout bounds the statements of a batch.
const batchTimeout = 5 * time.Second

// maxConditions is the largest number of conditions of a statement, within the limit of SQLite.
const maxConditions = 256

func newCommitter(s *Service) *groupcommit.Committer[sending, sent] {
	return groupcommit.New(s.commit, groupcommit.Options[sending, sent]{
		MaxBatch: maxConditions,
		Retry:    func(err error) bool { return errors.Is(err, sqldb.ErrOutcomeUnknown) || sqldb.IsRetryable(err) },
		Split:    sqldb.IsRowError,
		After:    s.afterSend,
		Failed:   func(req sending, err error) { s.settleFailed(req.since, req.change(), err) },
	})
}

// afterSend applies a committed batch to Redis and publishes its events.
func (s *Service) afterSend(ctx context.Context, batch []sending, results []sent) {
	var at []time.Time
	var changes, unknown []change
	var known []derivedState
	for i := range results {
		r := &results[i]
		c := batch[i].change()
		switch {
		case errors.Is(r.refusal, sqldb.ErrHeld): // an earlier try of this batch may hold the lock, after a commit without a response
			s.projection.Unsure(batch[i].since, c)
			continue
		case r.refusal != nil:
			s.projection.Done(batch[i].since)
			continue
		}
		at, changes = append(at, batch[i].since), append(changes, c)
		if r.duplicate { // the node that stored it may have died before it updated Redis
			unknown = append(unknown, c)
		}
		if r.derived != nil {
			known = append(known, *r.derived)
		}
	}
	if len(changes) > 0 {
		s.settleAll(at, changes, s.projection.BringKnown(ctx, 3*s.redis.budget, known, unknown...))
	}
	s.publishSent(results)
}

// settleFailed settles a change that was announced to the projection and failed.
func (s *Service) settleFailed(at time.Time, c change, err error) {
	if sqldb.IsUnanswered(err) {
		s.projection.Unsure(at, c)
	} else {
		s.projection.Done(at)
	}
}

// settleUnaccepted settles an announced change that no committer accepted.
func (s *Service) settleUnaccepted(at time.Time, err error) {
	if errors.Is(err, groupcommit.ErrClosed) || errors.Is(err, groupcommit.ErrNotTaken) {
		s.projection.Done(at)
	}
}

func (s *Service) commit(ctx context.Context, batch []sending) (out []sent, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	var k retryState
	for {
		err = s.sql.transactBatch(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			out, err = s.commitIn(ctx, tx, batch, k)
			return err
		})
		switch {
		case errors.Is(err, sqldb.ErrHeld):
			k.waited++
		case sqldb.IsDuplicate(err) && !k.duplicate:
			k.duplicate = true
		default:
			return out, err
		}
	}
}

// retryState is what earlier attempts found out about a batch.
type retryState struct {
	duplicate bool // some messages are stored already; this is rare, and the unique key reveals it
	waited    int  // number of waits for conversations that timed out
}

// commitIn writes a batch.
func (s *Service) commitIn(ctx context.Context, tx *sqldb.Tx, batch []sending, k retryState) ([]sent, error) {
	var list []ConversationID
	for _, in := range batch {
		list = append(list, in.conv)
	}
	slices.SortFunc(list, ConversationID.Compare)
	conversations, held, err := s.locks.Lock(ctx, tx, slices.Compact(list), k.waited)
	if err != nil {
		return nil, err
	}
	refused, err := refusals(ctx, tx, batch)
	if err != nil {
		return nil, err
	}
	for _, in := range batch {
		if slices.Contains(held, in.conv) {
			refused[in.key()] = errors.Join(ErrStore, sqldb.ErrHeld)
		}
	}
	files, err := s.lockFiles(ctx, tx, batch, refused)
	if err != nil {
		return nil, err
	}
	stored := map[sendingKey]message{}
	if k.duplicate || len(refused) > 0 { // a message that was sent before gets its response even if the rules now refuse it
		if stored, err = s.sql.sentBefore(ctx, tx, batch); err != nil {
			return nil, err
		}
	}
	out, fresh, read := assignSeqs(batch, stored, conversations, refused, files, tx.Now().UnixMilli())
	if len(fresh) == 0 {
		return out, nil
	}
	if err := s.sql.insert(ctx, tx, fresh); err != nil {
		return nil, err
	}
	if err := s.addFileReferences(ctx, tx, fresh); err != nil {
		return nil, err
	}
	if err := s.sql.updateConversations(ctx, tx, sorted(conversations, func(a, b conversation) int {
		return a.id.Compare(b.id)
	})); err != nil {
		return nil, err
	}
	if len(read) > 0 {
		if err := s.sql.markLater(ctx, tx, sorted(read, compareMembers)); err != nil {
			return nil, err
		}
	}
	if err := s.enqueueSentHook(ctx, tx, fresh); err != nil {
		return nil, err
	}
	return out, s.derive(ctx, tx, batch, out, conversations)
}

// derive adds to new messages the data that Redis should have after the commit. The transaction holds the locks of the
// conversations, and has written the messages.
func (s *Service) derive(ctx context.Context, tx *sqldb.Tx, batch []sending, out []sent,
	conversations map[ConversationID]conversation) error {
	var changes []change
	first := map[ConversationID]*sent{}
	for i := range out {
		r := &out[i]
		if r.duplicate || r.refusal != nil {
			continue
		}
		c := batch[i].change()
		c.steps = []step{{message: &r.message, chatRev: r.chatRev}}
		changes = append(changes, c)
		if first[c.conv] == nil {
			first[c.conv] = r
		}
	}
	derived, err := s.computeIn(ctx, tx, changes, conversations)
	for i := range derived {
		first[derived[i].conv].derived = &derived[i]
	}
	return err
}

// assignSeqs returns the results for stored and refused messages and creates messages for the rest. fresh are the new
// messages, with the next numbers of their conversations, and read are the senders' marks in groups. It updates
// conversations and adds new messages to stored.
func assignSeqs(batch []sending, stored map[sendingKey]message, conversations map[ConversationID]conversation, refused map[sendingKey]error,
	files lockedFiles, now int64) (out []sent, fresh []message, read map[sendingKey]member) {
	out = make([]sent, len(batch))
	read = map[sendingKey]member{} // by conversation and user
	for i, in := range batch {
		if m, ok := stored[in.key()]; ok {
			m.to, m.chatSeq = in.to, conversations[in.conv].seq
			out[i] = sent{message: m, duplicate: true}
			if m.hash != in.hash {
				out[i].refusal = ErrReused
			}
			continue
		}
		c, ok := conversations[in.conv]
		switch {
		case refused[in.key()] != nil:
			out[i].refusal = refused[in.key()]
			continue
		case !ok:
			out[i].refusal = ErrChat
			continue
		case in.reply > c.seq:
			out[i].refusal = ErrReply
			continue
		}
		c.seq++
		c.lastAt = max(c.lastAt, now) // times have the same order as numbers
		c.changed = max(c.changed, c.lastAt)
		m := message{conv: in.conv, seq: c.seq, id: ids.New[message](), from: in.from, to: in.to, clientID: in.clientID, hash: in.hash,
			body: files.body(in), reply: in.reply, at: c.lastAt}
		c.updateUncounted(m)
		if in.to.direct() && m.body.Kind != api.MessageSystem {
			c.sent[side(in.from, in.to.peer)] = c.seq
		}
		conversations[in.conv] = c
		out[i].message, out[i].chatRev, stored[in.key()] = m, c.rev, m
		fresh = append(fresh, m)
		if in.to.direct() || m.body.Kind == api.MessageSystem {
			continue // a system message moves no mark: the user in whose name it is sent may not have read earlier messages
		}
		read[sendingKey{conv: in.conv, from: in.from}] = member{user: in.from, conv: in.conv, read: m.seq, delivered: m.seq, changed: now}
	}
	return out, fresh, read
}

// hookSubject is the subject of all webhooks about messages, so that the backend receives them in order.
const hookSubject = "messages"

// enqueueSentHook enqueues one webhook for all messages that a batch stores.
func (s *Service) enqueueSentHook(ctx context.Context, tx *sqldb.Tx, fresh []message) error {
	if !s.hooks.Wants(api.HookMessageSent) {
		return nil
	}
	wires := make([]any, len(fresh))
	for i, m := range fresh {
		wires[i] = m.wire(m.from, m.to.String())
	}
	return s.hooks.Enqueue(ctx, tx, api.HookMessageSent, hookSubject, wires...)
}

// refusals returns the refusals of messages to groups. In a transaction the conversations are locked, and a change of
// members' rights takes the same lock. Therefore a muted or removed member cannot write after that change.
func refusals(ctx context.Context, q sqldb.Querier, batch []sending) (map[sendingKey]error, error) {
	var members []groups.MemberKey
	for _, in := range batch {
		if !in.to.direct() {
			members = append(members, in.memberKey())
		}
	}
	found, err := groups.Standings(ctx, q, members)
	if err != nil {
		return nil, err
	}
	refused := map[sendingKey]error{}
	for _, in := range batch {
		if in.to.direct() {
			continue
		}
		standing, member := found[in.memberKey()]
		switch {
		case !member:
			refused[in.key()] = ErrChat
		case in.trusted:
		case standing.MayWrite() != nil:
			refused[in.key()] = standing.MayWrite()
		case slices.Contains(in.body.Mentions, api.MentionAll) && standing.MayMentionAll() != nil:
			refused[in.key()] = standing.MayMentionAll()
		}
	}
	return refused, nil
}

// compareMembers is the lock order of members' rows.
func compareMembers(a, b member) int {
	if n := a.user.Compare(b.user); n != 0 {
		return n
	}
	return a.conv.Compare(b.conv)
}

func sorted[K comparable, V any](m map[K]V, compare func(a, b V) int) []V {
	list := make([]V, 0, len(m))
	for _, v := range m {
		list = append(list, v)
	}
	slices.SortFunc(list, compare)
	return list
}

// marking moves a member's marks.
type marking struct {
	member
	kind  int
	since time.Time // time of arrival
	was   marks     // before the move; zero if unknown
}

// marks are the newest messages that a member has read and received.
type marks struct{ read, delivered int64 }

// shown returns the part of marks that another user may see, if both show receipts. A device moves its delivered mark
// as soon as it connects. Therefore a user who may not see presence sees the read mark alone.
func (m marks) shown(sight social.Sight) marks {
	switch {
	case !sight.Contact:
		return marks{}
	case !sight.Presence:
		return marks{m.read, m.read}
	}
	return m
}

func (m marking) chat() ChatRef {
	if m.kind == group {
		return In(groups.ID(m.conv))
	}
	return With(m.peer)
}

func (m marking) change() change {
	return change{conv: m.conv, kind: m.kind, users: []accounts.ID{m.user}, ownOnly: true}
}

// newMarker returns a committer whose results are refusals.
func newMarker(s *Service) *groupcommit.Committer[marking, error] {
	return groupcommit.New(s.commitMarks, groupcommit.Options[marking, error]{
		MaxBatch: maxConditions,
		Retry:    func(err error) bool { return errors.Is(err, sqldb.ErrOutcomeUnknown) || sqldb.IsRetryable(err) },
		Split:    sqldb.IsRowError,
		After:    s.afterMarks,
		Failed:   func(in marking, err error) { s.settleFailed(in.since, in.change(), err) },
	})
}

// afterMarks is [Service.afterSend] for marks.
func (s *Service) afterMarks(ctx context.Context, batch []marking, refusals []error) {
	var at []time.Time
	var changes []change
	var accepted []marking
	for i, in := range batch {
		if refusals[i] != nil { // its row is locked, perhaps by an earlier try
			s.projection.Unsure(in.since, in.change())
			continue
		}
		at, changes, accepted = append(at, in.since), append(changes, in.change()), append(accepted, in)
	}
	if len(accepted) > 0 {
		s.apply(ctx, at, changes...)
		s.publishMarks(accepted)
	}
}

// commitMarks writes the highest of each member's marks. If another transaction holds rows of members for seconds,
// their marks are refused, and the others are written.
func (s *Service) commitMarks(ctx context.Context, batch []marking) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	highest := map[memberKey]member{}
	for _, in := range batch {
		key := memberKey{in.user, in.conv}
		m, ok := highest[key]
		if !ok {
			m = in.member
		}
		m.read, m.delivered, m.marked = max(m.read, in.read), max(m.delivered, in.delivered), max(m.marked, in.marked)
		highest[key] = m
	}
	refusals := make([]error, len(batch))
	err := s.sql.mark(ctx, s.sql.db, sorted(highest, compareMembers))
	if !sqldb.IsLocked(err) {
		return refusals, err
	}
	var free map[memberKey]member
	err = s.sql.transactBatch(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		keys, err := s.sql.lockFreeMembers(ctx, tx, slices.Collect(maps.Keys(highest)))
		free = map[memberKey]member{}
		for _, k := range keys {
			free[k] = highest[k]
		}
		if err != nil || len(free) == 0 {
			return err
		}
		return s.sql.mark(ctx, tx, sorted(free, compareMembers))
	})
	for i, in := range batch {
		if _, ok := free[memberKey{in.user, in.conv}]; !ok {
			refusals[i] = ErrStore
		}
	}
	return refusals, err
}
