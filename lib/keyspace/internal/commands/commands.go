// Package commands lists the commands of Redis by the type of key that they are for. Package keyspace refuses commands
// that write another type, and package acl allows the commands that a role needs.
package commands

// Reads and Writes are the commands of each type of key, and of channels. None of them blocks a connection, accesses
// keys that are not named, or is in Redis' @dangerous category. Redis 7.0 has all of them, because a server refuses an
// ACL file with a command that it does not have.
var (
	Reads = map[string][]string{
		"string": {"get", "mget", "getrange", "strlen", "getbit", "bitcount", "bitpos", "bitfield_ro"},
		"hash":   {"hget", "hmget", "hgetall", "hkeys", "hvals", "hlen", "hexists", "hstrlen", "hscan", "hrandfield"},
		"set":    {"smembers", "sismember", "smismember", "scard", "sscan", "srandmember", "sinter", "sunion", "sdiff"},
		"zset": {"zscore", "zmscore", "zcard", "zcount", "zlexcount", "zrange", "zrangebyscore", "zrangebylex", "zrevrange", "zrevrangebyscore",
			"zrank", "zrevrank", "zscan", "zrandmember", "zinter", "zunion", "zdiff"},
		"list":    {"lrange", "lindex", "llen", "lpos"},
		"stream":  {"xrange", "xrevrange", "xlen", "xread", "xpending", "xinfo|stream", "xinfo|groups", "xinfo|consumers"},
		"channel": {"subscribe", "unsubscribe", "ssubscribe", "sunsubscribe"},
	}
	Writes = map[string][]string{
		"string": {"set", "getex", "getdel", "getset", "append", "setrange", "mset", "incr", "incrby", "incrbyfloat", "decr", "decrby", "setbit",
			"bitfield", "bitop", "pfadd", "pfcount"},
		"hash": {"hset", "hsetnx", "hdel", "hincrby", "hincrbyfloat"},
		"set":  {"sadd", "srem", "spop", "smove", "sinterstore", "sunionstore", "sdiffstore"},
		"zset": {"zadd", "zrem", "zincrby", "zpopmin", "zpopmax", "zremrangebyrank", "zremrangebyscore", "zremrangebylex", "zrangestore",
			"zunionstore", "zinterstore", "zdiffstore"},
		"list":    {"lpush", "rpush", "lpop", "rpop", "lset", "lrem", "ltrim", "linsert", "lmove"},
		"stream":  {"xadd", "xdel", "xtrim", "xack", "xgroup", "xreadgroup", "xclaim", "xautoclaim", "xsetid"},
		"channel": {"publish", "spublish"},
	}
)

// The beginnings of forms that distinguish two kinds from other kinds of the same Redis type.
const (
	GeoForm = "places of "
	LogForm = "hyperloglog of "
)

// Special are the commands of single kinds, by the beginning of their forms.
var Special = map[string]struct {
	Type          string
	Reads, Writes []string
}{
	GeoForm: {"zset", []string{"geopos", "geodist", "geohash", "geosearch"}, []string{"geoadd", "geosearchstore"}},
	LogForm: {"string", nil, []string{"pfmerge"}},
}
