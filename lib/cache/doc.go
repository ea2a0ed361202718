/*
Package cache keeps values in process, in Redis and at their source, so that no
reader can put an old value back after a change.

One call opens a cache, which stops with [Runtime.Close], and one more says what is cached:

	rt, err := cache.Open(ctx, cache.Options{Redis: redis.Config{URL: "redis://localhost:6379"}})
	users := cache.Keyed(rt, "user", strconv.Itoa, loadUser, cache.TTL(time.Hour))

	u, err := users.Get(ctx, 7)
	u, err = users.Mutate(ctx, 7, func(ctx context.Context) error { return rename(ctx, 7, "Ada") })

Without a URL it is a cache in the memory of this process. The full form declares what is
cached as a family, whose keys are checked, listed and audited by package keyspace, and shares a
bus with whatever else the program tells its nodes; what comes of it is the same type:

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

# What is promised

Once [Cache.Mutate] or [Runtime.Change] has returned, no read that begins later than
[Policy].MaxStale, half a second by default, returns an older value:
on any node, through lost messages, cut connections, a silent network, FLUSHALL, a
failover, and the death of the process that changed it. On the node that made the
change no read does at all. [Cache.Invalidate] and [Runtime.Drop], for changes that
are made elsewhere, promise the same from their own return on. When nothing goes
wrong the other nodes see a change within a few milliseconds.

It is not a promise about two changes at once, which the source has to order, nor
about a source that itself answers from the past, such as a replica that lags. What
no cache on Redis can promise, such as anything about two masters at once, is listed
in docs/cache-hazards.md, beside what this one and others were seen to do.

# How

A key in Redis, a slot, holds a value, a lease, or a fence.

A reader that finds a slot empty takes a lease on it, asks the source, and replaces
the lease by the value, if the lease is still there. A change in between removes the
lease, so that the old value is used once, by callers that asked before the change,
and stored nowhere. (Memcache at Facebook has leases like that: Nishtala
et al., "Scaling Memcache at Facebook", NSDI 2013, section 3.2.1. Here the lease is
in the place of the value, and removing either is one thing.) Other
readers wait for the lease's holder, on this node in a single flight, on other nodes
by polling: there is no stampede, a cold key is loaded once. A holder may have died:
others wait a few times what a load takes ([Policy].LeaseWait), then load the value
without storing it, and from then on take over what that process has leased before. A
process whose own lease Redis did not answer gives it back.

A change is fenced: before its commit a fence replaces what the slot holds, and all
nodes are told to drop their copies; after the commit the fence is removed. While it
stands no node stores a value, and readers ask the source. When the process dies at
any point in between, nothing old is left to be read, and the fence expires. Should the
source carry the commit out only after that, the old value is read until it expires; a
process that lives drops it half a minute after the change has ended with an error. An
error after which the source may still commit says so: [ErrUndecided].

Copies in process are found by the hash of the typed argument, hold the decoded
value, and have a generation: the count of invalidations of their key, or of another
key that shares its counter, from before the value was read. A change raises the
counter, which invalidates the copies, those that are about to be made included. Nodes tell each other through package bus, and each knows how far behind it
may be, [bus.Bus.Seen]: when that exceeds MaxStale it uses neither its copies nor
its knowledge of Redis' era until it has caught up. See [CutOff].

A replica that is promoted may lack the newest changes, and a server that restarts
may come back with old data. Each value carries the era of the servers in which it
was loaded, [bus.Bus.Era], and is not used in another. Nor is one that was stored
under another Doc.Version of its family.

No two machines' clocks are compared: ends of lives are moments of the servers'
clock, and how far that is from a node's own is asked with every beat of the bus.

# Lives

The family declares them. Base with its jitter is the soft life: after it a value
is stale and loaded again. While the source fails, or takes longer than
[Policy].Wait, the stale value is still served, for StaleIfError more, and
[Entry].Stale says so. What does not exist is a negative entry for Negative, which
cannot be confused with any value. A value is refreshed a little before its soft
life ends, at random, the earlier the longer its load takes (XFetch, see
[Policy].Beta). Where the family declares StaleIfError, one read in a hundred of Redis
extends the soft life, up to the end of the hard one ([Policy].Renew); without it there
is no later end to extend it to, and XFetch alone keeps what is read from expiring.
[Source].Life lets a value choose its own, which is not extended.

# Codecs

Values stand in Redis as JSON, or as a [Codec] says: [WithCodec], or Source.Codec for a
declared family. Its name is stored with each value, so that none is decoded by another codec
than has encoded it. [Compress] has those above a size compressed, by S2:

	users := cache.Keyed(rt, "user", strconv.Itoa, loadUser, cache.WithCodec(MessagePack[User]{}), cache.Compress(4096))

# Tags and events

[Tag]s drop many keys at once: [Source].Tags says what a key belongs to, and
dropping the tag is one command, however many values there are. An [Event] is a
kind of change, declared once with what it drops; [Runtime.Check] holds that
against what the families say drops them:

	var RoomDeleted = cache.NewEvent[RoomID]("room deleted")

	cache.Drops(rt, RoomDeleted, rooms, states, playlists)
	err := rt.Change(ctx, deleteRoom, RoomDeleted.Of(rt, id)...)

# Collections and tools

Hashes, sets and sorted sets, such as the friends of a user, are cached by package
cache/collection, on the same runtime. Package cache/inspect tells operators what
stands in Redis under a key.

# By hand

[Cache.GetFresh] takes no value for an answer that was loaded longer ago than the caller
accepts, and [LifeOf] lets values say how long they live.
[Cache.Peek] looks at the memory of this process alone. [Cache.Refresh] loads a value now,
whatever is cached, and leaves that to readers until it is done. Clear forgets the copies of
this process; ClearEverywhere has nothing that is cached at any key used again, in Redis and
on all nodes, with the same promise as a drop.

# Room

A cache keeps 10,000 values in process, or Policy.Entries, or what [MaxWeight] lets it keep by
their weight; which ones, otter decides by how often and how lately they were read. [OnRemoval]
is told what leaves, and why.

# When things fail

Redis refuses or does not answer: reads ask the source, at most [Config].Loads at a
time, after [Config].Budget at first and at once when a circuit breaker has opened.
A breaker opens after three failures in a row. Commands that waited at the same time count as one,
and a failure that this process noticed late counts a quarter: a paused or overloaded process
does not take its own delay for a silent Redis.
Changes wait for [Config].ChangeBudget, which is longer, and have a circuit breaker of
their own. Then they return [ErrUnfenced] and change nothing, or go ahead and retry the drop:
[Unfenced] chooses for each cache.

The source fails: see Lives. Redis and the source fail: reads return the copies of
this process, if the family allows stale values.

# Costs

Measured by bench/cache, in one run, two cores that had other work: look at the
ratios. A read in process takes 1.2 to 1.8 times what otter takes with its statistics, of
the same values, and allocates nothing; go-redis/cache takes ten times that. Most of
what is added is one look at the clock. A value that is in Redis only costs exactly
one GET, and 1.1 to 1.2 times a raw GET with decoding where both take turns in one
program; against a program of its own that does nothing but GETs, others saw 1.8 times
with one caller. With Redis away a cold key
costs what its load does.
*/
package cache
