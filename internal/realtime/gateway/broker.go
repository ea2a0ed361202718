package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/centrifugal/centrifuge"

	"github.com/stoa-dev/stoa/internal/realtime/events"
)

// broker provides the channels of package events to the library.
type broker struct {
	base    context.Context //nolint:containedctx // the library gives none
	bus     *events.Bus
	before  func(ctx context.Context, channel string, e events.Event) // called before clients get an event
	lost    func(channel string)                                      // called when events were missed, or may have been
	deliver centrifuge.BrokerEventHandler

	mu     sync.Mutex
	leaves map[string]func() // unsubscribe functions by channel
}

// brokerTimeout bounds the Redis calls of one operation.
const brokerTimeout = 2 * time.Second

func (b *broker) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.base, brokerTimeout)
}

// RegisterBrokerEventHandler implements centrifuge.Broker.
func (b *broker) RegisterBrokerEventHandler(h centrifuge.BrokerEventHandler) error {
	b.deliver = h
	return nil
}

// ReliableDelivery reports true: the library need not compare positions itself, because package events finds missed
// events.
func (b *broker) ReliableDelivery() bool { return true }

// Subscribe implements centrifuge.Broker: this node's first client subscribed to each channel. If a client comes back
// while the library still handles the last unsubscription, the library calls Subscribe again without Unsubscribe.
func (b *broker) Subscribe(channels ...string) error {
	ctx, cancel := b.context()
	defer cancel()
	for _, name := range channels {
		b.mu.Lock()
		subscribed := b.leaves[name] != nil
		b.mu.Unlock()
		if subscribed {
			continue
		}
		_, leave := b.bus.Listen(ctx, name, &events.Listener{
			Event: func(e events.Event, at events.Position) { b.forward(name, e, at) },
			Lost:  func() { b.lost(name) },
		})
		b.mu.Lock()
		b.leaves[name] = leave
		b.mu.Unlock()
	}
	return nil
}

// Unsubscribe implements centrifuge.Broker: the last client has left.
func (b *broker) Unsubscribe(channels ...string) error {
	for _, name := range channels {
		b.mu.Lock()
		leave := b.leaves[name]
		delete(b.leaves, name)
		b.mu.Unlock()
		if leave != nil {
			leave()
		}
	}
	return nil
}

func (b *broker) forward(name string, e events.Event, at events.Position) {
	ctx, cancel := b.context()
	defer cancel()
	b.before(ctx, name, e)
	pub := publication(&e, at.Offset)
	if e.User != "" && e.User != name {
		pub.Tags = map[string]string{sender: e.User}
	}
	_ = b.deliver.HandlePublication(name, pub, position(at), false, nil) // it does not fail for single clients
}

func publication(e *events.Event, offset uint64) *centrifuge.Publication {
	return &centrifuge.Publication{Offset: offset, Data: e.AppendWire(make([]byte, 0, len(e.Data)+128)), Time: e.Time}
}

func position(at events.Position) centrifuge.StreamPosition {
	return centrifuge.StreamPosition{Epoch: at.Epoch, Offset: at.Offset}
}

// unknownPosition returns a position for a channel if Redis is unavailable or does not have it. It has a new epoch. From
// an empty epoch, the library would let a client resume if the offsets are equal, as at the beginning of every epoch.
func unknownPosition() centrifuge.StreamPosition {
	return centrifuge.StreamPosition{Epoch: rand.Text()}
}

// History implements centrifuge.Broker. While Redis is unavailable the position is unknown, and no client can resume.
func (b *broker) History(name string, opts centrifuge.HistoryOptions) ([]*centrifuge.Publication, centrifuge.StreamPosition, error) {
	if opts.Filter.Reverse {
		return nil, centrifuge.StreamPosition{}, centrifuge.ErrorNotAvailable
	}
	var after uint64
	if opts.Filter.Since != nil {
		after = opts.Filter.Since.Offset
	}
	limit := opts.Filter.Limit
	if limit < 0 || limit > maxRecover {
		limit = maxRecover
	}
	ctx, cancel := b.context()
	defer cancel()
	stored, at, err := b.bus.History(ctx, name, after, limit)
	if err != nil || at == (events.Position{}) {
		return nil, unknownPosition(), nil //nolint:nilerr // a resuming client loads the state
	}
	if opts.Filter.Since != nil && opts.Filter.Since.Epoch != at.Epoch {
		stored = nil
	}
	publications, size := make([]*centrifuge.Publication, len(stored)), 0
	for i := range stored {
		publications[i] = publication(&stored[i].Event, stored[i].Offset)
		size += len(publications[i].Data)
	}
	if size > maxRecoverBytes {
		return nil, position(at), nil // a resuming client loads the state
	}
	return publications, position(at), nil
}

var errNotOurs = errors.New("gateway: events are published by package events")

// Publish implements centrifuge.Broker. It is never called, because clients may not publish.
func (b *broker) Publish(string, []byte, centrifuge.PublishOptions) (centrifuge.PublishResult, error) {
	return centrifuge.PublishResult{}, errNotOurs
}

// PublishJoin implements centrifuge.Broker.
func (b *broker) PublishJoin(string, *centrifuge.ClientInfo) error { return errNotOurs }

// PublishLeave implements centrifuge.Broker.
func (b *broker) PublishLeave(string, *centrifuge.ClientInfo) error { return errNotOurs }

// RemoveHistory implements centrifuge.Broker.
func (b *broker) RemoveHistory(string) error { return errNotOurs }
