package messaging

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	//go:embed lua/put.lua
	putSource string
	//go:embed lua/list.lua
	listSource string
	//go:embed lua/follow.lua
	followSource string
	//go:embed lua/head.lua
	headSource string
	//go:embed lua/latest.lua
	latestSource string

	putScript    = redis.NewScript(putSource)
	listScript   = redis.NewScript(listSource)
	followScript = redis.NewScript(followSource)
	headScript   = redis.NewScript(headSource)
	latestScript = redis.NewScript(latestSource)
)

const (
	// redisBudget bounds the wait for Redis before SQL is used. The embedded engine may be slow but is never
	// unavailable.
	redisBudget    = 100 * time.Millisecond
	embeddedBudget = 2 * time.Second

	// maxLatest is the largest number of messages of a chat that Redis stores.
	maxLatest = 100

	// putChunk is the number of chats that one script writes.
	putChunk = 200

	completeField = "" // in chatsKeys: Redis has all chats of the user
)

var (
	chatsTTLMillis  = keyspace.Millis(chatsTTL)
	latestTTLMillis = keyspace.Millis(latestTTL)
)

// redisStore is the Redis data of this domain, all of it derived from SQL.
type redisStore struct {
	db     *redis.DB
	budget time.Duration
}

func newRedisStore(db *redis.DB) *redisStore {
	if db.Mode() == "embedded" {
		return &redisStore{db, embeddedBudget}
	}
	return &redisStore{db, redisBudget}
}

func keysOf(user accounts.ID) []keyspace.Key {
	return []keyspace.Key{recentKeys.At(user).Key, unreadKeys.At(user).Key, chatsKeys.At(user).Key, changesKeys.At(user).Key,
		groupChatsKeys.At(user).Key}
}

func latestKey(kind int, conv ConversationID) keyspace.Key {
	if kind == group {
		return latestKeys.At(groupKind, conv).Key
	}
	return latestKeys.At(directKind, conv).Key
}

// headCmd writes the head of a group's conversation.
func headCmd(h head) (keyspace.Cmd, error) {
	text, err := h.text()
	return headScript.Cmd([]keyspace.Key{headKeys.At(h.id).Key}, chatsTTLMillis, text), err
}

func (s *redisStore) putHeads(ctx context.Context, heads []head) error {
	cmds := make([]keyspace.Cmd, len(heads))
	for i, h := range heads {
		var err error
		if cmds[i], err = headCmd(h); err != nil {
			return err
		}
	}
	_, err := s.do(ctx, cmds)
	return err
}

// heads returns the heads of groups' conversations that Redis has.
func (s *redisStore) heads(ctx context.Context, list []ConversationID) (map[ConversationID]head, error) {
	cmds := make([]keyspace.Cmd, len(list))
	for i, conv := range list {
		cmds[i] = keyspace.Cmd{Name: "GET", Key: headKeys.At(conv).Key}
	}
	replies, err := s.do(ctx, cmds)
	found := make(map[ConversationID]head, len(list))
	for i := range replies {
		text, ok, err := replies[i].Text()
		if err != nil || !ok {
			continue
		}
		if found[list[i]], err = parseHead(list[i], text); err != nil {
			return nil, err
		}
	}
	return found, err
}

// claim reserves the publication of groups' progress for this node. It returns the groups that another node has
// reserved, with the progress that this node publishes.
func (s *redisStore) claim(ctx context.Context, due map[ConversationID]progress) (map[ConversationID]progress, error) {
	var list []ConversationID
	var cmds []keyspace.Cmd
	for conv, p := range due {
		key := progressKeys.At(conv)
		list, cmds = append(list, conv), append(cmds, key.AddCmd(fmt.Sprint(p.Seq, p.Rev)), key.GetCmd())
	}
	replies, err := s.do(ctx, cmds)
	if err != nil {
		return nil, err
	}
	others := map[ConversationID]progress{}
	for i, conv := range list {
		if !replies[2*i].Nil() {
			continue
		}
		var published progress
		if text, ok, err := replies[2*i+1].Text(); err == nil && ok { // otherwise it was published a moment ago
			if _, err := fmt.Sscan(text, &published.Seq, &published.Rev); err != nil {
				return nil, fmt.Errorf("the published progress of a group's chat in Redis: %.40q: %w", text, err)
			}
		}
		others[conv] = published
	}
	return others, nil
}

func (s *redisStore) do(ctx context.Context, cmds []keyspace.Cmd) ([]keyspace.Reply, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	replies := s.db.DoMulti(ctx, cmds)
	return replies, keyspace.FirstErr(replies)
}

// putCmds writes chats of one user. complete means that these are all of the user's chats.
func putCmds(user accounts.ID, states []state, complete bool) ([]keyspace.Cmd, error) {
	var cmds []keyspace.Cmd
	for done := 0; done < max(1, len(states)); done += putChunk {
		chunk, all := states[done:min(done+putChunk, len(states))], ""
		switch {
		case complete && done+putChunk >= len(states):
			all = strconv.Itoa(len(states))
		case complete:
			all = "+"
		}
		args := append(make([]string, 0, 2+2*len(chunk)), chatsTTLMillis, all)
		for _, st := range chunk {
			text, err := st.text()
			if err != nil {
				return nil, err
			}
			args = append(args, st.name(), text)
		}
		cmds = append(cmds, putScript.Cmd(keysOf(user), args...))
	}
	return cmds, nil
}

// putAll stores all chats of a user in Redis.
func (s *redisStore) putAll(ctx context.Context, user accounts.ID, states []state) error {
	cmds, err := putCmds(user, states, true)
	if err == nil {
		_, err = s.do(ctx, cmds)
	}
	return err
}

// errIncomplete reports that Redis does not have all chats of a user.
var errIncomplete = errors.New("messaging: not all chats of the user are in redis")

// list returns chats of two users, from the user's list or with since the changed ones. It also returns the number of
// unread messages in all of them, and the user's own parts of all groups' chats.
func (s *redisStore) list(ctx context.Context, user accounts.ID, since int64, n int,
	now int64) (list, groupChats []state, unread int64, err error) {
	from := ""
	if since > 0 {
		from = strconv.FormatInt(since, 10)
	}
	replies, err := s.do(ctx, []keyspace.Cmd{listScript.Cmd(keysOf(user), from, strconv.Itoa(n), strconv.FormatInt(now, 10))})
	if err != nil {
		return nil, nil, 0, err
	}
	items, err := replies[0].Items()
	if err != nil || len(items) < 2 {
		return nil, nil, 0, errors.Join(errIncomplete, err)
	}
	unread = items[0].N
	for i, item := range items[2:] {
		st, err := parseState(user, item.Str)
		switch {
		case err != nil:
			return nil, nil, 0, err
		case i < int(items[1].N):
			list = append(list, st)
		default:
			groupChats = append(groupChats, st)
		}
	}
	return list, groupChats, unread, nil
}

// chat returns a chat of a user. It returns errIncomplete if Redis does not have all chats, and ErrChat if the chat
// does not exist.
func (s *redisStore) chat(ctx context.Context, user accounts.ID, chat ChatRef) (state, error) {
	st, _, err := s.read(ctx, user, chat, nil)
	return st, err
}

// latest are the messages of a chat that Redis has.
type latest struct {
	seq, rev int64
	messages []message // the last one has seq
}

// read returns a chat of a user and, with conv, the latest messages of that conversation in the same round trip.
func (s *redisStore) read(ctx context.Context, user accounts.ID, chat ChatRef, conv *ConversationID) (st state, got latest, err error) {
	kind, key := direct, chatsKeys.At(user).Key
	if !chat.direct() {
		kind, key = group, groupChatsKeys.At(user).Key
	}
	cmds := []keyspace.Cmd{{Name: "HMGET", Key: key, Args: []string{chat.String(), completeField}}}
	if kind == group {
		cmds = append(cmds, keyspace.Cmd{Name: "GET", Key: headKeys.At(conversationOf(chat.group)).Key})
	}
	if conv != nil {
		list := latestKey(kind, *conv)
		if rand.IntN(100) == 0 {
			cmds = append(cmds, list.RenewCmd())
		}
		cmds = append(cmds, keyspace.Cmd{Name: "LRANGE", Key: list, Args: []string{"0", "-1"}})
	}
	replies, err := s.do(ctx, cmds)
	if err != nil {
		return st, got, err
	}
	if st, err = readState(user, kind, replies); err != nil || conv == nil {
		return st, got, err
	}
	got, err = readLatest(*conv, replies[len(replies)-1])
	return st, got, err
}

// readState reads a chat of a user, and for a group also the head.
func readState(user accounts.ID, kind int, replies []keyspace.Reply) (st state, err error) {
	fields, err := replies[0].Items()
	switch {
	case err != nil:
		return st, err
	case len(fields) != 2 || kind == group && fields[0].Nil() || kind == direct && fields[1].Nil():
		return st, errIncomplete
	case fields[0].Nil():
		return st, ErrChat
	}
	if st, err = parseState(user, fields[0].Str); err != nil || kind == direct {
		return st, err
	}
	text, ok, err := replies[1].Text()
	switch {
	case err != nil:
		return st, err
	case !ok:
		return st, errIncomplete
	case st.me.gone != 0:
		return st, ErrChat
	}
	h, err := parseHead(st.id, text)
	if err != nil {
		return st, err
	}
	return h.withOwnPart(st), nil
}

// readLatest reads the latest messages of a conversation. The result is empty if Redis does not have them. It omits those
// before the latest maxLatest, because a state names no hidden messages among them.
func readLatest(conv ConversationID, reply keyspace.Reply) (got latest, err error) {
	items, err := reply.Items()
	if err != nil || len(items) == 0 {
		return got, err
	}
	if _, err := fmt.Sscanf(items[0].Str, "%d %d", &got.seq, &got.rev); err != nil {
		return got, fmt.Errorf("the latest messages of a chat in Redis: %.40q: %w", items[0].Str, err)
	}
	for _, item := range items[max(1, len(items)-maxLatest):] {
		var k storedMessage
		if err := json.Unmarshal([]byte(item.Str), &k); err != nil {
			return got, fmt.Errorf("a message in Redis: %w", err)
		}
		m, err := k.message(conv)
		if err != nil {
			return got, err
		}
		got.messages = append(got.messages, m)
	}
	return got, nil
}

// storeLatest stores the latest messages of a conversation in Redis, with their seq and rev.
func (s *redisStore) storeLatest(ctx context.Context, c conversation, messages []message) error {
	args := []string{latestTTLMillis, strconv.FormatInt(c.seq, 10), strconv.FormatInt(c.rev, 10)}
	for _, m := range messages {
		text, err := json.Marshal(m.stored())
		if err != nil {
			return err
		}
		args = append(args, string(text))
	}
	_, err := s.do(ctx, []keyspace.Cmd{latestScript.Cmd([]keyspace.Key{latestKey(c.kind, c.id)}, args...)})
	return err
}

// followCmd applies the steps of a change to the latest messages of a conversation.
func followCmd(c change) (keyspace.Cmd, error) {
	args := make([]string, 2, 2+3*len(c.steps))
	args[0], args[1] = latestTTLMillis, strconv.Itoa(maxLatest)
	for _, s := range c.steps {
		seq, rev, body := "", "", ""
		if s.message != nil {
			text, err := json.Marshal(s.message.stored())
			if err != nil {
				return keyspace.Cmd{}, err
			}
			seq, body = strconv.FormatInt(s.message.seq, 10), string(text)
		}
		if s.rev != 0 {
			rev = strconv.FormatInt(s.rev, 10)
		}
		args = append(args, seq, rev, body)
	}
	return followScript.Cmd([]keyspace.Key{latestKey(c.kind, c.conv)}, args...), nil
}

// deleteChats deletes a user's chats, and the latest messages of conversations.
func (s *redisStore) deleteChats(ctx context.Context, user accounts.ID, conversations []conversation) error {
	var cmds []keyspace.Cmd
	for _, key := range keysOf(user) {
		cmds = append(cmds, keyspace.Cmd{Name: "UNLINK", Key: key})
	}
	for _, c := range conversations {
		cmds = append(cmds, keyspace.Cmd{Name: "UNLINK", Key: latestKey(c.kind, c.id)})
	}
	_, err := s.do(ctx, cmds)
	return err
}
