package bus

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

var (
	schema  = keyspace.New("bus")
	channel = keyspace.DefChannel0(schema, "cluster:events", keyspace.RawMessages("previous entry, entry, event"), keyspace.Doc{Purpose: "events, at once"})
	stream  = keyspace.Def0(schema, "cluster:events", keyspace.StreamOf("e: event"), keyspace.Forever("holds the latest"), keyspace.Doc{Purpose: "events, to catch up from"})
	keys    = Keys{channel.At(), stream.At()}

	twinChannel = keyspace.DefChannel1[keyspace.Int](schema, "twin:{{n}}", keyspace.RawMessages("previous entry, entry, event"), keyspace.Doc{Purpose: "a channel that shares a tag with its log"})
	twinLog     = keyspace.Def1[keyspace.Int](schema, "twin:{{n}}:log", keyspace.StreamOf("e: event"), keyspace.Forever("a test's"), keyspace.Doc{Purpose: "its log"})
)

// fast is a beat that does not make tests wait.
const fast = 20 * time.Millisecond

// node is a running bus and what its handler got.
type node struct {
	*Bus
	mu   sync.Mutex
	got  []string // data of events, and "LOST"
	lost atomic.Int64
}

// newNode returns a bus of that name which does not run.
func newNode(t testing.TB, db *redis.DB, name string, cfg Config) *node {
	t.Helper()
	cfg.Node = name
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	n := &node{Bus: New(db, keys, cfg)}
	n.Handle("topic", Handler{Event: func(e Event) { n.note(e.Data) }, Lost: func() { n.lost.Add(1); n.note("LOST") }})
	return n
}

// join runs a bus of that name until the test ends, and returns when it knows
// its place in the log.
func join(t testing.TB, db *redis.DB, name string, cfg Config) *node {
	t.Helper()
	n := newNode(t, db, name, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v, want %v", err, context.Canceled)
		}
	})
	eventually.True(t, "the first beat", func() bool { return n.Seen() != 0 })
	return n
}

func (n *node) note(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, s)
}

// heard is what came since the first beat.
func (n *node) heard() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got[1:])
}

// caughtUp waits until the node has handled all that is in the log.
func (n *node) caughtUp(t testing.TB) {
	t.Helper()
	m := Now()
	eventually.True(t, "the log to be handled", func() bool { return n.Seen() > m })
}

func (n *node) wants(t *testing.T, want ...string) {
	t.Helper()
	if got := n.heard(); !slices.Equal(got, want) {
		t.Errorf("handled %d: %.300q, want %d: %.300q", len(got), got, len(want), want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
