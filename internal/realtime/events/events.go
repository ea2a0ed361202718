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

// Event is one event of a user, or of another channel.
type Event struct {
	ID   string          `json:"id"`
	Type string          `json:"type"` // "checkin.marked"
	User string          `json:"user" doc:"the user concerned; empty if the event concerns the whole channel"`
	Time int64           `json:"time" doc:"Unix milliseconds"`
	Data json.RawMessage `json:"data"` // the type in api.EventData for Type

	// On is the channel of the event; empty means the user's own. The name of a shared channel contains a slash,
	// unlike a user's id. An event without a user and without On goes to Channel only.
	On string `json:"-"`

	// Fleeting marks an event that is useful only at once. It has no offset, and a resuming client does not get it.
	Fleeting bool `json:"-"`

	// Channel, unless it is zero, is a Redis channel that gets the event as well, as this JSON, for other programs.
	Channel keyspace.Messages[Event] `json:"-"`
}

// Payload returns the payload of a Redis channel with events of these types, for other programs.
func Payload(types ...string) keyspace.Payload[keyspace.Messages[Event]] {
	data := map[string]any{}
	for _, typ := range types {
		data[typ] = api.EventData[typ]
	}
	return keyspace.MessagesOf[Event]().Carrying(data)
}

// New returns an event that happened at the given time.
func New(typ, user string, at time.Time, data json.RawMessage) Event {
	return Event{ID: ids.New[Event]().String(), Type: typ, User: user, Time: at.UnixMilli(), Data: data}
}

// Encode returns data, a wire type, as the JSON of an event's data. It logs an error, because data without JSON is a
// fault of the program; then ok is false.
func Encode(log *slog.Logger, typ string, data any) (_ json.RawMessage, ok bool) {
	document, err := json.Marshal(data)
	if err != nil {
		log.Error("events: event not encoded", "type", typ, "err", err)
	}
	return document, err == nil
}

// channel returns the channel of e.
func (e *Event) channel() string { return cmp.Or(e.On, e.User) }

// needsResync reports whether a client that missed e must load the current state. It is false only for fleeting
// events of users' own channels.
func (e Event) needsResync() bool { return !e.Fleeting || e.On != "" }

// appendJSON is json.Marshal for an event, whose texts need no escaping and whose data is JSON already. It is a hot
// path: every check-in calls it.
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

// Position is a place among the events of a channel. Offsets count from 1 within an epoch; offsets of two epochs
// cannot be compared.
type Position struct {
	Epoch  string
	Offset uint64
}

const (
	queueSize = 1024 // largest number of queued batches

	// dropFleetingAt is the smallest number of queued events that makes the bus drop fleeting ones, so that other events
	// still fit.
	dropFleetingAt = queueSize / 2
)

// Bus delivers events to listeners on this node and on all others.
type Bus struct {
	nodes  *bus.Bus
	db     *redis.DB
	node   string
	log    *slog.Logger
	live   func(context.Context) ([]string, error)
	behind []func() bool
	ahead  func(channels []string)
	out    chan []Event
	queued atomic.Int64 // events in out
	paced  chan []Event
	checks chan struct{} // requests a check of all positions
	stale  atomic.Bool   // the next check begins new epochs
	gap    atomic.Bool   // events to this node may have been lost before the next check
	dead   chan struct{} // other nodes may have treated this node as dead
	era    uint64        // era of nodes at the last check; used by resync only

	mu       sync.Mutex
	channels map[string]*channel

	unsent unsent
	stats  stats
}

// NewBus returns a bus for this node. No other process ever uses the name node.
func NewBus(db *redis.DB, node string, log *slog.Logger) *Bus {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	b := &Bus{nodes: bus.New(db, busKeys, bus.Config{Node: node, Keep: logLength, Log: log}), db: db, node: node, log: log,
		ahead: func([]string) {}, out: make(chan []Event, queueSize), paced: make(chan []Event),
		checks: make(chan struct{}, 1), dead: make(chan struct{}, 1), channels: map[string]*channel{}}
	b.nodes.Handle(topic, bus.Handler{
		Event: func(bus.Event) { b.resetAll() },
		Lost:  b.requestCheck,
	})
	return b
}

// topic is the topic of the messages between nodes about channels.
const topic = "channels"

// Nodes returns the bus between nodes, for topics that must not miss an event. Register handlers of topics before
// [Bus.Run].
func (b *Bus) Nodes() *bus.Bus { return b.nodes }

// ReadLiveNodesFrom registers the function that returns the live nodes. With it, dead nodes are removed from a channel when
// this node subscribes to it; without it they stay until the keys expire. Call it before [Bus.Run].
func (b *Bus) ReadLiveNodesFrom(live func(context.Context) ([]string, error)) { b.live = live }

// DelayEpochsWhile registers a function that reports whether Redis lacks something that this node has acknowledged.
// While one of them does, the bus begins no new epoch after a failed publish: a notified listener loads the state, and
// another node may serve it from Redis, which does not have the change yet. Call it before [Bus.Run].
func (b *Bus) DelayEpochsWhile(behind func() bool) { b.behind = append(b.behind, behind) }

// BeforeDelivery registers the function that gets the channels of each batch before its events are delivered. Delivery waits for
// it. A channel may be listed twice, or have no listener. Call it before [Bus.Run].
func (b *Bus) BeforeDelivery(ahead func(channels []string)) { b.ahead = ahead }

// TakenForDead reports that other nodes may have treated this node as dead and removed it from its channels. The node
// subscribes again and finds the missed events.
func (b *Bus) TakenForDead() {
	select {
	case b.dead <- struct{}{}:
	default:
	}
}

// Publish queues committed events for their subscribers on every node, and does not wait for the delivery. Events of
// one channel that are published one after the other on one node arrive in that order. Fleeting events of users' own
// channels may be dropped if the queue is long.
func (b *Bus) Publish(batch []Event) {
	if len(batch) == 0 {
		return
	}
	if b.queued.Load() >= dropFleetingAt && !slices.ContainsFunc(batch, Event.needsResync) {
		return
	}
	select {
	case b.out <- batch:
		b.queued.Add(int64(len(batch)))
	default: // the queue is full: the listeners load the state instead
		for i := range batch {
			if batch[i].needsResync() {
				b.unsent.add(batch[i].channel())
			}
		}
	}
}

// PublishPaced is Publish for many events that are not urgent. It waits until the sender accepts them. To fill
// a batch, the sender prefers the events of Publish. It returns ctx's error if ctx ends first.
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
	workers.Go(func() { b.resync(ctx) })
	return b.nodes.Run(ctx, ready)
}

// stats are the counters of [Bus.Stats].
type stats struct{ sent, local, caughtUp, lost, unsent atomic.Uint64 }

// Stats are the counts of a bus since its creation.
type Stats struct {
	Channels int    // channels with listeners on this node
	Sent     uint64 // events sent to Redis
	Local    uint64 // events that reached this node's listeners only, because Redis did not reply
	CaughtUp uint64 // events read from a stream, because their message did not arrive
	Lost     uint64 // calls of Lost, by channel
	Unsent   uint64 // channels of events that could not be sent; those with subscribers begin a new epoch
}

// Stats returns the counts. It may be called at any time.
func (b *Bus) Stats() Stats {
	b.mu.Lock()
	n := len(b.channels)
	b.mu.Unlock()
	s := &b.stats
	return Stats{n, s.sent.Load(), s.local.Load(), s.caughtUp.Load(), s.lost.Load(), s.unsent.Load()}
}
