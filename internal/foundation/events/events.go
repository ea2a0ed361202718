// Package events tells other parts and other nodes what has happened, after it
// was committed.
//
// [Bus.Nodes] is the deployment's event bus: a node that misses an event there is told
// so. Events of users take a quicker way, because a check-in must not wait for them:
// they are forwarded, not kept. Delivery is at most once: an event makes a device look
// again, and what it then finds in SQL or Redis is the truth. A subscriber that falls
// behind is cut off rather than waited for.
package events

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/bus"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
)

// Event is one thing that happened to one user.
type Event struct {
	ID   string          `json:"id"`
	Type string          `json:"type"` // "checkin.marked"
	User string          `json:"user"`
	Time int64           `json:"time"` // Unix milliseconds
	Data json.RawMessage `json:"data"` // the domain's own document

	// Channel, unless it is zero, has the event published there as well, as this
	// very JSON, for programs beside the server that subscribe in Redis.
	Channel keyspace.Messages[Event] `json:"-"`
}

// New returns an event that happened at that time.
func New(typ, user string, at time.Time, data json.RawMessage) Event {
	return Event{ID: ids.New[Event]().String(), Type: typ, User: user, Time: at.UnixMilli(), Data: data}
}

// queued is how many events a subscriber may be behind before it is cut off.
const queued = 64

const (
	waiting = 256  // batches that may wait to be sent to other nodes, and that came from them
	biggest = 1000 // events in one batch, give or take one
)

// Users' events are passed on in batches, under one topic and one name.
const topic, batches = "users", "happened"

// Bus carries events to subscribers on this node and on all others.
type Bus struct {
	nodes *bus.Bus
	db    *redis.DB
	log   *slog.Logger
	out   chan []Event
	in    chan string

	mu   sync.RWMutex
	subs map[string]map[*Subscription]struct{} // by user
}

// NewBus returns a bus for this node; node is never used by another process.
func NewBus(db *redis.DB, node string, log *slog.Logger) *Bus {
	b := &Bus{nodes: bus.New(db, between, bus.Config{Node: node, Keep: keepEvents, Log: log}), db: db, log: log,
		out: make(chan []Event, waiting), in: make(chan string, waiting), subs: map[string]map[*Subscription]struct{}{}}
	b.nodes.Handle(topic, bus.Handler{Event: func(e bus.Event) {
		select { // what others publish must not wait until this is decoded
		case b.in <- e.Data:
		default:
		}
	}})
	return b
}

// Nodes is the bus between nodes, for topics that must not miss an event. Topics
// are handled from [Bus.Run] on; have them handled before.
func (b *Bus) Nodes() *bus.Bus { return b.nodes }

// Subscription is one listener's queue.
type Subscription struct {
	// C has the user's events. It is closed when the listener fell behind or
	// closed the subscription.
	C    chan Event
	bus  *Bus
	user string
}

// Subscribe listens to one user's events until Close.
func (b *Bus) Subscribe(user string) *Subscription {
	s := &Subscription{C: make(chan Event, queued), bus: b, user: user}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subs[user] == nil {
		b.subs[user] = map[*Subscription]struct{}{}
	}
	b.subs[user][s] = struct{}{}
	return s
}

// Close ends the subscription. It may be called again.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	s.bus.drop(s)
}

func (b *Bus) drop(s *Subscription) {
	if _, on := b.subs[s.user][s]; !on {
		return
	}
	close(s.C)
	if delete(b.subs[s.user], s); len(b.subs[s.user]) == 0 {
		delete(b.subs, s.user)
	}
}

// Deliver hands committed events to the listeners on this node.
func (b *Bus) Deliver(batch []Event) {
	var late []*Subscription
	b.mu.RLock()
	if len(b.subs) > 0 {
		for _, e := range batch {
			for s := range b.subs[e.User] {
				select {
				case s.C <- e:
				default:
					late = append(late, s)
				}
			}
		}
	}
	b.mu.RUnlock()
	if len(late) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range late {
		b.drop(s)
	}
}

// Publish hands committed events to the listeners on this node, and sends them
// to the other nodes without waiting: where Redis is away or slow they are lost,
// and the listeners there look when they connect again.
func (b *Bus) Publish(batch []Event) {
	if len(batch) == 0 {
		return
	}
	b.Deliver(batch)
	select {
	case b.out <- batch:
	default:
	}
}

// send publishes what waits, all in one message.
func (b *Bus) send(ctx context.Context) {
	for {
		var batch []Event
		select {
		case batch = <-b.out:
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < biggest; {
			select {
			case next := <-b.out:
				batch = append(batch, next...)
			default:
				more = false
			}
		}
		if err := b.nodes.Pass(ctx, topic, batches, encode(batch)); err != nil && ctx.Err() == nil {
			b.log.Debug("events did not reach other nodes", "events", len(batch), "err", err)
		}
		if cmds := b.onChannels(batch); len(cmds) > 0 {
			if err := keyspace.FirstErr(b.db.DoMulti(ctx, cmds)); err != nil && ctx.Err() == nil {
				b.log.Debug("events did not reach Redis channels", "events", len(cmds), "err", err)
			}
		}
	}
}

// onChannels returns what publishes those of batch that have a channel.
func (b *Bus) onChannels(batch []Event) (cmds []keyspace.Cmd) {
	for _, e := range batch {
		if !e.Channel.IsZero() {
			cmds = append(cmds, b.db.PublishCmd(e.Channel.Channel, string(e.appendJSON(nil))))
		}
	}
	return cmds
}

func encode(batch []Event) string {
	payload := append(make([]byte, 0, 256*len(batch)), '[')
	for i, e := range batch {
		if i > 0 {
			payload = append(payload, ',')
		}
		payload = e.appendJSON(payload)
	}
	return string(append(payload, ']'))
}

// appendJSON is json.Marshal for an event, whose texts need no escaping and
// whose data is JSON already; it is on the way of every check-in.
func (e Event) appendJSON(b []byte) []byte {
	b = append(b, `{"id":"`+e.ID+`","type":"`+e.Type+`","user":"`+e.User+`","time":`...)
	b = strconv.AppendInt(b, e.Time, 10)
	b = append(b, `,"data":`...)
	return append(append(b, e.Data...), '}')
}

// Run sends what is published here and delivers what other nodes publish, until
// ctx ends.
func (b *Bus) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	workers.Go(func() { b.send(ctx) })
	workers.Go(func() { b.receive(ctx) })
	return b.nodes.Run(ctx, ready)
}

// receive delivers what came from other nodes.
func (b *Bus) receive(ctx context.Context) {
	for {
		select {
		case payload := <-b.in:
			var batch []Event
			if err := json.Unmarshal([]byte(payload), &batch); err != nil {
				b.log.Warn("events of another node cannot be decoded", "err", err)
				continue
			}
			b.Deliver(batch)
		case <-ctx.Done():
			return
		}
	}
}
