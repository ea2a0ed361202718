package activity

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
)

// member is a user id in a fixed number of bytes: a million of them are 20 MB of memory that the garbage collector need
// not scan.
type member [ids.Len]byte

const (
	// most is the number of users of a day that a node remembers.
	most = 1_000_000
	// shards reduces lock contention between requests.
	shards = 16
	// remember is how long after the end of a day its users can be sent again. By then the day is closed.
	remember = time.Hour
)

// noted are the users that this node recorded on a day.
type noted struct {
	date        civil.Day
	from, until time.Time // of the day
	shards      [shards]shard
}

type shard struct {
	mu      sync.Mutex
	users   map[member]struct{}
	waiting []member // users that may not be in Redis
}

var shardSeed = maphash.MakeSeed()

func newNoted(date civil.Day, clock civil.Clock) *noted {
	return &noted{date: date, from: clock.Start(date), until: clock.Start(date + 1)}
}

func (n *noted) has(t time.Time) bool { return n != nil && !t.Before(n.from) && t.Before(n.until) }

// add records a user. It returns false if there is no room, because too many are waiting.
func (n *noted) add(u member, room int) bool {
	sh := &n.shards[maphash.Comparable(shardSeed, u)%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, known := sh.users[u]; known {
		return true
	}
	if len(sh.users) >= room/shards {
		if len(sh.waiting) > 0 {
			return false
		}
		clear(sh.users) // all are sent; a user who comes back is sent again
	}
	if sh.users == nil {
		sh.users = map[member]struct{}{}
	}
	sh.users[u] = struct{}{}
	sh.waiting = append(sh.waiting, u)
	return true
}

// take removes up to max users from the waiting list and returns them.
func (n *noted) take(max int) (all []member) {
	for i := range n.shards {
		sh := &n.shards[i]
		sh.mu.Lock()
		some := min(max-len(all), len(sh.waiting))
		all = append(all, sh.waiting[:some]...)
		if sh.waiting = sh.waiting[some:]; len(sh.waiting) == 0 {
			sh.waiting = nil
		}
		sh.mu.Unlock()
	}
	return all
}

// again puts users back into the waiting list.
func (n *noted) again(users []member) {
	for _, u := range users {
		sh := &n.shards[maphash.Comparable(shardSeed, u)%shards]
		sh.mu.Lock()
		sh.waiting = append(sh.waiting, u)
		sh.mu.Unlock()
	}
}

// putBack puts all users back into the waiting list, and returns their number. It must not run while users of a take
// may come back by again.
func (n *noted) putBack() (total int) {
	for i := range n.shards {
		sh := &n.shards[i]
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

// drop forgets a user.
func (n *noted) drop(u member) {
	sh := &n.shards[maphash.Comparable(shardSeed, u)%shards]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.users, u)
	sh.waiting = slices.DeleteFunc(sh.waiting, func(w member) bool { return w == u })
}

// count returns the number of recorded users and of waiting users.
func (n *noted) count() (users, waiting int) {
	for i := range n.shards {
		sh := &n.shards[i]
		sh.mu.Lock()
		users, waiting = users+len(sh.users), waiting+len(sh.waiting)
		sh.mu.Unlock()
	}
	return users, waiting
}

// days are today and the day before, which may be nil. It is replaced as a whole.
type days struct{ today, before *noted }

// of returns the users of the day of a time, or nil if it is neither of the two days.
func (d *days) of(t time.Time) *noted {
	switch {
	case d == nil:
	case d.today.has(t):
		return d.today
	case d.before.has(t):
		return d.before
	}
	return nil
}

// turn returns the days with the day of t as today. Waiting users of the day before yesterday are discarded.
func (d *days) turn(t time.Time, clock civil.Clock) *days {
	next := &days{today: newNoted(clock.Today(t), clock)}
	if d != nil {
		next.before = d.today
	}
	return next
}

// all lists the days, oldest first.
func (d *days) all() []*noted {
	switch {
	case d == nil:
		return nil
	case d.before == nil:
		return []*noted{d.today}
	}
	return []*noted{d.before, d.today}
}
