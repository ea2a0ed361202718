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
	channel = keyspace.DefChannel0(schema, "cluster:events", keyspace.RawMessages("previous entry, entry, event"),
		keyspace.Doc{Purpose: "events, at once"})
	stream = keyspace.Def0(schema, "cluster:events", keyspace.StreamOf("e: event"), keyspace.Forever("holds the latest"),
		keyspace.Doc{Purpose: "events, to catch up from"})
	keys = Keys{channel.At(), stream.At()}

	twinChannel = keyspace.DefChannel1[keyspace.Int](schema, "twin:{{n}}", keyspace.RawMessages("previous entry, entry, event"),
		keyspace.Doc{Purpose: "a channel that shares a tag with its log"})
	twinLog = keyspace.Def1[keyspace.Int](schema, "twin:{{n}}:log", keyspace.StreamOf("e: event"), keyspace.Forever("a test's"),
		keyspace.Doc{Purpose: "its log"})
)

// fast is a beat that keeps tests short.
const fast = 20 * time.Millisecond

// node is a running bus and the calls of its handler.
type node struct {
	*Bus
	mu   sync.Mutex
	got  []string // data of events, and "LOST"
	lost atomic.Int64
}

// newNode returns a bus with that name that does not run.
func newNode(t testing.TB, db *redis.DB, name string, cfg Config) *node {
	t.Helper()
	cfg.Node = name
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	n := &node{Bus: New(db, keys, cfg)}
	n.Handle("topic", Handler{Event: func(e Event) { n.record(e.Data) }, Lost: func() { n.lost.Add(1); n.record("LOST") }})
	return n
}

// join runs a bus with that name until the test ends, and returns when it has read the log for the first time.
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

func (n *node) record(s string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, s)
}

// received returns the events since the first beat.
func (n *node) received() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got[1:])
}

// caughtUp waits until the node has handled all entries of the log.
func (n *node) caughtUp(t testing.TB) {
	t.Helper()
	m := Now()
	eventually.True(t, "the log is handled", func() bool { return n.Seen() > m })
}

func (n *node) wants(t *testing.T, want ...string) {
	t.Helper()
	if got := n.received(); !slices.Equal(got, want) {
		t.Errorf("handled %d: %.300q, want %d: %.300q", len(got), got, len(want), want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
