package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	defaultBeat = 100 * time.Millisecond
	defaultKeep = 10_000
)

var (
	//go:embed lua/publish.lua
	publishLua string
	publish    = redis.NewScript(publishLua)
)

// Keys are the channel and the stream of a bus. In a cluster both must share a slot: give them
// the same name, which a channel and a key may have.
type Keys struct {
	Events keyspace.Channel // delivers fast, and may lose messages
	Log    keyspace.Stream  // keeps events, to catch up from
}

// Config names the node and says how often it reads the log.
type Config struct {
	// Node names this process to people and to handlers, [Event.Node]. It is a label: a
	// process tells its own events from others by a random number, so that two processes
	// of one name, by mistake or after a restart, hear each other.
	Node string
	// Beat is the interval at which the log is read; 0 means 100 ms. It bounds how long
	// a lost message stays unnoticed.
	Beat time.Duration
	// Keep is how many events the log holds at least; 0 means 10,000. A node that
	// misses more events than that gets [Handler.Lost].
	Keep int
	// Log gets a line when events may have been missed, and when the log cannot
	// be read; nil discards.
	Log *slog.Logger
}

// Event is something that happened on another node.
type Event struct {
	ID    string    // of the event, unique
	Node  string    // that published it
	Topic string    // which handler it is for
	Name  string    // what happened
	At    time.Time // by that node's clock, in milliseconds; compare it with no other node's
	Data  string    // in the topic's own format
}

// Handler gets what happens to one topic. The functions are called one at a
// time and must be quick: they hold up all other topics.
type Handler struct {
	// Event gets each event of another node: those that were published in the
	// log's order, each once. Nil is allowed.
	Event func(Event)
	// Lost says that events that were published may have been missed: forget
	// whatever they would have changed, also what is being read at this moment.
	// It is called at the start, too. Nil is allowed.
	Lost func()
}

// Bus carries events between nodes. It is safe for concurrent use.
type Bus struct {
	db       *redis.DB
	keys     Keys
	cfg      Config
	verb     string // PUBLISH or SPUBLISH
	channel  string // physical
	boot     string // begins the ids of this process' events, and of no other's
	count    atomic.Uint64
	handlers map[string]Handler

	nudge chan struct{} // asks for a beat at once

	mu      sync.Mutex // held while handlers run
	last    entry      // the last one handled; none before the first beat
	waiting []message  // that came after a gap

	page int // how many entries the next command reads; of Run alone

	seen  atomic.Int64
	era   atomic.Uint64
	zero  atomic.Int64  // Unix ns of the servers at moment 0; 0 while unknown
	up    chan struct{} // closed by the first good beat
	stats stats
}

// New is [Open] for names that stand in the program: it panics instead of returning an
// error.
func New(db *redis.DB, keys Keys, cfg Config) *Bus {
	b, err := Open(db, keys, cfg)
	if err != nil {
		panic(err.Error())
	}
	return b
}

// Open returns a bus on db; it sends nothing. It fails when the keys do not share a slot,
// or when Node is empty or has a space in it.
func Open(db *redis.DB, keys Keys, cfg Config) (*Bus, error) {
	if !word(cfg.Node) {
		return nil, fmt.Errorf("bus: %q cannot name a node", cfg.Node)
	}
	channel := db.Physical(keyspace.Key{}) + keys.Events.String()
	if keyspace.Slot(channel) != keyspace.Slot(db.Physical(keys.Log.Key)) {
		return nil, fmt.Errorf("bus: the channel %s and the log %s do not share a slot", keys.Events, keys.Log)
	}
	cfg.Beat, cfg.Keep = cmp.Or(cfg.Beat, defaultBeat), cmp.Or(cfg.Keep, defaultKeep)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Bus{db: db, keys: keys, cfg: cfg, verb: "PUBLISH", channel: channel, boot: rand.Text()[:10] + "-", page: page,
		handlers: map[string]Handler{}, nudge: make(chan struct{}, 1), up: make(chan struct{})}
	if db.Mode() == "cluster" {
		b.verb = "SPUBLISH"
	}
	return b, nil
}

// Beat is the interval at which the log is read.
func (b *Bus) Beat() time.Duration { return b.cfg.Beat }

// Handle has h get the events of a topic. Call it before [Bus.Run], once for
// each topic.
func (b *Bus) Handle(topic string, h Handler) {
	if _, twice := b.handlers[topic]; twice || !word(topic) {
		panic(fmt.Sprintf("bus: %q is no topic, or is handled twice", topic))
	}
	b.handlers[topic] = h
}

// Publish tells every other node. Without an error the event is in the log;
// after [redis.ErrUnavailable] it may be. Keep data within some kilobytes: each
// node reads the newest event anew with each beat.
func (b *Bus) Publish(ctx context.Context, topic, name, data string) error {
	if err := b.db.Do(ctx, b.PublishCmd(topic, name, data)).Err; err != nil {
		return fmt.Errorf("bus: publish %s of %s: %w", name, topic, err)
	}
	return nil
}

// PublishCmd is the command behind Publish, for a pipeline of the same DB; in a
// cluster, commands on other slots are carried out before it or after. It panics
// when topic or name are empty or have a space in them.
func (b *Bus) PublishCmd(topic, name, data string) keyspace.Cmd {
	return publish.Cmd([]keyspace.Key{b.keys.Log.Key}, b.verb, b.channel, strconv.Itoa(b.cfg.Keep), b.event(topic, name, data))
}

// Pass tells the nodes that listen at this moment and keeps nothing: a node that is
// cut off misses the event and never learns of it. It costs a third of Publish, and has no
// order with what is published.
func (b *Bus) Pass(ctx context.Context, topic, name, data string) error {
	if err := b.db.Publish(ctx, b.keys.Events, passing+b.event(topic, name, data)); err != nil {
		return fmt.Errorf("bus: pass %s of %s: %w", name, topic, err)
	}
	return nil
}

// event returns a new event of this node, encoded.
func (b *Bus) event(topic, name, data string) string {
	if !word(topic) || !word(name) {
		panic(fmt.Sprintf("bus: %q of %q is no event", name, topic))
	}
	return Event{b.boot + strconv.FormatUint(b.count.Add(1), 36), b.cfg.Node, topic, name, time.Now(), data}.encode()
}

// word reports whether s can stand in an encoded event.
func word(s string) bool { return s != "" && !strings.ContainsAny(s, " \r\n") }

// Moment is a point in time of this process, in nanoseconds of its monotonic
// clock. It means nothing to another process.
type Moment int64

var start = time.Now()

// Now returns the present moment, which is never 0.
func Now() Moment { return Moment(time.Since(start)) + 1 }

// Seen returns the latest moment of which is known that everything that was in
// the log then has been handled here; 0 before the first beat. It stands still
// while Redis is away.
func (b *Bus) Seen() Moment { return Moment(b.seen.Load()) }

// Era changes when a server was restarted or failed over, which may have cost
// the newest writes. It is the same on all nodes, and 0 while unknown. Topics
// are told [Handler.Lost] before [Bus.Seen] passes the change.
func (b *Bus) Era() uint64 { return b.era.Load() }

// Stats counts what happened since the start.
type Stats struct {
	Events  uint64 // of other nodes, that were published, for any topic
	FromLog uint64 // of these, read from the log because their message had not come
	Passed  uint64 // of other nodes, that were only passed
	Lost    uint64 // times that events may have been missed; the start does not count
	Beats   uint64
	Failed  uint64 // beats that Redis did not answer
}

type stats struct{ events, fromLog, passed, lost, beats, failed atomic.Uint64 }

// Stats returns the counts.
func (b *Bus) Stats() Stats {
	s := &b.stats
	// A part is read before the whole, so that it is never the greater one.
	fromLog, failed := s.fromLog.Load(), s.failed.Load()
	return Stats{s.events.Load(), fromLog, s.passed.Load(), s.lost.Load(), s.beats.Load(), failed}
}
