package events

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	page     = 500                    // channels that one round trip looks at
	lookTime = 5 * time.Second        // for one page
	again    = 250 * time.Millisecond // after Redis did not answer
)

// lateLooks are when a node that was taken for dead looks once more. Another node may take it off a
// channel by a list of those that live from before: at the end of a look ([lookTime], and a list may be
// 1.5 s old), or by a command that hangs in a connection, which the client closes after some ten seconds.
var lateLooks = [...]time.Duration{lookTime + 2*time.Second, time.Minute}

// letterItem is one event in what a node gets. Without V it says that the channel has
// begun a new epoch.
type letterItem struct {
	C string
	E string
	O uint64
	V json.RawMessage
}

// decode reads an event as [Event.appendJSON] writes it.
func decode(text string) (e Event, err error) {
	err = json.Unmarshal([]byte(text), &e)
	return e, err
}

// receive hands on what other nodes send, until ctx ends.
func (b *Bus) receive(ctx context.Context) {
	_ = b.db.Subscribe(ctx, nodeChannels.At(keyspace.Text{S: b.node}), redis.Handler{ // it ends with ctx, or with the DB
		Subscribed: b.lookAfterGap,
		Message:    func(text string) { b.open(ctx, text) },
	})
}

// open hands on what is in a letter.
func (b *Bus) open(ctx context.Context, text string) {
	var items []letterItem
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		b.log.Error("events of another node cannot be decoded", "err", err)
		return
	}
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = item.C
	}
	b.ahead(names)
	for _, item := range items {
		c := b.listening(item.C)
		if c == nil {
			continue
		}
		if item.V == nil {
			b.begin(c, Position{item.E, 0})
			continue
		}
		e, err := decode(string(item.V))
		if err != nil {
			b.log.Error("an event of another node cannot be decoded", "err", err)
			continue
		}
		e.On = item.C
		b.handle(ctx, c, e, Position{item.E, item.O})
	}
}

// begin notes that a channel stands at the beginning of an epoch, and tells its listeners
// unless they know.
func (b *Bus) begin(c *channel, at Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.Epoch != at.Epoch {
		c.at = at
		b.tellLost(c)
	}
}

// look has keepRight look at where all channels stand.
func (b *Bus) look() {
	select {
	case b.doubt <- struct{}{}:
	default:
	}
}

// lookAfterGap is look, at a time when what other nodes sent may have been lost on the way.
func (b *Bus) lookAfterGap() {
	b.gap.Store(true)
	b.look()
}

// resetAll is look, after which every channel of this node has begun a new epoch: another
// node has lost events and does not know of which channels.
func (b *Bus) resetAll() {
	b.stale.Store(true)
	b.look()
}

// keepRight renews what Redis knows of this node's channels, finds out what was missed, and
// begins new epochs of channels of which an event was lost, until ctx ends.
func (b *Bus) keepRight(ctx context.Context) {
	renew, retry := time.NewTicker(renewEvery), time.NewTicker(again)
	defer renew.Stop()
	defer retry.Stop()
	wanted := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			wanted = true
		case <-b.doubt:
			wanted = true
		case <-b.dead:
			wanted = true
			for _, after := range lateLooks {
				time.AfterFunc(after, b.look)
			}
		case <-retry.C:
		}
		b.resetUnsent(ctx)
		if wanted {
			wanted = !b.lookAtAll(ctx)
		}
	}
}

// lookAtAll compares where channels stand with what was handed on; it reports whether
// Redis answered.
func (b *Bus) lookAtAll(ctx context.Context) bool {
	era, stale, gap := b.nodes.Era(), b.stale.Swap(false), b.gap.Swap(false)
	// In another era what Redis had may be gone, and offsets may come again.
	fresh := stale || b.era != 0 && b.era != era
	for names := range slices.Chunk(b.all(), page) {
		if !b.lookAtSome(ctx, names, fresh, gap) {
			b.stale.Store(fresh)
			if gap {
				b.gap.Store(true)
			}
			return false
		}
	}
	b.era = era
	return true
}

func (b *Bus) lookAtSome(ctx context.Context, names []string, fresh, gap bool) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if fresh && !b.resetSome(ctx, names, true) {
		return false
	}
	live := b.alive(ctx)
	cmds := make([]keyspace.Cmd, len(names))
	for i, name := range names {
		cmds[i] = b.listenCmd(name, live)
	}
	for i, r := range b.db.DoMulti(ctx, cmds) {
		at, listed, err := registered(r)
		if err != nil {
			return false
		}
		if c := b.listening(names[i]); c != nil {
			b.compare(ctx, c, at, gap || !listed)
		}
	}
	return true
}

// shared reports whether a channel is no user's own: see [Event.On].
func shared(name string) bool { return strings.Contains(name, "/") }

// compare brings a channel to where it stands in Redis. The events of a shared channel, such as
// a room's, are not kept, and nobody can say which were lost in a gap: its listeners are told.
func (b *Bus) compare(ctx context.Context, c *channel, at Position, gap bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Epoch == c.at.Epoch {
		if gap && shared(c.name) {
			b.tellLost(c)
			return
		}
		if at.Offset > c.at.Offset {
			b.fill(ctx, c)
		}
		if at.Offset <= c.at.Offset {
			return
		}
	}
	c.at = at
	b.tellLost(c)
}

// resetUnsent begins new epochs of the channels of which an event could not be sent, once Redis
// has what these events were about; see [Bus.SetBehind].
func (b *Bus) resetUnsent(ctx context.Context) {
	for !b.behind() {
		names, more := b.unsent.some(page)
		if more {
			if err := b.nodes.Publish(ctx, topic, "lost", b.node); err != nil {
				b.unsent.forgot()
			} else {
				b.resetAll()
			}
		}
		if len(names) == 0 {
			return
		}
		if !b.resetListened(ctx, names) {
			for _, name := range names {
				b.unsent.add(name)
			}
			return
		}
		b.stats.unsent.Add(uint64(len(names)))
	}
}

// resetListened begins new epochs of those channels to which somebody listens.
func (b *Bus) resetListened(ctx context.Context, names []string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	silent, err := b.silent(ctx, names)
	if err != nil {
		return false
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return silent[name] })
	return len(names) == 0 || b.resetSome(ctx, names, false)
}

// forgot puts back that there are channels which nobody remembers.
func (u *unsent) forgot() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.more = true
}

// resetSome begins new epochs and tells all nodes that listen. With known it does so only
// where the epoch is still the one that this node knows: another node may have been quicker.
func (b *Bus) resetSome(ctx context.Context, names []string, known bool) bool {
	cmds, epochs := make([]keyspace.Cmd, len(names)), make([]string, len(names))
	for i, name := range names {
		old := ""
		if c := b.listening(name); known && c != nil {
			c.mu.Lock()
			old = c.at.Epoch
			c.mu.Unlock()
		}
		nodes, meta, stream := keysOf(name)
		epochs[i] = newEpoch()
		cmds[i] = resetScript.Cmd([]keyspace.Key{nodes, meta, stream}, epochs[i], old)
	}
	mail := post{}
	for i, r := range b.db.DoMulti(ctx, cmds) {
		nodes, ok, err := r.Text()
		if err != nil {
			return false
		}
		if !ok {
			continue
		}
		for node := range strings.FieldsSeq(nodes) {
			if node != b.node {
				mail.item(node, names[i], Position{epochs[i], 0}, true, func(b []byte) []byte { return b })
			} else if c := b.listening(names[i]); c != nil {
				b.begin(c, Position{epochs[i], 0})
			}
		}
	}
	b.deliver(ctx, mail)
	return true
}
