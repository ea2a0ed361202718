package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis/internal/engine"
)

// Ping succeeds when every owner of keys answers, and a cluster calls itself
// complete.
func (db *DB) Ping(ctx context.Context) error {
	return db.eachOwner(ctx, func(c rueidis.Client) error {
		if err := c.Do(ctx, c.B().Ping().Build()).Error(); err != nil {
			return db.failed(err)
		}
		if db.mode != "cluster" {
			return nil
		}
		info, err := c.Do(ctx, c.B().ClusterInfo().Build()).ToString()
		if err != nil {
			return db.failed(err)
		}
		if field(info, "cluster_state") != "ok" {
			return &unavailable{errors.New("the cluster is not complete")}
		}
		return nil
	})
}

// Fingerprint names the present run of the owners: it changes when one of them
// was restarted or failed over, after which keys may be missing. Compare it
// with the one noted before; it means nothing else.
func (db *DB) Fingerprint(ctx context.Context) (string, error) {
	if db.server != nil {
		return db.server.ID(), nil
	}
	var ids []string
	err := db.eachOwner(ctx, func(c rueidis.Client) error {
		for i, r := range c.DoMulti(ctx, c.B().Info().Section("server").Build(), c.B().Info().Section("replication").Build()) {
			info, err := r.ToString()
			if err != nil {
				return db.failed(err)
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

// Ended returns how many connections to servers have ended so far. A connection belongs to
// one run of a server: while the number is what it was before [DB.Fingerprint] was asked,
// no server that answers was restarted since. It costs nothing.
func (db *DB) Ended() uint64 { return db.nodes.ends.Load() }

// field returns a value from an INFO text.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// Scan calls fn with the physical name of every key under the prefix. A key
// that comes or goes meanwhile may be missed or, rarely, told twice. An error
// of fn ends it and is returned.
func (db *DB) Scan(ctx context.Context, fn func(physical string) error) error {
	page := int64(1000)
	if db.server != nil {
		page = engine.Page
	}
	pattern := db.prefix + "*" // checkPrefix let no character through that MATCH takes otherwise
	return db.eachOwner(ctx, func(c rueidis.Client) error {
		for cursor := uint64(0); ; {
			found, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Match(pattern).Count(page).Build()).AsScanEntry()
			if err != nil {
				return db.failed(err)
			}
			for _, key := range found.Elements {
				if err := fn(key); err != nil {
					return err
				}
			}
			if cursor = found.Cursor; cursor == 0 {
				return nil
			}
		}
	})
}

// TypeAndTTL returns what TYPE says of a key named by [DB.Scan] and how long it
// has to live: 0 for ever. A key that is gone has the type "none".
func (db *DB) TypeAndTTL(ctx context.Context, physical string) (typ string, ttl time.Duration, err error) {
	c, err := db.conn()
	if err != nil {
		return "", 0, err
	}
	r := c.DoMulti(ctx, c.B().Type().Key(physical).Build(), c.B().Pttl().Key(physical).Build())
	typ, err = db.reply(r[0]).Str, db.reply(r[0]).Err
	ms, err2 := db.reply(r[1]).Int()
	if err := errors.Join(err, err2); err != nil {
		return "", 0, err
	}
	if ms == 0 {
		ms = 1 // it dies this very moment; 0 would be for ever
	}
	return typ, time.Duration(max(ms, 0)) * time.Millisecond, nil
}

// eachOwner calls fn with a client for each server that owns keys.
func (db *DB) eachOwner(ctx context.Context, fn func(rueidis.Client) error) error {
	_, clients, err := db.ownerClients(ctx)
	if err != nil {
		return err
	}
	for _, c := range clients {
		if err := fn(c); err != nil {
			return err
		}
	}
	return nil
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

// owners asks the cluster for the addresses of all servers that own slots.
func (db *DB) owners(ctx context.Context, c rueidis.Client) ([]string, error) {
	slots, err := db.reply(db.toAny(c, func(c rueidis.Client) rueidis.RedisResult {
		return c.Do(ctx, c.B().ClusterSlots().Build())
	})).Items()
	if err != nil {
		return nil, err
	}
	return slotOwners(slots)
}

// slotOwners reads the reply to CLUSTER SLOTS.
func slotOwners(slots []keyspace.Reply) (addrs []string, err error) {
	seen := make(map[string]bool)
	for _, s := range slots {
		if len(s.List) < 3 || len(s.List[2].List) < 2 {
			return nil, fmt.Errorf("%w: CLUSTER SLOTS", keyspace.ErrReply)
		}
		node := s.List[2].List
		addr, err := address(node[0].Str, fmt.Sprint(node[1].N))
		if err != nil {
			return nil, err
		}
		if !seen[addr] {
			seen[addr], addrs = true, append(addrs, addr)
		}
	}
	return addrs, nil
}
