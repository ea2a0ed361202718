package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/internal/engine"
)

// Ping succeeds if every owner of keys replies, and a cluster reports that it is complete.
func (db *DB) Ping(ctx context.Context) error {
	return db.eachOwner(ctx, func(s Server) error {
		if err := ask(ctx, s, "PING").Err; err != nil {
			return err
		}
		if db.mode != "cluster" {
			return nil
		}
		info, _, err := ask(ctx, s, "CLUSTER", "INFO").Text()
		if err != nil {
			return err
		}
		if field(info, "cluster_state") != "ok" {
			return &unavailable{errors.New("the cluster is not complete")}
		}
		return nil
	})
}

// ask sends one command to one server.
func ask(ctx context.Context, s Server, args ...string) keyspace.Reply {
	return s.Do(ctx, []Command{{Args: args}})[0]
}

// Fingerprint identifies the present run of the owners. It changes when one of them was restarted or failed over:
// keys may be missing then. Compare it with an earlier one; it has no other meaning.
func (db *DB) Fingerprint(ctx context.Context) (string, error) {
	if db.server != nil {
		return db.server.ID(), nil
	}
	var ids []string
	err := db.eachOwner(ctx, func(s Server) error {
		for i, r := range s.Do(ctx, []Command{{Args: []string{"INFO", "server"}}, {Args: []string{"INFO", "replication"}}}) {
			info, _, err := r.Text()
			if err != nil {
				return err
			}
			ids = append(ids, field(info, []string{"run_id", "master_replid"}[i]))
		}
		return nil
	})
	slices.Sort(ids)
	if err != nil {
		return "", err
	}
	return strings.Join(ids, " "), nil
}

// knownFor is how long [DB.KnownFingerprint] returns the same result.
const knownFor = time.Second

// knownPrint is a result of [DB.Fingerprint].
type knownPrint struct {
	ids      string
	at       time.Time
	connects uint64 // connections that were made before
}

// KnownFingerprint is [DB.Fingerprint] for frequent callers. With a single server, it returns a result of the last second
// if no connection was made since then. A connection belongs to one run of a server, so earlier replies came from the
// identified run. With several servers, a replica may take over while the connections stay, so they are always asked.
func (db *DB) KnownFingerprint(ctx context.Context) (string, error) {
	if db.mode != "standalone" && db.mode != "spawn" || db.via != nil {
		return db.Fingerprint(ctx)
	}
	select {
	case db.asking <- struct{}{}:
		defer func() { <-db.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	connects, now := db.nodes.connectsSoFar(), time.Now()
	if db.known.connects == connects && now.Sub(db.known.at) < knownFor {
		return db.known.ids, nil
	}
	ids, err := db.Fingerprint(ctx)
	if err == nil {
		db.known = knownPrint{ids, now, connects}
	}
	return ids, err
}

// Ended returns how many connections to servers have ended so far. A connection belongs to one run of a server: if the
// number is the same as before a call of [DB.Fingerprint], no server that replies was restarted since. It costs
// nothing. The connections of [Wrap] are not known, so for them each call returns another number.
func (db *DB) Ended() uint64 {
	if db.via != nil {
		return db.nodes.ends.Add(1)
	}
	return db.nodes.ends.Load()
}

// field returns a value from an INFO text.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// Scan calls fn with the physical name of every key under the prefix. A key that is added or removed meanwhile may be
// missed or, rarely, returned twice. An error of fn ends the scan and is returned.
func (db *DB) Scan(ctx context.Context, fn func(physical string) error) error {
	page := 1000
	if db.server != nil {
		page = engine.Page
	}
	pattern := db.prefix + "*" // CheckPrefix rejects the special characters of MATCH
	return db.eachOwner(ctx, func(s Server) error {
		for cursor := uint64(0); ; {
			names, next, err := scan(ctx, s.Do, cursor, pattern, page)
			if err != nil {
				return err
			}
			for _, key := range names {
				if err := fn(key); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
}

// scan sends one SCAN to one server.
func scan(ctx context.Context, do func(context.Context, []Command) []keyspace.Reply, cursor uint64, pattern string,
	count int) (names []string, next uint64, err error) {
	page, err := do(ctx, []Command{{Args: []string{"SCAN", strconv.FormatUint(cursor, 10), "MATCH", pattern, "COUNT",
		strconv.Itoa(count)}}})[0].Items()
	if err == nil && len(page) != 2 {
		err = fmt.Errorf("%w: SCAN", keyspace.ErrReply)
	}
	if err != nil {
		return nil, 0, err
	}
	if next, err = strconv.ParseUint(page[0].Str, 10, 64); err != nil {
		return nil, 0, fmt.Errorf("%w: SCAN: %w", keyspace.ErrReply, err)
	}
	for _, name := range page[1].List {
		names = append(names, name.Str)
	}
	return names, next, nil
}

// TypeAndTTL returns the reply of TYPE for a key named by [DB.Scan] and its remaining life: 0 if it does not expire. A
// missing key has the type "none".
func (db *DB) TypeAndTTL(ctx context.Context, physical string) (typ string, ttl time.Duration, err error) {
	cmds := []Command{{Args: []string{"TYPE", physical}, Key: 1}, {Args: []string{"PTTL", physical}, Key: 1}}
	var r []keyspace.Reply
	if db.via != nil {
		r = db.send(ctx, db.via.Do, cmds)
	} else {
		c, err := db.conn()
		if err != nil {
			return "", 0, err
		}
		r = db.through(c)(ctx, cmds)
	}
	typ, err = r[0].Str, r[0].Err
	ms, err2 := r[1].Int()
	if err := errors.Join(err, err2); err != nil {
		return "", 0, err
	}
	if ms == 0 {
		ms = 1 // it expires at this moment; 0 would mean no expiry
	}
	return typ, time.Duration(max(ms, 0)) * time.Millisecond, nil
}

// eachOwner calls fn with each server that owns keys.
func (db *DB) eachOwner(ctx context.Context, fn func(Server) error) error {
	servers, err := db.servers(ctx)
	if err != nil {
		return err
	}
	for _, s := range servers {
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

// servers returns the servers that own keys.
func (db *DB) servers(ctx context.Context) (all []Server, err error) {
	if db.via != nil {
		type found struct {
			all []Server
			err error
		}
		f, err := within(ctx, db, func() found { all, err := db.via.Owners(ctx); return found{all, err} })
		switch {
		case err != nil:
			return nil, err
		case f.err != nil:
			return nil, classifyForeign(ctx, f.err)
		}
		all = f.all
		for i, s := range all {
			all[i].Do = func(ctx context.Context, cmds []Command) []keyspace.Reply { return db.send(ctx, s.Do, cmds) }
		}
		return all, nil
	}
	addrs, clients, err := db.ownerClients(ctx)
	if err != nil {
		return nil, err
	}
	for i, c := range clients {
		all = append(all, Server{addrs[i], db.through(c)})
	}
	return all, nil
}

// through returns a function that sends commands by one of the client library's clients.
func (db *DB) through(c interface {
	B() rueidis.Builder
	DoMulti(context.Context, ...rueidis.Completed) []rueidis.RedisResult
}) func(context.Context, []Command) []keyspace.Reply {
	return func(ctx context.Context, cmds []Command) []keyspace.Reply {
		built := make([]rueidis.Completed, len(cmds))
		for i, cmd := range cmds {
			a := c.B().Arbitrary(cmd.Args[0])
			if cmd.Key > 0 {
				a = a.Args(cmd.Args[1:cmd.Key]...).Keys(cmd.Args[cmd.Key]).Args(cmd.Args[cmd.Key+1:]...)
			} else {
				a = a.Args(cmd.Args[1:]...)
			}
			built[i] = a.Build()
		}
		replies := make([]keyspace.Reply, len(cmds))
		for i, r := range c.DoMulti(ctx, built...) {
			replies[i] = db.reply(r)
		}
		return replies
	}
}

// ownerClients returns the servers that own keys, with their addresses.
func (db *DB) ownerClients(ctx context.Context) (addrs []string, clients []rueidis.Client, err error) {
	c, err := db.conn()
	if err != nil {
		return nil, nil, err
	}
	nodes := c.Nodes()
	if db.mode != "cluster" {
		for addr := range nodes {
			addrs = append(addrs, addr)
		}
		return addrs, []rueidis.Client{c}, nil
	}
	if addrs, err = db.owners(ctx, c); err != nil {
		return nil, nil, err
	}
	for _, addr := range addrs {
		node, ok := nodes[addr]
		if !ok {
			return nil, nil, &unavailable{fmt.Errorf("the client does not know %s yet", addr)}
		}
		clients = append(clients, node)
	}
	return addrs, clients, nil
}

// owners gets the addresses of all servers that own slots from the cluster.
func (db *DB) owners(ctx context.Context, c rueidis.Client) ([]string, error) {
	var asked string
	slots, err := db.reply(db.sendToAny(c, func(addr string, c rueidis.Client) rueidis.RedisResult {
		asked = addr
		return c.Do(ctx, c.B().ClusterSlots().Build())
	})).Items()
	if err != nil {
		return nil, err
	}
	return slotOwners(slots, asked)
}

// slotOwners parses the reply to CLUSTER SLOTS. A server without a host has the host of the address that was asked.
func slotOwners(slots []keyspace.Reply, asked string) (addrs []string, err error) {
	host, _, _ := net.SplitHostPort(asked)
	seen := make(map[string]bool)
	for _, s := range slots {
		if len(s.List) < 3 || len(s.List[2].List) < 2 {
			return nil, fmt.Errorf("%w: CLUSTER SLOTS", keyspace.ErrReply)
		}
		node := s.List[2].List
		addr, err := address(cmp.Or(node[0].Str, host), fmt.Sprint(node[1].N))
		if err != nil {
			return nil, err
		}
		if !seen[addr] {
			seen[addr], addrs = true, append(addrs, addr)
		}
	}
	return addrs, nil
}
