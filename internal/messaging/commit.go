package messaging

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/groupcommit"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// Messages that come at the same time share a transaction. It locks the conversations
// concerned in the order of their ids, looks whether a message is there already, gives the
// others their numbers, and writes messages, conversations and the senders' read marks with
// a statement each. A batch may be written twice: the client ids tell.

// sending is a message on its way to SQL.
type sending struct {
	conv     ConversationID
	from, to accounts.ID
	clientID string
	hash     string
	said     said
	reply    int64
}

// sendingKey identifies a message before it has a number.
type sendingKey struct {
	conv     ConversationID
	from     accounts.ID
	clientID string
}

func (s sending) key() sendingKey { return sendingKey{s.conv, s.from, s.clientID} }

// sent is what became of it.
type sent struct {
	message
	again   bool // it was there already
	refusal error
}

// batchTime is how long the statements of a batch may take.
const batchTime = 5 * time.Second

// atMost keeps a batch's conditions within what SQLite takes.
const atMost = 256

func newCommitter(s *Service) *groupcommit.Committer[sending, sent] {
	return groupcommit.New(s.commit, groupcommit.Options[sending, sent]{
		MaxBatch: atMost,
		Retry:    func(err error) bool { return errors.Is(err, sqldb.ErrOutcomeUnknown) || sqldb.IsRetryable(err) },
		Split:    sqldb.IsRowError,
		After:    func(_ context.Context, _ []sending, results []sent) { s.tellSent(results) },
	})
}

func (s *Service) commit(ctx context.Context, batch []sending) (out []sent, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	err = s.store.transact(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		out, err = s.commitIn(ctx, tx, batch)
		return err
	})
	return out, err
}

func (s *Service) commitIn(ctx context.Context, tx *sqldb.Tx, batch []sending) ([]sent, error) {
	var list []ConversationID
	for _, in := range batch {
		list = append(list, in.conv)
	}
	slices.SortFunc(list, ConversationID.Compare)
	conversations, err := s.store.lock(ctx, tx, slices.Compact(list))
	if err != nil {
		return nil, err
	}
	there, err := s.store.sentBefore(ctx, tx, batch)
	if err != nil {
		return nil, err
	}
	out := make([]sent, len(batch))
	var fresh []message
	read := map[sendingKey]member{} // by conversation and user
	now := tx.Now().UnixMilli()
	for i, in := range batch {
		if m, ok := there[in.key()]; ok {
			m.to = in.to
			out[i] = sent{message: m, again: true}
			if m.hash != in.hash {
				out[i].refusal = ErrReused
			}
			continue
		}
		c, ok := conversations[in.conv]
		switch {
		case !ok:
			out[i].refusal = ErrChat
			continue
		case in.reply > c.seq:
			out[i].refusal = ErrReply
			continue
		}
		c.seq++
		c.lastAt = max(c.lastAt, now) // the order of times is the order of numbers
		c.changed = max(c.changed, c.lastAt)
		conversations[in.conv] = c
		m := message{conv: in.conv, seq: c.seq, id: ids.New[message](), from: in.from, to: in.to, clientID: in.clientID, hash: in.hash, said: in.said, reply: in.reply, at: c.lastAt}
		out[i].message, there[in.key()] = m, m
		fresh = append(fresh, m)
		read[sendingKey{conv: in.conv, from: in.from}] = member{user: in.from, conv: in.conv, peer: in.to, read: m.seq, delivered: m.seq, changed: now}
	}
	if len(fresh) == 0 {
		return out, nil
	}
	if err := s.store.insert(ctx, tx, fresh); err != nil {
		return nil, err
	}
	if err := s.store.move(ctx, tx, sorted(conversations, func(a, b conversation) int { return a.id.Compare(b.id) })); err != nil {
		return nil, err
	}
	return out, s.store.mark(ctx, tx, sorted(read, compareMembers))
}

// compareMembers is the order in which rows of members are locked.
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
type marking struct{ member }

func newMarker(s *Service) *groupcommit.Committer[marking, struct{}] {
	return groupcommit.New(s.commitMarks, groupcommit.Options[marking, struct{}]{
		MaxBatch: atMost,
		Retry:    func(err error) bool { return errors.Is(err, sqldb.ErrOutcomeUnknown) || sqldb.IsRetryable(err) },
		Split:    sqldb.IsRowError,
		After:    func(_ context.Context, batch []marking, _ []struct{}) { s.tellMarks(batch) },
	})
}

// commitMarks writes the furthest of each member's marks.
func (s *Service) commitMarks(ctx context.Context, batch []marking) ([]struct{}, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	furthest := map[sendingKey]member{}
	for _, in := range batch {
		key := sendingKey{conv: in.conv, from: in.user}
		m, there := furthest[key]
		if !there {
			m = in.member
		}
		m.read, m.delivered = max(m.read, in.read), max(m.delivered, in.delivered)
		furthest[key] = m
	}
	return make([]struct{}, len(batch)), s.store.mark(ctx, s.store.db, sorted(furthest, compareMembers))
}
