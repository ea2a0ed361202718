/*
Package cache keeps values in process, in Redis and at their source, so that no reader can store an old value after a
change.

One call opens a cache runtime, which stops with [Runtime.Close], and one more declares what is cached:

	rt, err := cache.Open(ctx, cache.Options{Redis: redis.Config{URL: "redis://localhost:6379"}})
	users := cache.Keyed(rt, "user", strconv.Itoa, loadUser, cache.TTL(time.Hour))

	u, err := users.Get(ctx, 7)
	u, err = users.Mutate(ctx, 7, func(ctx context.Context) error { return rename(ctx, 7, "Ada") })

Without a URL the cache is in the memory of this process. The full form declares the cached values as a family, whose
keys package keyspace checks, lists and audits. It shares a bus with the other messages between the nodes of the
program. The result has the same type:

	var Schema = keyspace.New("shop")

	var userInfo = keyspace.Def1[UserID](Schema, "user:info:{uid}", keyspace.CachedOf[User](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(5*time.Minute).StaleIfError(24*time.Hour),
		keyspace.Doc{Purpose: "profiles", InvalidatedBy: []string{"user changed"}})

	events := bus.New(db, keys, bus.Config{Node: node})
	rt := cache.NewRuntime(db, events, cache.Config{})
	users := cache.New(rt, userInfo, cache.Policy{}, cache.Source[UserID, User]{Load: loadUser, LoadMany: loadUsers})
	go events.Run(ctx, ready)
	go rt.Run(ctx, ready)

	u, err = users.Get(ctx, id)       // errors.Is(err, cache.ErrNotFound)
	m, err := users.GetMany(ctx, ids) // one round trip to Redis
	e, err := users.Lookup(ctx, id)   // with tier, age, version
	u, err = users.Mutate(ctx, id, func(ctx context.Context) error { return rename(ctx, id, "Ada") })

# Guarantees

After [Cache.Mutate] or [Runtime.Change] has returned, no read that begins more than [Policy].MaxStale later returns an
older value. MaxStale is half a second by default. This holds on any node, through lost messages, cut connections, a
silent network, FLUSHALL, a failover, and the death of the process that made the change. On the node that made the
change, no read at all returns an older value. [Cache.Invalidate] and [Runtime.Drop] are for changes that are made
elsewhere. They give the same guarantee from their own return on. When nothing fails, the other nodes see a change
within a few milliseconds.

The guarantee does not cover the order of two concurrent changes, which the source has to decide. It does not cover a
source that itself returns old data, such as a lagging replica. docs/cache-hazards.md lists what no cache on Redis can
guarantee, such as anything about two masters at once, and how this cache and others behaved in tests.

# How it works

A key in Redis is called a slot. It holds a value, a lease, or a fence.

A reader that finds an empty slot acquires a lease on it, loads from the source, and replaces the lease with the value
if the lease is still in the slot. A change in between removes the lease. The old value is then returned once, to
callers that asked before the change, and is not stored. (Memcache at Facebook has such leases: Nishtala et al.,
"Scaling Memcache at Facebook", NSDI 2013, section 3.2.1. Here the lease occupies the slot of the value, so that one
command removes either.) Other readers wait for the holder of the lease: on this node in a single flight, on other
nodes by polling. There is no stampede, because a cold key is loaded once. The holder may have died. The other readers
therefore wait for a few times the duration of a load ([Policy].LeaseWait), and then load the value without storing it.
From then on they may take over the earlier leases of that process. A process that got no reply from Redis to its own
lease releases it.

A change is fenced. Before its commit, a fence replaces the content of the slot and all nodes drop their copies; after
the commit, the fence is removed. While the slot is fenced, no node stores a value, and readers ask the source. If the
process dies at any point in between, no old value is left to be read, and the fence expires. If the source commits the
change only after that, the old value is read until it expires. A process that is still alive drops it half a minute
after the change has ended with an error. A change returns [ErrUndecided] if the source may still commit after the error.

Copies in process are found by the hash of the typed argument and hold the decoded value. A copy also has a generation:
the number of invalidations of its key before the value was read. Several keys share one counter. A change increments
the counter, which invalidates the existing copies and those of reads under way. Nodes notify each other through package
bus. Each node knows how far it may be behind, [bus.Bus.Seen]. When that exceeds MaxStale, the node uses neither its
copies nor its knowledge of the era of Redis until it has caught up. See [CutOff].

A promoted replica may lack the newest changes, and a restarted server may return old data. Each value carries the era
of the servers in which it was loaded, [bus.Bus.Era], and is not used in another era. A value that was stored under
another Doc.Version of its family is not used either.

The clocks of two machines are never compared. Expiry times are moments of the servers' clock. Each beat of the bus
measures the difference between that clock and the node's own.

# Lifetimes

The family declares the lifetimes of its values. Base with its jitter is the soft life: after it, a value is stale and
is loaded again. While the source fails, or takes longer than [Policy].Wait, the stale value is still served for
StaleIfError more, with [Entry].Stale set. A missing value is cached as a negative entry for Negative, which cannot be
confused with any value. A value is refreshed at a random moment shortly before its soft life ends; the longer its load
takes, the earlier the refresh (XFetch, see [Policy].Beta). If the family declares StaleIfError, one in a hundred reads
of Redis extends the soft life, up to the end of the hard life ([Policy].Renew). Without StaleIfError there is no later
end, and XFetch alone prevents values in use from expiring. [Source].Life lets a value set its own life, which is not
extended.

# Codecs

Values are stored in Redis as JSON, or in the format of a [Codec]: [WithCodec], or Source.Codec for a declared family.
The codec's name is stored with each value, so that no other codec decodes it. [Compress] compresses the values above a
size with S2:

	users := cache.Keyed(rt, "user", strconv.Itoa, loadUser, cache.WithCodec(MessagePack[User]{}), cache.Compress(4096))

# Tags and events

A [Tag] drops many keys at once: [Source].Tags lists the tags of a key, and dropping a tag is one command, whatever the
number of values. An [Event] is a kind of change, declared once with the caches that it drops. [Runtime.Check] compares
these declarations with those of the families:

	var RoomDeleted = cache.NewEvent[RoomID]("room deleted")

	cache.Drops(rt, RoomDeleted, rooms, states, playlists)
	err := rt.Change(ctx, deleteRoom, RoomDeleted.Of(rt, id)...)

# Collections and tools

Package cache/collection caches hashes, sets and sorted sets, such as the friends of a user, on the same runtime.
Package cache/inspect shows operators what Redis holds under a key.

# Manual control

[Cache.GetFresh] accepts only values that were loaded recently enough for the caller, and [LifeOf] lets values set their
own life. [Cache.Peek] reads the memory of this process alone. [Cache.Refresh] loads a value now even if it is cached;
readers get the cached one until then. Clear drops the copies of this process. ClearEverywhere drops the values of all
keys, in Redis and on all nodes, with the same guarantee as a drop.

# Memory

A cache keeps 10,000 values in process, or Policy.Entries, or values up to a total weight with [MaxWeight]. otter evicts
values by how often and how recently they were read. [OnRemoval] gets each value that leaves, and the reason.

# Failures

Redis refuses or does not reply: reads ask the source, at most [Config].Loads at a time. They do so after
[Config].Budget at first, and at once when a circuit breaker has opened. A breaker opens after three consecutive
failures. Commands that waited at the same time count as one failure. A failure that this process noticed late counts a
quarter, so that a paused or overloaded process does not mistake its own delay for a silent Redis. Changes wait for
[Config].ChangeBudget, which is longer, and have a circuit breaker of their own. Then they return [ErrUnfenced] and
change nothing, or they proceed and retry the drop: [Unfenced] chooses for each cache.

The source fails: see Lifetimes. Redis and the source fail: reads return the copies of this process, if the family
allows stale values.

# Costs

The figures are from bench/cache, in one run, on two cores that had other work; only the ratios matter. A read in
process takes 1.2 to 1.8 times as long as otter with its statistics for the same values, and allocates nothing;
go-redis/cache takes ten times as long. Reading the clock is most of the difference. A value that is only in Redis
costs exactly one GET. It takes 1.1 to 1.2 times as long as a raw GET with decoding, if both alternate in one program;
against a separate program that only sends GETs, others measured 1.8 times with one caller. Without Redis, a cold key
costs as much as its load.
*/
package cache
