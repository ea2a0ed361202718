package events

import (
	"context"
	_ "embed"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

//go:embed lua/listen.lua
var listenSource string

//go:embed lua/leave.lua
var leaveSource string

//go:embed lua/history.lua
var historySource string

var (
	listenScript  = redis.NewScript(listenSource)
	leaveScript   = redis.NewScript(leaveSource)
	historyScript = redis.NewScript(historySource)
)

// listenTimeout bounds one reply of Redis; after it a listener works without Redis.
const listenTimeout = time.Second

// Listener gets the events of a channel in order, one call at a time. Its functions must be quick, and must not call
// the bus.
type Listener struct {
	// Event gets each event. The Position is zero for an event that is not in the stream.
	Event func(Event, Position)

	// Lost is called when events were missed, or may have been.
	Lost func()
}

// channel is a channel with listeners on this node.
type channel struct {
	name string
	uses int // listeners, including those being added; guarded by Bus.mu

	registering lock // held while the subscription in Redis changes

	mu        lock     // held while events are delivered, so that their order stays
	at        Position // newest delivered event; no Epoch: Redis has no subscription of this node
	listeners map[*Listener]struct{}
}

// lock is a mutex that may be held during Redis calls. A goroutine that waits for it does not block virtual time.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// Listen delivers the events of a channel to l from now on, until leave is called; further calls of leave do nothing.
// It returns the channel's position: l does not get the events up to it. While Redis is unavailable, the Position is
// zero and l gets the events of this node; its Lost is called when Redis is back.
func (b *Bus) Listen(ctx context.Context, name string, l *Listener) (at Position, leave func()) {
	c := b.acquire(name)
	c.registering.Lock()
	defer c.registering.Unlock()
	c.mu.Lock() // arriving events wait until the position is known
	defer c.mu.Unlock()
	if c.at.Epoch == "" {
		var err error
		if c.at, err = b.register(ctx, name); err != nil {
			c.at = Position{}
			b.requestCheck() // retry when Redis is back
		}
	}
	c.listeners[l] = struct{}{}
	return c.at, sync.OnceFunc(func() { b.leave(context.WithoutCancel(ctx), c, l) })
}

// acquire returns the channel with a name, and adds one use.
func (b *Bus) acquire(name string) *channel {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.channels[name]
	if c == nil {
		c = &channel{name: name, registering: make(lock, 1), mu: make(lock, 1), listeners: map[*Listener]struct{}{}}
		b.channels[name] = c
	}
	c.uses++
	return c
}

func (b *Bus) leave(ctx context.Context, c *channel, l *Listener) {
	c.registering.Lock()
	defer c.registering.Unlock()
	c.mu.Lock()
	delete(c.listeners, l)
	c.mu.Unlock()
	b.mu.Lock()
	c.uses--
	last := c.uses == 0
	b.mu.Unlock()
	if !last {
		return
	}
	nodes, meta, _ := keysOf(c.name)
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	if leaveScript.Run(ctx, b.db, []keyspace.Key{nodes, meta}, b.node, keyspace.Millis(resumeTTL)).Err != nil {
		// The node may stay in the list until another listener is added. A late command may remove the node after that.
		b.TakenForDead()
	}
	c.mu.Lock() // a new listener may be waiting for registering
	c.at = Position{}
	c.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.uses == 0 {
		delete(b.channels, c.name)
	}
}

// listening returns the channel of that name, or nil if it has no listeners on this node.
func (b *Bus) listening(name string) *channel {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channels[name]
}

// channelNames returns the channels with listeners on this node.
func (b *Bus) channelNames() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.channels))
}

// register subscribes this node in Redis and returns the channel's position.
func (b *Bus) register(ctx context.Context, name string) (Position, error) {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	at, _, err := registered(b.db.Do(ctx, b.listenCmd(name, b.liveNodes(ctx))))
	return at, err
}

func (b *Bus) listenCmd(name, live string) keyspace.Cmd {
	nodes, meta, _ := keysOf(name)
	return listenScript.Cmd([]keyspace.Key{nodes, meta}, b.node, keyspace.Millis(listenTTL), newEpoch(), live)
}

// registered parses the reply to [Bus.listenCmd]: the channel's position, and whether this node was already
// subscribed. If it was not, events were not sent to it.
func registered(r keyspace.Reply) (at Position, listed bool, err error) {
	if at, err = position(r); err != nil {
		return at, false, err
	}
	if len(r.List) < 3 {
		return at, false, keyspace.ErrReply
	}
	n, err := r.List[2].Int()
	return at, n == 1, err
}

// liveNodes returns the live nodes, separated by spaces, or "" if they are unknown.
func (b *Bus) liveNodes(ctx context.Context) string {
	if b.live == nil {
		return ""
	}
	names, err := b.live(ctx)
	if err != nil {
		return ""
	}
	return strings.Join(names, " ")
}

// position parses the beginning of a script's reply: epoch and offset.
func position(r keyspace.Reply) (Position, error) {
	list, err := r.Items()
	if err != nil {
		return Position{}, err
	}
	if len(list) < 2 {
		return Position{}, keyspace.ErrReply
	}
	epoch, _, err := list[0].Text()
	if err != nil {
		return Position{}, err
	}
	offset, err := list[1].Int()
	if err != nil {
		return Position{}, err
	}
	return Position{epoch, uint64(offset)}, nil //nolint:gosec // offsets count up from 0
}

// newEpoch returns 51 random bits as text. The lowest of 52 bits is always set, so that the number is never 0.
func newEpoch() string { return strconv.FormatUint(rand.Uint64()>>12|1, 36) }

// StoredEvent is an event in a channel's stream.
type StoredEvent struct {
	Event
	Offset uint64
}

// History returns at most limit events of a channel after an offset, oldest first, and the channel's position. They
// are complete if the first offset is after+1; otherwise older events have expired. The Position is zero if the
// channel has no listener on any node and no client may resume.
func (b *Bus) History(ctx context.Context, name string, after uint64, limit int) ([]StoredEvent, Position, error) {
	_, meta, stream := keysOf(name)
	reply := historyScript.Run(ctx, b.db, []keyspace.Key{meta, stream}, strconv.FormatUint(after, 10), strconv.Itoa(limit))
	if reply.Nil() {
		return nil, Position{}, nil
	}
	at, err := position(reply)
	if err != nil {
		return nil, Position{}, err
	}
	var stored []StoredEvent
	for list := reply.List[2:]; len(list) >= 2; list = list[2:] {
		id, _, _ := strings.Cut(list[0].Str, "-")
		offset, err := strconv.ParseUint(id, 10, 64)
		if err != nil {
			return nil, at, err
		}
		e, err := decode(list[1].Str)
		if err != nil {
			return nil, at, err
		}
		e.On = name
		stored = append(stored, StoredEvent{e, offset})
	}
	return stored, at, nil
}

// handle delivers an event to the channel's listeners. If offsets before it are missing, it reads them from the
// stream. If the stream no longer has them, it notifies the listeners of the loss.
func (b *Bus) handle(ctx context.Context, c *channel, e Event, p Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.Offset == 0: // not in the stream
	case p.Epoch != c.at.Epoch:
		c.at = p
		b.notifyLost(c)
	case p.Offset <= c.at.Offset:
		return // already delivered
	case p.Offset == c.at.Offset+1:
		c.at = p
	default:
		b.fill(ctx, c)
		if p.Offset <= c.at.Offset && p.Epoch == c.at.Epoch {
			return
		}
		c.at = p
		b.notifyLost(c)
	}
	for l := range c.listeners {
		l.Event(e, p)
	}
}

// fill delivers the events of the stream after the newest delivered event. The caller has locked c.mu.
func (b *Bus) fill(ctx context.Context, c *channel) {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	stored, at, err := b.History(ctx, c.name, c.at.Offset, streamLength)
	if err != nil || at.Epoch != c.at.Epoch {
		return
	}
	for _, k := range stored {
		if k.Offset != c.at.Offset+1 {
			return
		}
		c.at.Offset = k.Offset
		b.stats.caughtUp.Add(1)
		for l := range c.listeners {
			l.Event(k.Event, c.at)
		}
	}
}

// notifyLost notifies all listeners that they may have missed events. The caller has locked c.mu.
func (b *Bus) notifyLost(c *channel) {
	b.stats.lost.Add(1)
	for l := range c.listeners {
		l.Lost()
	}
}
