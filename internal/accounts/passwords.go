package accounts

import (
	"context"
	"encoding/base64"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/alexedwards/argon2id"
)

// argon2 is OWASP's second recommendation: 19 MB, two passes, one lane; about
// 23 ms on the machine the project was measured on.
var argon2 = &argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// decoy returns what is compared with where there is no password, so that an
// unknown address takes as long as a known one. No password has this hash that
// anybody could find.
func decoy() string {
	zero := base64.RawStdEncoding.EncodeToString(make([]byte, argon2.KeyLength))
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", argon2.Memory, argon2.Iterations, argon2.Parallelism,
		zero[:base64.RawStdEncoding.EncodedLen(int(argon2.SaltLength))], zero)
}

// hasher hashes passwords, a bounded number at a time: each one takes 19 MB and
// a core for as long as it lasts.
type hasher struct {
	slots   chan struct{}
	litter  atomic.Bool  // hashed since the last release
	tidied  atomic.Int64 // Unix nanoseconds of the last release
	release func()       // debug.FreeOSMemory
}

func newHasher(n int) *hasher {
	if n == 0 {
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	return &hasher{slots: make(chan struct{}, n), release: debug.FreeOSMemory}
}

// take waits for a slot as long as ctx lasts.
func (h *hasher) take(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// put gives the slot back. A single log-in frees its memory itself; for many at once
// the job does so every other second.
func (h *hasher) put() {
	h.litter.Store(true)
	<-h.slots
	if time.Since(time.Unix(0, h.tidied.Load())) > tidyEvery {
		h.tidy()
	}
}

func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	if err := h.take(ctx); err != nil {
		return "", err
	}
	defer h.put()
	return argon2id.CreateHash(password, argon2)
}

// matches compares with stored, or with nothing at the same cost when stored is
// empty.
func (h *hasher) matches(ctx context.Context, password, stored string) (bool, error) {
	if err := h.take(ctx); err != nil {
		return false, err
	}
	defer h.put()
	if stored == "" {
		_, err := argon2id.ComparePasswordAndHash(password, decoy())
		return false, err
	}
	return argon2id.ComparePasswordAndHash(password, stored)
}

// smallHeap is how much live data makes the memory of a password (19 MB) not
// worth a collection.
const smallHeap = 128 << 20

// tidyEvery keeps collections far below a hundredth of the work of a server with
// many log-ins.
const tidyEvery = 2 * time.Second

// tidy gives the memory of past passwords back to the system while no password is
// being hashed. The runtime would keep 20 to 40 MB for minutes, half of all that a
// small server uses; a collection of a small heap costs a millisecond or two.
func (h *hasher) tidy() {
	if len(h.slots) > 0 || !h.litter.Swap(false) {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	if metrics.Read(live); live[0].Value.Uint64() < smallHeap {
		h.tidied.Store(time.Now().UnixNano())
		h.release()
	}
}
