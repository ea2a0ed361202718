package messaging

import (
	"context"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
)

// A Seed is what two users have written to each other.
type Seed struct {
	Users    [2]accounts.ID
	Messages []SeedMessage // in the order of their times; the first has the number 1
	Read     [2]int64      // up to which message each has read; at least up to their own last one
	Pinned   [2]bool
}

// A SeedMessage is one message of a [Seed].
type SeedMessage struct {
	From    int // 0 or 1, of Users
	At      time.Time
	Content api.Content
	ReplyTo int64  // a number; 0 for none
	Emoji   string // what the other has reacted with; "" for nothing
}

// WriteSeeds writes what users have written to each other, in SQL alone: it is for accounts that nobody has
// used yet, whose chats no server has at hand. ErrContent.
func WriteSeeds(ctx context.Context, db *sqldb.DB, seeds []Seed) (err error) {
	defer errs.Wrap(&err, "messaging.WriteSeeds")
	s := newSQLStore(db)
	for _, p := range seeds {
		at := pairOf(p.Users[0], p.Users[1])
		found, err := s.createPairs(ctx, []pair{at})
		if err != nil {
			return err
		}
		if err := s.inTx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return s.seed(ctx, tx, found[at], p) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqlStore) seed(ctx context.Context, tx *sqldb.Tx, conv ConversationID, p Seed) error {
	c := conversation{id: conv, seq: int64(len(p.Messages))}
	members := [2]member{}
	for i := range members {
		members[i] = member{user: p.Users[i], peer: p.Users[1-i], conv: conv, read: p.Read[i], delivered: c.seq}
	}
	messages := make([]message, len(p.Messages))
	for i, old := range p.Messages {
		content, err := checkContent(old.Content)
		if err != nil {
			return err
		}
		m := message{conv: conv, seq: int64(i + 1), id: ids.New[message](), from: p.Users[old.From], clientID: "past-" + strconv.Itoa(i+1), said: said{Content: content}, reply: old.ReplyTo, at: old.At.UnixMilli()}
		if m.hash, err = hashOf(api.Send{ClientID: m.clientID, Content: content, ReplyTo: m.reply}); err != nil {
			return err
		}
		messages[i] = m
		members[old.From].read = max(members[old.From].read, m.seq)
		c.lastAt, c.changed = m.at, m.at
	}
	if err := s.insert(ctx, tx, messages); err != nil {
		return err
	}
	if err := s.move(ctx, tx, []conversation{c}); err != nil {
		return err
	}
	for i, old := range p.Messages {
		if old.Emoji == "" {
			continue
		}
		m := messages[i]
		var err error
		if m.rev, err = s.bump(ctx, tx, c); err != nil {
			return err
		}
		c.rev = m.rev
		if err := s.addReaction(ctx, tx, &m, reaction{old.Emoji, p.Users[1-old.From]}); err != nil {
			return err
		}
		if err := s.setMessage(ctx, tx, m); err != nil {
			return err
		}
	}
	for i := range members {
		members[i].changed = c.changed
		if p.Pinned[i] {
			members[i].pinned = c.changed
		}
		if err := s.setMember(ctx, tx, members[i]); err != nil {
			return err
		}
	}
	return s.mark(ctx, tx, members[:])
}
