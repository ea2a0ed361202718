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

// listenTime is how long one answer of Redis may take before a listener does without it.
const listenTime = time.Second

// Listener gets what happens on a channel, in order, one call at a time. Its functions
// must be quick, and must not call the bus.
type Listener struct {
	// Event gets each event. The Position is zero for an event that is not kept.
	Event func(Event, Position)

	// Lost is told that events were missed, or may have been.
	Lost func()
}

// channel is one to which somebody on this node listens.
type channel struct {
	name string
	uses int // listeners, and callers on their way to be some; guarded by Bus.mu

	registering lock // held while Redis is told who listens

	mu        lock     // held while events are handed on, so that their order stays
	at        Position // of the newest event that was handed on; no Epoch: Redis was not told
	listeners map[*Listener]struct{}
}

// lock is a mutex that may be held while Redis is asked: whoever waits for it lets virtual
// time pass.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// Listen has l get the events of a channel from now on, until leave is called, which may
// be called again. It returns where the channel stands: what was published up to there, l
// does not get. While Redis is away the Position is zero, and l gets what this node
// publishes; it is told Lost when Redis is back.
func (b *Bus) Listen(ctx context.Context, name string, l *Listener) (at Position, leave func()) {
	c := b.enter(name)
	c.registering.Lock()
	defer c.registering.Unlock()
	c.mu.Lock() // events that come meanwhile wait until it is known which of them are new
	defer c.mu.Unlock()
	if c.at.Epoch == "" {
		var err error
		if c.at, err = b.register(ctx, name); err != nil {
			c.at = Position{}
			b.look() // again, when Redis is back
		}
	}
	c.listeners[l] = struct{}{}
	return c.at, sync.OnceFunc(func() { b.leave(context.WithoutCancel(ctx), c, l) })
}

// enter returns the channel of that name, with one more use.
func (b *Bus) enter(name string) *channel {
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
	ctx, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	if leaveScript.Run(ctx, b.db, []keyspace.Key{nodes, meta}, b.node, millis(resumeFor)).Err != nil {
		// The node may stay in the list, until somebody else comes to listen, or be taken off it later, when
		// somebody has come here again.
		b.TakenForDead()
	}
	c.mu.Lock() // somebody may have come meanwhile, and waits for registering
	c.at = Position{}
	c.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.uses == 0 {
		delete(b.channels, c.name)
	}
}

// listening returns the channel of that name, or nil when nobody here listens.
func (b *Bus) listening(name string) *channel {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channels[name]
}

// all returns the names of the channels to which somebody here listens.
func (b *Bus) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.channels))
}

// register tells Redis that this node listens, and returns where the channel stands.
func (b *Bus) register(ctx context.Context, name string) (Position, error) {
	ctx, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	at, _, err := registered(b.db.Do(ctx, b.listenCmd(name, b.alive(ctx))))
	return at, err
}

func (b *Bus) listenCmd(name, live string) keyspace.Cmd {
	nodes, meta, _ := keysOf(name)
	return listenScript.Cmd([]keyspace.Key{nodes, meta}, b.node, millis(listenLife), newEpoch(), live)
}

// registered reads the reply to [Bus.listenCmd]: where the channel stands, and whether the node was listening
// already, as far as Redis knew. Where it was not, events did not come here.
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

// alive returns the nodes that live, with spaces between them, "" where nobody knows.
func (b *Bus) alive(ctx context.Context) string {
	if b.live == nil {
		return ""
	}
	names, err := b.live(ctx)
	if err != nil {
		return ""
	}
	return strings.Join(names, " ")
}

// position reads the beginning of a script's reply: epoch and offset.
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

// newEpoch returns 52 bits as text.
func newEpoch() string { return strconv.FormatUint(rand.Uint64()>>12|1, 36) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// Kept is an event that a channel has kept.
type Kept struct {
	Event
	Offset uint64
}

// History returns events of a channel after an offset, oldest first, at most limit, and
// where the channel stands. They are all that there were if the first one's offset
// is the one after; older ones have been forgotten. The Position is zero where the channel
// has no listener on any node.
func (b *Bus) History(ctx context.Context, name string, after uint64, limit int) ([]Kept, Position, error) {
	_, meta, stream := keysOf(name)
	reply := historyScript.Run(ctx, b.db, []keyspace.Key{meta, stream}, strconv.FormatUint(after, 10), strconv.Itoa(limit))
	if reply.Nil() {
		return nil, Position{}, nil
	}
	at, err := position(reply)
	if err != nil {
		return nil, Position{}, err
	}
	var kept []Kept
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
		kept = append(kept, Kept{e, offset})
	}
	return kept, at, nil
}

// handle hands an event to the channel's listeners. Where offsets are missing before it,
// it reads them from the stream; where that has them no more, the listeners are told.
func (b *Bus) handle(ctx context.Context, c *channel, e Event, p Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.Offset == 0: // not kept
	case p.Epoch != c.at.Epoch:
		c.at = p
		b.tellLost(c)
	case p.Offset <= c.at.Offset:
		return // had already
	case p.Offset == c.at.Offset+1:
		c.at = p
	default:
		b.fill(ctx, c)
		if p.Offset <= c.at.Offset && p.Epoch == c.at.Epoch {
			return
		}
		c.at = p
		b.tellLost(c)
	}
	for l := range c.listeners {
		l.Event(e, p)
	}
}

// fill hands on what the stream has after the newest event that was handed on. The caller
// holds c.mu.
func (b *Bus) fill(ctx context.Context, c *channel) {
	ctx, cancel := context.WithTimeout(ctx, listenTime)
	defer cancel()
	kept, at, err := b.History(ctx, c.name, c.at.Offset, keepForEach)
	if err != nil || at.Epoch != c.at.Epoch {
		return
	}
	for _, k := range kept {
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

// tellLost tells all listeners that events may have been missed. The caller holds c.mu.
func (b *Bus) tellLost(c *channel) {
	b.stats.lost.Add(1)
	for l := range c.listeners {
		l.Lost()
	}
}
