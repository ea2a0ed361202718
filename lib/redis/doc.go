// Package redis sends the commands of typed keys to any Redis, and behaves the same for every kind of Redis.
//
//	db, err := redis.Open(ctx, redis.Config{URL: "redis-cluster://a,b,c"})
//	defer db.Close()
//	name, ok, err := UserName.At(id).Get(ctx, db) // a family of package keyspace
//
// # Which Redis
//
// [Config.URL] selects the Redis. "embedded" is a server inside this process, for development, tests and small
// installations: it needs no installation and is empty at every start. "spawn" runs the redis-server found in PATH as a
// child that dies with its parent. For these two, the program imports package redis/embedded or redis/spawn. The other
// URLs name servers that the operator runs: a single server, a master behind sentinels, or a cluster. The conformance
// suite runs over all of them.
//
// A program that already has a client can use it instead of a second pool: packages redis/onrueidis and redis/ongoredis
// make a [DB] of it, with [Wrap]. With [Config.NoPrefix], keys that are older than the library keep their names.
//
// The differences between servers are hidden. Replies have the flat shapes of RESP2 everywhere. A command whose keys do
// not share a hash tag is refused everywhere, with [ErrCrossSlot]. Channels are sharded on a cluster and ordinary
// elsewhere. Two differences remain: the embedded server lacks a few commands, and runs scripts about thirty times
// slower.
//
// # While Redis is unavailable
//
// [Open] does not fail because a server is down, and no command waits for one. While a server is known to be
// unavailable, commands fail with [ErrUnavailable] at once; otherwise they fail when their context ends. A watcher in
// the background detects when the server is back. Callers have to expect that Redis may be missing:
//
//	if errors.Is(err, redis.ErrUnavailable) {
//		// answer from SQL; the data in Redis is updated later
//	}
//
// A server that replies with an error causes a [ServerError] instead, unless the error means that it cannot serve now
// (LOADING, READONLY, CLUSTERDOWN, OOM …). A context that was cancelled causes its own error. One whose deadline passed
// causes an error that is both context.DeadlineExceeded and ErrUnavailable, and makes the watcher check the server. On
// a cluster all this applies to each owner separately.
//
// Commands are not retried. The exception is a redirection of a cluster to another node, because that command was not
// executed. A command whose connection broke may have been executed. Write idempotent commands, or guard them in a
// script, and let the caller decide about retries, because only the caller knows its time budget.
//
// [DB.Fingerprint] changes when a server was restarted or replaced and may have lost keys. Compare it to know when to
// load them again.
//
// # Pipelines and scripts
//
// [DB.DoMulti] sends many commands in one round trip to each owner. Scripts are [Script] values; [Script.Cmd] returns a
// run of a script as one of those commands:
//
//	replies := db.DoMulti(ctx, []keyspace.Cmd{
//		days.SetBitBareCmd(41),
//		days.GetCmd(),
//		raise.Cmd([]keyspace.Key{best.Key}, "12"),
//	})
//
// A pipeline of 96 commands on a real server costs five allocations in addition to the strings that it returns. There
// is no flush delay: 20 µs would speed up single commands of many callers, but slow batches by a third.
//
// # Messages
//
// [DB.Publish] and [DB.Subscribe] deliver at most once: messages that are published while a subscriber is disconnected
// are lost to it. [Handler.Subscribed] is called whenever that may have happened.
package redis
