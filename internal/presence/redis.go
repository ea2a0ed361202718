package presence

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	//go:embed lua/change.lua
	changeSource string
	//go:embed lua/open.lua
	openSource string
	//go:embed lua/close.lua
	closeSource string
	//go:embed lua/complete.lua
	completeSource string
	//go:embed lua/wish.lua
	wishSource string

	changeScript   = redis.NewScript(changeSource)
	openScript     = redis.NewScript(openSource)
	closeScript    = redis.NewScript(closeSource)
	completeScript = redis.NewScript(completeSource)
	wishScript     = redis.NewScript(wishSource)
)

// redisStore has every Redis call of this package.
type redisStore struct {
	db  *redis.DB
	now func() time.Time
}

// isUnavailable reports whether err means that Redis is unavailable.
func isUnavailable(err error) bool { return errors.Is(err, redis.ErrUnavailable) }

var keyTTLMillis = keyspace.Millis(keyTTL)

// userState is the data of a user in Redis.
type userState struct {
	connections     []Connection
	wish            Wish
	publishedOnline bool // the user is published as online, and not yet as offline
	version         int64
}

func (s *redisStore) millis() string { return strconv.FormatInt(s.now().UnixMilli(), 10) }

// parseVersion returns 0 for a missing or malformed version.
func parseVersion(value string) int64 {
	v, _ := strconv.ParseInt(value, 10, 64)
	return v
}

// change returns the next version of a user's status, for a change of the user's audience.
func (s *redisStore) change(ctx context.Context, user accounts.ID) (int64, error) {
	return changeScript.Run(ctx, s.db, []keyspace.Key{versionKeys.At(user).Key}, keyTTLMillis, s.millis()).Int()
}

// read returns the data of users in Redis, in one round trip.
func (s *redisStore) read(ctx context.Context, users []accounts.ID) ([]userState, error) {
	keys := make([]keyspace.Key, 0, 3*len(users))
	for _, u := range users {
		keys = append(keys, connectionKeys.At(u).Key, statusKeys.At(u).Key, versionKeys.At(u).Key)
	}
	replies := s.db.MGet(ctx, keys)
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	all := make([]userState, len(users))
	for i := range all {
		value := replies[3*i].Str
		all[i] = userState{parseConnections(value), parseWishValue(replies[3*i+1].Str), value != "", parseVersion(replies[3*i+2].Str)}
	}
	return all, nil
}

// openRequest is one connection to be stored. [redisStore.open] sets err, first and version.
type openRequest struct {
	user accounts.ID
	conn Connection
	wish Wish
	err  error // not nil: the connection may or may not be stored

	first   bool // it is the user's first connection, even if an earlier try stored it
	version int64
}

// open stores connections and wishes of users, and adds the users to the set of their node.
func (s *redisStore) open(ctx context.Context, node cluster.ID, batch []*openRequest) {
	add := keyspace.Cmd{Name: "SADD", Key: nodeUserKeys.At(node).Key}
	for _, o := range batch {
		add.Args = append(add.Args, o.user.String())
	}
	err := keyspace.FirstErr(s.db.DoMulti(ctx, []keyspace.Cmd{add, {Name: "PEXPIRE", Key: add.Key, Args: []string{keyTTLMillis}}}))
	if err != nil {
		for _, o := range batch {
			o.err = err
		}
		return
	}
	var cmds []keyspace.Cmd
	for _, o := range batch {
		if o.wish.Version > 0 {
			cmds = append(cmds, s.wishCmd(o.user, o.wish))
		}
		cmds = append(cmds, openScript.Cmd([]keyspace.Key{connectionKeys.At(o.user).Key, versionKeys.At(o.user).Key}, o.conn.String(),
			keyTTLMillis, s.millis()))
	}
	replies := s.db.DoMulti(ctx, cmds)
	for _, o := range batch {
		if o.wish.Version > 0 {
			o.err, replies = replies[0].Err, replies[1:]
		}
		list, err := items(replies[0], 2)
		replies = replies[1:]
		if err != nil {
			o.err = err
			continue
		}
		before := list[0].Str
		o.first = before == "" || strings.HasPrefix(before, o.conn.name()) // an earlier try stored it, and its reply was lost
		o.version = parseVersion(list[1].Str)
	}
}

// items returns the n items of a reply. It returns keyspace.ErrReply for another number of items.
func items(r keyspace.Reply, n int) ([]keyspace.Reply, error) {
	list, err := r.Items()
	if err == nil && len(list) != n {
		err = keyspace.ErrReply
	}
	return list, err
}

// closeRequest removes one connection of a user, or all connections of the user to one node. [redisStore.close] sets
// the fields after prefix.
type closeRequest struct {
	user   accounts.ID
	prefix string // of the entries in user:connection
	err    error

	found   int  // number of removed connections
	last    bool // no connection is left
	version int64
}

// close removes connections of users.
func (s *redisStore) close(ctx context.Context, batch []*closeRequest) {
	cmds := make([]keyspace.Cmd, len(batch))
	for i, c := range batch {
		cmds[i] = closeScript.Cmd([]keyspace.Key{connectionKeys.At(c.user).Key, versionKeys.At(c.user).Key}, c.prefix, keyTTLMillis, s.millis())
	}
	for i, r := range s.db.DoMulti(ctx, cmds) {
		c := batch[i]
		list, err := items(r, 3)
		if c.err = err; err == nil {
			c.found, c.last, c.version = int(list[0].N), list[1].Str == "", parseVersion(list[2].Str)
		}
	}
}

// removeNodeUsers removes users from the set of a node.
func (s *redisStore) removeNodeUsers(ctx context.Context, node cluster.ID, users []accounts.ID) error {
	if len(users) == 0 {
		return nil
	}
	cmd := keyspace.Cmd{Name: "SREM", Key: nodeUserKeys.At(node).Key}
	for _, u := range users {
		cmd.Args = append(cmd.Args, u.String())
	}
	return s.db.Do(ctx, cmd).Err
}

// sampleNodeUsers returns up to n users of a node's set.
func (s *redisStore) sampleNodeUsers(ctx context.Context, node cluster.ID, n int) ([]accounts.ID, error) {
	items, err := s.db.Do(ctx, keyspace.Cmd{Name: "SRANDMEMBER", Key: nodeUserKeys.At(node).Key, Args: []string{strconv.Itoa(n)}}).Items()
	if err != nil {
		return nil, err
	}
	return parseUsers(items)
}

// scanNodeUsers returns a page of the users of a node's set, and the next cursor. The first cursor is "0". The last
// page also returns "0".
func (s *redisStore) scanNodeUsers(ctx context.Context, node cluster.ID, cursor string) (users []accounts.ID, next string, err error) {
	page, err := items(s.db.Do(ctx, keyspace.Cmd{Name: "SSCAN", Key: nodeUserKeys.At(node).Key,
		Args: []string{cursor, "COUNT", strconv.Itoa(batchSize)}}), 2)
	if err != nil {
		return nil, "", err
	}
	users, err = parseUsers(page[1].List)
	return users, page[0].Str, err
}

func parseUsers(items []keyspace.Reply) ([]accounts.ID, error) {
	users := make([]accounts.ID, 0, len(items))
	for _, item := range items {
		u, err := ids.Parse[accounts.User](item.Str)
		if err != nil {
			return nil, err
		}
		users = append(users, u)
	}
	return users, nil
}

func (s *redisStore) wishCmd(user accounts.ID, w Wish) keyspace.Cmd {
	return wishScript.Cmd([]keyspace.Key{statusKeys.At(user).Key, connectionKeys.At(user).Key, versionKeys.At(user).Key},
		strconv.Itoa(int(w.Status)), strconv.FormatInt(w.Version, 10), keyTTLMillis, s.millis())
}

// storeWish stores a user's wish, and returns the user's data in Redis after that.
func (s *redisStore) storeWish(ctx context.Context, user accounts.ID, w Wish) (userState, error) {
	list, err := items(s.db.Do(ctx, s.wishCmd(user, w)), 2)
	if err != nil {
		return userState{}, err
	}
	value := list[0].Str
	return userState{parseConnections(value), w, value != "", parseVersion(list[1].Str)}, nil
}

// deleteUser deletes a user's keys.
func (s *redisStore) deleteUser(ctx context.Context, user accounts.ID) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: connectionKeys.At(user).Key,
		More: []keyspace.Key{statusKeys.At(user).Key, versionKeys.At(user).Key}}).Err
}

// publish publishes a change to other programs that subscribe to channel:user_status in Redis.
func (s *redisStore) publish(ctx context.Context, e events.Event) error {
	return statusChannel.At().Publish(ctx, s.db, e)
}

// mark is the entry of a node in presence:nodes.
type mark struct {
	exists  bool
	writing bool      // the node has not yet written all its connections
	swept   time.Time // time of the latest sweep; zero: none
}

// Values of marks. Any other value is the time of a sweep.
const (
	writingMark  = "writing"
	completeMark = "0"
)

func parseMark(value string, exists bool) mark {
	ms, err := strconv.ParseInt(value, 10, 64)
	if err != nil || ms == 0 {
		return mark{exists: exists, writing: value == writingMark}
	}
	return mark{exists: exists, swept: time.UnixMilli(ms)}
}

// isComplete reports whether Redis has all connections of the node. The connections of a dead node do not count, so a
// swept dead node is complete.
func (m mark) isComplete(alive bool) bool {
	return m.exists && !m.writing && (m.swept.IsZero() || !alive)
}

// readMark returns the mark of a node.
func (s *redisStore) readMark(ctx context.Context, node cluster.ID) (mark, error) {
	value, ok, err := s.db.Do(ctx, keyspace.Cmd{Name: "HGET", Key: nodesKey.At().Key, Args: []string{node.String()}}).Text()
	return parseMark(value, ok), err
}

// setMark stores the mark of a node: "writing" if swept is zero, otherwise the time of a sweep.
func (s *redisStore) setMark(ctx context.Context, node cluster.ID, swept time.Time) error {
	value := writingMark
	if !swept.IsZero() {
		value = strconv.FormatInt(swept.UnixMilli(), 10)
	}
	return s.db.Do(ctx, keyspace.Cmd{Name: "HSET", Key: nodesKey.At().Key, Args: []string{node.String(), value}}).Err
}

// markComplete marks the connections of a node as complete. It reports false if the node no longer has the mark
// "writing".
func (s *redisStore) markComplete(ctx context.Context, node cluster.ID) (bool, error) {
	n, err := completeScript.Run(ctx, s.db, []keyspace.Key{nodesKey.At().Key}, node.String(), writingMark, completeMark).Int()
	return n == 1, err
}

// readMarks returns the marks of all nodes.
func (s *redisStore) readMarks(ctx context.Context) (map[cluster.ID]mark, error) {
	fields, err := nodesKey.At().All(ctx, s.db)
	all := make(map[cluster.ID]mark, len(fields))
	for field, value := range fields {
		if id, err := ids.Parse[cluster.Node](field); err == nil {
			all[id] = parseMark(value, true)
		}
	}
	return all, err
}

// deleteMark deletes the mark of a node.
func (s *redisStore) deleteMark(ctx context.Context, node cluster.ID) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "HDEL", Key: nodesKey.At().Key, Args: []string{node.String()}}).Err
}
