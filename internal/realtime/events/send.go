package events

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

//go:embed lua/publish.lua
var publishSource string

//go:embed lua/reset.lua
var resetSource string

var (
	publishScript = redis.NewScript(publishSource)
	resetScript   = redis.NewScript(resetSource)
)

const (
	maxSend     = 1000            // largest number of events of one send, not counting the last batch
	sendTimeout = 2 * time.Second // bounds one send to Redis

	// probeThreshold is the smallest number of channels that justifies an extra round trip to find those without
	// subscribers.
	probeThreshold = 4
)

// send sends the queued events, all at once, until ctx ends. Then it sends the events that were published before.
func (b *Bus) send(ctx context.Context) {
	work := context.WithoutCancel(ctx) // a running send continues
	for {
		var batch []Event
		select {
		case batch = <-b.out:
			b.queued.Add(-int64(len(batch)))
		case batch = <-b.paced:
		case <-ctx.Done():
			work, cancel := context.WithTimeout(work, sendTimeout)
			defer cancel()
			for batch = b.gather(nil); len(batch) > 0 && work.Err() == nil; batch = b.gather(nil) {
				b.sendAll(work, batch)
			}
			return
		}
		b.sendAll(work, b.gather(batch))
	}
}

// gather returns a batch together with other queued ones.
func (b *Bus) gather(batch []Event) []Event {
	for len(batch) < maxSend {
		var next []Event
		select {
		case next = <-b.out:
			b.queued.Add(-int64(len(next)))
		default:
			select {
			case next = <-b.paced:
			default:
				return batch
			}
		}
		batch = append(batch[:len(batch):len(batch)], next...)
	}
	return batch
}

func (b *Bus) sendAll(ctx context.Context, batch []Event) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	silent, err := b.findSilent(ctx, batch)
	if err != nil {
		b.log.Debug("events: subscribers not read", "err", err) // each event checks its channel itself
	}
	cmds, events, names := make([]keyspace.Cmd, 0, len(batch)), make([]*Event, 0, len(batch)), make([]string, 0, len(batch))
	for i := range batch {
		e := &batch[i]
		if !e.Channel.IsZero() {
			cmds, events = append(cmds, b.db.PublishCmd(e.Channel.Channel, string(e.appendJSON(nil)))), append(events, nil)
		}
		if name := e.channel(); name != "" && !silent[name] {
			cmds, events, names = append(cmds, publishCmd(e)), append(events, e), append(names, name)
		}
	}
	if len(cmds) == 0 {
		return
	}
	replies := b.db.DoMulti(ctx, cmds)
	b.ahead(names)
	messages := outgoing{}
	for i, r := range replies {
		e := events[i]
		switch {
		case e == nil || r.Nil():
		case r.Err != nil:
			b.deliverLocal(ctx, *e, Position{})
			b.stats.local.Add(1)
			if e.needsResync() {
				b.unsent.add(e.channel())
			}
		default:
			nodes, at, err := published(r)
			if err != nil {
				b.log.Error("events: unknown reply of publish.lua, an event may be lost", "type", e.Type, "channel", e.channel(), "err", err)
				continue
			}
			b.stats.sent.Add(1)
			for node := range strings.FieldsSeq(nodes) {
				if node == b.node {
					b.deliverLocal(ctx, *e, at)
				} else {
					messages.add(node, e, at)
				}
			}
		}
	}
	b.deliver(ctx, messages)
}

// findSilent returns the channels of a batch without subscribers and without clients that may resume. It returns nil if
// the check is not worth its cost.
func (b *Bus) findSilent(ctx context.Context, batch []Event) (map[string]bool, error) {
	names := make([]string, 0, len(batch))
	for i := range batch {
		if name := batch[i].channel(); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	// Scripts are slow in the embedded server, so there the check is worth its cost for any number of channels.
	if names = slices.Compact(names); len(names) == 0 || len(names) < probeThreshold && b.db.Mode() != "embedded" {
		return nil, nil
	}
	return b.silentChannels(ctx, names)
}

// silentChannels reports for each channel whether it has no subscribers and no clients that may resume.
func (b *Bus) silentChannels(ctx context.Context, names []string) (map[string]bool, error) {
	keys := make([]keyspace.Key, len(names))
	for i, name := range names {
		keys[i], _, _ = keysOf(name)
	}
	silent := make(map[string]bool, len(names))
	for i, r := range b.db.MGet(ctx, keys) {
		if r.Err != nil {
			return nil, r.Err
		}
		silent[names[i]] = r.Nil()
	}
	return silent, nil
}

func publishCmd(e *Event) keyspace.Cmd {
	nodes, meta, stream := keysOf(e.channel())
	length := streamLength
	if e.Fleeting {
		length = 0
	}
	return publishScript.Cmd([]keyspace.Key{nodes, meta, stream}, string(e.appendJSON(nil)), strconv.Itoa(length), keyspace.Millis(resumeTTL),
		newEpoch(), keyspace.Millis(listenTTL))
}

// published parses publish.lua's reply.
func published(r keyspace.Reply) (nodes string, at Position, err error) {
	if list, err := r.Items(); err != nil || len(list) != 3 {
		return "", at, keyspace.ErrReply
	}
	if nodes, _, err = r.List[0].Text(); err != nil {
		return "", at, err
	}
	at, err = position(keyspace.Reply{Kind: keyspace.ListReply, List: r.List[1:]})
	return nodes, at, err
}

// deliverLocal delivers an event to the listeners of this node.
func (b *Bus) deliverLocal(ctx context.Context, e Event, at Position) {
	if c := b.listening(e.channel()); c != nil {
		b.handle(ctx, c, e, at)
	}
}

// outgoing has the messages to other nodes, by node.
type outgoing map[string]*nodeMessage

// nodeMessage is the message to one node.
type nodeMessage struct {
	text     []byte   // a list of [messageItem]
	channels []string // channels whose listeners must load the state if the message cannot be sent
}

// add adds an event to the message to node. The channel is the only text of an item that may need escaping.
func (p outgoing) add(node string, e *Event, at Position) {
	p.addItem(node, e.channel(), at, e.needsResync(), func(b []byte) []byte { return e.appendJSON(append(b, `,"v":`...)) })
}

func (p outgoing) addItem(node, channel string, at Position, needsResync bool, event func([]byte) []byte) {
	m := p[node]
	if m == nil {
		m = &nodeMessage{text: []byte{'['}}
		p[node] = m
	} else {
		m.text = append(m.text, ',')
	}
	if needsResync {
		m.channels = append(m.channels, channel)
	}
	m.text = strconv.AppendQuote(append(m.text, `{"c":`...), channel)
	m.text = append(m.text, `,"e":"`+at.Epoch+`","o":`...)
	m.text = strconv.AppendUint(m.text, at.Offset, 10)
	m.text = append(event(m.text), '}')
}

// deliver sends messages to other nodes. If a message cannot be sent, its events are only in the streams. The next event
// or check may still read them; otherwise a new epoch makes the listeners load the state.
func (b *Bus) deliver(ctx context.Context, p outgoing) {
	if len(p) == 0 {
		return
	}
	cmds, messages := make([]keyspace.Cmd, 0, len(p)), make([]*nodeMessage, 0, len(p))
	for node, m := range p {
		cmds = append(cmds, b.db.PublishCmd(nodeChannels.At(keyspace.Text{S: node}), string(append(m.text, ']'))))
		messages = append(messages, m)
	}
	for i, r := range b.db.DoMulti(ctx, cmds) {
		if r.Err != nil {
			for _, name := range messages[i].channels {
				b.unsent.add(name)
			}
		}
	}
}

// maxUnsent is the largest number of channels that are remembered by name.
const maxUnsent = 1 << 16

// unsent are the channels of events that could not be sent.
type unsent struct {
	mu       sync.Mutex
	channels map[string]struct{}
	more     bool // true: there are channels beyond maxUnsent
}

func (u *unsent) add(name string) {
	if name == "" { // an event without listeners
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.channels) >= maxUnsent {
		u.more = true
		return
	}
	if u.channels == nil {
		u.channels = map[string]struct{}{}
	}
	u.channels[name] = struct{}{}
}

// pop removes and returns up to n channels; more reports whether there were channels beyond maxUnsent.
func (u *unsent) pop(n int) (names []string, more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name := range u.channels {
		if len(names) == n {
			break
		}
		names = append(names, name)
		delete(u.channels, name)
	}
	more, u.more = u.more, false
	return names, more
}
