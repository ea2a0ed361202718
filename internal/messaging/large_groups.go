package messaging

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

// A node that dies takes with it the events of commits that it has not sent, as it may not
// have come to tell Redis of them. A node that is cut off from Redis tells of its commits when
// it is back, and a client that asks another node at once is answered by a Redis that lacks
// them still. Whoever brings them to Redis late then tells the members of these conversations
// how far they have come: a client that is behind asks, and is answered by a Redis that has them.
// Marks change no number by which a client could tell, so they are told as they are.

// tellLate tells all members of conversations how far these have come, and of members' own marks whoever is told of
// them. It is the projection's Late.
func (s *Service) tellLate(ctx context.Context, changes []change) error {
	var ofTwo, ofGroups []ConversationID
	var own []memberKey
	for _, c := range changes {
		switch {
		case c.own:
			for _, u := range c.users {
				own = append(own, memberKey{u, c.conv})
			}
		case c.kind == group:
			ofGroups = append(ofGroups, c.conv)
		default:
			ofTwo = append(ofTwo, c.conv)
		}
	}
	views, err := s.sql.viewsOf(ctx, ofTwo)
	if err != nil {
		return err
	}
	stand, err := s.sql.conversations(ctx, ofGroups)
	if err != nil {
		return err
	}
	marked, err := s.sql.viewsAt(ctx, own)
	if err != nil {
		return err
	}
	batch := make([]events.Event, 0, len(views))
	for _, v := range views {
		if e, ok := s.event(v.me.user, api.EventChatStands, s.sql.db.Now(), api.ChatStands{Chat: v.name(), Seq: v.seq, Rev: v.rev}); ok {
			batch = append(batch, e)
		}
	}
	s.bus.Publish(batch)
	for _, c := range stand { // a replay names one again and again, and groups are large
		s.crowds.add(c.id, progress{ChatStands: api.ChatStands{Chat: In(groups.ID(c.id)).String(), Seq: c.seq, Rev: c.rev}})
	}
	var late []marking
	for _, v := range marked {
		if v.me.gone == 0 {
			late = append(late, marking{member: v.me, kind: v.kind})
		}
	}
	s.tellMarks(late)
	return nil
}

// tellEvery is how long messages of a large group are gathered before those on line are told how far its chat
// has come, for how long they are then told, and how long other nodes wait before they tell of the same group. Telling
// them is an event for each, so this bounds what a busy group costs; were they all told at once, what others wait for
// would wait for a thousand sockets. Of many groups no more than tellMost events go at once, so that they do not pile up.
const (
	tellEvery = 500 * time.Millisecond
	tellTurns = 50
	tellMost  = 500
)

// progress is how far the chat of a group has come.
type progress struct {
	api.ChatStands
	large bool // its members are told that alone, and not each message
}

func (p progress) raised(to progress) progress {
	to.Seq, to.Rev, to.large = max(p.Seq, to.Seq), max(p.Rev, to.Rev), p.large || to.large
	return to
}

// crowds are the groups of which this node has yet to tell how far they have come: large ones of whose messages, and
// any of what Redis was given late. A node that dies before is one that has not sent its events, see above.
type crowds struct {
	mu   sync.Mutex
	due  map[ConversationID]progress
	some chan struct{} // has one when there are any
}

func newCrowds() *crowds {
	return &crowds{due: map[ConversationID]progress{}, some: make(chan struct{}, 1)}
}

// raise says that the chat of a large group has come as far as stands. It reports false where the group is not among
// those that are to be told anyway, or is not known to be large.
func (c *crowds) raise(conv ConversationID, stands api.ChatStands) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.due[conv]
	if one.large {
		c.due[conv] = one.raised(progress{ChatStands: stands})
	}
	return one.large
}

func (c *crowds) add(conv ConversationID, p progress) {
	c.mu.Lock()
	c.due[conv] = c.due[conv].raised(p) // another batch may have been first
	c.mu.Unlock()
	select {
	case c.some <- struct{}{}:
	default:
	}
}

func (c *crowds) take() map[ConversationID]progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := c.due
	c.due = map[ConversationID]progress{}
	return due
}

// tellCrowds tells large groups how far their chats have come until ctx ends, and then once more.
func (s *Service) tellCrowds(ctx context.Context) {
	for last := false; !last; {
		select {
		case <-s.crowds.some:
			select {
			case <-time.After(tellEvery):
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		last = ctx.Err() != nil // before what is due is taken: ctx may end while it is told, and more be due by then
		var batch []events.Event
		due := s.crowds.take()
		if !last {
			s.leaveToOthers(ctx, due)
		}
		for conv, stands := range due {
			members, err := s.crowd(ctx, conv) // as they are by now
			if err != nil {
				s.log.Warn("messaging: members are not told of a message: the group's members cannot be read", "group", conv, "err", err)
				if !last {
					s.crowds.add(conv, stands)
				}
				continue
			}
			text, ok := events.Encode(s.log, api.EventChatStands, stands.ChatStands)
			if !ok {
				continue
			}
			for _, to := range members {
				batch = append(batch, events.New(api.EventChatStands, to.String(), s.sql.db.Now(), text))
			}
		}
		pause := time.NewTicker(tellEvery / tellTurns)
		for part := range slices.Chunk(batch, min(1+len(batch)/tellTurns, tellMost)) {
			s.bus.Publish(part)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
		pause.Stop()
	}
}

// leaveToOthers takes out of due what another node is telling. What that one does not know of is told afterwards.
func (s *Service) leaveToOthers(ctx context.Context, due map[ConversationID]progress) {
	all := maps.Clone(due) // with what the others have stored, so that they are not left with the rest
	heads, err := s.redis.heads(ctx, slices.Collect(maps.Keys(due)))
	for conv, h := range heads {
		all[conv] = due[conv].raised(progress{ChatStands: api.ChatStands{Chat: due[conv].Chat, Seq: h.seq, Rev: h.rev}})
	}
	var others map[ConversationID]progress
	if err == nil {
		others, err = s.redis.claim(ctx, all)
	}
	if err != nil {
		s.log.Debug("messaging: members may be told by several nodes", "err", err)
	}
	for conv, p := range due {
		told, other := others[conv]
		switch {
		case !other:
			due[conv] = all[conv]
			continue
		case told.Seq < p.Seq || told.Rev < p.Rev:
			s.crowds.add(conv, p)
		}
		delete(due, conv)
	}
}

// crowd returns the members of a large group.
func (s *Service) crowd(ctx context.Context, conv ConversationID) ([]accounts.ID, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchTime)
	defer cancel()
	return s.groups.MemberIDs(ctx, groups.ID(conv))
}
