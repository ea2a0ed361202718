package messaging

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Range selects messages of a chat: those after a number (which may be 0), before one, or around one. Without any it
// selects the newest.
type Range struct {
	After          *int64
	Before, Around int64
	Limit          int
}

// List returns a part of a chat's messages, from Redis if they are among the latest, else from SQL. It returns ErrChat
// or ErrStore.
func (s *Service) List(ctx context.Context, user accounts.ID, chat ChatRef, r Range) (_ api.Messages, err error) {
	defer errs.Wrap(&err, "messaging.List %s", user)
	st, got, fromRedis, err := s.chatWithLatest(ctx, user, chat)
	if err != nil {
		return api.Messages{}, err
	}
	list, more, complete := st.window(got, r)
	s.metrics.read(fromRedis && complete)
	if !complete {
		if list, more, err = s.window(ctx, st.view, r); err != nil {
			return api.Messages{}, asKind(ctx, err)
		}
	}
	out := api.Messages{Messages: make([]api.Message, len(list)), More: more, Seq: st.seq, Rev: st.rev}
	for i, m := range list {
		out.Messages[i] = m.wire(user, chat.String())
	}
	return out, nil
}

// chatWithLatest returns a user's chat, with its latest messages if Redis is available, and whether the messages are
// from there. If the messages in Redis do not match the chat's seq and rev, it replaces them.
func (s *Service) chatWithLatest(ctx context.Context, user accounts.ID,
	chat ChatRef) (st state, list []message, fromRedis bool, err error) {
	conv, known := conversationOf(chat.group), true
	if chat.direct() {
		conv, known = s.pairs.get(pairOf(user, chat.peer))
	}
	if !known || !s.projection.Up() {
		st, _, err := s.readOne(ctx, user, chat)
		if err == nil && chat.direct() {
			s.pairs.add(pairOf(user, chat.peer), st.id)
		}
		if err != nil || !s.projection.Up() {
			return st, nil, false, err
		}
		conv = st.id
	}
	st, got, err := s.redis.read(ctx, user, chat, &conv)
	if s.suspectRedis(ctx, err); err != nil || !s.projection.Up() {
		st, _, err = s.readOne(ctx, user, chat)
		return st, nil, false, err
	}
	if got.seq == st.seq && got.rev == st.rev {
		return st, got.messages, true, nil
	}
	if list, err = s.sql.latest(ctx, st.conversation, maxLatest); err != nil {
		return st, nil, false, asKind(ctx, err)
	}
	s.suspectRedis(ctx, s.redis.storeLatest(ctx, st.conversation, list))
	return st, list, false, nil
}

// window returns the messages of a range from the latest ones. complete reports whether the range needs no others.
func (st state) window(latest []message, r Range) (list []message, more, complete bool) {
	if len(latest) == 0 {
		return nil, false, false
	}
	low := latest[0].seq
	bottom := low <= st.me.cleared+1 // the user sees no message before the first one
	visible := slices.DeleteFunc(slices.Clone(latest), func(m message) bool {
		return m.seq <= st.me.cleared || slices.Contains(st.hidden, m.seq)
	})
	from := func(seq int64) int { // index of the first message with this number or a higher one
		at, _ := slices.BinarySearchFunc(visible, seq, func(m message, seq int64) int { return cmp.Compare(m.seq, seq) })
		return at
	}
	last := func(list []message, n int) ([]message, bool, bool) {
		return list[max(0, len(list)-n):], len(list) > n, bottom || len(list) > n
	}
	switch {
	case r.Around > 0:
		at, half := from(r.Around+1), max(1, r.Limit/2)
		before, more, complete := last(visible[:at], half)
		after := visible[at:min(len(visible), at+r.Limit-half)]
		return slices.Concat(before, after), more, complete && (bottom || r.Around >= low)
	case r.After != nil:
		after := visible[from(*r.After+1):]
		return after[:min(len(after), r.Limit)], len(after) > r.Limit, bottom || *r.After >= low-1
	case r.Before > 0:
		return last(visible[:from(r.Before)], r.Limit)
	}
	return last(visible, r.Limit)
}

// window reads the messages of a range from SQL.
func (s *Service) window(ctx context.Context, v view, r Range) (list []message, more bool, err error) {
	from := func(after, before int64, backwards bool, n int) ([]message, bool, error) {
		found, err := s.sql.messages(ctx, s.sql.db, v.me.user, v.id, max(after, v.me.cleared), before, backwards, n+1)
		more := len(found) > n
		found = found[:min(len(found), n)]
		if backwards {
			slices.Reverse(found)
		}
		return found, more, err
	}
	switch {
	case r.Around > 0:
		half := max(1, r.Limit/2)
		list, more, err = from(0, r.Around+1, true, half)
		if err != nil {
			return nil, false, err
		}
		later, _, err := from(r.Around, math.MaxInt64, false, r.Limit-half)
		return append(list, later...), more, err
	case r.After != nil:
		return from(*r.After, math.MaxInt64, false, r.Limit)
	case r.Before > 0:
		return from(0, r.Before, true, r.Limit)
	}
	return from(0, math.MaxInt64, true, r.Limit)
}
