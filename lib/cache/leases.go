package cache

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

const (
	// leastLeaseWait is longer than a process that lives normally stands still.
	leastLeaseWait = 200 * time.Millisecond
	processLen     = 4 // of a lease's token; the rest counts
)

// leases is what this process knows of load leases that nobody will fill.
type leases struct {
	process [processLen]byte // begins the tokens of this process
	count   atomic.Uint32
	wake    chan struct{} // there is one to give back

	mu sync.Mutex
	// lost are this process' own, by token: Redis has not answered whether it took the
	// lease, or what was loaded.
	lost map[string]lostLease
	// suspects are processes that did not fill a lease in the time that the source takes,
	// with the moment of the servers' clock, in Unix ms, at which that was noticed.
	suspects map[string]int64
}

type lostLease struct {
	release keyspace.Cmd // returns 1 if the lease was there
	until   bus.Moment   // when it has expired
}

func (l *leases) start() {
	_, _ = rand.Read(l.process[:]) // never fails
	l.wake, l.lost, l.suspects = make(chan struct{}, 1), map[string]lostLease{}, map[string]int64{}
}

// token names a lease, and whose it is.
func (l *leases) token() string {
	return string(binary.BigEndian.AppendUint32(append(make([]byte, 0, slots.TokenLen), l.process[:]...), l.count.Add(1)))
}

// disown has a lease given back which Redis may hold for this process without its
// knowledge. err is why.
func (l *leases) disown(token string, release keyspace.Cmd, life time.Duration, err error) {
	if errors.Is(err, errOpen) {
		return // nothing was sent
	}
	l.mu.Lock()
	if len(l.lost) < memoryKeys {
		l.lost[token] = lostLease{release, bus.Now() + bus.Moment(life)}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// giveBack removes lost leases from Redis. The command that took one may arrive after
// the one that gives it back: so it is tried until the lease was there or has expired.
func (l *leases) giveBack(rt *Runtime) {
	var tokens []string
	var cmds []keyspace.Cmd
	now := bus.Now()
	l.mu.Lock()
	for token, lease := range l.lost {
		if now >= lease.until {
			delete(l.lost, token)
		} else if len(cmds) < messageKeys {
			tokens, cmds = append(tokens, token), append(cmds, lease.release)
		}
	}
	l.mu.Unlock()
	if len(cmds) == 0 {
		return
	}
	replies := rt.reads.do(cmds...)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range replies {
		if n, err := r.Int(); err == nil && n == 1 {
			delete(l.lost, tokens[i])
		}
	}
}

// suspect says that the holder of a lease did not fill it while another process waited
// and then loaded the same.
func (l *leases) suspect(token string, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for process, since := range l.suspects {
		if now-since > time.Hour.Milliseconds() { // its leases have long expired
			delete(l.suspects, process)
		}
	}
	l.suspects[token[:processLen]] = now
}

// abandoned reports whether a lease that was taken then is one that nobody will fill:
// lost by this process, or old and of a suspect.
func (l *leases) abandoned(token string, taken, now int64, old time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ours := l.lost[token]; ours {
		return true
	}
	since, suspected := l.suspects[token[:processLen]]
	return suspected && taken <= since && now-taken >= old.Milliseconds()
}

// leaseWait is how long a reader waits for another's load.
func (f *family) leaseWait() time.Duration {
	if f.wait != 0 {
		return f.wait
	}
	return min(max(4*f.stats.loadTime(), leastLeaseWait), f.loadTimeout)
}

// leaseLife is how long a load may take, and storing its result after it.
func (f *family) leaseLife() time.Duration { return f.loadTimeout + f.rt.cfg.Budget }

// overdueAfter is the age of a lease from which on its holder had the time to load
// twice.
func (f *family) overdueAfter() time.Duration { return max(f.leaseWait(), 2*f.stats.loadTime()) }

// leaseIn takes the lease in a slot apart; ok is false when there is none.
func leaseIn(slot string) (token string, until int64, ok bool) {
	if len(slot) < slots.KeptAt || slot[0] != slots.IsLease {
		return "", 0, false
	}
	until, err := strconv.ParseInt(slot[1+slots.TokenLen:slots.KeptAt], 10, 64)
	return slot[1 : 1+slots.TokenLen], until, err == nil
}

// releaseCmd gives the lease on a slot up.
func releaseCmd(key keyspace.Key, token string) keyspace.Cmd {
	return fillScript.Cmd([]keyspace.Key{key}, token, "", "0")
}

// breakAbandoned removes a lease that nobody will fill, and reports whether it did.
func (r *reading) breakAbandoned(slot string) bool {
	c := r.c
	token, until, ok := leaseIn(slot)
	if !ok || !c.rt.leases.abandoned(token, until-c.leaseLife().Milliseconds(), c.rt.clock(), c.overdueAfter()) {
		return false
	}
	n, err := c.rt.reads.one(releaseCmd(r.key, token)).Int()
	return err == nil && n == 1
}
