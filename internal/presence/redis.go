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
	//go:embed lua/vouch.lua
	vouchSource string
	//go:embed lua/wish.lua
	wishSource string

	changeScript = redis.NewScript(changeSource)
	openScript   = redis.NewScript(openSource)
	closeScript  = redis.NewScript(closeSource)
	vouchScript  = redis.NewScript(vouchSource)
	wishScript   = redis.NewScript(wishSource)
)

// redisStore has every Redis call of this package.
type redisStore struct {
	db  *redis.DB
	now func() time.Time
}

// away reports whether Redis is unavailable.
func away(err error) bool { return errors.Is(err, redis.ErrUnavailable) }

var life = strconv.FormatInt(keyLife.Milliseconds(), 10)

// kept is what Redis has of a user.
type kept struct {
	connections []Connection
	wish        Wish
	told        bool // friends see the user as online
	version     int64
}

func (s *redisStore) millis() string { return strconv.FormatInt(s.now().UnixMilli(), 10) }

// parseVersion returns 0 for a missing or malformed version.
func parseVersion(value string) int64 {
	v, _ := strconv.ParseInt(value, 10, 64)
	return v
}

// change draws a version for a change of a user's audience.
func (s *redisStore) change(ctx context.Context, user accounts.ID) (int64, error) {
	return changeScript.Run(ctx, s.db, []keyspace.Key{versionKeys.At(user).Key}, life, s.millis()).Int()
}

// read returns what Redis has of users, in one round trip.
func (s *redisStore) read(ctx context.Context, users []accounts.ID) ([]kept, error) {
	keys := make([]keyspace.Key, 0, 3*len(users))
	for _, u := range users {
		keys = append(keys, connectionKeys.At(u).Key, statusKeys.At(u).Key, versionKeys.At(u).Key)
	}
	replies := s.db.MGet(ctx, keys)
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	all := make([]kept, len(users))
	for i := range all {
		value := replies[3*i].Str
		all[i] = kept{parseConnections(value), parseWishValue(replies[3*i+1].Str), value != "", parseVersion(replies[3*i+2].Str)}
	}
	return all, nil
}

// opening is one connection to be stored.
type opening struct {
	user accounts.ID
	c    Connection
	wish Wish
	err  error // it may or may not be stored

	first   bool // the user had none before, whichever try stored this one
	version int64
}

// open stores connections and wishes of users, and adds the users to the set of their node.
func (s *redisStore) open(ctx context.Context, node cluster.ID, batch []*opening) {
	held := keyspace.Cmd{Name: "SADD", Key: heldKeys.At(node).Key}
	for _, o := range batch {
		held.Args = append(held.Args, o.user.String())
	}
	err := keyspace.FirstErr(s.db.DoMulti(ctx, []keyspace.Cmd{held, {Name: "PEXPIRE", Key: held.Key, Args: []string{life}}}))
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
		cmds = append(cmds, openScript.Cmd([]keyspace.Key{connectionKeys.At(o.user).Key, versionKeys.At(o.user).Key}, o.c.String(), life, s.millis()))
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
		o.first = before == "" || strings.HasPrefix(before, o.c.name()) // stored by a try whose reply was lost
		o.version = parseVersion(list[1].Str)
	}
}

// items returns a script's reply of n items.
func items(r keyspace.Reply, n int) ([]keyspace.Reply, error) {
	list, err := r.Items()
	if err == nil && len(list) != n {
		err = keyspace.ErrReply
	}
	return list, err
}

// closing is one connection, or all of a node, to be removed.
type closing struct {
	user   accounts.ID
	prefix string
	err    error

	found   int
	last    bool // none is left
	version int64
}

// close removes connections.
func (s *redisStore) close(ctx context.Context, batch []*closing) {
	cmds := make([]keyspace.Cmd, len(batch))
	for i, c := range batch {
		cmds[i] = closeScript.Cmd([]keyspace.Key{connectionKeys.At(c.user).Key, versionKeys.At(c.user).Key}, c.prefix, life, s.millis())
	}
	for i, r := range s.db.DoMulti(ctx, cmds) {
		c := batch[i]
		list, err := items(r, 3)
		if c.err = err; err == nil {
			c.found, c.last, c.version = int(list[0].N), list[1].Str == "", parseVersion(list[2].Str)
		}
	}
}

// letGo removes users from the set of a node.
func (s *redisStore) letGo(ctx context.Context, node cluster.ID, users []accounts.ID) error {
	if len(users) == 0 {
		return nil
	}
	cmd := keyspace.Cmd{Name: "SREM", Key: heldKeys.At(node).Key}
	for _, u := range users {
		cmd.Args = append(cmd.Args, u.String())
	}
	return s.db.Do(ctx, cmd).Err
}

// heldBy returns up to n users of a node's set.
func (s *redisStore) heldBy(ctx context.Context, node cluster.ID, n int) ([]accounts.ID, error) {
	items, err := s.db.Do(ctx, keyspace.Cmd{Name: "SRANDMEMBER", Key: heldKeys.At(node).Key, Args: []string{strconv.Itoa(n)}}).Items()
	if err != nil {
		return nil, err
	}
	return parseUsers(items)
}

// heldFrom returns a page of the users of a node's set, and the next cursor. "0" is the first cursor, and the one after
// the last page.
func (s *redisStore) heldFrom(ctx context.Context, node cluster.ID, cursor string) (users []accounts.ID, next string, err error) {
	page, err := items(s.db.Do(ctx, keyspace.Cmd{Name: "SSCAN", Key: heldKeys.At(node).Key, Args: []string{cursor, "COUNT", strconv.Itoa(atOnce)}}), 2)
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
		strconv.Itoa(int(w.Status)), strconv.FormatInt(w.Version, 10), life, s.millis())
}

// wish stores a user's wish, and returns what Redis has of the user afterwards.
func (s *redisStore) wish(ctx context.Context, user accounts.ID, w Wish) (kept, error) {
	list, err := items(s.db.Do(ctx, s.wishCmd(user, w)), 2)
	if err != nil {
		return kept{}, err
	}
	value := list[0].Str
	return kept{parseConnections(value), w, value != "", parseVersion(list[1].Str)}, nil
}

// forget deletes a user's keys in Redis.
func (s *redisStore) forget(ctx context.Context, user accounts.ID) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: connectionKeys.At(user).Key, More: []keyspace.Key{statusKeys.At(user).Key, versionKeys.At(user).Key}}).Err
}

// announce publishes a change to programs next to the server.
func (s *redisStore) announce(ctx context.Context, e events.Event) error {
	return statusChannel.At().Publish(ctx, s.db, e)
}

// mark is the entry of a node in presence:nodes.
type mark struct {
	there   bool
	writing bool      // the node has not written all its connections yet
	swept   time.Time // time of a sweep; zero: none
}

// Values of marks. Any other value is the time of a sweep.
const (
	markWriting  = "writing"
	markComplete = "0"
)

func parseMark(value string, there bool) mark {
	ms, err := strconv.ParseInt(value, 10, 64)
	if err != nil || ms == 0 {
		return mark{there: there, writing: value == markWriting}
	}
	return mark{there: there, swept: time.UnixMilli(ms)}
}

// complete reports whether Redis has all connections of the node that count. Connections of a dead node do not count.
func (m mark) complete(alive bool) bool {
	return m.there && !m.writing && (m.swept.IsZero() || !alive)
}

// marked returns the mark of a node.
func (s *redisStore) marked(ctx context.Context, node cluster.ID) (mark, error) {
	value, ok, err := s.db.Do(ctx, keyspace.Cmd{Name: "HGET", Key: nodesKey.At().Key, Args: []string{node.String()}}).Text()
	return parseMark(value, ok), err
}

// setMark marks a node as one that writes its connections, or, with a time, as swept at that time.
func (s *redisStore) setMark(ctx context.Context, node cluster.ID, swept time.Time) error {
	value := markWriting
	if !swept.IsZero() {
		value = strconv.FormatInt(swept.UnixMilli(), 10)
	}
	return s.db.Do(ctx, keyspace.Cmd{Name: "HSET", Key: nodesKey.At().Key, Args: []string{node.String(), value}}).Err
}

// vouch marks the connections of a node as complete. It reports false if the mark that setMark made is no longer there.
func (s *redisStore) vouch(ctx context.Context, node cluster.ID) (bool, error) {
	n, err := vouchScript.Run(ctx, s.db, []keyspace.Key{nodesKey.At().Key}, node.String(), markWriting, markComplete).Int()
	return n == 1, err
}

// marks returns the marks of all nodes.
func (s *redisStore) marks(ctx context.Context) (map[cluster.ID]mark, error) {
	fields, err := nodesKey.At().All(ctx, s.db)
	all := make(map[cluster.ID]mark, len(fields))
	for field, value := range fields {
		if id, err := ids.Parse[cluster.Node](field); err == nil {
			all[id] = parseMark(value, true)
		}
	}
	return all, err
}

// forgetNode deletes the mark of a node.
func (s *redisStore) forgetNode(ctx context.Context, node cluster.ID) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "HDEL", Key: nodesKey.At().Key, Args: []string{node.String()}}).Err
}
