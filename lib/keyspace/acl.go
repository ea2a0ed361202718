package keyspace

import (
	"cmp"
	"slices"
	"strings"
)

// ACL describes a Redis user that may do with the families of a program what a
// role needs, and nothing else. The zero ACL is the program itself, with the
// prefix and the name "stoa".
type ACL struct {
	User   string // empty means "stoa"
	Prefix string // of the deployment; empty means "stoa"
	Secret string // as an ACL file has it, such as "#" and the password's SHA-256; empty means a placeholder that no server accepts

	// ReadOnly is for people and tools that look: they read every key and the
	// server's figures, and change nothing.
	ReadOnly bool
	// Wide allows every key and channel under the prefix instead of those that
	// are declared. A program may then be replaced by one with other families
	// before its user is.
	Wide bool
	// NoPrefix is for keys that stand without a prefix, as those of a Redis that ran
	// before this package did; see [Schema.Brownfield]. With Wide they are all keys.
	NoPrefix bool
	// Commands are allowed besides, for example "config|get".
	Commands []string
}

// The commands that a role needs for each type. None of them blocks a connection, looks
// at keys that are not named, or is dangerous in Redis' own words. Redis 7.0 has all of
// them: a server refuses a file with a command that it does not know.
var (
	reads = map[string][]string{
		"string": {"get", "mget", "getrange", "strlen", "getbit", "bitcount", "bitpos", "bitfield_ro"},
		"hash":   {"hget", "hmget", "hgetall", "hkeys", "hvals", "hlen", "hexists", "hstrlen", "hscan", "hrandfield"},
		"set":    {"smembers", "sismember", "smismember", "scard", "sscan", "srandmember", "sinter", "sunion", "sdiff"},
		"zset": {"zscore", "zmscore", "zcard", "zcount", "zlexcount", "zrange", "zrangebyscore", "zrangebylex", "zrevrange", "zrevrangebyscore",
			"zrank", "zrevrank", "zscan", "zrandmember", "zinter", "zunion", "zdiff"},
		"list":    {"lrange", "lindex", "llen", "lpos"},
		"stream":  {"xrange", "xrevrange", "xlen", "xread", "xpending", "xinfo|stream", "xinfo|groups", "xinfo|consumers"},
		"channel": {"subscribe", "unsubscribe", "ssubscribe", "sunsubscribe"},
	}
	writes = map[string][]string{
		"string":  {"set", "getex", "getdel", "getset", "append", "setrange", "mset", "incr", "incrby", "incrbyfloat", "decr", "decrby", "setbit", "bitfield", "bitop", "pfadd", "pfcount"},
		"hash":    {"hset", "hsetnx", "hdel", "hincrby", "hincrbyfloat"},
		"set":     {"sadd", "srem", "spop", "smove", "sinterstore", "sunionstore", "sdiffstore"},
		"zset":    {"zadd", "zrem", "zincrby", "zpopmin", "zpopmax", "zremrangebyrank", "zremrangebyscore", "zremrangebylex", "zrangestore", "zunionstore", "zinterstore", "zdiffstore"},
		"list":    {"lpush", "rpush", "lpop", "rpop", "lset", "lrem", "ltrim", "linsert", "lmove"},
		"stream":  {"xadd", "xdel", "xtrim", "xack", "xgroup", "xreadgroup", "xclaim", "xautoclaim", "xsetid"},
		"channel": {"publish", "spublish"},
	}
	// special are of single kinds, by how their forms begin.
	special = map[string]struct {
		typ           string
		reads, writes []string
	}{
		geoForm: {"zset", []string{"geopos", "geodist", "geohash", "geosearch"}, []string{"geoadd", "geosearchstore"}},
		logForm: {"string", nil, []string{"pfmerge"}},
	}
	// looks are for any key, and for the server itself.
	looks = []string{"exists", "type", "ttl", "pttl", "expiretime", "pexpiretime", "object|encoding", "object|freq", "memory|usage", "scan", "dbsize", "dump",
		"ping", "hello", "auth", "reset", "quit", "select", "readonly", "client|setname", "client|getname", "client|id",
		"info", "role", "time", "cluster|slots", "cluster|shards", "cluster|info", "cluster|nodes"}
	// keeps are commands on any key, for roles that write.
	keeps = []string{"unlink", "del", "expire", "pexpire", "expireat", "pexpireat", "persist", "touch", "copy", "wait",
		"eval", "evalsha", "multi", "exec", "discard", "watch", "unwatch", "client|tracking", "client|caching"}
)

// Line returns the user's line of an ACL file, for Redis 7.0 and later. It is the
// same for the same families, in any order of schemas.
func (a ACL) Line(schemas ...*Schema) string {
	prefix, user := cmp.Or(a.Prefix, "stoa")+":", cmp.Or(a.User, "stoa")
	if a.NoPrefix {
		prefix = ""
	}
	secret := cmp.Or(a.Secret, "#"+user+"-sha256")
	var keys, channels, commands []string
	may := func(cmds ...string) {
		for _, c := range cmds {
			if c = "+" + c; !slices.Contains(commands, c) {
				commands = append(commands, c)
			}
		}
	}
	may(looks...)
	if !a.ReadOnly {
		may(keeps...)
	}
	families := NewCatalogue(schemas...).Families
	slices.SortFunc(families, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Pattern, b.Pattern)) })
	for _, e := range families {
		glob := prefix + e.glob()
		if a.Wide {
			glob = prefix + "*"
		}
		may(reads[e.Type]...)
		if !a.ReadOnly {
			may(writes[e.Type]...)
		}
		for form, s := range special {
			if e.Type == s.typ && strings.HasPrefix(e.Form, form) {
				if may(s.reads...); !a.ReadOnly {
					may(s.writes...)
				}
			}
		}
		if e.Type == channelType {
			channels = append(channels, "&"+glob)
		} else if a.ReadOnly {
			keys = append(keys, "%R~"+glob)
		} else {
			keys = append(keys, "~"+glob)
		}
	}
	may(a.Commands...)
	line := []string{"user", user, "on", secret, "resetchannels", "-@all"}
	for _, part := range [][]string{keys, channels, commands} {
		slices.Sort(part)
		line = append(line, slices.Compact(part)...)
	}
	return strings.Join(line, " ")
}

// glob is the pattern as Redis matches names: braces are themselves, and an
// argument is anything, for Redis knows no levels. A space would end the rule.
func (e Entry) glob() string {
	var b strings.Builder
	at := 0
	for _, slot := range argumentsIn.FindAllStringIndex(e.Pattern, -1) {
		b.WriteString(globbed.Replace(e.Pattern[at:slot[0]]))
		if at = slot[1]; strings.HasPrefix(e.Pattern[slot[0]:], "{{") {
			b.WriteString("{*}")
		} else {
			b.WriteString("*")
		}
	}
	b.WriteString(globbed.Replace(e.Pattern[at:]))
	return b.String()
}

var globbed = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`, ` `, `?`)
