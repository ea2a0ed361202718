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
	// lately is how far back each check reads. Most commits are less behind the time in their rows.
	lately = 2 * time.Second
	// deepEvery is the interval of checks that read back by deep, for slow commits, and for users who seemed online
	// because of a dead connection: pings detect that after half a minute.
	deepEvery = 15 * time.Second
	deep      = time.Minute
	// markEvery is the interval of writes of the mark without other writes. After a kill the follower continues from
	// the mark.
	markEvery = time.Minute
	// chatsPerStatement is the number of conversations per statement.
	chatsPerStatement = 100
	// membersPerStatement is the number of members per statement, and per page of a conversation.
	membersPerStatement = 200
	// mostLate bounds how far back is read after a time without a follower.
	mostLate = life
)

// marks are the progress of the follower on this node. Only one goroutine uses them.
type marks struct {
	at      time.Time // all timely commits up to then are checked; zero means unknown
	cut     time.Time // progress of an interrupted check; zero if the last one was complete or had no progress
	deep    time.Time // of the last deep check
	written time.Time
}

// follow checks new messages and notifies members who are offline. An interrupted check keeps its progress: the next
// one continues there.
func (s *Service) follow(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "push.follow")
	now := s.db.Now()
	m := s.mark
	stored, err := readMark(ctx, s.db)
	if err != nil {
		return asKind(err)
	}
	ahead := now.Add(deep) // clocks of nodes differ by less, so a wrong clock wrote a later mark
	if m.at.After(ahead) || m.deep.After(ahead) {
		m = marks{}
	}
	switch {
	case stored.After(ahead):
		m.written = time.Time{} // the next write replaces it
	case stored.After(m.at): // another node has followed in the meantime
		m.at, m.written, m.cut = stored, stored, time.Time{}
	}
	if m.at.IsZero() { // the first time
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
	notified, whole, upTo, err := s.notifySince(ctx, since)
	maps.DeleteFunc(s.done, func(_ messaging.ConversationID, c messaging.ActiveConversation) bool {
		return c.Changed < now.Add(-deep).UnixMilli()
	})
	if err != nil || !whole {
		if upTo.After(m.cut) && upTo.Before(now) {
			m.cut = upTo
			s.setMark(m)
		}
		return asKind(err)
	}
	m.at, m.cut = now, time.Time{}
	if notified || now.Sub(m.written) >= markEvery {
		if err := writeMark(ctx, s.db, now); err != nil {
			return asKind(err)
		}
		m.written = now
	}
	s.setMark(m)
	return nil
}

func (s *Service) setMark(m marks) {
	s.mark = m
	s.followed.Store(m.at.UnixMilli())
}

// changedChats returns the probe for chats that the follower has not checked since their last change. Before its first
// check, all chats are.
func (s *Service) changedChats() *sqldb.Probe {
	return &sqldb.Probe{Query: "SELECT 1 FROM conversations WHERE changed >= ?", Args: func() []any {
		at := s.followed.Load()
		if at != 0 {
			at -= lately.Milliseconds()
		}
		return []any{at}
	}}
}

// condition returns the condition for members whose chats the follower reads.
func (s *Service) condition() string {
	if s.offline != nil {
		return everybody
	}
	return subscribed
}

// notifySince notifies offline members of messages since a time, and reports whether there were any. While Redis is
// unavailable it is unknown who is online: then the check is not complete, and no member is notified. The check was
// complete up to the changes at upTo; zero means that it was for none.
func (s *Service) notifySince(ctx context.Context, since time.Time) (notified, whole bool, upTo time.Time, err error) {
	for after := (messaging.ActiveConversation{}); ; {
		active, err := messaging.ActiveSince(ctx, s.db, since, after, chatsPerStatement)
		if err != nil || len(active) == 0 {
			return notified, err == nil, upTo, err
		}
		enqueued, whole, err := s.notifyConversations(ctx, active)
		notified = notified || enqueued
		if err != nil || !whole {
			return notified, false, upTo, err
		}
		if len(active) < chatsPerStatement {
			return notified, true, upTo, nil
		}
		after = active[len(active)-1]
		upTo = time.UnixMilli(after.Changed)
	}
}

// notifyConversations is [Service.notifySince] for some conversations. It skips conversations whose members have all
// received the newest message or were notified.
func (s *Service) notifyConversations(ctx context.Context, active []messaging.ActiveConversation) (notified, whole bool, err error) {
	active = slices.DeleteFunc(slices.Clone(active), func(c messaging.ActiveConversation) bool { return s.done[c.Conv].Seq == c.Seq })
	open := map[messaging.ConversationID]bool{} // a member seems online
	for left := active; len(left) > 0; {
		list, rest, err := messaging.UndeliveredIn(ctx, s.db, left, membersPerStatement, s.condition())
		if err != nil {
			return notified, false, err
		}
		for part := range slices.Chunk(list, membersPerStatement) {
			absent, partial, err := s.withoutOnline(ctx, part, open)
			if err != nil || partial {
				return notified, false, err
			}
			if absent, err = s.withoutSilent(ctx, absent); err != nil {
				return notified, false, err
			}
			if len(absent) == 0 {
				continue
			}
			enqueued, err := s.enqueuePushes(ctx, absent)
			if err != nil {
				return notified, false, err
			}
			notified = notified || enqueued
		}
		left = rest
	}
	for _, c := range active {
		if !open[c.Conv] {
			s.done[c.Conv] = c
		}
	}
	return notified, true, nil
}

// withoutOnline returns the chats of users who are offline. It adds the conversations of other users to open.
func (s *Service) withoutOnline(ctx context.Context, list []messaging.Undelivered,
	open map[messaging.ConversationID]bool) (absent []messaging.Undelivered, partial bool, err error) {
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
			absent = append(absent, u)
		}
	}
	return absent, false, nil
}

// withoutSilent filters out groups whose notifications the member has turned off.
func (s *Service) withoutSilent(ctx context.Context, list []messaging.Undelivered) (out []messaging.Undelivered, err error) {
	var members []groups.MemberKey
	for _, u := range list {
		if u.Group {
			members = append(members, groups.MemberKey{Group: groups.ID(u.Conv), User: u.User})
		}
	}
	wish, err := groups.Notifies(ctx, s.db, members)
	if err != nil {
		return nil, err
	}
	for _, u := range list {
		if w, in := wish[groups.MemberKey{Group: groups.ID(u.Conv), User: u.User}]; !u.Group || in && w != groups.Silent {
			out = append(out, u)
		}
	}
	return out, nil
}

// enqueuePushes enqueues a push for each chat with messages that its member was not notified of, and records that in
// one transaction. Messages soon after a push wait.
func (s *Service) enqueuePushes(ctx context.Context, list []messaging.Undelivered) (enqueued bool, err error) {
	err = inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		enqueued = false
		now, pause := tx.Now().UnixMilli(), s.cfg.Pause.Milliseconds()
		before, err := lockStates(ctx, tx, list)
		if err != nil {
			return err
		}
		var users []accounts.ID
		fresh := map[memberKey]pushState{}
		for _, u := range list {
			if k := (memberKey{u.User, u.Conv}); u.Seq > before[k].seq {
				at := max(now, before[k].at+pause)
				switch {
				case before[k].at > now+pause+deep.Milliseconds(): // written by a wrong clock
					at = now
				case before[k].at > now: // a push already waits and will include this message
					at = before[k].at
				}
				fresh[k] = pushState{seq: u.Seq, at: at}
				users = append(users, u.User)
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		subs, err := selectSubscriptions(ctx, tx, users)
		if err != nil {
			return err
		}
		devices := byUser(subs)
		var all []job
		for k, t := range fresh {
			chat := job{User: k.user, Conv: k.conv, After: before[k].sent, At: now, due: t.at}
			all = append(all, jobs(chat, devices[k.user], s.offline != nil)...)
		}
		if err := enqueue(ctx, tx, all); err != nil {
			return err
		}
		enqueued = true
		return storeStates(ctx, tx, fresh)
	})
	return enqueued, err
}

// enqueue enqueues jobs in tx. A job replaces an earlier one that waits for the same chat.
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
		all[i].NoDedup = j.Notice != 0 // each notice is a separate push
	}
	return tx.Enqueue(ctx, all...)
}
