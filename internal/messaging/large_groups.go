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

// A node that dies may lose the events of its last commits, and Redis may not have these commits. A node without Redis
// publishes its commits when Redis is back. Until then, a client that calls another node gets data without them. The
// node that applies such commits late therefore publishes the progress of these conversations to their members. A
// client that is behind then lists messages, and Redis has them. Marks change no number that a client could compare, so
// they are published themselves.

// publishMissed publishes the progress of conversations to all members, and members' own marks to the usual receivers.
// It is the projection's Late.
func (s *Service) publishMissed(ctx context.Context, changes []change) error {
	var directIDs, groupIDs []ConversationID
	var own []memberKey
	for _, c := range changes {
		switch {
		case c.ownOnly:
			for _, u := range c.users {
				own = append(own, memberKey{u, c.conv})
			}
		case c.kind == group:
			groupIDs = append(groupIDs, c.conv)
		default:
			directIDs = append(directIDs, c.conv)
		}
	}
	views, err := s.sql.viewsOf(ctx, s.sql.db, directIDs)
	if err != nil {
		return err
	}
	conversations, err := s.sql.conversations(ctx, groupIDs)
	if err != nil {
		return err
	}
	marked, err := s.sql.viewsAt(ctx, s.sql.db, own)
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
	for _, c := range conversations { // a replay names a conversation many times, and groups are large
		s.pendingProgress.add(c.id, progress{ChatStands: api.ChatStands{Chat: In(groups.ID(c.id)).String(), Seq: c.seq, Rev: c.rev}})
	}
	var late []marking
	for _, v := range marked {
		if v.me.gone == 0 {
			late = append(late, marking{member: v.me, kind: v.kind})
		}
	}
	s.publishMarks(late)
	return nil
}

// progressInterval is the time during which messages of a large group are gathered before connected members get the
// chat's progress. The events are then spread over the same time, in progressTurns turns, and other nodes wait as long
// before they publish for the same group. Each member costs an event, so this bounds the cost of a busy group. Without
// the turns, other events would wait for a thousand sockets. maxProgressTurn is the largest number of events in a turn,
// so that the events of many groups do not pile up.
const (
	progressInterval = 500 * time.Millisecond
	progressTurns    = 50
	maxProgressTurn  = 500
)

// progress is the newest seq and rev of a group's chat.
type progress struct {
	api.ChatStands
	large bool // members get only the progress, not each message
}

func (p progress) merge(to progress) progress {
	to.Seq, to.Rev, to.large = max(p.Seq, to.Seq), max(p.Rev, to.Rev), p.large || to.large
	return to
}

// pendingProgress has the groups whose progress this node has not published yet. They are large groups with new
// messages, and any group whose commits reached Redis late. If the node dies first, its unsent events are lost; see
// above.
type pendingProgress struct {
	mu    sync.Mutex
	due   map[ConversationID]progress
	ready chan struct{} // has an element if a group is due
}

func newPendingProgress() *pendingProgress {
	return &pendingProgress{due: map[ConversationID]progress{}, ready: make(chan struct{}, 1)}
}

// raise records new progress of a large group's chat. It returns false if the group is not due already, or is not known
// to be large.
func (c *pendingProgress) raise(conv ConversationID, reached api.ChatStands) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.due[conv]
	if p.large {
		c.due[conv] = p.merge(progress{ChatStands: reached})
	}
	return p.large
}

func (c *pendingProgress) add(conv ConversationID, p progress) {
	c.mu.Lock()
	c.due[conv] = c.due[conv].merge(p) // another batch may have been first
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

func (c *pendingProgress) takeAll() map[ConversationID]progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := c.due
	c.due = map[ConversationID]progress{}
	return due
}

// publishProgress publishes the progress of large groups until ctx ends, and then once more.
func (s *Service) publishProgress(ctx context.Context) {
	for last := false; !last; {
		select {
		case <-s.pendingProgress.ready:
			select {
			case <-time.After(progressInterval):
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		last = ctx.Err() != nil // read before the due groups: ctx may end while they are published, and more may be due then
		var batch []events.Event
		due := s.pendingProgress.takeAll()
		if !last {
			s.skipClaimed(ctx, due)
		}
		for conv, reached := range due {
			members, err := s.groupMembers(ctx, conv) // the present members
			if err != nil {
				s.log.Warn("messaging: event not published: members not read", "group", conv, "err", err)
				if !last {
					s.pendingProgress.add(conv, reached)
				}
				continue
			}
			text, ok := events.Encode(s.log, api.EventChatStands, reached.ChatStands)
			if !ok {
				continue
			}
			for _, to := range members {
				batch = append(batch, events.New(api.EventChatStands, to.String(), s.sql.db.Now(), text))
			}
		}
		pause := time.NewTicker(progressInterval / progressTurns)
		for part := range slices.Chunk(batch, min(1+len(batch)/progressTurns, maxProgressTurn)) {
			s.bus.Publish(part)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
		pause.Stop()
	}
}

// skipClaimed removes groups from due that another node is publishing. Progress that the other node does not have is
// published afterwards.
func (s *Service) skipClaimed(ctx context.Context, due map[ConversationID]progress) {
	all := maps.Clone(due) // includes messages that other nodes stored, so that no node is left to publish the rest
	heads, err := s.redis.heads(ctx, slices.Collect(maps.Keys(due)))
	for conv, h := range heads {
		all[conv] = due[conv].merge(progress{ChatStands: api.ChatStands{Chat: due[conv].Chat, Seq: h.seq, Rev: h.rev}})
	}
	var others map[ConversationID]progress
	if err == nil {
		others, err = s.redis.claim(ctx, all)
	}
	if err != nil {
		s.log.Debug("messaging: progress not claimed: several nodes may publish it", "err", err)
	}
	for conv, p := range due {
		published, other := others[conv]
		switch {
		case !other:
			due[conv] = all[conv]
			continue
		case published.Seq < p.Seq || published.Rev < p.Rev:
			s.pendingProgress.add(conv, p)
		}
		delete(due, conv)
	}
}

// groupMembers returns the members of a large group.
func (s *Service) groupMembers(ctx context.Context, conv ConversationID) ([]accounts.ID, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchTimeout)
	defer cancel()
	return s.groups.MemberIDs(ctx, groups.ID(conv))
}
