package push

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

const (
	// lately is how far back each look goes: further than a commit is behind the time that its rows have, as a rule.
	lately = 2 * time.Second
	// deepEvery is how often a look goes back by deep, for commits that took longer, and for users who looked on line then, because
	// nobody had noticed that their connection is dead: pings notice after half a minute.
	deepEvery = 15 * time.Second
	deep      = time.Minute
	// markEvery is how often the mark is written when there is nothing else to write. After a kill the follower goes on from there.
	markEvery = time.Minute
	// chatsAtOnce is of how many conversations members are read in one statement.
	chatsAtOnce = 100
	// atOnce is how many members' chats are looked at in one statement, and are read of each conversation at a time.
	atOnce = 200
	// mostLate bounds what is looked at after no node has followed for long.
	mostLate = life
)

// marks are how far the follower on this node has come. One goroutine has them.
type marks struct {
	at      time.Time // up to then all that was committed in time is looked at; zero: not known
	cut     time.Time // the last look was cut off, and had come to there; zero: it was whole, or had come to nothing
	deep    time.Time // of the last deep look
	written time.Time
}

// follow looks at what has been said since the last time, and has those told who are not on line. What a look that is
// cut off has done stays done: the next one goes on there.
func (s *Service) follow(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "push.follow")
	now := s.db.Now()
	m := s.mark
	stored, err := readMark(ctx, s.db)
	if err != nil {
		return asKind(err)
	}
	ahead := now.Add(deep) // nodes' clocks differ by less: a later mark is that of a clock that was wrong
	if m.at.After(ahead) || m.deep.After(ahead) {
		m = marks{}
	}
	switch {
	case stored.After(ahead):
		m.written = time.Time{} // another one takes its place
	case stored.After(m.at): // another node has followed meanwhile
		m.at, m.written, m.cut = stored, stored, time.Time{}
	}
	if m.at.IsZero() { // for the first time
		m.at = now
	}
	since := m.at.Add(-lately)
	switch {
	case !m.cut.IsZero():
		since = m.cut.Add(-lately)
	case now.Sub(m.deep) >= deepEvery:
		since, m.deep = m.at.Add(-deep), now
	}
	if oldest := now.Add(-mostLate); since.Before(oldest) {
		since = oldest
	}
	told, whole, upTo, err := s.look(ctx, since)
	maps.DeleteFunc(s.done, func(_ messaging.ConversationID, c messaging.Said) bool { return c.Changed < now.Add(-deep).UnixMilli() })
	if err != nil || !whole {
		if upTo.After(m.cut) && upTo.Before(now) {
			m.cut = upTo
			s.mark = m
		}
		return asKind(err)
	}
	m.at, m.cut = now, time.Time{}
	if told || now.Sub(m.written) >= markEvery {
		if err := writeMark(ctx, s.db, now); err != nil {
			return asKind(err)
		}
		m.written = now
	}
	s.mark = m
	return nil
}

// condition says of whose chats the follower reads.
func (s *Service) condition() string {
	if s.offline != nil {
		return everybody
	}
	return subscribed
}

// look has those told who are not on line, of what has been said since a moment, and reports whether there was anybody. While
// Redis is away nobody knows who is on line: then the look is not whole, and nobody is told. Up to the changes at upTo it was whole
// in any case; zero: it had come to none.
func (s *Service) look(ctx context.Context, since time.Time) (told, whole bool, upTo time.Time, err error) {
	for after := (messaging.Said{}); ; {
		said, err := messaging.SaidSince(ctx, s.db, since, after, chatsAtOnce)
		if err != nil || len(said) == 0 {
			return told, err == nil, upTo, err
		}
		some, whole, err := s.lookInto(ctx, said)
		told = told || some
		if err != nil || !whole {
			return told, false, upTo, err
		}
		if len(said) < chatsAtOnce {
			return told, true, upTo, nil
		}
		after = said[len(said)-1]
		upTo = time.UnixMilli(after.Changed)
	}
}

// lookInto is [Service.look] into some conversations, but for those where nobody is left to tell: since their newest message was looked at,
// all have got it, or are told.
func (s *Service) lookInto(ctx context.Context, said []messaging.Said) (told, whole bool, err error) {
	said = slices.DeleteFunc(slices.Clone(said), func(c messaging.Said) bool { return s.done[c.Conv].Seq == c.Seq })
	open := map[messaging.ConversationID]bool{} // a member of theirs looks on line
	for left := said; len(left) > 0; {
		list, rest, err := messaging.UndeliveredIn(ctx, s.db, left, atOnce, s.condition())
		if err != nil {
			return told, false, err
		}
		for part := range slices.Chunk(list, atOnce) {
			away, partial, err := s.away(ctx, part, open)
			if err != nil || partial {
				return told, false, err
			}
			if away, err = s.notified(ctx, away); err != nil {
				return told, false, err
			}
			if len(away) == 0 {
				continue
			}
			some, err := s.tell(ctx, away)
			if err != nil {
				return told, false, err
			}
			told = told || some
		}
		left = rest
	}
	for _, c := range said {
		if !open[c.Conv] {
			s.done[c.Conv] = c
		}
	}
	return told, true, nil
}

// away are the chats of users who are not on line. Conversations of others are noted in open.
func (s *Service) away(ctx context.Context, list []messaging.Undelivered, open map[messaging.ConversationID]bool) (away []messaging.Undelivered, partial bool, err error) {
	seen := map[accounts.ID]bool{}
	var users []accounts.ID
	for _, u := range list {
		if !seen[u.User] {
			seen[u.User] = true
			users = append(users, u.User)
		}
	}
	online, partial, err := s.presence.Online(ctx, users)
	if err != nil || partial {
		return nil, partial, err
	}
	for _, u := range list {
		if online[u.User] {
			open[u.Conv] = true
		} else {
			away = append(away, u)
		}
	}
	return away, false, nil
}

// notified leaves out groups that their members do not want to be notified of.
func (s *Service) notified(ctx context.Context, list []messaging.Undelivered) (out []messaging.Undelivered, err error) {
	var seats []groups.Seat
	for _, u := range list {
		if u.Group {
			seats = append(seats, groups.Seat{Group: groups.ID(u.Conv), User: u.User})
		}
	}
	wish, err := groups.Notifies(ctx, s.db, seats)
	if err != nil {
		return nil, err
	}
	for _, u := range list {
		if w, in := wish[groups.Seat{Group: groups.ID(u.Conv), User: u.User}]; !u.Group || in && w != groups.Silent {
			out = append(out, u)
		}
	}
	return out, nil
}

// tell enqueues a push for each chat of which its member was not told up to the newest message, and notes that, in one transaction.
// What comes soon after a push waits.
func (s *Service) tell(ctx context.Context, list []messaging.Undelivered) (some bool, err error) {
	err = inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		some = false
		now, pause := tx.Now().UnixMilli(), s.cfg.Pause.Milliseconds()
		before, err := lockTold(ctx, tx, list)
		if err != nil {
			return err
		}
		var users []accounts.ID
		fresh := map[memberKey]told{}
		for _, u := range list {
			if k := (memberKey{u.User, u.Conv}); u.Seq > before[k].seq {
				at := max(now, before[k].at+pause)
				switch {
				case before[k].at > now+pause+deep.Milliseconds(): // by a clock that was wrong
					at = now
				case before[k].at > now: // one waits already, and takes this with it
					at = before[k].at
				}
				fresh[k] = told{seq: u.Seq, at: at}
				users = append(users, u.User)
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		subs, err := subscriptionsOf(ctx, tx, users)
		if err != nil {
			return err
		}
		devices := byUser(subs)
		var jobs []job
		for k, t := range fresh {
			jobs = append(jobs, s.jobs(job{User: k.user, Conv: k.conv, After: before[k].sent, At: now, due: t.at}, devices[k.user])...)
		}
		if err := enqueue(ctx, tx, jobs); err != nil {
			return err
		}
		some = true
		return putTold(ctx, tx, fresh)
	})
	return some, err
}

// enqueue has jobs done once tx is committed. A job takes the place of an earlier one that waits and is about the
// same chat.
func enqueue(ctx context.Context, tx *sqldb.Tx, jobs []job) error {
	all := make([]sqldb.Message, len(jobs))
	for i, j := range jobs {
		payload, err := json.Marshal(j)
		if err != nil {
			return err
		}
		all[i] = sqldb.Message{Topic: TopicSend, Key: j.key(), Payload: payload, Due: time.UnixMilli(max(j.due, tx.Now().UnixMilli()))}
		if j.Device.IsZero() {
			all[i].Topic = TopicOffline
		}
		all[i].NoDedup = j.Notice != 0 // each is one of its own
	}
	return tx.Enqueue(ctx, all...)
}
