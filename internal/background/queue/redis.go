package queue

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	//go:embed lua/claim.lua
	claimLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/replay.lua
	replayLua string

	claimScript  = redis.NewScript(claimLua)
	settleScript = redis.NewScript(settleLua)
	replayScript = redis.NewScript(replayLua)
)

// All nodes act as one consumer of the group. The delivery count only rises, so it identifies a claim, and no consumer
// of a dead node must be removed. A second consumer holds the messages that wait for a retry, so that XPENDING
// distinguishes both kinds.
const (
	group   = "workers"
	working = "working"
	waiting = "waiting"
)

const (
	redisBudget = 5 * time.Second // for one round trip
	pipeline    = 500             // commands per round trip

	replicaPatience = 500 * time.Millisecond // WAIT blocks the other commands of its connection

	atEnd    = "0-0"
	deadMark = "d" // prefix of the stream id in the id of a dead letter
)

// Redis is the store in Redis Streams, with one stream per topic. An acknowledged entry is deleted, so a stream is as
// long as its backlog. Messages that wait for a retry stay pending; their idle time is set so that they become free
// when they are due.
type Redis struct {
	db *redis.DB

	mu      sync.Mutex
	cursors map[string]string // position of the next claim in a topic's pending entries
	kick    func()            // of the consumer in this process
	life    time.Duration     // of claims
}

// NewRedis returns the store in db, which must be Redis 6.2 or later.
func NewRedis(db *redis.DB) *Redis {
	return &Redis{db: db, cursors: map[string]string{}, kick: func() {}, life: max(defaultClaim, Config{Backoff: defaultBackoff}.longest())}
}

// Name implements [Store].
func (r *Redis) Name() string { return "redis" }

// claimLife makes claims at least as long as the waits between tries, because both are the same idle time.
func (r *Redis) claimLife(claim, longest time.Duration) time.Duration { return max(claim, longest) }

func topicKey(topic string) keyspace.Text { return keyspace.Text{S: topic} }

func stream(topic string) keyspace.Key      { return streamKeys.At(topicKey(topic)).Key }
func deadLetters(topic string) keyspace.Key { return deadKeys.At(topicKey(topic)).Key }
func notes(topic string) keyspace.Key       { return noteKeys.At(topicKey(topic)).Key }

func (r *Redis) do(ctx context.Context, cmds ...keyspace.Cmd) []keyspace.Reply {
	replies := make([]keyspace.Reply, 0, len(cmds))
	for part := range slices.Chunk(cmds, pipeline) {
		ctx, cancel := context.WithTimeout(ctx, redisBudget)
		replies = append(replies, r.db.DoMulti(ctx, part)...)
		cancel()
	}
	return replies
}

// Publish implements [Store]. After an error some messages may be stored.
func (r *Redis) Publish(ctx context.Context, ms ...Message) error {
	return r.PublishReplicated(ctx, 0, ms...)
}

// PublishReplicated is Publish that returns an error unless the given number of replicas confirm the messages within
// half a second. Do not use it with a cluster, where each owner has its own replicas.
func (r *Redis) PublishReplicated(ctx context.Context, replicas int, ms ...Message) error {
	if err := checkAll(ms); err != nil {
		return err
	}
	if len(ms) == 0 {
		return nil
	}
	var cmds []keyspace.Cmd
	var topics []string
	for _, m := range ms {
		if !slices.Contains(topics, m.Topic) {
			topics = append(topics, m.Topic)
		}
		cmds = append(cmds, keyspace.Cmd{Name: "XADD", Key: stream(m.Topic), Args: []string{"*", "key", m.Key, "payload", string(m.Payload)}})
	}
	// List needs the topics. This command may fail, because each Publish repeats it: in a cluster the set has another
	// owner.
	cmds = append([]keyspace.Cmd{{Name: "SADD", Key: topicsKey.At().Key, Args: topics}}, cmds...)
	// The same round trip wakes the consumers. The wake-up may be lost.
	published := len(cmds)
	cmds = append(cmds, r.db.PublishCmd(wakeChannel.At(), ""))
	if replicas > 0 {
		cmds = append(cmds, keyspace.Cmd{Name: "WAIT", Args: []string{strconv.Itoa(replicas), keyspace.Millis(replicaPatience)}})
	}
	replies := r.do(ctx, cmds...)
	if err := keyspace.FirstErr(replies[1:published]); err != nil {
		return fmt.Errorf("queue.Publish: %w", err)
	}
	if replicas > 0 {
		n, err := replies[len(replies)-1].Int()
		if err == nil && n < int64(replicas) {
			err = fmt.Errorf("only %d of %d replicas confirmed it", n, replicas)
		}
		if err != nil {
			return fmt.Errorf("queue.Publish: %w", err)
		}
	}
	r.kicked()
	return nil
}

// wake wakes the consumers: of this process at once, of others soon. After a lost wake-up they find the messages at the
// next poll.
func (r *Redis) wake(ctx context.Context) {
	r.kicked()
	_ = r.do(ctx, r.db.PublishCmd(wakeChannel.At(), ""))
}

func (r *Redis) kicked() {
	r.mu.Lock()
	kick := r.kick
	r.mu.Unlock()
	kick()
}

func (r *Redis) listen(kick func()) func(ctx context.Context) {
	r.mu.Lock()
	r.kick = kick
	r.mu.Unlock()
	return func(ctx context.Context) {
		// The subscription ends with ctx or with the connection. Polling continues.
		_ = r.db.Subscribe(ctx, wakeChannel.At(), redis.Handler{Message: func(string) { kick() }, Subscribed: kick})
	}
}

func (r *Redis) claim(ctx context.Context, topics []string, n int,
	life, poll, _, _ time.Duration) (got []Delivery, pause time.Duration, err error) {
	pause = poll
	r.mu.Lock()
	r.life = life
	r.mu.Unlock()
	for _, topic := range shuffled(topics) { // so that a busy topic does not starve the others
		if len(got) == n {
			break
		}
		ds, more, failed := r.claimTopic(ctx, topic, n-len(got), life)
		if failed != nil { // in a cluster the other topics may have another owner
			err = failed
			continue
		}
		if more || len(ds) > 0 {
			pause = 0
		}
		got = append(got, ds...)
	}
	if len(got) > 0 {
		err = nil // these are claimed; the next call returns the error
	}
	return got, pause, err
}

func (r *Redis) claimTopic(ctx context.Context, topic string, n int, life time.Duration) (ds []Delivery, more bool, err error) {
	r.mu.Lock()
	cursor := cmp.Or(r.cursors[topic], atEnd)
	r.mu.Unlock()
	items, err := r.do(ctx, claimScript.Cmd([]keyspace.Key{stream(topic), notes(topic)}, group, working, keyspace.Millis(life),
		strconv.Itoa(n), cursor))[0].Items()
	if err != nil {
		return nil, false, err
	}
	if len(items) == 0 {
		return nil, false, keyspace.ErrReply
	}
	r.mu.Lock()
	r.cursors[topic] = items[0].Str
	r.mu.Unlock()
	for _, it := range items[1:] {
		if len(it.List) != 4 {
			return nil, false, keyspace.ErrReply
		}
		deliveries, free, f := it.List[1].N, it.List[2].N, fields(it.List[3])
		ds = append(ds, Delivery{ID: topic + "/" + it.List[0].Str, Topic: topic, Key: f["key"], Payload: []byte(f["payload"]),
			Attempt: int(deliveries - free), claim: strconv.FormatInt(deliveries, 10)})
	}
	return ds, items[0].Str != atEnd, nil
}

// settle runs a script for each outcome, all in one round trip.
func (r *Redis) settle(ctx context.Context, life time.Duration, outcomes []outcome) error {
	cmds := make([]keyspace.Cmd, 0, len(outcomes))
	for _, o := range outcomes {
		_, id, _, _ := parseID(o.ID)
		how, free := "again", "1"
		switch o.kind {
		case "done", "dead":
			how = o.kind
		case "retry":
			free = "0"
		case "released":
			o.err = "" // keeps the error of the last real try
		}
		cmds = append(cmds, settleScript.Cmd([]keyspace.Key{stream(o.Topic), deadLetters(o.Topic), notes(o.Topic)},
			group, working, id, o.claim, how, o.err, strconv.Itoa(o.Attempt), waiting, keyspace.Millis(max(0, life-o.wait)), free))
	}
	return keyspace.FirstErr(r.do(ctx, cmds...))
}

// parseID parses an id: "topic/stream id", with a d before the stream id of a dead letter. Topics may contain slashes.
func parseID(id string) (topic, entry string, dead, ok bool) {
	at := strings.LastIndexByte(id, '/')
	if at < 1 {
		return "", "", false, false
	}
	entry, dead = strings.CutPrefix(id[at+1:], deadMark)
	ms, seq, two := strings.Cut(entry, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	_, err2 := strconv.ParseUint(seq, 10, 64)
	return id[:at], entry, dead, two && err == nil && err2 == nil
}

func (r *Redis) has(id string) bool {
	_, _, _, ok := parseID(id)
	return ok
}

func (r *Redis) topics(ctx context.Context) ([]string, error) {
	items, err := r.do(ctx, keyspace.Cmd{Name: "SMEMBERS", Key: topicsKey.At().Key})[0].Items()
	if err != nil {
		return nil, err
	}
	topics := make([]string, len(items))
	for i, it := range items {
		topics[i] = it.Str
	}
	slices.Sort(topics)
	return topics, nil
}

// List implements [Store]. It returns one topic after the other, by name.
func (r *Redis) List(ctx context.Context, f Filter) (es []Entry, err error) {
	topics := []string{f.Topic}
	if f.Topic == "" {
		if topics, err = r.topics(ctx); err != nil {
			return nil, fmt.Errorf("queue.List: %w", err)
		}
	}
	from, after := "", "-"
	if f.After != "" {
		topic, entry, _, ok := parseID(f.After)
		if !ok {
			return nil, fmt.Errorf("%w: %s", ErrNotFound, f.After)
		}
		from, after = topic, "("+entry
	}
	for _, topic := range topics {
		left := f.limit() - len(es)
		if topic < from {
			continue
		}
		if left == 0 {
			break
		}
		start := "-"
		if topic == from {
			start = after
		}
		page, err := r.page(ctx, topic, f.Dead, start, "+", left)
		if err != nil {
			return nil, fmt.Errorf("queue.List: %w", err)
		}
		es = append(es, page...)
	}
	for i := range es {
		es[i].Payload = nil
	}
	return es, nil
}

// page returns up to limit entries of one topic between two ids.
func (r *Redis) page(ctx context.Context, topic string, dead bool, start, end string, limit int) ([]Entry, error) {
	key, mark := stream(topic), ""
	if dead {
		key, mark = deadLetters(topic), deadMark
	}
	items, err := r.do(ctx, keyspace.Cmd{Name: "XRANGE", Key: key, Args: []string{start, end, "COUNT", strconv.Itoa(limit)}})[0].Items()
	if err != nil || len(items) == 0 {
		return nil, err
	}
	es := make([]Entry, len(items))
	ids := make([]string, len(items))
	for i, it := range items {
		if len(it.List) != 2 {
			return nil, keyspace.ErrReply
		}
		ids[i] = it.List[0].Str
		f := fields(it.List[1])
		e := Entry{ID: topic + "/" + mark + ids[i], Topic: topic, Key: f["key"], State: Waiting, Created: published(ids[i]),
			Payload: []byte(f["payload"])}
		e.Due = e.Created
		if dead {
			e.State, e.Created, e.Error = Dead, published(f["was"]), f["error"]
			e.Attempts, _ = strconv.Atoi(f["attempts"]) // written by this package
		}
		es[i] = e
	}
	if dead {
		return es, nil
	}
	return es, r.fillPending(ctx, topic, ids, es)
}

// fillPending adds the delivery data of entries that were tried.
func (r *Redis) fillPending(ctx context.Context, topic string, ids []string, es []Entry) error {
	replies := r.do(ctx,
		keyspace.Cmd{Name: "XPENDING", Key: stream(topic), Args: []string{group, ids[0], ids[len(ids)-1], strconv.Itoa(len(ids))}},
		keyspace.Cmd{Name: "HMGET", Key: notes(topic), Args: ids})
	if noGroup(replies[0].Err) { // the topic has not been consumed yet
		return nil
	}
	pending, err := replies[0].Items()
	if err != nil {
		return err
	}
	texts, err := replies[1].Items()
	if err != nil {
		return err
	}
	r.mu.Lock()
	life := r.life
	r.mu.Unlock()
	if len(texts) != len(ids) {
		return keyspace.ErrReply
	}
	now := time.Now()
	for _, p := range pending {
		if len(p.List) != 4 {
			return keyspace.ErrReply
		}
		i := slices.Index(ids, p.List[0].Str)
		if i < 0 {
			continue
		}
		if p.List[1].Str == working {
			es[i].State = Claimed
		}
		es[i].Due = now.Add(life - time.Duration(p.List[2].N)*time.Millisecond).UTC().Truncate(time.Millisecond)
		free, text, _ := strings.Cut(texts[i].Str, " ")
		uncounted, _ := strconv.Atoi(free) // written by this package, or empty
		es[i].Attempts, es[i].Error = int(p.List[3].N)-uncounted, text
	}
	return nil
}

// Show implements [Store].
func (r *Redis) Show(ctx context.Context, id string) (Entry, error) {
	topic, entry, dead, ok := parseID(id)
	if !ok {
		return Entry{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	es, err := r.page(ctx, topic, dead, entry, entry, 1)
	if err != nil {
		return Entry{}, fmt.Errorf("queue.Show: %w", err)
	}
	if len(es) == 0 {
		return Entry{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return es[0], nil
}

// Replay implements [Store].
func (r *Redis) Replay(ctx context.Context, ids ...string) (int, error) {
	byTopic := map[string][]string{}
	for _, id := range ids {
		if topic, entry, dead, ok := parseID(id); ok && dead {
			byTopic[topic] = append(byTopic[topic], entry)
		}
	}
	var cmds []keyspace.Cmd
	for topic, ids := range byTopic {
		for part := range slices.Chunk(ids, pipeline) {
			cmds = append(cmds, replayScript.Cmd([]keyspace.Key{deadLetters(topic), stream(topic)}, part...))
		}
	}
	n, err := sum(r.do(ctx, cmds...))
	if err != nil {
		err = fmt.Errorf("queue.Replay: %w", err)
	}
	if n > 0 {
		r.wake(ctx)
	}
	return n, err
}

// Drop implements [Store].
func (r *Redis) Drop(ctx context.Context, ids ...string) (int, error) {
	var dels, rest []keyspace.Cmd
	for _, id := range ids {
		topic, entry, dead, ok := parseID(id)
		switch {
		case !ok:
		case dead:
			dels = append(dels, keyspace.Cmd{Name: "XDEL", Key: deadLetters(topic), Args: []string{entry}})
		default:
			// An entry that is acknowledged but not deleted would stay forever.
			dels = append(dels, keyspace.Cmd{Name: "XDEL", Key: stream(topic), Args: []string{entry}})
			rest = append(rest, keyspace.Cmd{Name: "XACK", Key: stream(topic), Args: []string{group, entry}},
				keyspace.Cmd{Name: "HDEL", Key: notes(topic), Args: []string{entry}})
		}
	}
	n, err := sum(r.do(ctx, dels...))
	if err = errors.Join(err, keyspace.FirstErr(r.do(ctx, rest...))); err != nil {
		err = fmt.Errorf("queue.Drop: %w", err)
	}
	return n, err
}

// Stats implements [Store].
func (r *Redis) Stats(ctx context.Context) ([]Stat, error) {
	topics, err := r.topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("queue.Stats: %w", err)
	}
	const each = 4
	var cmds []keyspace.Cmd
	for _, topic := range topics {
		cmds = append(cmds, keyspace.Cmd{Name: "XLEN", Key: stream(topic)}, keyspace.Cmd{Name: "XLEN", Key: deadLetters(topic)},
			keyspace.Cmd{Name: "XRANGE", Key: stream(topic), Args: []string{"-", "+", "COUNT", "1"}},
			keyspace.Cmd{Name: "XPENDING", Key: stream(topic), Args: []string{group}})
	}
	replies := r.do(ctx, cmds...)
	now := time.Now()
	stats := make([]Stat, len(topics))
	for i, topic := range topics {
		part := replies[each*i : each*(i+1)]
		if noGroup(part[3].Err) {
			part[3] = keyspace.Reply{}
		}
		if err := keyspace.FirstErr(part); err != nil {
			return nil, fmt.Errorf("queue.Stats: %w", err)
		}
		stats[i] = Stat{Topic: topic, Depth: int(part[0].N), Dead: int(part[1].N)}
		if oldest := part[2].List; len(oldest) > 0 && len(oldest[0].List) > 0 {
			stats[i].Age = max(0, now.Sub(published(oldest[0].List[0].Str)))
		}
		if pending := part[3].List; len(pending) == 4 {
			for _, c := range pending[3].List {
				if len(c.List) == 2 && c.List[0].Str == working {
					stats[i].InFlight, _ = strconv.Atoi(c.List[1].Str) // written by Redis
				}
			}
		}
	}
	return stats, nil
}

// published returns the time in the id of an entry.
func published(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseInt(ms, 10, 64) // written by Redis
	return time.UnixMilli(n).UTC()
}

func fields(r keyspace.Reply) map[string]string {
	f := make(map[string]string, len(r.List)/2)
	for kv := range slices.Chunk(r.List, 2) {
		if len(kv) == 2 {
			f[kv[0].Str] = kv[1].Str
		}
	}
	return f
}

func sum(replies []keyspace.Reply) (n int, err error) {
	for _, r := range replies {
		one, err := r.Int()
		if err != nil {
			return n, err
		}
		n += int(one)
	}
	return n, nil
}

// noGroup reports whether the topic has not been consumed yet.
func noGroup(err error) bool {
	e, ok := errors.AsType[redis.ServerError](err)
	return ok && e.Code() == "NOGROUP"
}

func shuffled(topics []string) []string {
	topics = slices.Clone(topics)
	rand.Shuffle(len(topics), func(i, j int) { topics[i], topics[j] = topics[j], topics[i] })
	return topics
}
