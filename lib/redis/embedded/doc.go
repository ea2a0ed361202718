// Package embedded is a Redis within the program: nothing to install, empty at every start.
// It is for development, tests and small installations. A program imports it for its effect,
// as it imports a driver of database/sql, and opens it by its name:
//
//	import (
//		"github.com/stoa-dev/stoa/lib/redis"
//		_ "github.com/stoa-dev/stoa/lib/redis/embedded"
//	)
//
//	db, err := redis.Open(ctx, redis.Config{URL: "embedded"}) // the same as an empty URL
//
// Each Open starts a server of its own, which ends with the DB, and its data with it. Without the import these URLs are an error, and a program that uses servers of its
// operator does without the server and its Lua machine, which would add 2.2 MB to it.
//
// The server is miniredis. It runs scripts about thirty times slower than a redis-server,
// lacks BITFIELD, ZRANGESTORE, functions and the Lua library bit, and removes expired keys
// 50 ms late, or a second late where there are 100,000 of them: its clock looks at every key
// in turn.
package embedded
