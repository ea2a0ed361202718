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
	// maxPage is the number of entries that one command reads. After a command that timed out, fewer are read, because
	// they may be large and the connection slow, but at least minPage: the last handled entry and one more.
	maxPage = 1000
	minPage = 2
	// minBudget lets a beat succeed on a busy machine; a silent server delays a beat by at most this.
	minBudget = 100 * time.Millisecond
	// pause is the shortest time between two beats, including those that a gap requests.
	pause = 2 * time.Millisecond
	// restBeats is the longest interval of two beats without calls of Seen, in units of Config.Beat; see KeepWithin.
	restBeats = 3
	// clockInterval is the interval of reading the servers' clock.
	clockInterval = Moment(time.Second)
	// maxWaiting limits the messages that wait until the gap before them is filled; further messages are read from the
	// log.
	maxWaiting = 1000
)

// Run subscribes and calls the handlers until ctx ends, and returns the error of ctx. It calls ready at once, even if
// Redis is unavailable; [Bus.Seen] reports the connection. Call it once.
func (b *Bus) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var listener sync.WaitGroup
	listener.Go(func() {
		// The subscription ends with ctx, or when the DB is closed.
		cancel(b.db.Subscribe(ctx, b.keys.Events, redis.Handler{Message: b.message, Subscribed: b.requestBeat}))
	})
	defer listener.Wait()
	ready()
	failing, interval := false, b.cfg.Beat
	for {
		err := b.beat(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.stats.beats.Add(1)
		b.heard.Store(err == nil)
		switch {
		case err != nil:
			b.stats.failed.Add(1)
			if !failing {
				b.cfg.Log.Warn("bus: event log not read", "err", err)
			}
		case failing:
			b.cfg.Log.Info("bus: event log read again")
		}
		failing = err != nil
		b.rests.Store(true) // before used is read, so that no call of Seen is missed
		if interval = min(2*interval, time.Duration(b.rest.Load())); b.used.Swap(false) || failing {
			interval = b.cfg.Beat
			b.rests.Store(false)
		}
		wait(ctx, pause, nil)
		wait(ctx, interval-pause, b.nudge)
	}
}

// wait returns after d, when ctx ends, or when a beat is requested.
func wait(ctx context.Context, d time.Duration, asked <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-asked:
	}
}

// requestBeat requests the next beat at once.
func (b *Bus) requestBeat() {
	select {
	case b.nudge <- struct{}{}:
	default:
	}
}

// message handles a message of the channel.
func (b *Bus) message(payload string) {
	m, err := decodeMessage(payload)
	if err != nil {
		b.cfg.Log.Warn("bus: message skipped, written by another program or version", "channel", b.keys.Events.String(), "err", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.id == "" {
		b.deliver(m.event, &b.stats.passed)
		return
	}
	if b.take(m) {
		return
	}
	if len(b.waiting) < maxWaiting {
		b.waiting = append(b.waiting, m)
	}
	b.requestBeat()
}

// take handles a message that follows the last handled entry, and skips one that is not newer. It reports false if
// there is a gap before the message.
func (b *Bus) take(m message) bool {
	switch {
	case b.last.id == "":
		return false
	case m.prev == b.last.event.ID:
		b.last = m.entry
		b.deliver(m.event, &b.stats.events)
		return true
	}
	return !b.last.before(m.entry)
}

// deliver passes another node's event to its handler.
func (b *Bus) deliver(e Event, count interface{ Add(uint64) uint64 }) {
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

// handleWaiting handles the messages that waited for the entries before them.
func (b *Bus) handleWaiting() {
	for _, m := range b.waiting {
		if !b.take(m) {
			b.requestBeat()
			break
		}
	}
	clear(b.waiting)
	b.waiting = b.waiting[:0]
}

// beat reads the new entries of the log, and then the servers' identities.
func (b *Bus) beat(ctx context.Context) error {
	began := Now()
	for more := true; more; {
		var err error
		if more, err = b.catchUp(ctx); err != nil {
			return err
		}
	}
	// The servers are identified after the log was read, which detects a server that took over before that.
	asking, cancel := b.budget(ctx)
	defer cancel()
	print, err := b.db.KnownFingerprint(asking)
	if err != nil {
		return err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(print))
	era := h.Sum64() | 1 // never 0
	if era != b.era.Load() || began-b.clocked >= clockInterval {
		if err := b.readClock(asking); err != nil {
			return err
		}
		b.clocked = began
	}
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
	return context.WithTimeout(ctx, max(b.cfg.Beat/2, minBudget))
}

// catchUp handles the entries after the last one; more reports whether they filled a page.
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
		b.page = max(count/2, minPage)
		return false, err
	}
	b.page = min(2*count, maxPage)
	// No entry is missing after the last one only if that is still in the log and has the same event. In a log that was
	// emptied, a new entry may have the same id.
	if len(entries) == 0 || entries[0].id != last.id || entries[0].event.ID != last.event.ID {
		return false, b.begin(ctx, "the log was trimmed or emptied")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries[1:] {
		if b.last.before(e) { // otherwise it arrived as a message meanwhile
			b.last = e
			b.deliver(e.event, &b.stats.events)
			if !b.ours(e.event) {
				b.stats.fromLog.Add(1)
			}
		}
	}
	b.handleWaiting()
	return len(entries) == count, nil
}

// begin continues from the end of the log.
func (b *Bus) begin(ctx context.Context, why string) error {
	newest, err := b.read(ctx, "XREVRANGE", "+", "-", 1)
	if err == nil && len(newest) == 0 {
		// The log needs an entry to continue from. No topic has this name.
		if err = b.Publish(ctx, "-", "hello", ""); err == nil {
			newest, err = b.read(ctx, "XREVRANGE", "+", "-", 1)
		}
	}
	if err == nil && len(newest) == 0 {
		err = errors.New("bus: the log is empty after an event was published")
	}
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = newest[0]
	b.lost(why)
	b.handleWaiting()
	return nil
}

// lost calls Lost of every topic; why is empty at the start.
func (b *Bus) lost(why string) {
	if why != "" {
		b.stats.lost.Add(1)
		b.cfg.Log.Warn("bus: events may have been missed", "why", why)
	}
	for _, h := range b.handlers {
		if h.Lost != nil {
			h.Lost()
		}
	}
}

// read returns entries of the log. An entry that cannot be decoded becomes an event without a topic: it counts as an
// entry, but no handler gets it.
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
			b.cfg.Log.Warn("bus: log entry skipped, written by another program or version", "log", b.keys.Log.String(), "entry", entries[i].id,
				"err", err)
		}
	}
	return entries, nil
}
