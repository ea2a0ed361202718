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

// most bounds how many nodes are looked at.
const most = 1000

var (
	//go:embed lua/mark_gone.lua
	markGoneLua string
	//go:embed lua/renew.lua
	renewLua string

	markGone   = redis.NewScript(markGoneLua)
	renewLease = redis.NewScript(renewLua)
)

// listed is a node on the list.
type listed struct {
	id    ID
	score float64
	boot  Boot // of its lease; zero when that is gone
}

// redisStore has every Redis call of this package.
type redisStore struct {
	db           *redis.DB
	lease, entry time.Duration // lives
}

// renewed is what a node finds as it renews its lease.
type renewed struct {
	lapsed bool // the lease was not there, or another boot's
	nodes  []listed
	order  Order // zero: there is none
}

// renew renews a node's lease and entry and returns the list and the node's order, in one round trip.
func (s *redisStore) renew(ctx context.Context, n Node) (r renewed, err error) {
	set, err := entryKeys.At(n.ID).SetCmd(n, s.entry)
	if err != nil {
		return r, err
	}
	lease := renewLease.Cmd([]keyspace.Key{leaseKeys.At(n.ID).Key}, n.Boot.String(), strconv.FormatInt(s.lease.Milliseconds(), 10))
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
	order, there, err := replies[4].Text()
	if err != nil {
		return r, err
	}
	if there && json.Unmarshal([]byte(order), &r.order) != nil {
		r.order = Order{} // one of a form that this build does not know
	}
	r.lapsed = before != n.Boot.String()
	r.nodes, err = parseList(replies[3])
	return r, err
}

// Tell gives a node an order, which it takes with its next heartbeat, within a second or two: then its entry
// has the order's id. A node that does not look for a minute misses it.
func Tell(ctx context.Context, db *redis.DB, node ID, o Order) (err error) {
	defer errs.Wrap(&err, "cluster.Tell %s", node)
	set, err := orderKeys.At(node).SetCmd(o, entryLife)
	if err != nil {
		return err
	}
	return db.Do(ctx, set).Err
}

// leave ends a node's lease; its entry says why.
func (s *redisStore) leave(ctx context.Context, n Node) error {
	set, err := entryKeys.At(n.ID).SetCmd(n, s.entry)
	if err != nil {
		return err
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, []keyspace.Cmd{
		{Name: "DEL", Key: leaseKeys.At(n.ID).Key}, set,
		{Name: "ZADD", Key: nodesKey.At().Key, Args: []string{"-" + score(n.Heartbeat), n.ID.String()}},
	}))
}

func listCmd() keyspace.Cmd {
	return keyspace.Cmd{Name: "ZRANGE", Key: nodesKey.At().Key, Args: []string{"0", strconv.Itoa(most - 1), "WITHSCORES"}}
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
		if err == nil && err2 == nil { // else an entry written by hand
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

// list returns the list.
func (s *redisStore) list(ctx context.Context) ([]listed, error) {
	return parseList(s.db.Do(ctx, listCmd()))
}

// leases fills in which nodes live.
func (s *redisStore) leases(ctx context.Context, nodes []listed) error {
	cmds := make([]keyspace.Cmd, len(nodes))
	for i, n := range nodes {
		cmds[i] = keyspace.Cmd{Name: "GET", Key: leaseKeys.At(n.id).Key}
	}
	for i, r := range s.db.DoMulti(ctx, cmds) {
		held, ok, err := r.Text()
		if err != nil {
			return err
		}
		if ok {
			nodes[i].boot, _ = ids.Parse[boot](held)
		}
	}
	return nil
}

// forget takes nodes off the list whose entry is gone, too.
func (s *redisStore) forget(ctx context.Context, nodes []listed) error {
	cmds := make([]keyspace.Cmd, len(nodes))
	for i, n := range nodes {
		cmds[i] = keyspace.Cmd{Name: "EXISTS", Key: entryKeys.At(n.id).Key}
	}
	off := keyspace.Cmd{Name: "ZREM", Key: nodesKey.At().Key}
	for i, r := range s.db.DoMulti(ctx, cmds) {
		there, err := r.Int()
		if err != nil {
			return err
		}
		if there == 0 {
			off.Args = append(off.Args, nodes[i].id.String())
		}
	}
	if len(off.Args) == 0 {
		return nil
	}
	// One that comes back at this moment lists itself again a second later.
	return s.db.Do(ctx, off).Err
}

// markGone marks a node as gone and reports whether this caller did.
func (s *redisStore) markGone(ctx context.Context, n listed) (first bool, err error) {
	did, err := markGone.Run(ctx, s.db, []keyspace.Key{nodesKey.At().Key}, n.id.String(), strconv.FormatFloat(n.score, 'f', -1, 64)).Int()
	return did == 1, err
}

// List returns all nodes that have an entry, the oldest first.
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
