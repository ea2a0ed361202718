package messaging

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/stoa-dev/stoa/api"
)

// exactUnread is the number of latest messages of a conversation that unread checks one by one. It is at most
// [maxLatest], because a state has the hidden messages of these.
const exactUnread = maxLatest

// numbers are the seqs of messages, in ascending order. A row stores them as JSON, and an empty text for none.
type numbers []int64

// Value implements [driver.Valuer].
func (n numbers) Value() (driver.Value, error) {
	if len(n) == 0 {
		return "", nil
	}
	text, err := json.Marshal(n)
	return string(text), err
}

// Scan implements [database/sql.Scanner].
func (n *numbers) Scan(src any) error {
	var text []byte
	switch src := src.(type) {
	case string:
		text = []byte(src)
	case []byte:
		text = src
	default:
		return fmt.Errorf("messaging: the uncounted messages of a row are %T", src)
	}
	if *n = nil; len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, n)
}

// needsNoReading reports whether unread leaves the message out for every member.
func (m message) needsNoReading() bool { return m.recalled != 0 || m.body.Kind == api.MessageSystem }

// uncount adds messages that need no reading, and removes those that are no longer among the latest.
func (c *conversation) uncount(seqs ...int64) {
	all := slices.Concat(c.uncounted, seqs)
	all = slices.DeleteFunc(all, func(seq int64) bool { return seq <= c.seq-exactUnread })
	slices.Sort(all)
	c.uncounted = slices.Compact(all)
}

// updateUncounted adds a new or changed message if it needs no reading, and removes messages that are no longer among
// the latest.
func (c *conversation) updateUncounted(m message) {
	if m.needsNoReading() {
		c.uncount(m.seq)
	} else {
		c.uncount()
	}
}

// mark returns the number of the last message that the member has read or cleared.
func (m member) mark() int64 { return max(m.read, m.cleared) }

// uncountedFor returns the messages after the member's mark that unread omits. hidden are the latest messages that the
// member has deleted for themselves.
func (v view) uncountedFor(hidden []int64) []int64 {
	from := max(v.me.mark(), v.seq-exactUnread)
	all := slices.Concat(v.uncounted, hidden)
	all = slices.DeleteFunc(all, func(seq int64) bool { return seq <= from || seq > v.seq })
	slices.Sort(all)
	return slices.Compact(all)
}

// unread returns the number of messages that the member has to read.
func (v view) unread(hidden []int64) int64 {
	return max(0, v.seq-v.me.mark()) - int64(len(v.uncountedFor(hidden)))
}
