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

// broker gives the library the channels of package events.
type broker struct {
	base    context.Context //nolint:containedctx // the library gives none
	bus     *events.Bus
	before  func(ctx context.Context, channel string, e events.Event) // before clients get an event
	lost    func(channel string)                                      // events were missed, or may have been
	deliver centrifuge.BrokerEventHandler

	mu   sync.Mutex
	held map[string]func() // leaves a channel
}

// brokerTime is how long Redis may take.
const brokerTime = 2 * time.Second

func (b *broker) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.base, brokerTime)
}

// RegisterBrokerEventHandler implements centrifuge.Broker.
func (b *broker) RegisterBrokerEventHandler(h centrifuge.BrokerEventHandler) error {
	b.deliver = h
	return nil
}

// ReliableDelivery tells the library that it need not compare positions by itself: package
// events finds out what was missed.
func (b *broker) ReliableDelivery() bool { return true }

// Subscribe implements centrifuge.Broker: this node's first client came to each channel. The
// library says so again, and never that the last one has left, where another client comes
// before it has done with that one.
func (b *broker) Subscribe(channels ...string) error {
	ctx, cancel := b.context()
	defer cancel()
	for _, name := range channels {
		b.mu.Lock()
		held := b.held[name] != nil
		b.mu.Unlock()
		if held {
			continue
		}
		_, leave := b.bus.Listen(ctx, name, &events.Listener{
			Event: func(e events.Event, at events.Position) { b.handOn(name, e, at) },
			Lost:  func() { b.lost(name) },
		})
		b.mu.Lock()
		b.held[name] = leave
		b.mu.Unlock()
	}
	return nil
}

// Unsubscribe implements centrifuge.Broker: the last one has left.
func (b *broker) Unsubscribe(channels ...string) error {
	for _, name := range channels {
		b.mu.Lock()
		leave := b.held[name]
		delete(b.held, name)
		b.mu.Unlock()
		if leave != nil {
			leave()
		}
	}
	return nil
}

func (b *broker) handOn(name string, e events.Event, at events.Position) {
	ctx, cancel := b.context()
	defer cancel()
	b.before(ctx, name, e)
	pub := publication(&e, at.Offset)
	if e.User != "" && e.User != name {
		pub.Tags = map[string]string{sender: e.User}
	}
	_ = b.deliver.HandlePublication(name, pub, position(at), false, nil) // it fails for no client
}

func publication(e *events.Event, offset uint64) *centrifuge.Publication {
	return &centrifuge.Publication{Offset: offset, Data: e.AppendWire(make([]byte, 0, len(e.Data)+128)), Time: e.Time}
}

func position(at events.Position) centrifuge.StreamPosition {
	return centrifuge.StreamPosition{Epoch: at.Epoch, Offset: at.Offset}
}

// unknown is the position of a channel of which Redis says nothing. It has an epoch of its own: the library
// lets a client resume from an empty one wherever the offsets are equal, as at the beginning of every epoch.
func unknown() centrifuge.StreamPosition { return centrifuge.StreamPosition{Epoch: rand.Text()} }

// History implements centrifuge.Broker. While Redis is away nothing is known, and nobody's
// position is the present one.
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
	kept, at, err := b.bus.History(ctx, name, after, limit)
	if err != nil || at == (events.Position{}) {
		return nil, unknown(), nil //nolint:nilerr // whoever resumes is told to look
	}
	if opts.Filter.Since != nil && opts.Filter.Since.Epoch != at.Epoch {
		kept = nil
	}
	out := make([]*centrifuge.Publication, len(kept))
	for i := range kept {
		out[i] = publication(&kept[i].Event, kept[i].Offset)
	}
	return out, position(at), nil
}

var errNotOurs = errors.New("gateway: events are published by package events")

// Publish implements centrifuge.Broker. Nobody calls it: clients may not publish.
func (b *broker) Publish(string, []byte, centrifuge.PublishOptions) (centrifuge.PublishResult, error) {
	return centrifuge.PublishResult{}, errNotOurs
}

// PublishJoin implements centrifuge.Broker.
func (b *broker) PublishJoin(string, *centrifuge.ClientInfo) error { return errNotOurs }

// PublishLeave implements centrifuge.Broker.
func (b *broker) PublishLeave(string, *centrifuge.ClientInfo) error { return errNotOurs }

// RemoveHistory implements centrifuge.Broker.
func (b *broker) RemoveHistory(string) error { return errNotOurs }
