// Package events tells other parts and other nodes what has happened, after it
// was committed.
//
// Delivery is at most once: an event tells a device to look again, and what it
// then finds in SQL or Redis is the truth. A subscriber that falls behind is cut
// off rather than waited for.
package events

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/redis"
)

// Event is one thing that happened to one user.
type Event struct {
	ID   string          `json:"id"`
	Type string          `json:"type"` // "checkin.marked"
	User string          `json:"user"`
	Time int64           `json:"time"` // Unix milliseconds
	Data json.RawMessage `json:"data"` // the domain's own document
}

// New returns an event that happened at that time.
func New(typ, user string, at time.Time, data json.RawMessage) Event {
	return Event{ID: ids.New[Event]().String(), Type: typ, User: user, Time: at.UnixMilli(), Data: data}
}

type envelope struct {
	Node   string  `json:"node"`
	Events []Event `json:"events"`
}

// queued is how many events a subscriber may be behind before it is cut off.
const queued = 64

const (
	outgoing = 256  // batches that may wait to be sent to other nodes
	biggest  = 1000 // events in one message, give or take a batch
)

// Bus carries events to subscribers on this node and on all others.
type Bus struct {
	redis *redis.DB
	node  string
	log   *slog.Logger
	out   chan []Event

	mu   sync.RWMutex
	subs map[string]map[*Subscription]struct{} // by user
}

// New returns a bus for this node; node is never used by another process.
func NewBus(db *redis.DB, node string, log *slog.Logger) *Bus {
	return &Bus{redis: db, node: node, log: log, out: make(chan []Event, outgoing), subs: map[string]map[*Subscription]struct{}{}}
}

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
		if err := b.redis.Publish(ctx, channel.At().Channel, b.encode(batch)); err != nil && ctx.Err() == nil {
			b.log.Debug("other nodes were not told", "events", len(batch), "err", err)
		}
	}
}

func (b *Bus) encode(batch []Event) string {
	payload := make([]byte, 0, 64+256*len(batch))
	payload = append(payload, `{"node":"`+b.node+`","events":[`...)
	for i, e := range batch {
		if i > 0 {
			payload = append(payload, ',')
		}
		payload = e.appendJSON(payload)
	}
	return string(append(payload, "]}"...))
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
	ready()
	var sender sync.WaitGroup
	defer sender.Wait()
	sender.Go(func() { b.send(ctx) })
	// Our own were delivered before they were sent, and need no reading.
	own := `{"node":"` + b.node + `",`
	return b.redis.Subscribe(ctx, channel.At().Channel, redis.Handler{Message: func(payload string) {
		if strings.HasPrefix(payload, own) {
			return
		}
		e, err := channel.At().Decode(payload)
		if err != nil {
			b.log.Warn("unreadable event", "err", err)
			return
		}
		b.Deliver(e.Events)
	}})
}
