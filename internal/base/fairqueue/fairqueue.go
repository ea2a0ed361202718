// Package fairqueue bounds work on a shared resource and divides it fairly between users.
//
// A [Queue] has a capacity in units. A user with nothing in use always gets the next free units, however many
// requests of other users wait. Waiting users are served in rotation, one request each; requests of one user are
// served in the order of their arrival. One user may use at most a share of the capacity, and the number of waiting
// requests is bounded. A full queue refuses the newest request of the user with the most waiting requests.
package fairqueue

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Limits bound a queue.
type Limits struct {
	Capacity int64         // units in use at a time
	Share    int64         // units in use by one user; zero means half the capacity. A user with nothing in use may exceed it by one request
	Waiting  int           // largest number of waiting requests; a further one may displace one of a user with more
	PerUser  int           // largest number of waiting requests of one user
	Wait     time.Duration // bounds the wait of a request; zero means until its context ends

	// Full is the error of a refused request, and of one that has waited too long.
	Full error
}

// Queue is safe for concurrent use.
type Queue struct {
	limits Limits

	mu      sync.Mutex
	inUse   int64
	waiting int
	users   map[string]*user // users with units in use or waiting requests
	turns   []*user          // users with waiting requests, the next one first
}

type user struct {
	inUse   int64
	waiting []*request
}

type request struct {
	units   int64
	granted chan struct{} // closed under the queue's lock
	full    chan struct{} // closed under the queue's lock if another user's request displaces this one
}

// New returns an empty queue.
func New(l Limits) *Queue {
	if l.Share == 0 {
		l.Share = max(1, l.Capacity/2)
	}
	return &Queue{limits: l, users: map[string]*user{}}
}

// Acquire waits for units of the capacity for a user. The caller calls release once, when the work is done. A request
// for more than the capacity waits until nothing else is in use. It returns [Limits.Full], or the error of ctx if
// that ends first.
func (q *Queue) Acquire(ctx context.Context, name string, units int64) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &request{units: min(units, q.limits.Capacity), granted: make(chan struct{}), full: make(chan struct{})}
	u, full := q.enqueue(name, r)
	if full {
		return nil, q.limits.Full
	}
	release = func() { q.release(name, u, r.units) }
	var late <-chan time.Time
	if q.limits.Wait > 0 {
		timer := time.NewTimer(q.limits.Wait)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-r.granted:
		return release, nil
	case <-r.full:
		return nil, q.limits.Full
	case <-ctx.Done():
		err = ctx.Err()
	case <-late:
		err = q.limits.Full
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case isClosed(r.granted):
		return release, nil
	case !isClosed(r.full):
		q.remove(name, u, r)
		q.grant()
	}
	return nil, err
}

// InUse returns the units in use.
func (q *Queue) InUse() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inUse
}

func (q *Queue) enqueue(name string, r *request) (u *user, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	u = q.users[name]
	if u == nil {
		u = &user{}
		q.users[name] = u
	}
	if len(u.waiting) == 0 {
		q.turns = append(q.turns, u)
	}
	u.waiting = append(u.waiting, r)
	q.waiting++
	q.grant()
	switch {
	case isClosed(r.granted):
	case len(u.waiting) > q.limits.PerUser:
		full = true
		q.remove(name, u, r)
	case q.waiting > q.limits.Waiting:
		full = !q.displace(u)
		if full {
			q.remove(name, u, r)
		}
	}
	return u, full
}

// displace refuses the newest request of the user with the most waiting requests. It reports false, and refuses none,
// if u has as many waiting requests.
func (q *Queue) displace(u *user) bool {
	most := slices.MaxFunc(q.turns, func(a, b *user) int { return len(a.waiting) - len(b.waiting) })
	if len(most.waiting) <= len(u.waiting) {
		return false
	}
	last := len(most.waiting) - 1
	close(most.waiting[last].full)
	most.waiting = most.waiting[:last] // not empty, because u has a waiting request, and fewer of them
	q.waiting--
	return true
}

func (q *Queue) release(name string, u *user, units int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inUse -= units
	u.inUse -= units
	q.forget(name, u)
	q.grant()
}

// grant serves requests while the next one fits. It skips users that use their share. It does not skip a request that
// waits for more capacity, so that large ones do not starve.
func (q *Queue) grant() {
	for i := 0; i < len(q.turns); {
		u := q.turns[i]
		r := u.waiting[0]
		switch {
		case u.inUse > 0 && u.inUse+r.units > q.limits.Share:
			i++
			continue
		case q.inUse+r.units > q.limits.Capacity:
			return
		}
		q.inUse += r.units
		u.inUse += r.units
		q.waiting--
		u.waiting = u.waiting[1:]
		q.turns = slices.Delete(q.turns, i, i+1)
		if len(u.waiting) > 0 {
			q.turns = append(q.turns, u)
		}
		close(r.granted)
		i = 0
	}
}

// remove removes a waiting request.
func (q *Queue) remove(name string, u *user, r *request) {
	q.waiting--
	u.waiting = slices.DeleteFunc(u.waiting, func(w *request) bool { return w == r })
	if len(u.waiting) == 0 {
		q.turns = slices.DeleteFunc(q.turns, func(w *user) bool { return w == u })
	}
	q.forget(name, u)
}

// forget deletes a user with nothing in use and no waiting request.
func (q *Queue) forget(name string, u *user) {
	if u.inUse == 0 && len(u.waiting) == 0 {
		delete(q.users, name)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
