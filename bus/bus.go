package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
)

const (
	defaultBeat = 100 * time.Millisecond
	defaultKeep = 10_000
	// page is how many entries of the log one command reads.
	page = 1000
	// leastBudget lets a beat succeed on a busy machine; a black hole holds one
	// up for so long.
	leastBudget = 100 * time.Millisecond
	// pause separates beats that gaps ask for.
	pause = 2 * time.Millisecond
	// waiting is how many messages may wait for a gap before them to be filled.
	waiting = 1000
)

var (
	//go:embed lua/publish.lua
	publishLua string
	publish    = redis.NewScript(publishLua)
)

// Keys are where a bus lives. In a cluster both must share a slot: give them
// the same name, which a channel and a key may have.
type Keys struct {
	Events keyspace.Channel // for speed
	Log    keyspace.Stream  // to catch up from
}

// Config says who speaks and how often the log is looked at.
type Config struct {
	// Node names this process; no other, and no earlier one, has the same name.
	Node string
	// Beat is how often the log is looked at; 0 means 100 ms. It bounds how long
	// a lost message stays unnoticed.
	Beat time.Duration
	// Keep is how many events the log holds, about; 0 means 10,000. A node that
	// was cut off for longer loses track and is told so.
	Keep int
	// Log gets a line when the node loses track and when beats fail; nil discards.
	Log *slog.Logger
}

// Event is something that happened on another node.
type Event struct {
	ID    string    // of the event, unique
	Node  string    // that published it
	Topic string    // which handler it is for
	Name  string    // what happened
	At    time.Time // by that node's clock, in milliseconds
	Data  string    // of the topic's own format
}

// Handler gets what happens to one topic. The functions are called one at a
// time and should be quick: they hold up all other topics.
type Handler struct {
	// Event gets each event of another node, in the log's order, each once. Nil
	// is allowed.
	Event func(Event)
	// Lost says that events may have been missed: forget whatever they would
	// have changed, also what is being read at this moment. It is called at the
	// start, too. Nil is allowed.
	Lost func()
}

// Bus carries events between nodes. It is safe for concurrent use.
type Bus struct {
	db       *redis.DB
	keys     Keys
	cfg      Config
	verb     string // PUBLISH or SPUBLISH
	channel  string
	boot     string // begins the ids of this process' events
	count    atomic.Uint64
	handlers map[string]Handler
	nudge    chan struct{} // asks for a beat at once

	mu      sync.Mutex
	last    entry // the last one handled; zero before the first beat
	waiting []message

	seen atomic.Int64
	era  atomic.Uint64
	zero atomic.Int64 // Unix ns of the servers at moment 0; 0 while unknown
}

// New returns a bus on db. It panics when the keys cannot be used together,
// which is the program's mistake.
func New(db *redis.DB, keys Keys, cfg Config) *Bus {
	if !word(cfg.Node) {
		panic(fmt.Sprintf("bus: %q cannot name a node", cfg.Node))
	}
	physical := db.Physical(keyspace.Key{}) + keys.Events.String()
	if keyspace.Slot(physical) != keyspace.Slot(db.Physical(keys.Log.Key)) {
		panic(fmt.Sprintf("bus: the channel %s and the log %s do not share a slot", keys.Events, keys.Log))
	}
	cfg.Beat, cfg.Keep = cmp.Or(cfg.Beat, defaultBeat), cmp.Or(cfg.Keep, defaultKeep)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Bus{db: db, keys: keys, cfg: cfg, verb: "PUBLISH", channel: physical, boot: rand.Text()[:10] + "-",
		handlers: map[string]Handler{}, nudge: make(chan struct{}, 1)}
	if db.Mode() == "cluster" {
		b.verb = "SPUBLISH"
	}
	return b
}

// Handle has h get the events of a topic. Call it before [Bus.Run], once for
// each topic.
func (b *Bus) Handle(topic string, h Handler) {
	if _, twice := b.handlers[topic]; twice || !word(topic) {
		panic(fmt.Sprintf("bus: %q is no topic, or handled twice", topic))
	}
	b.handlers[topic] = h
}

// Publish tells every other node. Without an error the event is in the log;
// after [redis.ErrUnavailable] it may be.
func (b *Bus) Publish(ctx context.Context, topic, name, data string) error {
	if err := b.db.Do(ctx, b.PublishCmd(topic, name, data)).Err; err != nil {
		return fmt.Errorf("bus: publish %s of %s: %w", name, topic, err)
	}
	return nil
}

// PublishCmd is the command behind Publish, for a pipeline of the same DB. It
// panics when topic or name are empty or have a space in them.
func (b *Bus) PublishCmd(topic, name, data string) keyspace.Cmd {
	if !word(topic) || !word(name) {
		panic(fmt.Sprintf("bus: %q of %q is no event", name, topic))
	}
	e := Event{b.boot + strconv.FormatUint(b.count.Add(1), 36), b.cfg.Node, topic, name, time.Now(), data}
	return publish.Cmd([]keyspace.Key{b.keys.Log.Key}, b.verb, b.channel, strconv.Itoa(b.cfg.Keep), e.encode())
}

// Run listens and handles until ctx ends, and returns its error. It calls ready
// at once: Redis may be away, see [Bus.Seen].
func (b *Bus) Run(ctx context.Context, ready func()) error {
	var listener sync.WaitGroup
	defer listener.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var fault error
	listener.Go(func() {
		defer cancel() // the DB was closed
		fault = b.db.Subscribe(ctx, b.keys.Events, redis.Handler{Message: b.message, Subscribed: b.ask})
	})
	ready()
	failing := false
	for {
		err := b.beat(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil && !failing {
			b.cfg.Log.Warn("the event log cannot be read", "err", err)
		}
		failing = err != nil
		wait(ctx, pause)
		b.sleep(ctx)
	}
	cancel()
	listener.Wait()
	return fault
}

// sleep waits for the next beat or for somebody who asks for it.
func (b *Bus) sleep(ctx context.Context) {
	t := time.NewTimer(b.cfg.Beat - pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-b.nudge:
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// ask has the next beat begin at once.
func (b *Bus) ask() {
	select {
	case b.nudge <- struct{}{}:
	default:
	}
}

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
// the newest writes. It is the same on all nodes, and 0 while unknown.
func (b *Bus) Era() uint64 { return b.era.Load() }

// message takes what was published.
func (b *Bus) message(payload string) {
	m, err := decodeMessage(payload)
	if err != nil {
		b.cfg.Log.Warn("unreadable message", "err", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.take(m) {
		return
	}
	if len(b.waiting) < waiting {
		b.waiting = append(b.waiting, m)
	}
	b.ask()
}

// take handles a message whose predecessor was the last one handled, and skips
// what was handled before; it reports whether it could.
func (b *Bus) take(m message) bool {
	switch {
	case b.last.id == "":
		return false
	case m.prev == b.last.id:
		b.handle(m.entry)
		return true
	}
	return !b.last.before(m.entry)
}

// handle hands an entry to its handler and makes it the last.
func (b *Bus) handle(e entry) {
	b.last = e
	if e.event.Node == b.cfg.Node {
		return
	}
	if h := b.handlers[e.event.Topic]; h.Event != nil {
		h.Event(e.event)
	}
}

// beat reads what the log has more, and who keeps it.
func (b *Bus) beat(ctx context.Context) error {
	began := Now()
	for more := true; more; {
		var err error
		if more, err = b.catchUp(ctx); err != nil {
			return err
		}
	}
	// After the log: if the server was replaced in between, it is seen here.
	asking, cancel := b.budget(ctx)
	defer cancel()
	print, err := b.db.Fingerprint(asking)
	if err != nil {
		return err
	}
	if err := b.readClock(asking); err != nil {
		return err
	}
	h := fnv.New64a()
	h.Write([]byte(print))
	era := h.Sum64() | 1 // never 0
	if before := b.era.Swap(era); before != era && before != 0 {
		b.lost("a server was restarted or replaced")
	}
	b.seen.Store(int64(began))
	return nil
}

// budget bounds one step of a beat.
func (b *Bus) budget(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(b.cfg.Beat/2, leastBudget))
}

// catchUp handles a page of the log after the last entry; more says that it was
// a full one.
func (b *Bus) catchUp(ctx context.Context) (more bool, err error) {
	ctx, cancel := b.budget(ctx)
	defer cancel()
	b.mu.Lock()
	last := b.last
	b.mu.Unlock()
	if last.id == "" {
		return false, b.begin(ctx, "")
	}
	entries, err := b.read(ctx, "XRANGE", last.id, "+", page)
	if err != nil {
		return false, err
	}
	// The log holds on to what comes after the last entry only if that one is
	// still there, and still the same: after a flush another may have its id.
	if len(entries) == 0 || entries[0].id != last.id || entries[0].event.ID != last.event.ID {
		return false, b.begin(ctx, "the log was trimmed or emptied")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries[1:] {
		if b.last.before(e) { // else it came as a message meanwhile
			b.handle(e)
		}
	}
	for _, m := range b.waiting {
		if !b.take(m) {
			b.ask()
			break
		}
	}
	b.waiting = b.waiting[:0]
	return len(entries) == page, nil
}

// begin starts from the end of the log, after which nothing is missed.
func (b *Bus) begin(ctx context.Context, why string) error {
	newest, err := b.read(ctx, "XREVRANGE", "+", "-", 1)
	if err == nil && len(newest) == 0 {
		// An entry to hold on to.
		if err = b.Publish(ctx, "bus", "hello", ""); err == nil {
			newest, err = b.read(ctx, "XREVRANGE", "+", "-", 1)
		}
	}
	if err == nil && len(newest) == 0 {
		err = errors.New("bus: the log does not keep anything")
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.last, b.waiting = newest[0], b.waiting[:0]
	b.mu.Unlock()
	b.lost(why)
	return nil
}

// lost tells every topic; why is empty at the start.
func (b *Bus) lost(why string) {
	if why != "" {
		b.cfg.Log.Warn("events may have been missed", "why", why)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.handlers {
		if h.Lost != nil {
			h.Lost()
		}
	}
}

// read returns entries of the log.
func (b *Bus) read(ctx context.Context, verb, from, to string, count int) ([]entry, error) {
	items, err := b.db.Do(ctx, keyspace.Cmd{Name: verb, Key: b.keys.Log.Key, Args: []string{from, to, "COUNT", strconv.Itoa(count)}}).Items()
	if err != nil {
		return nil, fmt.Errorf("bus: %s: %w", verb, err)
	}
	entries := make([]entry, len(items))
	for i, it := range items {
		if len(it.List) != 2 || len(it.List[1].List) != 2 {
			return nil, fmt.Errorf("%w: %s of %s", keyspace.ErrReply, verb, b.keys.Log)
		}
		if entries[i], err = decodeEntry(it.List[0].Str, it.List[1].List[1].Str); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// word reports whether s can stand in an encoded event.
func word(s string) bool { return s != "" && !strings.ContainsAny(s, " \r\n") }
