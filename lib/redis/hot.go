package redis

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// A HotKey is a key that this DB uses often.
type HotKey struct {
	Key       keyspace.Key
	PerSecond float64 // estimated commands with it over the last minute or so
}

const (
	// hotSampleRate: one in hotSampleRate keys is counted, at random. It must be a power of two.
	hotSampleRate = 256
	// maxHotCounts is the number of keys counted at once. A key with more than one in maxHotCounts of all commands is
	// certain to be among them.
	maxHotCounts = 256
	// maxHotKeys is the largest number of keys that HotKeys returns.
	maxHotKeys = 32
	// hotDecay is the time constant of the decay: after it, about a third of a count is left.
	hotDecay = time.Minute
	// minHotCount is the smallest sampled count of a key that HotKeys returns.
	minHotCount = 4
)

// hot counts a sample of the keys in commands, in bounded memory. A key that is not counted yet replaces the key with
// the smallest count, and inherits that count (Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and
// top-k elements in data streams", 2005). Counts decay, so that they describe the present.
type hot struct {
	mu    sync.Mutex
	began time.Duration // by clock
	faded time.Duration
	by    map[string]*hotCount
}

type hotCount struct {
	key  keyspace.Key
	n    float64
	over float64 // part of n that was inherited from another key
}

func newHot() *hot { return &hot{began: clock(), faded: clock(), by: make(map[string]*hotCount)} }

// lone samples one command. luck contains at least eight random bits.
func (h *hot) lone(cmd *keyspace.Cmd, luck uint32) {
	if luck%hotSampleRate == 0 {
		h.command(cmd)
	}
}

// batch samples a pipeline. Instead of a random number for each command, it draws the number of commands to skip.
func (h *hot) batch(cmds []keyspace.Cmd) {
	for i := gap(); i < len(cmds); i += 1 + gap() {
		h.command(&cmds[i])
	}
}

// gap returns the number of commands before the next sampled one.
func gap() int { return int(rand.ExpFloat64() / -math.Log1p(-1./hotSampleRate)) }

// command counts one of the keys of a command, with the weight of all its keys.
func (h *hot) command(cmd *keyspace.Cmd) {
	key, n := cmd.Key, 1.
	if len(cmd.More) > 0 {
		if i := rand.N(1 + len(cmd.More)); i > 0 {
			key = cmd.More[i-1]
		}
		n = float64(1 + len(cmd.More))
	}
	if key.IsZero() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := clock(); now-h.faded > time.Second {
		h.fade(now)
	}
	c := h.by[key.String()]
	if c == nil {
		c = &hotCount{key: key}
		if len(h.by) >= maxHotCounts {
			least := h.least()
			delete(h.by, least.key.String())
			c.n, c.over = least.n, least.n
		}
		h.by[key.String()] = c
	}
	c.n += n
}

func (h *hot) least() (least *hotCount) {
	for _, c := range h.by {
		if least == nil || c.n < least.n {
			least = c
		}
	}
	return least
}

// fade applies the decay to all counts.
func (h *hot) fade(now time.Duration) {
	left := math.Exp(-float64(now-h.faded) / float64(hotDecay))
	for _, c := range h.by {
		c.n, c.over = c.n*left, c.over*left
	}
	h.faded = now
}

// HotKeys returns the most frequent keys in this DB's commands of the last minute or so, the most frequent first, at
// most 32. It is an estimate: one key in 256 is counted, and rare keys are omitted. Without [Config.HotKeys] it returns
// none.
func (db *DB) HotKeys() []HotKey {
	h := db.hot
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock()
	h.fade(now)
	// past is the effective time that the counts cover: hotDecay, or less shortly after the start.
	past := hotDecay.Seconds() * (1 - math.Exp(-float64(now-h.began)/float64(hotDecay)))
	var all []HotKey
	for _, c := range h.by {
		if n := c.n - c.over; n >= minHotCount {
			all = append(all, HotKey{c.key, n * hotSampleRate / max(past, 1)})
		}
	}
	slices.SortFunc(all, func(a, b HotKey) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return all[:min(len(all), maxHotKeys)]
}
