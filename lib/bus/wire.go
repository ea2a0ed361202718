package bus

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// entry is an event with its position in the log.
type entry struct {
	id      string
	ms, seq uint64 // of id
	event   Event
}

// message is a message of the channel: an entry and the id of the event before it, or an event that is not in the log.
type message struct {
	prev string
	entry
}

// passing replaces the id of the previous event in the message of an event that is not in the log.
const passing = "- "

// before reports whether e precedes f in their log.
func (e *entry) before(f entry) bool { return e.ms < f.ms || e.ms == f.ms && e.seq < f.seq }

// encode returns "id node topic name time data". Only the data, at the end, may contain spaces.
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
			return Event{}, fmt.Errorf("bus: the event ends after %q", *word)
		}
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return Event{}, fmt.Errorf("bus: invalid event time: %w", err)
	}
	e.At, e.Data = time.UnixMilli(ms), s
	return e, nil
}

// place returns the entry with that id, without its event.
func place(id string) (e entry, err error) {
	ms, seq, _ := strings.Cut(id, "-")
	e.id = id
	if e.ms, err = strconv.ParseUint(ms, 10, 64); err == nil {
		e.seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil {
		return entry{}, fmt.Errorf("bus: invalid entry id: %w", err)
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
