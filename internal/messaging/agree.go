package messaging

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/groupcommit"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// How Redis is kept in agreement with SQL: see package projection. What a commit has
// changed is named by its conversations. Their members' states are read from SQL after
// the commit and written, each unless Redis has a newer one; in what order they arrive makes
// no difference.

// change names a conversation of which SQL has something that Redis may lack.
type change struct {
	conv  ConversationID
	kind  int
	users []accounts.ID // of a group, the members who have something new of their own
	own   bool          // marks and settings of users are all that is new, in a chat of two as well
	steps []step        // what has happened, for the latest messages; none is known of a replay
}

// step is one thing that happened in a conversation: a new message, or with rev a change
// of one or of none.
type step struct {
	message *message
	rev     int64
	chatRev int64 // of the conversation, when the message came
}

// agreed is what Redis should hold of a conversation.
type agreed struct {
	change
	head    *head   // of a group
	members []state // of a group, those of users
}

// compute is the projection's State.
func (s *Service) compute(ctx context.Context, changes []change) ([]agreed, error) {
	at := map[ConversationID]int{}
	var out []agreed
	var ofTwo, ofGroups []ConversationID
	users := map[memberKey]bool{}
	for _, c := range changes {
		for _, u := range c.users {
			users[memberKey{u, c.conv}] = true
		}
		if i, there := at[c.conv]; there {
			out[i].steps = append(out[i].steps, c.steps...)
			continue
		}
		at[c.conv] = len(out)
		out = append(out, agreed{change: c})
		if c.kind == group {
			ofGroups = append(ofGroups, c.conv)
		} else {
			ofTwo = append(ofTwo, c.conv)
		}
	}
	for i := range out {
		slices.SortStableFunc(out[i].steps, step.compare)
	}
	known := newest(changes)
	heads, err := s.heads(ctx, ofGroups, known)
	if err != nil {
		return nil, err
	}
	for _, h := range heads {
		out[at[h.id]].head = &h
	}
	views, err := s.sql.viewsOf(ctx, ofTwo)
	if err != nil {
		return nil, err
	}
	own, err := s.sql.viewsAt(ctx, slices.Collect(maps.Keys(users)))
	if err != nil {
		return nil, err
	}
	states, err := s.sql.states(ctx, append(views, own...), known)
	for _, st := range states {
		i := at[st.id]
		out[i].members = append(out[i].members, st)
	}
	return out, err
}

// newest returns the messages that have just come, by their place and the conversation's rev:
// while it has this rev they are as they came.
func newest(changes []change) map[placeAt]message {
	known := map[placeAt]message{}
	for _, c := range changes {
		for _, s := range c.steps {
			if s.message != nil && s.rev == 0 {
				known[placeAt{place{c.conv, s.message.seq}, s.chatRev}] = *s.message
			}
		}
	}
	return known
}

// compare orders new messages by their numbers, and changes behind them.
func (s step) compare(t step) int {
	switch {
	case s.rev != t.rev:
		return int(s.rev - t.rev)
	case s.message == nil || t.message == nil:
		return 0
	}
	return int(s.message.seq - t.message.seq)
}

// write is the projection's Write.
func (s *Service) write(ctx context.Context, list []agreed) error {
	var cmds []keyspace.Cmd
	for _, a := range list {
		if a.head != nil {
			cmd, err := headCmd(*a.head)
			if err != nil {
				return err
			}
			cmds = append(cmds, cmd)
		}
		for _, st := range a.members {
			put, err := putCmds(st.me.user, []state{st}, false)
			if err != nil {
				return err
			}
			cmds = append(cmds, put...)
		}
		if len(a.steps) > 0 {
			cmd, err := followCmd(a.change)
			if err != nil {
				return err
			}
			cmds = append(cmds, cmd)
		}
	}
	return keyspace.FirstErr(s.redis.db.DoMulti(ctx, cmds))
}

// bring tells Redis of changes that are committed, each of which was announced with
// [projection.Projection.Begin] at the time beside it.
func (s *Service) bring(ctx context.Context, at []time.Time, changes ...change) {
	done := s.projection.Bring(ctx, 3*s.redis.budget, changes...)
	for i, t := range at {
		if done {
			s.projection.Done(t)
		} else {
			missed := changes[i]
			missed.steps = nil
			s.projection.Missed(t, missed)
		}
	}
}

// transact runs fn in a transaction that changes the conversation of a user's chat, and brings what is
// committed to Redis. fn says in c which one, and what has happened: a step, which is empty
// where no message was concerned, or nil for nothing.
func (s *Service) transact(ctx context.Context, user accounts.ID, chat ChatRef, c *change, fn func(ctx context.Context, tx *sqldb.Tx) (*step, error)) error {
	var what *step
	at, err := s.inTurn(ctx, user, chat, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		what, err = fn(ctx, tx)
		return err
	})
	did := *c
	switch {
	case what == nil:
		did = change{}
	case what.rev != 0:
		did.steps = []step{*what}
	}
	s.settle(ctx, at, did, err)
	return err
}

// inTurn runs fn in a transaction that locks the conversation of a user's chat, when it is its turn. It returns when that was
// begun with the projection, zero where it was not.
func (s *Service) inTurn(ctx context.Context, user accounts.ID, chat ChatRef, fn func(ctx context.Context, tx *sqldb.Tx) error) (at time.Time, err error) {
	var row any = conversationOf(chat.group)
	if chat.direct() {
		row = pairOf(user, chat.peer)
	}
	err = s.sql.db.InTurn(ctx, row, func(ctx context.Context) error {
		at = s.sql.db.Now()
		s.projection.Begin(at)
		return s.sql.inTx(ctx, fn)
	})
	return at, err
}

// settle ends what was begun with the projection at a time: what a transaction has
// committed it brings to Redis. A change of no conversation is none; at is zero where nothing was begun.
func (s *Service) settle(ctx context.Context, at time.Time, did change, err error) {
	switch {
	case at.IsZero():
	case did.conv.IsZero():
		s.projection.Done(at)
	case err == nil:
		s.bring(ctx, []time.Time{at}, did)
	default:
		did.steps = nil // they may not have happened
		s.failed(at, did, err)
	}
}

// stateOf returns a chat of the user: from Redis where that can tell, else this one from SQL. All of a user's chats, who
// may have very many, are read for their list alone. ErrChat, ErrStore.
func (s *Service) stateOf(ctx context.Context, user accounts.ID, chat ChatRef) (state, error) {
	st, fromRedis, err := s.readOne(ctx, user, chat)
	s.metrics.read(fromRedis)
	return st, err
}

// readOne is stateOf for what is counted elsewhere, and reports whether Redis has answered.
func (s *Service) readOne(ctx context.Context, user accounts.ID, chat ChatRef) (st state, fromRedis bool, err error) {
	if s.projection.Up() {
		st, err := s.redis.one(ctx, user, chat)
		if (err == nil || errors.Is(err, ErrChat)) && s.projection.Up() { // still
			return st, true, err
		}
		s.doubt(ctx, err)
	}
	v, err := s.sql.view(ctx, s.sql.db, user, chat)
	if err != nil {
		return state{}, false, asKind(ctx, err)
	}
	list, err := s.sql.states(ctx, []view{v}, nil)
	if err != nil {
		return state{}, false, asKind(ctx, err)
	}
	return list[0], false, nil
}

// doubt stops trusting Redis after an error that is no answer of it.
func (s *Service) doubt(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, errNotWhole) && !errors.Is(err, ErrChat) && ctx.Err() == nil {
		s.projection.Suspect()
	}
}

// mostLoaded is how many chats Redis is given at once: it has a tenth of a second for them, and is distrusted where it
// takes longer.
const mostLoaded = 10_000

// loadAtOnce is of how many users chats are read with one statement: they may have thousands each.
const loadAtOnce = 16

// newLoader returns what reads all chats of users whom Redis cannot answer. Where it is away or slow these are all who
// look at their lists: their statements are shared, and two at a time are the bound.
func newLoader(s *Service) *groupcommit.Committer[accounts.ID, []state] {
	return groupcommit.New(s.load, groupcommit.Options[accounts.ID, []state]{Committers: 2, MaxBatch: loadAtOnce})
}

// load gives Redis all chats of users, unless a user has very many, and returns them. A user may ask twice at once.
func (s *Service) load(ctx context.Context, users []accounts.ID) ([][]state, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	views, err := s.sql.views(ctx, s.sql.db, users...)
	if err != nil {
		return nil, err
	}
	states, err := s.sql.states(ctx, views, nil)
	if err != nil {
		return nil, err
	}
	all := make(map[accounts.ID][]state, len(users))
	for _, u := range users {
		all[u] = nil
	}
	for _, st := range states {
		all[st.me.user] = append(all[st.me.user], st)
	}
	for user, list := range all {
		if len(list) <= mostLoaded && s.projection.Writable() {
			s.doubt(ctx, s.redis.putAll(ctx, user, list))
		}
	}
	out := make([][]state, len(users))
	for i, u := range users {
		out[i] = slices.Clone(all[u])
	}
	return out, nil
}
