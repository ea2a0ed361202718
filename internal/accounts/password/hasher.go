package password

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/stoa-dev/stoa/internal/base/fairqueue"
)

// OWASP is the cost of OWASP's second recommendation: 19 MB, two passes, one lane; about 23 ms on the machine of the
// project's measurements.
var OWASP = argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// ErrBusy reports that the queue is longer than a second or two of hashing.
var ErrBusy = errors.New("password: too many passwords wait for hashing")

// waiting and waitingPerAsker are the largest numbers of waiting passwords per hashing slot: 1.5 s and 0.4 s of
// hashing.
const (
	waiting         = 64
	waitingPerAsker = 16
)

// Hasher hashes a bounded number of passwords at a time, because each takes 19 MB and a core. It is safe for concurrent
// use.
type Hasher struct {
	cost    argon2id.Params
	decoy   string
	queue   *fairqueue.Queue
	release func()       // debug.FreeOSMemory
	litter  atomic.Bool  // hashed since the last release
	tidied  atomic.Int64 // Unix nanoseconds of the last release
}

// NewHasher returns a hasher of n passwords at a time; 0 means half the cores.
func NewHasher(n int, cost argon2id.Params) *Hasher {
	if n == 0 {
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	queue := fairqueue.New(fairqueue.Limits{Capacity: int64(n), Waiting: waiting * n, PerUser: waitingPerAsker * n, Full: ErrBusy})
	return &Hasher{cost: cost, decoy: decoy(cost), queue: queue, release: debug.FreeOSMemory}
}

// decoy returns the hash to compare with if there is no password, so that an unknown address takes as long as a known
// one. No findable password has this hash.
func decoy(cost argon2id.Params) string {
	zero := base64.RawStdEncoding.EncodeToString(make([]byte, cost.KeyLength))
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", cost.Memory, cost.Iterations, cost.Parallelism,
		zero[:base64.RawStdEncoding.EncodedLen(int(cost.SaltLength))], zero)
}

// Hash returns the hash of a normalized password, see [Normalize]. It waits on behalf of asker: the requests of one
// asker do not block others. It returns ErrBusy if too many wait.
func (h *Hasher) Hash(ctx context.Context, asker, password string) (hash string, err error) {
	err = h.Do(ctx, asker, func() error {
		hash, err = argon2id.CreateHash(password, &h.cost)
		return err
	})
	return hash, err
}

// Do waits on behalf of an asker, and calls fn while it has one of the hasher's slots. fn may call [Hasher.Matches].
// It returns the error of fn, or ErrBusy.
func (h *Hasher) Do(ctx context.Context, asker string, fn func() error) error {
	release, err := h.queue.Acquire(ctx, asker, 1)
	if err != nil {
		return err
	}
	defer h.done(release)
	return fn()
}

// Matches compares a password with a stored hash, or with nothing at the same cost if the hash is empty. Call it within
// [Hasher.Do], which bounds how many passwords are compared at a time.
func (h *Hasher) Matches(password, stored string) (bool, error) {
	if stored == "" {
		_, err := argon2id.ComparePasswordAndHash(password, h.decoy)
		return false, err
	}
	return argon2id.ComparePasswordAndHash(password, stored)
}

// done releases the slot. After a single log-in it frees the memory; during many log-ins [Hasher.Tidy] does.
func (h *Hasher) done(release func()) {
	h.litter.Store(true)
	release()
	if time.Since(time.Unix(0, h.tidied.Load())) > tidyEvery {
		h.Tidy()
	}
}

// smallHeap is the size of live data above which the memory of a password (19 MB) is not worth a collection.
const smallHeap = 128 << 20

// tidyEvery keeps collections far below one percent of the work of a server with many log-ins.
const tidyEvery = 2 * time.Second

// Tidy returns the memory of past passwords to the system while no password is being hashed. Call it about once a
// second. The runtime would keep 20 to 40 MB for minutes, half of the memory of a small server. A collection of a small
// heap costs a millisecond or two.
func (h *Hasher) Tidy() {
	if h.queue.InUse() > 0 || !h.litter.Swap(false) {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(live); live[0].Value.Uint64() < smallHeap {
		h.tidied.Store(time.Now().UnixNano())
		h.release()
	}
}
