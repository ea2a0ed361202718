package sqldb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Message is work to do after the commit of its transaction. A consumer of package queue handles it at least once, on
// any node.
type Message struct {
	Topic   string // names the handler; at most 60 characters
	Key     string // the subject, at most 120 characters; may be empty
	Payload []byte // in the format of the handler
	Due     time.Time
	NoDedup bool // the message neither replaces a waiting message with its key nor is replaced by one
}

// Maximum lengths of a Message in characters, which SQLite does not enforce.
const (
	maxTopic = 60
	maxKey   = 120
)

// Limits of one statement of Enqueue. MySQL accepts packets up to 16 MiB.
const (
	enqueueRows  = 100
	enqueueBytes = 4 << 20
)

var enqueue = func() (s [MySQL + 1]*Statement) {
	for _, d := range []Dialect{SQLite, MariaDB, MySQL} {
		s[d] = d.Compile(Upsert{
			Table:   "outbox",
			Columns: []string{"topic", "msg_key", "dedup", "payload", "created", "due", "attempts", "claim", "error", "dead"},
			Key:     []string{"topic", "dedup"},
			Set:     []string{"payload", "due = CASE WHEN {new.due} < due THEN {new.due} ELSE due END"},
		})
	}
	return s
}()

// Enqueue writes messages into the outbox in this transaction, so they commit or roll back with it. A zero Due means
// now. If a message with the same topic and non-empty key is waiting, Enqueue replaces its payload and keeps the
// earlier due time, unless NoDedup is set. A message that a consumer is processing does not count as waiting.
func (tx *Tx) Enqueue(ctx context.Context, ms ...Message) error {
	for len(ms) > 0 {
		n, size := 0, 0
		args := make([]any, 0, 10*min(len(ms), enqueueRows))
		for ; n < min(len(ms), enqueueRows) && (n == 0 || size+len(ms[n].Payload) <= enqueueBytes); n++ {
			m := ms[n]
			if m.Topic == "" || len(m.Topic) > maxTopic || len(m.Key) > maxKey {
				return errors.New("sqldb.Enqueue: topic missing, or topic or key too long")
			}
			var dedup any
			if m.Key != "" && !m.NoDedup {
				dedup = m.Key
			}
			due := m.Due
			if due.IsZero() {
				due = tx.now
			}
			if m.Payload == nil {
				m.Payload = []byte{}
			}
			size += len(m.Payload)
			args = append(args, m.Topic, m.Key, dedup, m.Payload, tx.now.UnixMilli(), due.UnixMilli(), 0, "", "", 0)
		}
		if _, err := tx.SQL().ExecContext(ctx, enqueue[tx.db.dialect].For(n), args...); err != nil {
			return fmt.Errorf("sqldb.Enqueue %s: %w", ms[0].Topic, err)
		}
		ms = ms[n:]
		if !tx.enqueued {
			tx.enqueued = true
			tx.AfterCommit(tx.db.wakeOutbox)
		}
	}
	return nil
}

// EnqueueJSON calls [Tx.Enqueue] with v encoded as JSON as the payload.
func (tx *Tx) EnqueueJSON(ctx context.Context, m Message, v any) (err error) {
	if m.Payload, err = json.Marshal(v); err != nil {
		return fmt.Errorf("sqldb.EnqueueJSON %s: %w", m.Topic, err)
	}
	return tx.Enqueue(ctx, m)
}

// OutboxWake returns a channel that receives a value after commits of this DB that enqueued messages, and a function
// that releases it. Several commits may share one value.
func (db *DB) OutboxWake() (wake <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.wakes[c] = struct{}{}
	return c, func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		delete(db.wakes, c)
	}
}

func (db *DB) wakeOutbox() {
	db.mu.Lock()
	defer db.mu.Unlock()
	for c := range db.wakes {
		select {
		case c <- struct{}{}:
		default: // a wake-up is already pending
		}
	}
}
