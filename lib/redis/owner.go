package redis

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/internal/engine"
)

// An Owner is one server that owns keys, for maintenance tools. They work server by server, with physical names, and
// over connections of their own, so that no other command waits behind theirs; the Owners of a [Wrap] share the
// client's connections. Its methods may be called concurrently; a Ping only waits for the server.
type Owner struct {
	db          *DB
	addr        string
	work, pings func(context.Context, []Command) []keyspace.Reply
	free        []func()
}

// Owners connects to every server that owns keys: the server, the master behind the sentinels, or all masters of a
// cluster. The caller has to close each.
func (db *DB) Owners(ctx context.Context) ([]*Owner, error) {
	var all []*Owner
	if db.via != nil {
		servers, err := db.servers(ctx)
		for _, s := range servers {
			all = append(all, &Owner{db: db, addr: s.Addr, work: s.Do, pings: s.Do})
		}
		return all, err
	}
	addrs, clients, err := db.ownerClients(ctx)
	if err != nil {
		return nil, err
	}
	for i, c := range clients {
		work, free1 := c.Dedicate()
		pings, free2 := c.Dedicate()
		all = append(all, &Owner{db, addrs[i], db.through(work), db.through(pings), []func(){free1, free2}})
	}
	return all, nil
}

// Close releases the connections.
func (o *Owner) Close() {
	for _, free := range o.free {
		free()
	}
}

// Addr returns host:port, the path of a socket, or "memory" for the embedded server.
func (o *Owner) Addr() string { return o.addr }

// Scan examines about count names, and returns those that match pattern and the cursor of the next page; 0 is the
// beginning and the end. The embedded server uses its own page size, because it sorts all keys for each page.
func (o *Owner) Scan(ctx context.Context, cursor uint64, pattern string, count int) (physical []string, next uint64, err error) {
	if o.db.server != nil {
		count = engine.Page
	}
	return scan(ctx, o.work, cursor, pattern, count)
}

// Do sends commands unchanged, in one round trip, and returns a reply for each.
func (o *Owner) Do(ctx context.Context, cmds ...[]string) []keyspace.Reply {
	wire := make([]Command, len(cmds))
	for i, c := range cmds {
		wire[i].Args = c
	}
	return o.work(ctx, wire)
}

// Ping returns the response time of the server.
func (o *Owner) Ping(ctx context.Context) (time.Duration, error) {
	began := clock()
	if err := o.pings(ctx, []Command{{Args: []string{"PING"}}})[0].Err; err != nil {
		return 0, err
	}
	return clock() - began, nil
}
