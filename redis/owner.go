package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis/internal/engine"
)

// An Owner is one server that owns keys, for tools that look after what is in it:
// they work server by server, with physical names, and over connections of their
// own, so that no other command waits behind theirs. Its methods may be called
// concurrently; a Ping waits for nothing but the server.
type Owner struct {
	db          *DB
	addr        string
	work, pings rueidis.DedicatedClient
	free        [2]func()
}

// Owners connects to every server that owns keys: the server, the master behind
// the sentinels, or all masters of a cluster. The caller closes each.
func (db *DB) Owners(ctx context.Context) ([]*Owner, error) {
	addrs, clients, err := db.ownerClients(ctx)
	if err != nil {
		return nil, err
	}
	var all []*Owner
	for i, c := range clients {
		o := &Owner{db: db, addr: addrs[i]}
		o.work, o.free[0] = c.Dedicate()
		o.pings, o.free[1] = c.Dedicate()
		all = append(all, o)
	}
	return all, nil
}

// Close gives the connections back.
func (o *Owner) Close() {
	for _, free := range o.free {
		free()
	}
}

// Addr returns host:port, a socket's path, or "memory" for the embedded server.
func (o *Owner) Addr() string { return o.addr }

// Scan returns one page of the names that match pattern, in which count names
// are looked at, and where the next page begins; 0 is the beginning and the end.
// The embedded server has pages of its own, for it sorts all keys for each.
func (o *Owner) Scan(ctx context.Context, cursor uint64, pattern string, count int) (physical []string, next uint64, err error) {
	if o.db.server != nil {
		count = engine.Page
	}
	page, err := o.work.Do(ctx, o.work.B().Scan().Cursor(cursor).Match(pattern).Count(int64(count)).Build()).AsScanEntry()
	if err != nil {
		return nil, 0, o.db.failed(err)
	}
	return page.Elements, page.Cursor, nil
}

// Do sends commands as they are, in one round trip, and returns a reply for each.
func (o *Owner) Do(ctx context.Context, cmds ...[]string) []keyspace.Reply {
	built := make([]rueidis.Completed, len(cmds))
	for i, c := range cmds {
		built[i] = o.work.B().Arbitrary(c...).Build()
	}
	replies := make([]keyspace.Reply, len(cmds))
	for i, r := range o.work.DoMulti(ctx, built...) {
		replies[i] = o.db.reply(r)
	}
	return replies
}

// Ping returns how long the server takes to answer.
func (o *Owner) Ping(ctx context.Context) (time.Duration, error) {
	began := clock()
	if err := o.pings.Do(ctx, o.pings.B().Ping().Build()).Error(); err != nil {
		return 0, o.db.failed(err)
	}
	return clock() - began, nil
}
