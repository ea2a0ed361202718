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

// A HotKey is a key that this DB uses much.
type HotKey struct {
	Key       keyspace.Key
	PerSecond float64 // commands with it, over the last minute or so; an estimate
}

const (
	// hotSampled is one in how many keys is counted, chosen by chance. A power of two.
	hotSampled = 256
	// hotKept is how many keys are counted at once. A key with more than one in
	// hotKept of all commands is certain to be among them.
	hotKept = 256
	// hotShown is how many HotKeys returns at most.
	hotShown = 32
	// hotMemory is the time in which a count fades to a third.
	hotMemory = time.Minute
	// hotLeast is how often a key must have been drawn to be told of.
	hotLeast = 4
)

// hot counts a sample of the keys in commands, in bounded memory: a key that is not
// counted yet takes the place of the one counted least, and its count with it
// (Metwally, Agrawal and El Abbadi, "Efficient computation of frequent and top-k
// elements in data streams", 2005). Counts fade, so that they speak of now.
type hot struct {
	mu    sync.Mutex
	began time.Duration // by clock
	faded time.Duration
	by    map[string]*hotCount
}

type hotCount struct {
	key  keyspace.Key
	n    float64
	over float64 // part of n that was another key's
}

func newHot() *hot { return &hot{began: clock(), faded: clock(), by: make(map[string]*hotCount)} }

// lone is told of one command. luck are eight random bits or more.
func (h *hot) lone(cmd *keyspace.Cmd, luck uint32) {
	if luck%hotSampled == 0 {
		h.command(cmd)
	}
}

// batch is told of a pipeline. Instead of drawing for each command it draws how many
// to pass over.
func (h *hot) batch(cmds []keyspace.Cmd) {
	for i := gap(); i < len(cmds); i += 1 + gap() {
		h.command(&cmds[i])
	}
}

// gap returns how many commands lie before the next one that is drawn.
func gap() int { return int(rand.ExpFloat64() / -math.Log1p(-1./hotSampled)) }

// command counts one of the keys of a command for all of them.
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
		if len(h.by) >= hotKept {
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

// fade lets all counts grow old.
func (h *hot) fade(now time.Duration) {
	left := math.Exp(-float64(now-h.faded) / float64(hotMemory))
	for _, c := range h.by {
		c.n, c.over = c.n*left, c.over*left
	}
	h.faded = now
}

// HotKeys returns the keys in this DB's commands of the last minute or so that were
// there most, the first of them first; 32 at most. It is an estimate: one key in 256
// is counted, and rare ones are left out. Without [Config.HotKeys] there are none.
func (db *DB) HotKeys() []HotKey {
	h := db.hot
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock()
	h.fade(now)
	// A count is what the past weighs: hotMemory of it, or less in the beginning.
	past := hotMemory.Seconds() * (1 - math.Exp(-float64(now-h.began)/float64(hotMemory)))
	var all []HotKey
	for _, c := range h.by {
		if n := c.n - c.over; n >= hotLeast {
			all = append(all, HotKey{c.key, n * hotSampled / max(past, 1)})
		}
	}
	slices.SortFunc(all, func(a, b HotKey) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return all[:min(len(all), hotShown)]
}
