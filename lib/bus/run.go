package bus

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	// page is how many entries of the log one command reads: fewer after one that was not answered in
	// time, for they may be large and the line slow, but the last that was handled and one more.
	page      = 1000
	leastPage = 2
	// leastBudget lets a beat succeed on a busy machine; a server that does not
	// answer delays a beat by at most this.
	leastBudget = 100 * time.Millisecond
	// pause is the least time between two beats, also of those that a gap asks for.
	pause = 2 * time.Millisecond
	// mayWait bounds the messages that wait until the gap before them is filled;
	// further ones are read from the log.
	mayWait = 1000
)

// Run listens and handles until ctx ends, and returns its error. It calls ready
// at once: Redis may be away, which [Bus.Seen] tells. Call it once.
func (b *Bus) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var listener sync.WaitGroup
	listener.Go(func() {
		// It ends with ctx, or when the DB was closed.
		cancel(b.db.Subscribe(ctx, b.keys.Events, redis.Handler{Message: b.message, Subscribed: b.ask}))
	})
	defer listener.Wait()
	ready()
	failing := false
	for {
		err := b.beat(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.stats.beats.Add(1)
		switch {
		case err != nil:
			b.stats.failed.Add(1)
			if !failing {
				b.cfg.Log.Warn("the event log cannot be read", "err", err)
			}
		case failing:
			b.cfg.Log.Info("the event log can be read again")
		}
		failing = err != nil
		wait(ctx, pause, nil)
		wait(ctx, b.cfg.Beat-pause, b.nudge)
	}
}

// wait returns after d, when ctx ends, or when a beat is asked for.
func wait(ctx context.Context, d time.Duration, asked <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-asked:
	}
}

// ask makes the next beat begin at once.
func (b *Bus) ask() {
	select {
	case b.nudge <- struct{}{}:
	default:
	}
}

// message handles a message of the channel.
func (b *Bus) message(payload string) {
	m, err := decodeMessage(payload)
	if err != nil {
		b.cfg.Log.Warn("a message of the bus cannot be read and is skipped: another program or version writes to this channel", "channel", b.keys.Events.String(), "err", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.id == "" {
		b.give(m.event, &b.stats.passed)
		return
	}
	if b.take(m) {
		return
	}
	if len(b.waiting) < mayWait {
		b.waiting = append(b.waiting, m)
	}
	b.ask()
}

// take handles a message that follows the last handled entry, and skips one that is
// not newer; it reports false when there is a gap before the message.
func (b *Bus) take(m message) bool {
	switch {
	case b.last.id == "":
		return false
	case m.prev == b.last.event.ID:
		b.last = m.entry
		b.give(m.event, &b.stats.events)
		return true
	}
	return !b.last.before(m.entry)
}

// give hands another node's event to its handler.
func (b *Bus) give(e Event, count interface{ Add(uint64) uint64 }) {
	if b.ours(e) {
		return
	}
	count.Add(1)
	if h := b.handlers[e.Topic]; h.Event != nil {
		h.Event(e)
	}
}

// ours reports whether this process published e.
func (b *Bus) ours(e Event) bool { return strings.HasPrefix(e.ID, b.boot) }

// settle handles the messages that waited for the entries before them.
func (b *Bus) settle() {
	for _, m := range b.waiting {
		if !b.take(m) {
			b.ask()
			break
		}
	}
	clear(b.waiting)
	b.waiting = b.waiting[:0]
}

// beat reads the log's new entries, and then the servers' identities.
func (b *Bus) beat(ctx context.Context) error {
	began := Now()
	for more := true; more; {
		var err error
		if more, err = b.catchUp(ctx); err != nil {
			return err
		}
	}
	// The servers are identified after the log was read: so this detects a server
	// that took over before.
	asking, cancel := b.budget(ctx)
	defer cancel()
	print, err := b.db.Fingerprint(asking)
	if err != nil {
		return err
	}
	if err := b.readClock(asking); err != nil {
		return err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(print))
	era := h.Sum64() | 1 // never 0
	if before := b.era.Swap(era); before != era && before != 0 {
		b.mu.Lock()
		b.lost("a server was restarted or replaced")
		b.mu.Unlock()
	}
	if b.seen.Swap(int64(began)) == 0 {
		close(b.up)
	}
	return nil
}

// budget bounds one step of a beat.
func (b *Bus) budget(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(b.cfg.Beat/2, leastBudget))
}

// catchUp handles the entries after the last one; more says that they were a full
// page.
func (b *Bus) catchUp(ctx context.Context) (more bool, err error) {
	ctx, cancel := b.budget(ctx)
	defer cancel()
	b.mu.Lock()
	last := b.last
	b.mu.Unlock()
	if last.id == "" {
		return false, b.begin(ctx, "")
	}
	count := b.page
	entries, err := b.read(ctx, "XRANGE", last.id, "+", count)
	if err != nil {
		b.page = max(count/2, leastPage)
		return false, err
	}
	b.page = min(2*count, page)
	// Nothing is missing after the last entry only if that is still there, and still
	// the same: in a log that was emptied a new entry may have its id.
	if len(entries) == 0 || entries[0].id != last.id || entries[0].event.ID != last.event.ID {
		return false, b.begin(ctx, "the log was trimmed or emptied")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries[1:] {
		if b.last.before(e) { // else it came as a message meanwhile
			b.last = e
			b.give(e.event, &b.stats.events)
			if !b.ours(e.event) {
				b.stats.fromLog.Add(1)
			}
		}
	}
	b.settle()
	return len(entries) == count, nil
}

// begin starts from the end of the log.
func (b *Bus) begin(ctx context.Context, why string) error {
	newest, err := b.read(ctx, "XREVRANGE", "+", "-", 1)
	if err == nil && len(newest) == 0 {
		// The log needs an entry to continue from. No topic has this name.
		if err = b.Publish(ctx, "-", "hello", ""); err == nil {
			newest, err = b.read(ctx, "XREVRANGE", "+", "-", 1)
		}
	}
	if err == nil && len(newest) == 0 {
		err = errors.New("bus: the log does not keep its entries")
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = newest[0]
	b.lost(why)
	b.settle()
	return nil
}

// lost calls Lost of every topic; why is empty at the start.
func (b *Bus) lost(why string) {
	if why != "" {
		b.stats.lost.Add(1)
		b.cfg.Log.Warn("events may have been missed", "why", why)
	}
	for _, h := range b.handlers {
		if h.Lost != nil {
			h.Lost()
		}
	}
}

// read returns entries of the log. One that cannot be decoded is an event of no
// topic: it keeps its place and nobody is given it.
func (b *Bus) read(ctx context.Context, verb, from, to string, count int) ([]entry, error) {
	items, err := b.db.Do(ctx, keyspace.Cmd{Name: verb, Key: b.keys.Log.Key, Args: []string{from, to, "COUNT", strconv.Itoa(count)}}).Items()
	if err != nil {
		return nil, fmt.Errorf("bus: %s: %w", verb, err)
	}
	entries := make([]entry, len(items))
	for i, it := range items {
		if len(it.List) != 2 || len(it.List[1].List) < 2 {
			return nil, fmt.Errorf("%w: %s of %s", keyspace.ErrReply, verb, b.keys.Log)
		}
		if entries[i], err = place(it.List[0].Str); err != nil {
			return nil, err
		}
		if entries[i].event, err = decode(it.List[1].List[1].Str); err != nil && from != entries[i].id {
			b.cfg.Log.Warn("an entry of the bus cannot be read and is skipped: another program or version writes to this log", "log", b.keys.Log.String(), "entry", entries[i].id, "err", err)
		}
	}
	return entries, nil
}
