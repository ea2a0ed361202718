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
	// minLeaseWait is longer than the usual pauses of a healthy process.
	minLeaseWait = 200 * time.Millisecond
	processLen   = 4 // bytes of a lease's token that identify the process; the rest is a counter
)

// leases contains what this process knows of load leases that will not be filled.
type leases struct {
	process [processLen]byte // prefix of this process' tokens
	count   atomic.Uint32
	wake    chan struct{} // signals that there is a lease to release

	mu sync.Mutex
	// lost are this process' own leases by token, if Redis did not reply to the acquisition or to the store of the
	// value.
	lost map[string]lostLease
	// suspects are processes that did not fill a lease in the time that the source takes. The value is when that was
	// noticed, in Unix ms of the servers' clock.
	suspects map[string]int64
}

type lostLease struct {
	release keyspace.Cmd // returns 1 if the lease was in the slot
	until   bus.Moment   // when it has expired
}

func (l *leases) start() {
	_, _ = rand.Read(l.process[:]) // never fails
	l.wake, l.lost, l.suspects = make(chan struct{}, 1), map[string]lostLease{}, map[string]int64{}
}

// token returns a new token for a lease of this process.
func (l *leases) token() string {
	return string(binary.BigEndian.AppendUint32(append(make([]byte, 0, slots.TokenLen), l.process[:]...), l.count.Add(1)))
}

// disown schedules the release of a lease that Redis may hold for this process although it got no reply. err is the
// reason.
func (l *leases) disown(token string, release keyspace.Cmd, life time.Duration, err error) {
	if errors.Is(err, errOpen) {
		return // nothing was sent
	}
	l.mu.Lock()
	if len(l.lost) < maxKeysInMemory {
		l.lost[token] = lostLease{release, bus.Now() + bus.Moment(life)}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// giveBack removes lost leases from Redis. The command that acquired a lease may arrive after the command that releases
// it, so the release is retried until the lease was there or has expired.
func (l *leases) giveBack(rt *Runtime) {
	var tokens []string
	var cmds []keyspace.Cmd
	now := bus.Now()
	l.mu.Lock()
	for token, lease := range l.lost {
		if now >= lease.until {
			delete(l.lost, token)
		} else if len(cmds) < maxKeysPerMessage {
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

// suspect records that the holder of a lease did not fill it while another process waited and then loaded the same
// value.
func (l *leases) suspect(token string, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for process, since := range l.suspects {
		if now-since > time.Hour.Milliseconds() { // its leases expired long ago
			delete(l.suspects, process)
		}
	}
	l.suspects[token[:processLen]] = now
}

// abandoned reports whether a lease acquired at taken will not be filled: it was lost by this process, or it is old and
// belongs to a suspect.
func (l *leases) abandoned(token string, taken, now int64, old time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ours := l.lost[token]; ours {
		return true
	}
	since, suspected := l.suspects[token[:processLen]]
	return suspected && taken <= since && now-taken >= old.Milliseconds()
}

// leaseWait returns how long a reader waits for another node's load.
func (f *family) leaseWait() time.Duration {
	if f.wait != 0 {
		return f.wait
	}
	return min(max(4*f.stats.loadTime(), minLeaseWait), f.loadTimeout)
}

// leaseLife returns how long a load and storing its result may take.
func (f *family) leaseLife() time.Duration { return f.loadTimeout + f.rt.cfg.Budget }

// overdueAfter returns the age of a lease whose holder has had the time to load twice.
func (f *family) overdueAfter() time.Duration { return max(f.leaseWait(), 2*f.stats.loadTime()) }

// leaseIn parses the lease in a slot; ok is false if there is none.
func leaseIn(slot string) (token string, until int64, ok bool) {
	if len(slot) < slots.KeptAt || slot[0] != slots.IsLease {
		return "", 0, false
	}
	until, err := strconv.ParseInt(slot[1+slots.TokenLen:slots.KeptAt], 10, 64)
	return slot[1 : 1+slots.TokenLen], until, err == nil
}

// releaseCmd returns the command that releases the lease on a slot.
func releaseCmd(key keyspace.Key, token string) keyspace.Cmd {
	return fillScript.Cmd([]keyspace.Key{key}, token, "", "0")
}

// breakAbandoned removes a lease that will not be filled, and reports whether it did.
func (r *reading) breakAbandoned(slot string) bool {
	c := r.c
	token, until, ok := leaseIn(slot)
	if !ok || !c.rt.leases.abandoned(token, until-c.leaseLife().Milliseconds(), c.rt.clock(), c.overdueAfter()) {
		return false
	}
	n, err := c.rt.reads.one(releaseCmd(r.key, token)).Int()
	return err == nil && n == 1
}
