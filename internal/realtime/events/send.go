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
	biggest  = 1000            // events that are sent at once, give or take a batch
	sendTime = 2 * time.Second // for Redis to take them

	// askFirst is from how many channels on it is worth a round trip to know which of
	// them anybody listens to.
	askFirst = 4
)

// send sends what waits, all at once, until ctx ends; then what was published before.
func (b *Bus) send(ctx context.Context) {
	work := context.WithoutCancel(ctx) // what is being sent then goes on
	for {
		var batch []Event
		select {
		case batch = <-b.out:
			b.queued.Add(-int64(len(batch)))
		case batch = <-b.paced:
		case <-ctx.Done():
			work, cancel := context.WithTimeout(work, sendTime)
			defer cancel()
			for batch = b.gather(nil); len(batch) > 0 && work.Err() == nil; batch = b.gather(nil) {
				b.sendAll(work, batch)
			}
			return
		}
		b.sendAll(work, b.gather(batch))
	}
}

// gather returns a batch with others that wait.
func (b *Bus) gather(batch []Event) []Event {
	for len(batch) < biggest {
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
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	silent, err := b.silentOf(ctx, batch)
	if err != nil {
		b.log.Debug("it is not known who listens", "err", err) // each event finds out
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
	mail := post{}
	for i, r := range replies {
		e := events[i]
		switch {
		case e == nil || r.Nil():
		case r.Err != nil:
			b.here(ctx, *e, Position{})
			b.stats.local.Add(1)
			if e.lasts() {
				b.unsent.add(e.channel())
			}
		default:
			nodes, at, err := published(r)
			if err != nil {
				b.log.Error("an event may be lost: publish.lua answered what this version does not know", "type", e.Type, "channel", e.channel(), "err", err)
				continue
			}
			b.stats.sent.Add(1)
			for node := range strings.FieldsSeq(nodes) {
				if node == b.node {
					b.here(ctx, *e, at)
				} else {
					mail.add(node, e, at)
				}
			}
		}
	}
	b.deliver(ctx, mail)
}

// silentOf returns the channels of a batch to which nobody listens and which nobody can
// resume, where that is worth knowing before.
func (b *Bus) silentOf(ctx context.Context, batch []Event) (map[string]bool, error) {
	names := make([]string, 0, len(batch))
	for i := range batch {
		if name := batch[i].channel(); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 || len(names) < askFirst && b.db.Mode() != "embedded" { // where scripts are slow
		return nil, nil
	}
	return b.silent(ctx, names)
}

// silent returns those of some channels to which nobody listens and which nobody can
// resume.
func (b *Bus) silent(ctx context.Context, names []string) (map[string]bool, error) {
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
	keep := keepForEach
	if e.Fleeting {
		keep = 0
	}
	return publishScript.Cmd([]keyspace.Key{nodes, meta, stream}, string(e.appendJSON(nil)), strconv.Itoa(keep), millis(resumeFor), newEpoch(), millis(listenLife))
}

// published reads publish.lua's reply.
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

// here hands an event to the listeners of this node.
func (b *Bus) here(ctx context.Context, e Event, at Position) {
	if c := b.listening(e.channel()); c != nil {
		b.handle(ctx, c, e, at)
	}
}

// post is what other nodes are to get, by node.
type post map[string]*letter

// letter is what one node is to get.
type letter struct {
	text     []byte   // see letterItem
	channels []string // whose listeners have to look at the truth where it cannot be sent
}

// add puts an event into the letter to node. Channels are the only text of an item that
// may need escaping.
func (p post) add(node string, e *Event, at Position) {
	p.item(node, e.channel(), at, e.lasts(), func(b []byte) []byte { return e.appendJSON(append(b, `,"v":`...)) })
}

func (p post) item(node, channel string, at Position, lasts bool, event func([]byte) []byte) {
	l := p[node]
	if l == nil {
		l = &letter{text: []byte{'['}}
		p[node] = l
	} else {
		l.text = append(l.text, ',')
	}
	if lasts {
		l.channels = append(l.channels, channel)
	}
	l.text = strconv.AppendQuote(append(l.text, `{"c":`...), channel)
	l.text = append(l.text, `,"e":"`+at.Epoch+`","o":`...)
	l.text = strconv.AppendUint(l.text, at.Offset, 10)
	l.text = append(event(l.text), '}')
}

// deliver sends letters. Events whose letter cannot be sent are in the streams, where
// nobody looks for them unless the channel begins a new epoch.
func (b *Bus) deliver(ctx context.Context, p post) {
	if len(p) == 0 {
		return
	}
	cmds, letters := make([]keyspace.Cmd, 0, len(p)), make([]*letter, 0, len(p))
	for node, l := range p {
		cmds = append(cmds, b.db.PublishCmd(nodeChannels.At(keyspace.Text{S: node}), string(append(l.text, ']'))))
		letters = append(letters, l)
	}
	for i, r := range b.db.DoMulti(ctx, cmds) {
		if r.Err != nil {
			for _, name := range letters[i].channels {
				b.unsent.add(name)
			}
		}
	}
}

// mostUnsent bounds the channels that are remembered one by one.
const mostUnsent = 1 << 16

// unsent are channels of which an event could not be sent.
type unsent struct {
	mu       sync.Mutex
	channels map[string]struct{}
	more     bool // than are remembered
}

func (u *unsent) add(name string) {
	if name == "" { // of an event that no listener gets
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.channels) >= mostUnsent {
		u.more = true
		return
	}
	if u.channels == nil {
		u.channels = map[string]struct{}{}
	}
	u.channels[name] = struct{}{}
}

// some takes out up to n channels; more reports whether there were others that nobody
// remembers.
func (u *unsent) some(n int) (names []string, more bool) {
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
