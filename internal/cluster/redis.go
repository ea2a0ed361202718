package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// maxNodes is the largest number of nodes.
const maxNodes = 1000

var (
	//go:embed lua/mark_gone.lua
	markGoneLua string
	//go:embed lua/renew.lua
	renewLua string

	markGone   = redis.NewScript(markGoneLua)
	renewLease = redis.NewScript(renewLua)
)

// listed is a node in the list.
type listed struct {
	id    ID
	score float64
	boot  Boot // of its lease; zero if the lease does not exist
}

// redisStore makes all Redis calls of this package.
type redisStore struct {
	db           *redis.DB
	lease, entry time.Duration // TTLs
}

// renewed is the result of a renewal.
type renewed struct {
	lapsed bool // the lease did not exist, or belonged to another boot
	nodes  []listed
	order  Order // zero means none
}

// renew renews the lease and the entry of a node, and returns the list and the node's order, in one round trip.
func (s *redisStore) renew(ctx context.Context, n Node) (r renewed, err error) {
	set, err := entryKeys.At(n.ID).SetCmd(n, s.entry)
	if err != nil {
		return r, err
	}
	lease := renewLease.Cmd([]keyspace.Key{leaseKey(n.ID)}, n.Boot.String(), keyspace.Millis(s.lease))
	replies := s.db.DoMulti(ctx, []keyspace.Cmd{lease, set,
		{Name: "ZADD", Key: nodesKey.At().Key, Args: []string{score(n.Heartbeat), n.ID.String()}}, listCmd(),
		{Name: "GET", Key: orderKeys.At(n.ID).Key}})
	if err := keyspace.FirstErr(replies); err != nil {
		return r, err
	}
	before, _, err := replies[0].Text()
	if err != nil {
		return r, err
	}
	order, found, err := replies[4].Text()
	if err != nil {
		return r, err
	}
	if found && json.Unmarshal([]byte(order), &r.order) != nil {
		r.order = Order{} // an order in a format that this build does not know
	}
	r.lapsed = before != n.Boot.String()
	r.nodes, err = parseList(replies[3])
	return r, err
}

// Send sends an order to a node. The node accepts it with its next heartbeat, within a second or two, and stores the id
// of the order in its entry. A node without a heartbeat for a minute misses the order.
func Send(ctx context.Context, db *redis.DB, node ID, o Order) (err error) {
	defer errs.Wrap(&err, "cluster.Send %s", node)
	set, err := orderKeys.At(node).SetCmd(o, entryLife)
	if err != nil {
		return err
	}
	return db.Do(ctx, set).Err
}

// leave deletes the lease of a node. The entry contains the status.
func (s *redisStore) leave(ctx context.Context, n Node) error {
	set, err := entryKeys.At(n.ID).SetCmd(n, s.entry)
	if err != nil {
		return err
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, []keyspace.Cmd{
		{Name: "DEL", Key: leaseKey(n.ID)}, set,
		{Name: "ZADD", Key: nodesKey.At().Key, Args: []string{"-" + score(n.Heartbeat), n.ID.String()}},
	}))
}

func listCmd() keyspace.Cmd {
	return keyspace.Cmd{Name: "ZRANGE", Key: nodesKey.At().Key, Args: []string{"0", strconv.Itoa(maxNodes - 1), "WITHSCORES"}}
}

func parseList(r keyspace.Reply) ([]listed, error) {
	items, err := r.Items()
	if err != nil || len(items)%2 != 0 {
		return nil, cmpErr(err, "ZRANGE")
	}
	var nodes []listed
	for pair := range slices.Chunk(items, 2) {
		id, err := ids.Parse[Node](pair[0].Str)
		score, _, err2 := pair[1].Float()
		if err == nil && err2 == nil { // otherwise someone wrote the entry by hand
			nodes = append(nodes, listed{id: id, score: score})
		}
	}
	return nodes, nil
}

func cmpErr(err error, what string) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", keyspace.ErrReply, what)
}

// list returns the list of nodes.
func (s *redisStore) list(ctx context.Context) ([]listed, error) {
	return parseList(s.db.Do(ctx, listCmd()))
}

// leases fills in which nodes are alive.
func (s *redisStore) leases(ctx context.Context, nodes []listed) error {
	if len(nodes) == 0 {
		return nil
	}
	keys := make([]keyspace.Key, len(nodes))
	for i, n := range nodes {
		keys[i] = leaseKey(n.id)
	}
	held, err := s.db.Do(ctx, keyspace.Cmd{Name: "MGET", Key: keys[0], More: keys[1:]}).Items()
	if err != nil || len(held) != len(nodes) {
		return cmpErr(err, "MGET")
	}
	for i, r := range held {
		if text, ok, err := r.Text(); ok && err == nil {
			nodes[i].boot, _ = ids.Parse[boot](text) // zero if it was written by hand
		}
	}
	return nil
}

// forget removes nodes without an entry from the list.
func (s *redisStore) forget(ctx context.Context, nodes []listed) error {
	cmds := make([]keyspace.Cmd, len(nodes))
	for i, n := range nodes {
		cmds[i] = keyspace.Cmd{Name: "EXISTS", Key: entryKeys.At(n.id).Key}
	}
	off := keyspace.Cmd{Name: "ZREM", Key: nodesKey.At().Key}
	for i, r := range s.db.DoMulti(ctx, cmds) {
		exists, err := r.Int()
		if err != nil {
			return err
		}
		if exists == 0 {
			off.Args = append(off.Args, nodes[i].id.String())
		}
	}
	if len(off.Args) == 0 {
		return nil
	}
	// A node that returns at this moment adds itself again a second later.
	return s.db.Do(ctx, off).Err
}

// markGone marks a node as dead and reports whether this call did so.
func (s *redisStore) markGone(ctx context.Context, n listed) (first bool, err error) {
	marked, err := markGone.Run(ctx, s.db, []keyspace.Key{nodesKey.At().Key}, n.id.String(), strconv.FormatFloat(n.score, 'f', -1, 64)).Int()
	return marked == 1, err
}

// List returns all nodes that have an entry, oldest first.
func List(ctx context.Context, db *redis.DB) (entries []Entry, err error) {
	defer errs.Wrap(&err, "cluster.List")
	s := &redisStore{db: db}
	nodes, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.leases(ctx, nodes); err != nil {
		return nil, err
	}
	var cmds []keyspace.Cmd
	for _, n := range nodes {
		key := entryKeys.At(n.id).Key
		cmds = append(cmds, keyspace.Cmd{Name: "GET", Key: key}, keyspace.Cmd{Name: "PTTL", Key: key})
	}
	replies := db.DoMulti(ctx, cmds)
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	for i, n := range nodes {
		e, ok := parseEntry(replies[2*i].Str, replies[2*i+1].N)
		if ok {
			e.Alive = e.Boot == n.boot && !n.boot.IsZero()
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return a.Started.Compare(b.Started) })
	return entries, nil
}
