// Package redis sends the commands of typed keys to any Redis, and behaves the
// same whichever it is.
//
//	db, err := redis.Open(ctx, redis.Config{URL: "redis-cluster://a,b,c"})
//	defer db.Close()
//	name, ok, err := UserName.At(id).Get(ctx, db) // a family of package keyspace
//
// # Which Redis
//
// [Config.URL] chooses. "embedded" is a server inside this process, for
// development, tests and small installations: nothing to install, empty at every
// start. "spawn" runs the redis-server found in PATH as a child that dies with its parent.
// The program imports packages redis/embedded and redis/spawn for these. The others are servers that
// the operator runs: one, one behind sentinels, or a cluster. The conformance
// suite runs over all of them.
//
// A program that has a client already gives that to the library, in place of a second pool:
// packages redis/onrueidis and redis/ongoredis make a [DB] of it, with [Wrap]. Keys that were
// there before the library keep their names with [Config.NoPrefix].
//
// The differences between servers are hidden: replies come in the flat shapes of
// RESP2 everywhere; a command whose keys do not share a hash tag is refused
// everywhere, with [ErrCrossSlot]; channels are sharded on a cluster and ordinary
// elsewhere. Some cannot be hidden: the embedded server lacks a few commands, and runs
// scripts about thirty times slower.
//
// # While Redis is away
//
// [Open] does not fail because a server is down, and no command waits for one.
// Commands fail with [ErrUnavailable] at once while a server is known to be away,
// and within their context otherwise; a watcher in the background finds out when
// it is back. Callers treat Redis as something that may be missing:
//
//	if errors.Is(err, redis.ErrUnavailable) {
//		// answer from SQL; the data is brought up to date later
//	}
//
// A server that answers with an error gives a [ServerError] instead, unless the
// error says that it cannot serve now (LOADING, READONLY, CLUSTERDOWN, OOM …).
// A context that was cancelled gives its own error; one whose deadline passed is
// both context.DeadlineExceeded and ErrUnavailable, and has the server looked
// after. On a cluster all this holds for each owner by itself.
//
// Nothing is retried, save what a cluster answered by naming another node: that
// command was not carried out. A command whose connection broke may have been, so
// write idempotent commands, or guard them in a script, and let the caller, who
// knows its budget, decide.
//
// [DB.Fingerprint] changes when a server was restarted or replaced, and with it
// perhaps lost keys: compare it to know when to load them again.
//
// # Pipelines and scripts
//
// [DB.DoMulti] sends many commands in one round trip to each owner. Scripts are
// [Script] values; [Script.Cmd] makes one of those commands from a run of it:
//
//	replies := db.DoMulti(ctx, []keyspace.Cmd{
//		days.SetBitBareCmd(41),
//		days.GetCmd(),
//		raise.Cmd([]keyspace.Key{best.Key}, "12"),
//	})
//
// A pipeline of 96 commands on a real server costs five allocations beside the
// texts it returns. Batches profit from being sent immediately (a flush delay of
// 20 µs speeds up lone commands of many callers and slows batches by a third),
// so there is no delay.
//
// # Messages
//
// [DB.Publish] and [DB.Subscribe] are at most once: what is published while a
// subscriber is cut off is lost to it. [Handler.Subscribed] says when that may
// have been.
package redis
