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

// These functions reconcile Redis with SQL; see package projection. A commit records its changes by conversation. The
// states of the members are read from SQL, for new messages in their own transaction and for other changes after the
// commit. Redis stores each state unless it has a newer one. The order of these writes does not matter.

// change names a conversation that has rows in SQL which Redis may lack.
type change struct {
	conv    ConversationID
	kind    int
	users   []accounts.ID // in a group, the members whose own part has changed
	ownOnly bool          // only marks and settings of users have changed, also in a chat of two
	steps   []step        // the changes to apply to the latest messages; empty in a replay
}

// withoutSteps returns the change for a replay.
func (c change) withoutSteps() change {
	c.steps = nil
	return c
}

// step is one change of a conversation: a new message, or with rev a change of one message or of none.
type step struct {
	message *message
	rev     int64
	chatRev int64 // the conversation's rev when the message was stored
}

// derivedState is the data of a conversation that Redis should have.
type derivedState struct {
	change
	head    *head   // only in a group
	members []state // in a group, the states of the named users
}

// compute returns the data that Redis should have for changes. It is the projection's State.
func (s *Service) compute(ctx context.Context, changes []change) ([]derivedState, error) {
	return s.computeIn(ctx, s.sql.db, changes, nil)
}

// computeIn is compute in a transaction that has locked conversations. It does not read their rows again.
func (s *Service) computeIn(ctx context.Context, q sqldb.Querier, changes []change,
	locked map[ConversationID]conversation) ([]derivedState, error) {
	at := map[ConversationID]int{}
	var out []derivedState
	var directIDs, groupIDs []ConversationID
	var rows []conversation // of groups
	var views []view        // of chats of two
	users := map[memberKey]bool{}
	for _, c := range changes {
		for _, u := range c.users {
			users[memberKey{u, c.conv}] = true
		}
		if i, ok := at[c.conv]; ok {
			out[i].steps = append(out[i].steps, c.steps...)
			continue
		}
		at[c.conv] = len(out)
		out = append(out, derivedState{change: c})
		row, known := locked[c.conv]
		switch {
		case c.kind != group && known:
			views = append(views, row.views()...)
		case c.kind != group:
			directIDs = append(directIDs, c.conv)
		case known:
			rows = append(rows, row)
		default:
			groupIDs = append(groupIDs, c.conv)
		}
	}
	for i := range out {
		slices.SortStableFunc(out[i].steps, step.compare)
	}
	known := newest(changes)
	unlocked, err := s.sql.conversations(ctx, groupIDs)
	if err != nil {
		return nil, err
	}
	heads, err := s.heads(ctx, q, append(rows, unlocked...), known)
	if err != nil {
		return nil, err
	}
	for _, h := range heads {
		out[at[h.id]].head = &h
	}
	others, err := s.sql.viewsOf(ctx, q, directIDs)
	if err != nil {
		return nil, err
	}
	own, err := s.sql.viewsAt(ctx, q, slices.Collect(maps.Keys(users)))
	if err != nil {
		return nil, err
	}
	states, err := s.sql.states(ctx, q, slices.Concat(views, others, own), known)
	for _, st := range states {
		i := at[st.id]
		out[i].members = append(out[i].members, st)
	}
	return out, err
}

// newest returns the messages that were just stored, by their place and the conversation's rev. At this rev they have
// not changed.
func newest(changes []change) map[placeAtRev]message {
	known := map[placeAtRev]message{}
	for _, c := range changes {
		for _, s := range c.steps {
			if s.message != nil && s.rev == 0 {
				known[placeAtRev{place{c.conv, s.message.seq}, s.chatRev}] = *s.message
			}
		}
	}
	return known
}

// compare sorts new messages by seq, before all changes.
func (s step) compare(t step) int {
	switch {
	case s.rev != t.rev:
		return int(s.rev - t.rev)
	case s.message == nil || t.message == nil:
		return 0
	}
	return int(s.message.seq - t.message.seq)
}

// maxMerges is the largest number of times that a state is read again because of a conflict. After the first time, only
// a state of another transaction can conflict.
const maxMerges = 3

// write stores conversations in Redis. It is the projection's Write. A state that conflicts with the stored one is read
// from SQL again, which then has both changes. If it still conflicts, Redis forgets the chats of its users.
func (s *Service) write(ctx context.Context, list []derivedState) error {
	for range maxMerges {
		conflicts, err := s.writeOnce(ctx, list)
		if err != nil || len(conflicts) == 0 {
			return err
		}
		if list, err = s.compute(ctx, conflicts); err != nil {
			return err
		}
	}
	for _, a := range list {
		for _, st := range a.members {
			if err := s.redis.deleteChats(ctx, st.me.user, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeOnce returns the changes whose states conflict with those in Redis.
func (s *Service) writeOnce(ctx context.Context, list []derivedState) (conflicts []change, err error) {
	var cmds []keyspace.Cmd
	puts := map[int]change{} // by index in cmds
	for _, a := range list {
		if a.head != nil {
			cmd, err := headCmd(*a.head)
			if err != nil {
				return nil, err
			}
			cmds = append(cmds, cmd)
		}
		for _, st := range a.members {
			put, err := putCmds(st.me.user, []state{st}, false)
			if err != nil {
				return nil, err
			}
			puts[len(cmds)] = a.withoutSteps()
			cmds = append(cmds, put...)
		}
		if len(a.steps) > 0 {
			cmd, err := followCmd(a.change)
			if err != nil {
				return nil, err
			}
			cmds = append(cmds, cmd)
		}
	}
	replies := s.redis.db.DoMulti(ctx, cmds)
	for i, c := range puts {
		if n, err := replies[i].Int(); err == nil && n > 0 {
			conflicts = append(conflicts, c)
		}
	}
	return conflicts, keyspace.FirstErr(replies)
}

// apply applies committed changes to Redis. Each was announced with [projection.Projection.Begin] at the time in at
// with the same index.
func (s *Service) apply(ctx context.Context, at []time.Time, changes ...change) {
	s.settleAll(at, changes, s.projection.Bring(ctx, 3*s.redis.budget, changes...))
}

// settleAll reports to the projection whether Redis has changes.
func (s *Service) settleAll(at []time.Time, changes []change, done bool) {
	for i, t := range at {
		if done {
			s.projection.Done(t)
		} else {
			s.projection.Missed(t, changes[i].withoutSteps())
		}
	}
}

// transact runs fn in a transaction that changes the conversation of a user's chat, and applies the committed change to
// Redis. fn sets the conversation in c. It returns a step, which is empty if no message changed, or nil if nothing
// changed.
func (s *Service) transact(ctx context.Context, user accounts.ID, chat ChatRef, c *change,
	fn func(ctx context.Context, tx *sqldb.Tx) (*step, error)) error {
	var result *step
	at, err := s.inTurn(ctx, user, chat, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		result, err = fn(ctx, tx)
		return err
	})
	made := *c
	switch {
	case result == nil:
		made = change{}
	case result.rev != 0:
		made.steps = []step{*result}
	}
	s.settle(ctx, at, made, err)
	return err
}

// inTurn runs fn in a transaction that locks the conversation of a user's chat, when it is its turn. It returns the
// time that it announced to the projection, or zero if it announced none.
func (s *Service) inTurn(ctx context.Context, user accounts.ID, chat ChatRef,
	fn func(ctx context.Context, tx *sqldb.Tx) error) (at time.Time, err error) {
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

// settle ends what the projection began at a time. After a commit it applies the change to Redis. A change without a
// conversation changed nothing, and at is zero if nothing was begun.
func (s *Service) settle(ctx context.Context, at time.Time, applied change, err error) {
	switch {
	case at.IsZero():
	case applied.conv.IsZero():
		s.projection.Done(at)
	case err == nil:
		s.apply(ctx, []time.Time{at}, applied)
	default:
		s.settleFailed(at, applied.withoutSteps(), err) // they may not be committed
	}
}

// stateOf returns a chat of the user, from Redis if it is complete there, else this one chat from SQL. Only a list
// loads all chats of a user, because there may be very many. It returns ErrChat or ErrStore.
func (s *Service) stateOf(ctx context.Context, user accounts.ID, chat ChatRef) (state, error) {
	st, fromRedis, err := s.readOne(ctx, user, chat)
	s.metrics.read(fromRedis)
	return st, err
}

// readOne is stateOf without metrics. It reports whether the result is from Redis.
func (s *Service) readOne(ctx context.Context, user accounts.ID, chat ChatRef) (st state, fromRedis bool, err error) {
	if s.projection.Up() {
		st, err := s.redis.chat(ctx, user, chat)
		if (err == nil || errors.Is(err, ErrChat)) && s.projection.Up() { // Redis was trusted all the time
			return st, true, err
		}
		s.suspectRedis(ctx, err)
	}
	v, err := s.sql.view(ctx, s.sql.db, user, chat)
	if err != nil {
		return state{}, false, asKind(ctx, err)
	}
	list, err := s.sql.states(ctx, s.sql.db, []view{v}, nil)
	if err != nil {
		return state{}, false, asKind(ctx, err)
	}
	return list[0], false, nil
}

// suspectRedis stops the use of Redis after an error that is not one of its normal results.
func (s *Service) suspectRedis(ctx context.Context, err error) {
	if err != nil && !errors.Is(err, errIncomplete) && !errors.Is(err, ErrChat) && ctx.Err() == nil {
		s.projection.Suspect()
	}
}

// maxCachedChats is the largest number of chats that Redis receives at once. It must store them within 100 ms, or it is
// no longer trusted.
const maxCachedChats = 10_000

// maxLoadBatch is the largest number of users whose chats one statement reads. Each may have thousands.
const maxLoadBatch = 16

// newLoader returns the committer that loads all chats of users whose chats Redis does not have. If Redis is
// unavailable or slow, every list needs it. Therefore users share statements, and at most two run at a time.
func newLoader(s *Service) *groupcommit.Committer[accounts.ID, []state] {
	return groupcommit.New(s.load, groupcommit.Options[accounts.ID, []state]{Committers: 2, MaxBatch: maxLoadBatch})
}

// load stores all chats of users in Redis, except those of a user with very many, and returns them. A batch may name a
// user twice.
func (s *Service) load(ctx context.Context, users []accounts.ID) ([][]state, error) {
	ctx, cancel := context.WithTimeout(ctx, batchTimeout)
	defer cancel()
	views, err := s.sql.views(ctx, s.sql.db, users...)
	if err != nil {
		return nil, err
	}
	states, err := s.sql.states(ctx, s.sql.db, views, nil)
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
		if len(list) <= maxCachedChats && s.projection.Writable() {
			s.suspectRedis(ctx, s.redis.putAll(ctx, user, list))
		}
	}
	out := make([][]state, len(users))
	for i, u := range users {
		out[i] = slices.Clone(all[u])
	}
	return out, nil
}
