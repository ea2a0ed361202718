// Package embedded is a Redis inside the program: it needs no installation and is empty at every start. It is for
// development, tests and small installations. A program imports it for its side effect, like a driver of database/sql,
// and opens it by its name:
//
//	import (
//		"github.com/stoa-dev/stoa/lib/redis"
//		_ "github.com/stoa-dev/stoa/lib/redis/embedded"
//	)
//
//	db, err := redis.Open(ctx, redis.Config{URL: "embedded"}) // the same as an empty URL
//
// Each Open starts a server of its own, which ends with the DB, and its data with it. Without the import these URLs are
// an error. A program that uses external servers does not contain the server and its Lua machine, which would add 2.2
// MB.
//
// The server is miniredis. It runs scripts about thirty times slower than a redis-server, and lacks BITFIELD,
// ZRANGESTORE, functions and the Lua library bit. It removes expired keys 50 ms late, or a second late with 100,000 of
// them, because its clock checks every key in turn.
package embedded
