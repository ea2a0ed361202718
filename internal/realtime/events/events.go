package events

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Event is one thing that happened to one user, or on another channel.
type Event struct {
	ID   string          `json:"id"`
	Type string          `json:"type"` // "checkin.marked"
	User string          `json:"user" doc:"whom it happened to; empty where it happened to all of a channel"`
	Time int64           `json:"time" doc:"Unix milliseconds"`
	Data json.RawMessage `json:"data"` // what api.EventData has for Type

	// On is the channel that the event goes to; empty: the user's own. Its name has a
	// slash, as no user's id has. An event without a user, too, goes to Channel alone.
	On string `json:"-"`

	// Fleeting is an event that is of use at once or not at all: it has no offset, and
	// whoever resumes does not get it.
	Fleeting bool `json:"-"`

	// Channel, unless it is zero, has the event published there as well, as this
	// very JSON, for programs beside the server that subscribe in Redis.
	Channel keyspace.Messages[Event] `json:"-"`
}

// Payload is that of a channel on which programs beside the server get events of these types.
func Payload(types ...string) keyspace.Payload[keyspace.Messages[Event]] {
	data := map[string]any{}
	for _, typ := range types {
		data[typ] = api.EventData[typ]
	}
	return keyspace.MessagesOf[Event]().Carrying(data)
}

// New returns an event that happened at that time.
func New(typ, user string, at time.Time, data json.RawMessage) Event {
	return Event{ID: ids.New[Event]().String(), Type: typ, User: user, Time: at.UnixMilli(), Data: data}
}

// Encode returns data, a wire type, as events of that type have it. What has no JSON is a fault of the program: it is
// logged, and ok is false.
func Encode(log *slog.Logger, typ string, data any) (_ json.RawMessage, ok bool) {
	text, err := json.Marshal(data)
	if err != nil {
		log.Error("an event cannot be encoded", "type", typ, "err", err)
	}
	return text, err == nil
}

// channel is where e goes.
func (e *Event) channel() string { return cmp.Or(e.On, e.User) }

// lasts reports whether who has not got e has to look at the truth, as for all but fleeting events of
// users' own channels.
func (e Event) lasts() bool { return !e.Fleeting || e.On != "" }

// appendJSON is json.Marshal for an event, whose texts need no escaping and
// whose data is JSON already; it is on the way of every check-in.
func (e *Event) appendJSON(b []byte) []byte {
	b = append(b, `{"id":"`+e.ID+`","type":"`+e.Type+`","user":"`+e.User+`","time":`...)
	b = strconv.AppendInt(b, e.Time, 10)
	b = append(b, `,"data":`...)
	return append(append(b, e.Data...), '}')
}

// AppendWire appends the event as clients get it, the JSON of an api.Event.
func (e *Event) AppendWire(b []byte) []byte {
	b = append(b, `{"id":"`+e.ID+`","type":"`+e.Type+`","time":"`...)
	b = api.AppendTime(b, time.UnixMilli(e.Time))
	b = append(b, `","data":`...)
	return append(append(b, e.Data...), '}')
}

// Position is a place among the events of a channel. Offsets count from 1 within an
// epoch; those of two epochs have nothing to do with each other.
type Position struct {
	Epoch  string
	Offset uint64
}

const (
	waiting = 1024 // batches that may wait to be sent

	// crowded is behind how many events those that do not last are left out: they leave room for others.
	crowded = waiting / 2
)

// Bus carries events to listeners on this node and on all others.
type Bus struct {
	nodes  *bus.Bus
	db     *redis.DB
	node   string
	log    *slog.Logger
	live   func(context.Context) ([]string, error)
	behind func() bool
	ahead  func(channels []string)
	out    chan []Event
	queued atomic.Int64 // events in out
	paced  chan []Event
	doubt  chan struct{} // asks for a look at where channels stand
	stale  atomic.Bool   // that look is to begin new epochs
	gap    atomic.Bool   // that look is the first one since events may have been lost on their way here
	dead   chan struct{} // others may have taken this node for dead
	era    uint64        // of nodes, in which the last look was made; keepRight's alone

	mu       sync.Mutex
	channels map[string]*channel

	unsent unsent
	stats  stats
}

// NewBus returns a bus for this node; node is never used by another process.
func NewBus(db *redis.DB, node string, log *slog.Logger) *Bus {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Bus{nodes: bus.New(db, between, bus.Config{Node: node, Keep: keepEvents, Log: log}), db: db, node: node, log: log, behind: func() bool { return false }, ahead: func([]string) {},
		out: make(chan []Event, waiting), paced: make(chan []Event), doubt: make(chan struct{}, 1), dead: make(chan struct{}, 1), channels: map[string]*channel{}}
	b.nodes.Handle(topic, bus.Handler{
		Event: func(bus.Event) { b.resetAll() },
		Lost:  b.look,
	})
	return b
}

// topic is what nodes tell each other about channels.
const topic = "channels"

// Nodes is the bus between nodes, for topics that must not miss an event. Topics
// are handled from [Bus.Run] on; have them handled before.
func (b *Bus) Nodes() *bus.Bus { return b.nodes }

// SetLive has names of nodes that do not live taken off the channels to which this node
// comes to listen. live returns those that do. Call it before [Bus.Run]. Without it they
// stay until the keys' life has ended.
func (b *Bus) SetLive(live func(context.Context) ([]string, error)) { b.live = live }

// SetBehind has the bus begin no epoch of a channel of which it could not send an event while
// behind reports that Redis misses something that this node has acknowledged: a listener that
// is told Lost looks at the truth, and another node may answer it from Redis. Call it before [Bus.Run].
func (b *Bus) SetBehind(behind func() bool) { b.behind = behind }

// SetAhead has ahead told of the channels of events that are about to be handed on together, some of them perhaps twice
// or without a listener; they wait until it returns. Call it before [Bus.Run].
func (b *Bus) SetAhead(ahead func(channels []string)) { b.ahead = ahead }

// TakenForDead says that this node lives, after others may have taken it for dead, and off its
// channels. It listens to them again and finds out what was missed.
func (b *Bus) TakenForDead() {
	select {
	case b.dead <- struct{}{}:
	default:
	}
}

// Publish sends committed events to whoever listens, on every node, and does not wait for
// it. Events of one channel that are published one after the other on one node arrive in
// that order. Fleeting events of users' own channels may be left out where many others wait.
func (b *Bus) Publish(batch []Event) {
	if len(batch) == 0 {
		return
	}
	if b.queued.Load() >= crowded && !slices.ContainsFunc(batch, Event.lasts) {
		return
	}
	select {
	case b.out <- batch:
		b.queued.Add(int64(len(batch)))
	default: // so far behind that its listeners had better look at the truth
		for i := range batch {
			if batch[i].lasts() {
				b.unsent.add(batch[i].channel())
			}
		}
	}
}

// PublishPaced is Publish for many events that need not come at once: it waits until the sender takes
// them, which prefers what others publish. ctx's error.
func (b *Bus) PublishPaced(ctx context.Context, batch []Event) error {
	if len(batch) == 0 {
		return nil
	}
	select {
	case b.paced <- batch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run sends and receives until ctx ends.
func (b *Bus) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	workers.Go(func() { b.send(ctx) })
	workers.Go(func() { b.receive(ctx) })
	workers.Go(func() { b.keepRight(ctx) })
	return b.nodes.Run(ctx, ready)
}

// stats counts what [Bus.Stats] returns.
type stats struct{ sent, local, caughtUp, lost, unsent atomic.Uint64 }

// Stats is what a bus has done since it was made.
type Stats struct {
	Channels int    // to which this node listens
	Sent     uint64 // events handed to Redis
	Local    uint64 // events that only this node's listeners got, because Redis did not answer
	CaughtUp uint64 // events read from a stream, because their message did not come
	Lost     uint64 // times that the listeners of a channel were told Lost
	Unsent   uint64 // channels that began a new epoch, because an event could not be sent
}

// Stats may be called at any time.
func (b *Bus) Stats() Stats {
	b.mu.Lock()
	n := len(b.channels)
	b.mu.Unlock()
	s := &b.stats
	return Stats{n, s.sent.Load(), s.local.Load(), s.caughtUp.Load(), s.lost.Load(), s.unsent.Load()}
}
