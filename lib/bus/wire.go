package bus

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// entry is an event at its place in the log.
type entry struct {
	id      string
	ms, seq uint64 // of id
	event   Event
}

// message is what comes over the channel: an entry and the id of the event before
// it, or an event that is in no log.
type message struct {
	prev string
	entry
}

// passing replaces, in the message of an event that is in no log, the id of the event
// before.
const passing = "- "

// before reports whether e comes before f in their log.
func (e *entry) before(f entry) bool { return e.ms < f.ms || e.ms == f.ms && e.seq < f.seq }

// encode writes "id node topic name time data". Only the data, at the end, may
// have spaces in it.
func (e Event) encode() string {
	b := make([]byte, 0, len(e.ID)+len(e.Node)+len(e.Topic)+len(e.Name)+len(e.Data)+20)
	for _, word := range []string{e.ID, e.Node, e.Topic, e.Name} {
		b = append(append(b, word...), ' ')
	}
	b = strconv.AppendInt(b, e.At.UnixMilli(), 10)
	return string(append(append(b, ' '), e.Data...))
}

func decode(s string) (e Event, err error) {
	var at string
	for _, word := range []*string{&e.ID, &e.Node, &e.Topic, &e.Name, &at} {
		var ok bool
		if *word, s, ok = strings.Cut(s, " "); !ok {
			return Event{}, fmt.Errorf("bus: an event that ends after %q", *word)
		}
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return Event{}, fmt.Errorf("bus: an event's time: %w", err)
	}
	e.At, e.Data = time.UnixMilli(ms), s
	return e, nil
}

// place returns the entry of that id, without its event.
func place(id string) (e entry, err error) {
	ms, seq, _ := strings.Cut(id, "-")
	e.id = id
	if e.ms, err = strconv.ParseUint(ms, 10, 64); err == nil {
		e.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil {
		return entry{}, fmt.Errorf("bus: an entry's id: %w", err)
	}
	return e, nil
}

func decodeMessage(payload string) (m message, err error) {
	if rest, ok := strings.CutPrefix(payload, passing); ok {
		m.event, err = decode(rest)
		return m, err
	}
	prev, rest, _ := strings.Cut(payload, " ")
	id, event, _ := strings.Cut(rest, " ")
	if m.entry, err = place(id); err == nil {
		m.event, err = decode(event)
	}
	m.prev = prev
	return m, err
}
