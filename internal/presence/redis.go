package presence

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	//go:embed lua/open.lua
	openSource string
	//go:embed lua/close.lua
	closeSource string
	//go:embed lua/vouch.lua
	vouchSource string
	//go:embed lua/wish.lua
	wishSource string

	openScript  = redis.NewScript(openSource)
	closeScript = redis.NewScript(closeSource)
	vouchScript = redis.NewScript(vouchSource)
	wishScript  = redis.NewScript(wishSource)
)

// redisStore has every Redis call of this package.
type redisStore struct{ db *redis.DB }

// away reports that Redis cannot be reached.
func away(err error) bool { return errors.Is(err, redis.ErrUnavailable) }

var life = strconv.FormatInt(keyLife.Milliseconds(), 10)

// kept is what Redis has of a user.
type kept struct {
	connections []Connection
	wish        Wish
	told        bool // friends believe that the user is on line
}

// read returns what Redis has of users, in one round trip.
func (s *redisStore) read(ctx context.Context, users []accounts.ID) ([]kept, error) {
	keys := make([]keyspace.Key, 0, 2*len(users))
	for _, u := range users {
		keys = append(keys, connectionKeys.At(u).Key, statusKeys.At(u).Key)
	}
	replies := s.db.MGet(ctx, keys)
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	all := make([]kept, len(users))
	for i := range all {
		value := replies[2*i].Str
		all[i] = kept{parseConnections(value), parseWishValue(replies[2*i+1].Str), value != ""}
	}
	return all, nil
}

// opening is one connection to be noted.
type opening struct {
	user accounts.ID
	c    Connection
	wish Wish
	err  error // it may or may not have been noted

	first bool // the user had none before, whichever try it was that noted this one
}

// open notes connections of users that are among a node's already, and their wishes.
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
			cmds = append(cmds, wishCmd(o.user, o.wish))
		}
		cmds = append(cmds, openScript.Cmd([]keyspace.Key{connectionKeys.At(o.user).Key}, o.c.String(), life))
	}
	replies := s.db.DoMulti(ctx, cmds)
	for _, o := range batch {
		if o.wish.Version > 0 {
			o.err, replies = replies[0].Err, replies[1:]
		}
		before, _, err := replies[0].Text()
		replies = replies[1:]
		o.first = before == "" || strings.HasPrefix(before, o.c.name()) // there since a try whose answer was lost
		if err != nil {
			o.err = err
		}
	}
}

// closing is one connection, or all of a node, to be taken out.
type closing struct {
	user   accounts.ID
	prefix string
	err    error

	found int
	last  bool // none is left
}

// close takes connections out.
func (s *redisStore) close(ctx context.Context, batch []*closing) {
	cmds := make([]keyspace.Cmd, len(batch))
	for i, c := range batch {
		cmds[i] = closeScript.Cmd([]keyspace.Key{connectionKeys.At(c.user).Key}, c.prefix)
	}
	for i, r := range s.db.DoMulti(ctx, cmds) {
		c := batch[i]
		list, err := r.Items()
		if err == nil && len(list) != 2 {
			err = keyspace.ErrReply
		}
		if c.err = err; err == nil {
			c.found, c.last = int(list[0].N), list[1].Str == ""
		}
	}
}

// letGo takes users off those that a node holds.
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

// heldBy returns up to n of those whose connections a node holds.
func (s *redisStore) heldBy(ctx context.Context, node cluster.ID, n int) ([]accounts.ID, error) {
	items, err := s.db.Do(ctx, keyspace.Cmd{Name: "SRANDMEMBER", Key: heldKeys.At(node).Key, Args: []string{strconv.Itoa(n)}}).Items()
	if err != nil {
		return nil, err
	}
	return parseUsers(items)
}

// heldFrom returns some of those whose connections a node holds, and the cursor of the others; "0" is the first one, and after the last.
func (s *redisStore) heldFrom(ctx context.Context, node cluster.ID, cursor string) (users []accounts.ID, next string, err error) {
	page, err := s.db.Do(ctx, keyspace.Cmd{Name: "SSCAN", Key: heldKeys.At(node).Key, Args: []string{cursor, "COUNT", strconv.Itoa(atOnce)}}).Items()
	if err == nil && len(page) != 2 {
		err = keyspace.ErrReply
	}
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

func wishCmd(user accounts.ID, w Wish) keyspace.Cmd {
	return wishScript.Cmd([]keyspace.Key{statusKeys.At(user).Key}, strconv.Itoa(int(w.Status)), strconv.FormatInt(w.Version, 10), life)
}

// wish notes a user's wish, and returns what Redis has of the user then.
func (s *redisStore) wish(ctx context.Context, user accounts.ID, w Wish) (kept, error) {
	replies := s.db.DoMulti(ctx, []keyspace.Cmd{wishCmd(user, w), {Name: "GET", Key: connectionKeys.At(user).Key}})
	if err := keyspace.FirstErr(replies); err != nil {
		return kept{}, err
	}
	value := replies[1].Str
	return kept{parseConnections(value), w, value != ""}, nil
}

// forget removes what Redis has of a user.
func (s *redisStore) forget(ctx context.Context, user accounts.ID) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: connectionKeys.At(user).Key, More: []keyspace.Key{statusKeys.At(user).Key}}).Err
}

// announce tells programs beside the server of a change.
func (s *redisStore) announce(ctx context.Context, e events.Event) error {
	return statusChannel.At().Publish(ctx, s.db, e)
}

// mark is what presence:nodes says of a node.
type mark struct {
	there   bool
	writing bool      // the node has not written all its connections yet
	swept   time.Time // zero: it was not
}

// Values of marks. Another one is the time of a sweep.
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

// marked returns what is said of a node.
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

// marks returns what is said of all nodes.
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

// forgetNode removes what is said of a node.
func (s *redisStore) forgetNode(ctx context.Context, node cluster.ID) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "HDEL", Key: nodesKey.At().Key, Args: []string{node.String()}}).Err
}
