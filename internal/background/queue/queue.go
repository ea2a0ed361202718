package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Tries is how often a message is handled before it is a dead letter.
const Tries = 5

// The limits of a message, in bytes.
const (
	maxTopic   = 60
	maxKey     = 120
	maxPayload = 1 << 20
)

// MaxList is the most that one List returns.
const MaxList = 1000

const maxErrorText = 500 // characters

var (
	// ErrGiveUp, wrapped into a handler's error, makes the message a dead letter
	// at once: it will never succeed.
	ErrGiveUp = errors.New("queue: the message will never succeed")

	// ErrNotNow, wrapped into a handler's error, says that the fault is not the
	// message's: what the handler needs is away. The try does not count, and the
	// message comes again until it is back. Errors of package errs' kind
	// Unavailable, and those with which SQL or Redis are away, count as that.
	ErrNotNow = errors.New("queue: not now")

	// ErrUntried is the answer for a message of a batch that the handler has no time left to
	// begin with: it comes again at once, as if nobody had taken it.
	ErrUntried = errors.New("queue: not tried")

	// ErrNotFound says that no message has that id.
	ErrNotFound = errors.New("queue: no such message")

	// ErrMessage reports a message that no store takes.
	ErrMessage = errors.New("queue: malformed message")
)

// Message is a fact that a handler must act upon.
type Message struct {
	Topic   string // names the handler; at most 60 bytes
	Key     string // what it is about, at most 120 bytes; may be empty
	Payload []byte // the handler's own format, at most 1 MiB
}

func (m Message) check() error {
	switch {
	case m.Topic == "" || len(m.Topic) > maxTopic:
		return fmt.Errorf("%w: a topic has 1 to %d bytes", ErrMessage, maxTopic)
	case len(m.Key) > maxKey:
		return fmt.Errorf("%w: a key has at most %d bytes", ErrMessage, maxKey)
	case len(m.Payload) > maxPayload:
		return fmt.Errorf("%w: a payload has at most %d bytes", ErrMessage, maxPayload)
	case !utf8.ValidString(m.Topic) || !utf8.ValidString(m.Key) || strings.ContainsRune(m.Topic+m.Key, 0):
		return fmt.Errorf("%w: topic and key are text", ErrMessage)
	}
	return nil
}

func checkAll(ms []Message) error {
	for i, m := range ms {
		if err := m.check(); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// Delivery is one try at a message.
type Delivery struct {
	ID         string
	Topic, Key string
	Payload    []byte
	Attempt    int // from 1 to Tries

	claim string
}

// State says where a message is on its way.
type State string

// The states.
const (
	Waiting State = "waiting" // for its first try or the next one
	Claimed State = "claimed" // being handled, or its consumer died
	Dead    State = "dead"    // given up; see Replay
)

// Entry is a message as it lies in its store.
type Entry struct {
	ID       string    `json:"id"`
	Topic    string    `json:"topic"`
	Key      string    `json:"key,omitempty"`
	State    State     `json:"state"`
	Created  time.Time `json:"created"`
	Due      time.Time `json:"due"` // next try; of a claimed one, the end of the claim
	Attempts int       `json:"attempts"`
	Error    string    `json:"error,omitempty"`   // of the last try that failed, at most 500 characters
	Payload  []byte    `json:"payload,omitempty"` // from Show only
}

// Filter chooses what List returns.
type Filter struct {
	Dead  bool   // the dead letters; else what waits or is claimed
	Topic string // only this one's; empty means all
	After string // the id at which the page before ended; empty begins
	Limit int    // at most MaxList; zero means 50
}

func (f Filter) limit() int { return min(cmp.Or(max(f.Limit, 0), 50), MaxList) }

// Stat is a topic's backlog.
type Stat struct {
	Topic    string
	Depth    int // not yet handled, those under way included
	InFlight int // of these, the claimed ones
	Dead     int
	Age      time.Duration // since the oldest of Depth was published, save what is not due before later
}

// Store keeps messages until they are handled. [SQL] and [Redis] are the two
// there are; every method may be called from any process, beside consumers.
type Store interface {
	// Name is "sql" or "redis".
	Name() string

	// Publish keeps the messages, all or, when it fails, perhaps some of them:
	// publish them again then. What it returned nil for is handled at least once.
	Publish(ctx context.Context, ms ...Message) error

	// List returns one page of messages, oldest first within a topic.
	List(ctx context.Context, f Filter) ([]Entry, error)

	// Show returns one message with its payload, or ErrNotFound.
	Show(ctx context.Context, id string) (Entry, error)

	// Replay makes dead letters wait again, with all their tries, and returns how
	// many of ids were dead letters.
	Replay(ctx context.Context, ids ...string) (int, error)

	// Drop removes messages in any state and returns how many there were. A try
	// that is under way goes on.
	Drop(ctx context.Context, ids ...string) (int, error)

	// Stats returns every topic's backlog, by name. In SQL each count ends at 100,000:
	// more than that is many, whatever the number.
	Stats(ctx context.Context) ([]Stat, error)

	// has tells by its form whether an id is of this store.
	has(id string) bool
	// lapse returns how long claims really last, given what was asked for and the
	// longest wait between tries.
	lapse(claim, longest time.Duration) time.Duration
	// listen prepares to call kick when something was published; the function it
	// returns does so until ctx ends.
	listen(kick func()) func(ctx context.Context)
	// claim takes up to n due messages of topics for life, and says how long to
	// wait before looking again without a kick: at most poll. longest is the longest
	// wait between tries, and bound how far ahead an untried message is due; zero: as far
	// as it says.
	claim(ctx context.Context, topics []string, n int, life, poll, longest, bound time.Duration) ([]Delivery, time.Duration, error)
	// settle records outcomes, all of one claim call, except where claims have
	// lapsed.
	settle(ctx context.Context, life time.Duration, outcomes []outcome) error
}

// outcome is what became of one try.
type outcome struct {
	Delivery
	kind string        // done, dead, retry, postponed or released
	wait time.Duration // before the next try
	err  string
}

// Stores is several stores as one, for looking after them: a message's id tells
// where it is. List goes through one after the other.
type Stores []Store

// List returns one page: the rest of the store in which the page before ended,
// then the next one's.
func (s Stores) List(ctx context.Context, f Filter) (all []Entry, err error) {
	limit := f.limit()
	from := 0
	if f.After != "" {
		if from = slices.IndexFunc(s, func(st Store) bool { return st.has(f.After) }); from < 0 {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, f.After)
		}
	}
	for _, st := range s[from:] {
		f.Limit = limit - len(all)
		page, err := st.List(ctx, f)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(all) == limit {
			break
		}
		f.After = ""
	}
	return all, nil
}

// Show returns one message with its payload, or ErrNotFound.
func (s Stores) Show(ctx context.Context, id string) (Entry, error) {
	for _, st := range s {
		if st.has(id) {
			return st.Show(ctx, id)
		}
	}
	return Entry{}, fmt.Errorf("%w: %s", ErrNotFound, id)
}

// Replay makes dead letters wait again and returns how many of ids were such.
func (s Stores) Replay(ctx context.Context, ids ...string) (int, error) {
	return s.each(ids, func(st Store, ids []string) (int, error) { return st.Replay(ctx, ids...) })
}

// Drop removes messages and returns how many of ids there were.
func (s Stores) Drop(ctx context.Context, ids ...string) (int, error) {
	return s.each(ids, func(st Store, ids []string) (int, error) { return st.Drop(ctx, ids...) })
}

func (s Stores) each(ids []string, do func(st Store, ids []string) (int, error)) (n int, err error) {
	for _, st := range s {
		mine := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !st.has(id) })
		if len(mine) == 0 {
			continue
		}
		done, err := do(st, mine)
		n += done
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// errorText fits err into its column.
func errorText(err error) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "\x00", "?")
	if r := []rune(text); len(r) > maxErrorText {
		text = string(r[:maxErrorText])
	}
	return text
}
