package messaging

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
)

var (
	//go:embed lua/put.lua
	putSource string
	//go:embed lua/list.lua
	listSource string
	//go:embed lua/follow.lua
	followSource string
	//go:embed lua/latest.lua
	latestSource string

	putScript    = redis.NewScript(putSource)
	listScript   = redis.NewScript(listSource)
	followScript = redis.NewScript(followSource)
	latestScript = redis.NewScript(latestSource)
)

const (
	// redisBudget is how long a caller waits for Redis before SQL answers. The embedded
	// engine is not away when it is slow.
	redisBudget    = 100 * time.Millisecond
	embeddedBudget = 2 * time.Second

	// latestKept is how many messages of a chat Redis has.
	latestKept = 100

	// putAtOnce is how many chats one script writes.
	putAtOnce = 200

	wholeField = "" // of chatsKeys: all chats of the user are here
)

var (
	lifeOfChats  = strconv.FormatInt(chatsLife.Milliseconds(), 10)
	lifeOfLatest = strconv.FormatInt(latestLife.Milliseconds(), 10)
)

// fast is what Redis has of this domain, all of it derived from SQL.
type fast struct {
	db     *redis.DB
	budget time.Duration
}

func newFast(db *redis.DB) *fast {
	if db.Mode() == "embedded" {
		return &fast{db, embeddedBudget}
	}
	return &fast{db, redisBudget}
}

func keysOf(user accounts.ID) []keyspace.Key {
	return []keyspace.Key{recentKeys.At(user).Key, unreadKeys.At(user).Key, chatsKeys.At(user).Key, changesKeys.At(user).Key}
}

func latestKey(conv ConversationID) keyspace.Key { return latestKeys.At(directKind, conv).Key }

func (f *fast) do(ctx context.Context, cmds []keyspace.Cmd) ([]keyspace.Reply, error) {
	if len(cmds) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.budget)
	defer cancel()
	replies := f.db.DoMulti(ctx, cmds)
	return replies, keyspace.FirstErr(replies)
}

// putCmds write chats of one user. whole says that they are all that there are.
func putCmds(user accounts.ID, states []state, whole bool) ([]keyspace.Cmd, error) {
	all := "0"
	if whole {
		all = "1"
	}
	var cmds []keyspace.Cmd
	for done := 0; done < max(1, len(states)); done += putAtOnce {
		some := states[done:min(done+putAtOnce, len(states))]
		args := append(make([]string, 0, 2+2*len(some)), lifeOfChats, all)
		for _, st := range some {
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

// putAll gives Redis all chats of a user.
func (f *fast) putAll(ctx context.Context, user accounts.ID, states []state) error {
	cmds, err := putCmds(user, states, true)
	if err == nil {
		_, err = f.do(ctx, cmds)
	}
	return err
}

// errNotWhole reports that Redis does not have all chats of a user.
var errNotWhole = errors.New("messaging: not all chats of the user are in redis")

// list returns chats of a user from their list, or with since those that have changed, and
// how many messages wait.
func (f *fast) list(ctx context.Context, user accounts.ID, since int64, skip, n int, now int64) (list []state, unread int64, err error) {
	from := ""
	if since > 0 {
		from = strconv.FormatInt(since, 10)
	}
	replies, err := f.do(ctx, []keyspace.Cmd{listScript.Cmd(keysOf(user), from, strconv.Itoa(skip), strconv.Itoa(n), strconv.FormatInt(now, 10))})
	if err != nil {
		return nil, 0, err
	}
	items, err := replies[0].Items()
	if err != nil || len(items) == 0 {
		return nil, 0, errors.Join(errNotWhole, err)
	}
	unread = items[0].N
	for _, item := range items[1:] {
		st, err := parseState(user, item.Str)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, st)
	}
	return list, unread, nil
}

// one returns a user's chat with another; errNotWhole where Redis cannot tell, ErrChat
// where there is none.
func (f *fast) one(ctx context.Context, user, peer accounts.ID) (state, error) {
	st, _, err := f.read(ctx, user, peer, nil)
	return st, err
}

// latest are messages of a chat that Redis has.
type latest struct {
	seq, rev int64
	messages []message // the last one has seq
}

// read is one, and with conv the latest messages of it beside.
func (f *fast) read(ctx context.Context, user, peer accounts.ID, conv *ConversationID) (st state, got latest, err error) {
	cmds := []keyspace.Cmd{{Name: "HMGET", Key: chatsKeys.At(user).Key, Args: []string{chatWith(peer), wholeField}}}
	if conv != nil {
		cmds = append(cmds, keyspace.Cmd{Name: "LRANGE", Key: latestKey(*conv), Args: []string{"0", "-1"}})
	}
	replies, err := f.do(ctx, cmds)
	if err != nil {
		return st, got, err
	}
	fields, err := replies[0].Items()
	switch {
	case err != nil:
		return st, got, err
	case len(fields) != 2 || fields[1].Nil():
		return st, got, errNotWhole
	case fields[0].Nil():
		return st, got, ErrChat
	}
	if st, err = parseState(user, fields[0].Str); err != nil || conv == nil {
		return st, got, err
	}
	items, err := replies[1].Items()
	if err != nil || len(items) == 0 {
		return st, got, err
	}
	if _, err := fmt.Sscanf(items[0].Str, "%d %d", &got.seq, &got.rev); err != nil {
		return st, got, fmt.Errorf("the latest messages of a chat in Redis begin with %.40q: %w", items[0].Str, err)
	}
	for _, item := range items[1:] {
		var k keptMessage
		if err := json.Unmarshal([]byte(item.Str), &k); err != nil {
			return st, got, fmt.Errorf("a message in Redis: %w", err)
		}
		m, err := k.message(*conv)
		if err != nil {
			return st, got, err
		}
		got.messages = append(got.messages, m)
	}
	return st, got, nil
}

// keepLatest gives Redis the latest messages of a conversation, as of seq and rev.
func (f *fast) keepLatest(ctx context.Context, c conversation, messages []message) error {
	args := []string{lifeOfLatest, strconv.FormatInt(c.seq, 10), strconv.FormatInt(c.rev, 10)}
	for _, m := range messages {
		text, err := json.Marshal(m.kept())
		if err != nil {
			return err
		}
		args = append(args, string(text))
	}
	_, err := f.do(ctx, []keyspace.Cmd{latestScript.Cmd([]keyspace.Key{latestKey(c.id)}, args...)})
	return err
}

// followCmd tells the latest messages of a conversation what has happened to it.
func followCmd(conv ConversationID, steps []step) (keyspace.Cmd, error) {
	args := make([]string, 2, 2+3*len(steps))
	args[0], args[1] = lifeOfLatest, strconv.Itoa(latestKept)
	for _, s := range steps {
		seq, rev, body := "", "", ""
		if s.message != nil {
			text, err := json.Marshal(s.message.kept())
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
	return followScript.Cmd([]keyspace.Key{latestKey(conv)}, args...), nil
}

// forget removes a user's chats, and messages of conversations.
func (f *fast) forget(ctx context.Context, user accounts.ID, conversations []ConversationID) error {
	var cmds []keyspace.Cmd
	for _, key := range keysOf(user) {
		cmds = append(cmds, keyspace.Cmd{Name: "UNLINK", Key: key})
	}
	for _, conv := range conversations {
		cmds = append(cmds, keyspace.Cmd{Name: "UNLINK", Key: latestKey(conv)})
	}
	_, err := f.do(ctx, cmds)
	return err
}
