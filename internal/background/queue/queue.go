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

// Tries is the largest number of tries of a message. After that many failures, it becomes a dead letter.
const Tries = 5

// Maximum lengths of a message, in bytes.
const (
	maxTopic   = 60
	maxKey     = 120
	maxPayload = 1 << 20
)

// MaxList is the largest number of messages that List returns.
const MaxList = 1000

const maxErrorText = 500 // characters

var (
	// ErrGiveUp, wrapped in the error of a handler, makes the message a dead letter at once, because it can never
	// succeed.
	ErrGiveUp = errors.New("queue: the message will never succeed")

	// ErrNotNow, wrapped in the error of a handler, reports that a dependency of the handler is unavailable. The try
	// does not count, and the message is retried until the dependency is back. Errors of package errs with kind
	// Unavailable, and errors of unavailable SQL or Redis, have the same effect.
	ErrNotNow = errors.New("queue: not now")

	// ErrUntried is the error for a message of a batch that the handler did not start, because its time was over. The
	// message is free again at once.
	ErrUntried = errors.New("queue: not tried")

	// ErrNotFound reports that no message has the id.
	ErrNotFound = errors.New("queue: no such message")

	// ErrMessage reports an invalid message.
	ErrMessage = errors.New("queue: malformed message")
)

// Message is work for a handler.
type Message struct {
	Topic   string // names the handler; at most 60 bytes
	Key     string // the subject, at most 120 bytes; may be empty
	Payload []byte // in the format of the handler, at most 1 MiB
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
		return fmt.Errorf("%w: topic and key must be valid text", ErrMessage)
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

// Delivery is one try of a message.
type Delivery struct {
	ID         string
	Topic, Key string
	Payload    []byte
	Attempt    int // from 1 to Tries

	claim string
}

// State is the state of a message.
type State string

// The states.
const (
	Waiting State = "waiting" // for the first try or the next one
	Claimed State = "claimed" // being handled, or its consumer died
	Dead    State = "dead"    // failed for good; see Replay
)

// Entry is a stored message.
type Entry struct {
	ID       string    `json:"id"`
	Topic    string    `json:"topic"`
	Key      string    `json:"key,omitempty"`
	State    State     `json:"state"`
	Created  time.Time `json:"created"`
	Due      time.Time `json:"due"` // the next try; for a claimed message the end of the claim
	Attempts int       `json:"attempts"`
	Error    string    `json:"error,omitempty"`   // of the last failed try, at most 500 characters
	Payload  []byte    `json:"payload,omitempty"` // only from Show
}

// Filter selects the messages that List returns.
type Filter struct {
	Dead  bool   // dead letters instead of waiting and claimed messages
	Topic string // empty means all topics
	After string // the last id of the previous page; empty starts at the beginning
	Limit int    // at most MaxList; zero means 50
}

func (f Filter) limit() int { return min(cmp.Or(max(f.Limit, 0), 50), MaxList) }

// Stat is the backlog of a topic.
type Stat struct {
	Topic    string
	Depth    int // messages not yet handled, including claimed ones
	InFlight int // claimed messages
	Dead     int
	Age      time.Duration // of the oldest message in Depth that is already due
}

// Store stores messages until they are handled. The implementations are [SQL] and [Redis]. Any process may call the
// methods while consumers run.
type Store interface {
	// Name returns "sql" or "redis".
	Name() string

	// Publish stores the messages. After an error some of them may be stored: publish them again. Messages are handled
	// at least once if Publish returned nil.
	Publish(ctx context.Context, ms ...Message) error

	// List returns one page of messages, oldest first within a topic.
	List(ctx context.Context, f Filter) ([]Entry, error)

	// Show returns one message with its payload, or ErrNotFound.
	Show(ctx context.Context, id string) (Entry, error)

	// Replay returns dead letters to the queue with all their tries, and returns their number.
	Replay(ctx context.Context, ids ...string) (int, error)

	// Drop removes messages in any state and returns their number. A running try continues.
	Drop(ctx context.Context, ids ...string) (int, error)

	// Stats returns the backlog of each topic, sorted by name. In SQL each count stops at 100,000.
	Stats(ctx context.Context) ([]Stat, error)

	// has reports whether an id has the format of this store.
	has(id string) bool
	// claimLife returns the actual duration of claims for a requested duration and the longest wait between tries.
	claimLife(claim, longest time.Duration) time.Duration
	// listen prepares to call kick after each publish. The returned function does so until ctx ends.
	listen(kick func()) func(ctx context.Context)
	// claim claims up to n due messages of topics for the duration life. It returns the time to wait before the next
	// claim if there is no kick, at most poll. longest is the longest wait between tries. bound is the largest delay of
	// an untried message; zero means no limit.
	claim(ctx context.Context, topics []string, n int, life, poll, longest, bound time.Duration) ([]Delivery, time.Duration, error)
	// settle records outcomes of one claim call, except for claims that have expired.
	settle(ctx context.Context, life time.Duration, outcomes []outcome) error
}

// outcome is the result of one try.
type outcome struct {
	Delivery
	kind string        // done, dead, retry, postponed or released
	wait time.Duration // before the next try
	err  string
}

// Stores combines several stores for administration. The id of a message selects its store. List returns one store
// after the other.
type Stores []Store

// List returns one page: the rest of the store of the previous page, then the next store.
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

// Replay returns dead letters to the queue and returns their number.
func (s Stores) Replay(ctx context.Context, ids ...string) (int, error) {
	return s.each(ids, func(st Store, ids []string) (int, error) { return st.Replay(ctx, ids...) })
}

// Drop removes messages and returns their number.
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

// errorText shortens err to the length of its column.
func errorText(err error) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "\x00", "?")
	if r := []rune(text); len(r) > maxErrorText {
		text = string(r[:maxErrorText])
	}
	return text
}
