package activity

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
)

// member is a user id in a fixed number of bytes. A million members need 20 MB of memory, and the garbage collector
// does not scan it.
type member [ids.Len]byte

const (
	// maxUsers is the largest number of users of a day that a node remembers.
	maxUsers = 1_000_000
	// shardCount is the number of shards of a day, each with its own lock, so that requests rarely wait for a lock.
	shardCount = 16
	// resendWindow bounds the time after the end of a day until its users can no longer be sent again. The day is closed
	// before that.
	resendWindow = time.Hour
)

// dayUsers has the users that this node recorded on a day.
type dayUsers struct {
	date        civil.Day
	from, until time.Time // of the day
	shards      [shardCount]shard
}

type shard struct {
	mu      sync.Mutex
	users   map[member]struct{}
	waiting []member // users to be sent to Redis
}

var shardSeed = maphash.MakeSeed()

func newDayUsers(date civil.Day, clock civil.Clock) *dayUsers {
	return &dayUsers{date: date, from: clock.Start(date), until: clock.Start(date + 1)}
}

func (d *dayUsers) contains(t time.Time) bool {
	return d != nil && !t.Before(d.from) && t.Before(d.until)
}

// add records a user. It returns false if the shard is full of users and some of them are still waiting.
func (d *dayUsers) add(u member, limit int) bool {
	sh := &d.shards[maphash.Comparable(shardSeed, u)%shardCount]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, found := sh.users[u]; found {
		return true
	}
	if len(sh.users) >= limit/shardCount {
		if len(sh.waiting) > 0 {
			return false
		}
		clear(sh.users) // all are sent; a user with another request is sent again
	}
	if sh.users == nil {
		sh.users = map[member]struct{}{}
	}
	sh.users[u] = struct{}{}
	sh.waiting = append(sh.waiting, u)
	return true
}

// dequeue removes up to max users from the waiting lists and returns them.
func (d *dayUsers) dequeue(max int) (all []member) {
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		size := min(max-len(all), len(sh.waiting))
		all = append(all, sh.waiting[:size]...)
		if sh.waiting = sh.waiting[size:]; len(sh.waiting) == 0 {
			sh.waiting = nil
		}
		sh.mu.Unlock()
	}
	return all
}

// requeue adds users to the waiting lists again.
func (d *dayUsers) requeue(users []member) {
	for _, u := range users {
		sh := &d.shards[maphash.Comparable(shardSeed, u)%shardCount]
		sh.mu.Lock()
		sh.waiting = append(sh.waiting, u)
		sh.mu.Unlock()
	}
}

// requeueAll adds all users to the waiting lists again, and returns their number. It must not run between a dequeue and
// the requeue of its users, because they would wait twice.
func (d *dayUsers) requeueAll() (total int) {
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		sh.waiting = make([]member, 0, len(sh.users))
		for u := range sh.users {
			sh.waiting = append(sh.waiting, u)
		}
		total += len(sh.users)
		sh.mu.Unlock()
	}
	return total
}

// delete deletes a user.
func (d *dayUsers) delete(u member) {
	sh := &d.shards[maphash.Comparable(shardSeed, u)%shardCount]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.users, u)
	sh.waiting = slices.DeleteFunc(sh.waiting, func(w member) bool { return w == u })
}

// count returns the number of recorded users and of waiting users.
func (d *dayUsers) count() (users, waiting int) {
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		users, waiting = users+len(sh.users), waiting+len(sh.waiting)
		sh.mu.Unlock()
	}
	return users, waiting
}

// days has today and the previous day, which may be nil. It is immutable: the Service replaces the whole value.
type days struct{ today, previous *dayUsers }

// find returns the users of the day that contains t, or nil if neither of the two days does.
func (d *days) find(t time.Time) *dayUsers {
	switch {
	case d == nil:
	case d.today.contains(t):
		return d.today
	case d.previous.contains(t):
		return d.previous
	}
	return nil
}

// advance returns the days with the day of t as today. It discards waiting users of the former previous day.
func (d *days) advance(t time.Time, clock civil.Clock) *days {
	next := &days{today: newDayUsers(clock.Today(t), clock)}
	if d != nil {
		next.previous = d.today
	}
	return next
}

// all lists the days, oldest first.
func (d *days) all() []*dayUsers {
	switch {
	case d == nil:
		return nil
	case d.previous == nil:
		return []*dayUsers{d.today}
	}
	return []*dayUsers{d.previous, d.today}
}
