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

// Keys are the channel and the stream of a bus. In a cluster both must share a slot: use the same name for both, which
// is allowed for a channel and a key.
type Keys struct {
	Events keyspace.Channel // fast, but may lose messages
	Log    keyspace.Stream  // stores events, from which nodes catch up
}

// Config names the node and sets how often it reads the log.
type Config struct {
	// Node names this process in logs and for handlers, [Event.Node]. It is only a label: a process distinguishes its
	// own events by a random number. Two processes with one name, by mistake or after a restart, therefore still
	// receive each other's events.
	Node string
	// Beat is the interval of reading the log; 0 means 100 ms. Without calls of [Bus.Seen], the interval grows to three
	// times Beat, unless [Bus.KeepWithin] asks for less. It bounds how long a lost message stays undetected.
	Beat time.Duration
	// Keep is the smallest number of events in the log; 0 means 10,000. A node that misses more events gets
	// [Handler.Lost].
	Keep int
	// Log gets a line when events may have been missed, and when the log cannot be read; nil discards it.
	Log *slog.Logger
}

// Event is an event of another node.
type Event struct {
	ID    string    // unique
	Node  string    // node that published it
	Topic string    // selects the handler
	Name  string    // kind of event
	At    time.Time // by that node's clock, in milliseconds; do not compare it with another node's
	Data  string    // in the topic's own format
}

// Handler gets the events of one topic. The functions are called one at a time and must be quick, because they delay
// all other topics.
type Handler struct {
	// Event is called with each event of another node. Published events are in the order of the log, each once. It may
	// be nil.
	Event func(Event)
	// Lost is called when published events may have been missed: drop everything that they could have changed,
	// including what is being read at this moment. It is also called at the start. It may be nil.
	Lost func()
}

// Bus broadcasts events between nodes. It is safe for concurrent use.
type Bus struct {
	db       *redis.DB
	keys     Keys
	cfg      Config
	verb     string // PUBLISH or SPUBLISH
	channel  string // physical
	boot     string // prefix of this process' event ids, and of no other's
	count    atomic.Uint64
	handlers map[string]Handler

	nudge chan struct{} // requests a beat at once

	mu      sync.Mutex // held while handlers run
	last    entry      // the last handled entry; empty before the first beat
	waiting []message  // messages after a gap

	page    int    // number of entries that the next command reads; only used by Run
	clocked Moment // when the servers' clock was read; only used by Run

	seen  atomic.Int64
	heard atomic.Bool // the last beat got replies
	era   atomic.Uint64
	zero  atomic.Int64  // Unix ns of the servers at moment 0; 0 if unknown
	used  atomic.Bool   // Seen was called since the last beat
	rests atomic.Bool   // the next beat is later than after Config.Beat
	rest  atomic.Int64  // the longest interval of two beats, in nanoseconds
	up    chan struct{} // closed by the first successful beat
	stats stats
}

// New is [Open] for names that are constants of the program: it panics instead of returning an error.
func New(db *redis.DB, keys Keys, cfg Config) *Bus {
	b, err := Open(db, keys, cfg)
	if err != nil {
		panic(err.Error())
	}
	return b
}

// Open returns a bus on db; it sends nothing. It returns an error if the keys do not share a slot, or if Node is empty
// or contains a space.
func Open(db *redis.DB, keys Keys, cfg Config) (*Bus, error) {
	if !word(cfg.Node) {
		return nil, fmt.Errorf("bus: invalid node name %q: it must not be empty or contain spaces", cfg.Node)
	}
	channel := db.Physical(keyspace.Key{}) + keys.Events.String()
	if keyspace.Slot(channel) != keyspace.Slot(db.Physical(keys.Log.Key)) {
		return nil, fmt.Errorf("bus: the channel %s and the log %s do not share a slot", keys.Events, keys.Log)
	}
	cfg.Beat, cfg.Keep = cmp.Or(cfg.Beat, defaultBeat), cmp.Or(cfg.Keep, defaultKeep)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Bus{db: db, keys: keys, cfg: cfg, verb: "PUBLISH", channel: channel, boot: rand.Text()[:10] + "-", page: maxPage,
		handlers: map[string]Handler{}, nudge: make(chan struct{}, 1), up: make(chan struct{})}
	b.rest.Store(int64(restBeats * cfg.Beat))
	if db.Mode() == "cluster" {
		b.verb = "SPUBLISH"
	}
	return b, nil
}

// Beat returns the interval of reading the log.
func (b *Bus) Beat() time.Duration { return b.cfg.Beat }

// Handle sets the handler of a topic. Call it before [Bus.Run], once for each topic.
func (b *Bus) Handle(topic string, h Handler) {
	if _, twice := b.handlers[topic]; twice || !word(topic) {
		panic(fmt.Sprintf("bus: %q is not a valid topic, or already has a handler", topic))
	}
	b.handlers[topic] = h
}

// Publish broadcasts an event to every other node. Without an error the event is in the log; after
// [redis.ErrUnavailable] it may be. Limit data to a few kilobytes, because each node reads the newest event again with
// each beat.
func (b *Bus) Publish(ctx context.Context, topic, name, data string) error {
	if err := b.db.Do(ctx, b.PublishCmd(topic, name, data)).Err; err != nil {
		return fmt.Errorf("bus: publish %s of %s: %w", name, topic, err)
	}
	return nil
}

// PublishCmd returns the command of Publish, for a pipeline of the same DB. In a cluster, commands on other slots are
// executed before or after it. It panics if topic or name are empty or contain a space.
func (b *Bus) PublishCmd(topic, name, data string) keyspace.Cmd {
	return publish.Cmd([]keyspace.Key{b.keys.Log.Key}, b.verb, b.channel, strconv.Itoa(b.cfg.Keep), b.event(topic, name, data))
}

// Pass broadcasts an event to the nodes that are subscribed at this moment, and does not store it: a disconnected node
// misses the event and is not notified of that. It costs a third of Publish, and has no order relative to published
// events.
func (b *Bus) Pass(ctx context.Context, topic, name, data string) error {
	if err := b.db.Publish(ctx, b.keys.Events, passing+b.event(topic, name, data)); err != nil {
		return fmt.Errorf("bus: pass %s of %s: %w", name, topic, err)
	}
	return nil
}

// event returns a new event of this node, encoded.
func (b *Bus) event(topic, name, data string) string {
	if !word(topic) || !word(name) {
		panic(fmt.Sprintf("bus: %q of %q is not a valid event", name, topic))
	}
	return Event{b.boot + strconv.FormatUint(b.count.Add(1), 36), b.cfg.Node, topic, name, time.Now(), data}.encode()
}

// word reports whether s can be a word of an encoded event.
func word(s string) bool { return s != "" && !strings.ContainsAny(s, " \r\n") }

// Moment is a point in time of this process, in nanoseconds of its monotonic clock. It has no meaning in another
// process.
type Moment int64

var start = time.Now()

// Now returns the present moment, which is never 0.
func Now() Moment { return Moment(time.Since(start)) + 1 }

// Seen returns a recent moment. This node has handled all events that were in the log at that moment; 0 before the
// first beat. It does not advance while Redis is unavailable.
func (b *Bus) Seen() Moment {
	if !b.used.Load() {
		if b.used.Store(true); b.rests.Load() {
			b.requestBeat()
		}
	}
	return Moment(b.seen.Load())
}

// KeepWithin shortens the longest interval of beats, so that [Bus.Seen] returns a moment less than d ago while Redis
// answers, also after a time without calls. Two beats of that time are a reserve. No interval is shorter than
// Config.Beat.
func (b *Bus) KeepWithin(d time.Duration) {
	rest := int64(max(d-2*b.cfg.Beat, b.cfg.Beat))
	for {
		if old := b.rest.Load(); rest >= old || b.rest.CompareAndSwap(old, rest) {
			return
		}
	}
}

// Connected reports whether Redis answered the last beat. Unlike [Bus.Seen], it does not shorten the interval of beats.
func (b *Bus) Connected() bool { return b.heard.Load() }

// Era changes when a server was restarted or failed over and may have lost the newest writes. It is the same on all
// nodes, and 0 while unknown. [Handler.Lost] of each topic is called before [Bus.Seen] passes the change.
func (b *Bus) Era() uint64 { return b.era.Load() }

// Stats are the counts since the start.
type Stats struct {
	Events  uint64 // published events of other nodes, for any topic
	FromLog uint64 // Events that were read from the log because their message had not arrived
	Passed  uint64 // events of other nodes that were only passed
	Lost    uint64 // times that events may have been missed, except for the start
	Beats   uint64
	Failed  uint64 // beats without a reply of Redis
}

type stats struct{ events, fromLog, passed, lost, beats, failed atomic.Uint64 }

// Stats returns the counts.
func (b *Bus) Stats() Stats {
	s := &b.stats
	// A part is read before its total, so that it is never greater.
	fromLog, failed := s.fromLog.Load(), s.failed.Load()
	return Stats{s.events.Load(), fromLog, s.passed.Load(), s.lost.Load(), s.beats.Load(), failed}
}
