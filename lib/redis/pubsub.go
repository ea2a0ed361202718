package redis

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Handler gets the events of one subscription. The goroutine that runs [DB.Subscribe] calls both functions, one at a
// time. They should be quick: a slow function delays every subscription of this DB on the same server.
type Handler struct {
	// Message gets each payload, in the order of the server.
	Message func(payload string)
	// Subscribed is called when the subscription took effect, at first and after each outage, always before the
	// messages that follow. Messages that were published in between are lost, so this is the place to resynchronise. It
	// may be called once too often, but never too seldom. It may be nil.
	Subscribed func()
}

// Publish sends payload to the channel's present subscribers, on every node. It does not report whether there are any.
func (db *DB) Publish(ctx context.Context, ch keyspace.Channel, payload string) error {
	return db.Do(ctx, db.PublishCmd(ch, payload)).Err
}

// PublishCmd returns the command of Publish, for [DB.DoMulti] of this DB.
func (db *DB) PublishCmd(ch keyspace.Channel, payload string) keyspace.Cmd {
	name := "PUBLISH"
	if db.mode == "cluster" {
		name = "SPUBLISH" // an ordinary message would go to every node of the cluster
	}
	return keyspace.Cmd{Name: name, Args: []string{db.prefix + ch.String(), payload}}
}

func published(cmd *keyspace.Cmd) bool {
	return len(cmd.Args) > 0 && (cmd.Name == "PUBLISH" || cmd.Name == "SPUBLISH")
}

// Subscribe delivers the channel's messages to on until ctx ends, and then returns ctx's error. After the DB is closed
// it returns [ErrClosed] under [ErrUnavailable]. Outages do not end it: it subscribes again.
func (db *DB) Subscribe(ctx context.Context, ch keyspace.Channel, on Handler) error {
	t, m, ok := db.join(ctx, db.prefix+ch.String())
	if !ok {
		return &unavailable{ErrClosed}
	}
	defer db.leave(t, m)
	for {
		select {
		case e := <-m.events:
			switch {
			case !e.up:
				on.Message(e.payload)
			case on.Subscribed != nil:
				on.Subscribed()
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-db.closed:
			return &unavailable{ErrClosed}
		}
	}
}

// topics are the channels with a subscriber in this process. Each channel is subscribed to once, however many
// subscribers it has. The client library would accept a second subscription on the same connection, and then wait for
// its confirmation without reading the messages before it.
type topics struct {
	mu     sync.Mutex
	byName map[string]*topic
	closed bool
}

type topic struct {
	name    string
	members map[*member]struct{}
	up      bool               // subscribed at present
	stop    context.CancelFunc // ends the present subscription
}

type member struct {
	events chan event
	gone   chan struct{}
}

// An event is a message, or the start of the subscription.
type event struct {
	up      bool
	payload string
}

// join adds a member to a topic, and starts the topic with its first member; ok is false after the DB is closed.
func (db *DB) join(ctx context.Context, name string) (t *topic, m *member, ok bool) {
	db.topics.mu.Lock()
	defer db.topics.mu.Unlock()
	if db.topics.closed {
		return nil, nil, false
	}
	m = &member{events: make(chan event, 16), gone: make(chan struct{})}
	t = db.topics.byName[name]
	if t == nil {
		t = &topic{name: name, members: make(map[*member]struct{})}
		if db.topics.byName == nil {
			db.topics.byName = make(map[string]*topic)
		}
		db.topics.byName[name] = t
		db.done.Go(func() { db.serve(context.WithoutCancel(ctx), t) })
	}
	t.members[m] = struct{}{}
	if t.up {
		m.events <- event{up: true}
	}
	return t, m, true
}

func (db *DB) leave(t *topic, m *member) {
	db.topics.mu.Lock()
	defer db.topics.mu.Unlock()
	delete(t.members, m)
	close(m.gone)
	if len(t.members) == 0 && t.stop != nil {
		t.stop()
	}
}

// serve keeps a topic subscribed while it has members.
func (db *DB) serve(ctx context.Context, t *topic) {
	const first, longest = 10 * time.Millisecond, 500 * time.Millisecond
	for wait := first; ; wait = min(2*wait, longest) {
		db.topics.mu.Lock()
		if len(t.members) == 0 || db.topics.closed {
			delete(db.topics.byName, t.name)
			db.topics.mu.Unlock()
			return
		}
		session, stop := context.WithCancel(ctx)
		t.stop = stop
		db.topics.mu.Unlock()

		if db.receive(session, t) {
			wait = first
		}
		db.topics.mu.Lock()
		t.up = false // at once: a member that joins in the outage must not get an up event
		db.topics.mu.Unlock()
		select {
		case <-session.Done():
		case <-db.closed:
		case <-time.After(wait):
		}
		stop()
	}
}

// receive subscribes once and delivers the events until that subscription ends; it reports whether there was one.
func (db *DB) receive(session context.Context, t *topic) (subscribed bool) {
	if db.via != nil {
		return db.subscribeOnce(session, t)
	}
	listener := db.listener.Load()
	if listener == nil {
		return false
	}
	c := *listener
	subscribe, unsubscribe := c.B().Subscribe().Channel(t.name).Build, c.B().Unsubscribe().Channel(t.name).Build
	if db.mode == "cluster" {
		subscribe, unsubscribe = c.B().Ssubscribe().Channel(t.name).Build, c.B().Sunsubscribe().Channel(t.name).Build
	}
	events := make(chan event, 16)
	hooked := rueidis.WithOnSubscriptionHook(session, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" || s.Kind == "ssubscribe" {
			events <- event{up: true} // the first event, so there is room
		}
	})
	ended := make(chan struct{})
	go func() { // waited for below
		defer close(ended)
		_ = c.Receive(hooked, subscribe(), func(m rueidis.PubSubMessage) {
			select {
			case events <- event{payload: m.Message}:
			case <-session.Done():
			}
		})
	}()
	for more := true; more; {
		select {
		case e := <-events:
			subscribed = true
			db.deliver(t, e)
		case <-ended:
			more = false
		}
	}
	for len(events) > 0 { // messages that were received are delivered
		db.deliver(t, <-events)
	}
	if session.Err() != nil { // the connection is shared with other topics and stays
		ctx, cancel := context.WithTimeout(context.WithoutCancel(session), time.Second)
		defer cancel()
		c.Do(ctx, unsubscribe())
	}
	return subscribed
}

// deliver sends an event to every member.
func (db *DB) deliver(t *topic, e event) {
	db.topics.mu.Lock()
	t.up = t.up || e.up
	to := slices.Collect(maps.Keys(t.members))
	db.topics.mu.Unlock()
	for _, m := range to {
		select {
		case m.events <- e:
		case <-m.gone:
		case <-db.closed:
		}
	}
}
