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
	pageSize      = 500                    // channels that one round trip checks
	checkTimeout  = 5 * time.Second        // bounds the check of one page
	retryInterval = 250 * time.Millisecond // interval of retries after a failed check
)

// lateChecks are the delays of further checks after a node was treated as dead. Another node may still remove it from
// a channel by an old list of live nodes:
//
//   - at the end of a check, which takes up to [checkTimeout] with a list that may be 1.5 s old;
//   - by a command that hangs in a connection; the client closes such a connection after about ten seconds.
var lateChecks = [...]time.Duration{checkTimeout + 2*time.Second, time.Minute}

// messageItem is one event of a message between nodes. Without V, it means that the channel has begun a new epoch.
type messageItem struct {
	C string
	E string
	O uint64
	V json.RawMessage
}

// decode parses the output of [Event.appendJSON].
func decode(text string) (e Event, err error) {
	err = json.Unmarshal([]byte(text), &e)
	return e, err
}

// receive delivers the messages of other nodes until ctx ends.
func (b *Bus) receive(ctx context.Context) {
	_ = b.db.Subscribe(ctx, nodeChannels.At(keyspace.Text{S: b.node}), redis.Handler{ // it ends with ctx or the DB
		Subscribed: b.checkAfterGap,
		Message:    func(text string) { b.deliverMessage(ctx, text) },
	})
}

// deliverMessage delivers the events of another node's message.
func (b *Bus) deliverMessage(ctx context.Context, text string) {
	var items []messageItem
	if err := json.Unmarshal([]byte(text), &items); err != nil {
		b.log.Error("events: message of another node not decoded", "err", err)
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
			b.log.Error("events: event of another node not decoded", "err", err)
			continue
		}
		e.On = item.C
		b.handle(ctx, c, e, Position{item.E, item.O})
	}
}

// begin sets a channel to the beginning of an epoch, and notifies its listeners of a loss if the epoch is new.
func (b *Bus) begin(c *channel, at Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.Epoch != at.Epoch {
		c.at = at
		b.notifyLost(c)
	}
}

// requestCheck makes resync check the positions of all channels.
func (b *Bus) requestCheck() {
	select {
	case b.checks <- struct{}{}:
	default:
	}
}

// checkAfterGap is requestCheck after an interruption that may have lost events of other nodes.
func (b *Bus) checkAfterGap() {
	b.gap.Store(true)
	b.requestCheck()
}

// resetAll marks all channels of this node for a new epoch and requests a check, because another node lost events of
// unknown channels.
func (b *Bus) resetAll() {
	b.stale.Store(true)
	b.requestCheck()
}

// resync renews this node's subscriptions in Redis, finds missed events, and begins new epochs of channels with lost
// events, until ctx ends.
func (b *Bus) resync(ctx context.Context) {
	renew, retry := time.NewTicker(renewInterval), time.NewTicker(retryInterval)
	defer renew.Stop()
	defer retry.Stop()
	wanted := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-renew.C:
			wanted = true
		case <-b.checks:
			wanted = true
		case <-b.dead:
			wanted = true
			for _, after := range lateChecks {
				time.AfterFunc(after, b.requestCheck)
			}
		case <-retry.C:
		}
		b.resetUnsent(ctx)
		if wanted {
			wanted = !b.checkAll(ctx)
		}
	}
}

// checkAll compares the positions in Redis with the delivered events. It reports whether Redis replied.
func (b *Bus) checkAll(ctx context.Context) bool {
	era, stale, gap := b.nodes.Era(), b.stale.Swap(false), b.gap.Swap(false)
	// In another era data of Redis may be lost, and offsets may repeat.
	newEpochs := stale || b.era != 0 && b.era != era
	for names := range slices.Chunk(b.channelNames(), pageSize) {
		if !b.checkPage(ctx, names, newEpochs, gap) {
			if newEpochs { // otherwise another node may have set it meanwhile
				b.stale.Store(true)
			}
			if gap {
				b.gap.Store(true)
			}
			return false
		}
	}
	b.era = era
	return true
}

// checkPage is checkAll for some channels. It reports whether Redis replied to all commands.
func (b *Bus) checkPage(ctx context.Context, names []string, newEpochs, gap bool) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if newEpochs && !b.resetChannels(ctx, names, true) {
		return false
	}
	live := b.liveNodes(ctx)
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

// shared reports whether a channel is not a user's own: see [Event.On].
func shared(name string) bool { return strings.Contains(name, "/") }

// compare moves a channel to its position in Redis. The events of a shared channel, such as a room's, are not stored,
// so that the events lost in a gap are unknown: its listeners are notified.
func (b *Bus) compare(ctx context.Context, c *channel, at Position, gap bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.Epoch == c.at.Epoch {
		if gap && shared(c.name) {
			b.notifyLost(c)
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
	b.notifyLost(c)
}

// resetUnsent begins new epochs of the channels of unsent events, once Redis has the changes behind these events; see
// [Bus.DelayEpochsWhile].
func (b *Bus) resetUnsent(ctx context.Context) {
	for !slices.ContainsFunc(b.behind, func(behind func() bool) bool { return behind() }) {
		names, more := b.unsent.pop(pageSize)
		if more {
			if err := b.nodes.Publish(ctx, topic, "lost", b.node); err != nil {
				b.unsent.restoreMore()
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

// resetListened begins new epochs of the channels that have subscribers. It reports whether Redis replied to all
// commands.
func (b *Bus) resetListened(ctx context.Context, names []string) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	silent, err := b.silentChannels(ctx, names)
	if err != nil {
		return false
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return silent[name] })
	return len(names) == 0 || b.resetChannels(ctx, names, false)
}

// restoreMore restores the flag that there are channels beyond maxUnsent.
func (u *unsent) restoreMore() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.more = true
}

// resetChannels begins new epochs and notifies all nodes with subscribers. If onlyKnownEpoch is set, it skips channels
// with another epoch than on this node, because another node has already reset them. It reports whether Redis replied
// to all commands.
func (b *Bus) resetChannels(ctx context.Context, names []string, onlyKnownEpoch bool) bool {
	cmds, epochs := make([]keyspace.Cmd, len(names)), make([]string, len(names))
	for i, name := range names {
		old := ""
		if c := b.listening(name); onlyKnownEpoch && c != nil {
			c.mu.Lock()
			old = c.at.Epoch
			c.mu.Unlock()
		}
		nodes, meta, stream := keysOf(name)
		epochs[i] = newEpoch()
		cmds[i] = resetScript.Cmd([]keyspace.Key{nodes, meta, stream}, epochs[i], old)
	}
	messages := outgoing{}
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
				messages.addItem(node, names[i], Position{epochs[i], 0}, true, func(b []byte) []byte { return b })
			} else if c := b.listening(names[i]); c != nil {
				b.begin(c, Position{epochs[i], 0})
			}
		}
	}
	b.deliver(ctx, messages)
	return true
}
