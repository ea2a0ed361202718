// Package acl writes the lines of Redis' ACL file for users who may do with the declared
// families of a program what their role needs, and nothing else.
//
//	fmt.Println(acl.User{Name: "shop", Prefix: "eu", Secret: "#" + sha256OfThePassword}.Line(shop.Keys))
//
// Programs have it as a command by package keyspace/cli: acl. A program with functions of Redis, see
// [keyspace.DefFunction], needs "fcall" among its Commands, and whoever loads them "function|load".
package acl

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/internal/commands"
)

// User describes a Redis user that may do with the families of a program what a
// role needs, and nothing else. The zero User is the program itself, with the
// prefix and the name "stoa".
type User struct {
	Name   string // empty means "stoa"
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
	// before this package did; see [keyspace.Schema.Brownfield]. With Wide they are all keys.
	NoPrefix bool
	// Commands are allowed besides, for example "config|get".
	Commands []string
}

var (
	// looks are for any key, and for the server itself. A client sends ASKING, by itself, before a command
	// on a slot that is moving to another server of a cluster.
	looks = []string{"exists", "type", "ttl", "pttl", "expiretime", "pexpiretime", "object|encoding", "object|freq", "memory|usage", "scan", "dbsize", "dump",
		"ping", "hello", "auth", "reset", "quit", "select", "readonly", "asking", "client|setname", "client|getname", "client|id",
		"info", "role", "time", "cluster|slots", "cluster|shards", "cluster|info", "cluster|nodes"}
	// keeps are commands on any key, for roles that write.
	keeps = []string{"unlink", "del", "expire", "pexpire", "expireat", "pexpireat", "persist", "touch", "copy", "wait",
		"eval", "evalsha", "multi", "exec", "discard", "watch", "unwatch", "client|tracking", "client|caching"}
)

// Line returns the user's line of an ACL file, for Redis 7.0 and later. It is the
// same for the same families, in any order of schemas.
func (u User) Line(schemas ...*keyspace.Schema) string {
	prefix, name := cmp.Or(u.Prefix, "stoa")+":", cmp.Or(u.Name, "stoa")
	if u.NoPrefix {
		prefix = ""
	}
	secret := cmp.Or(u.Secret, "#"+name+"-sha256")
	var keys, channels, allowed []string
	may := func(cmds ...string) {
		for _, c := range cmds {
			if c = "+" + c; !slices.Contains(allowed, c) {
				allowed = append(allowed, c)
			}
		}
	}
	may(looks...)
	if !u.ReadOnly {
		may(keeps...)
	}
	var families []*keyspace.Family
	for _, s := range schemas {
		families = append(families, s.Families()...)
	}
	for _, f := range families {
		glob := prefix + globOf(f)
		if u.Wide {
			glob = prefix + "*"
		}
		may(commands.Reads[f.Type]...)
		if !u.ReadOnly {
			may(commands.Writes[f.Type]...)
		}
		for form, s := range commands.Special {
			if f.Type == s.Type && strings.HasPrefix(f.Form, form) {
				if may(s.Reads...); !u.ReadOnly {
					may(s.Writes...)
				}
			}
		}
		if f.IsChannel() {
			channels = append(channels, "&"+glob)
		} else if u.ReadOnly {
			keys = append(keys, "%R~"+glob)
		} else {
			keys = append(keys, "~"+glob)
		}
	}
	may(u.Commands...)
	line := []string{"user", name, "on", secret, "resetchannels", "-@all"}
	for _, part := range [][]string{keys, channels, allowed} {
		slices.Sort(part)
		line = append(line, slices.Compact(part)...)
	}
	return strings.Join(line, " ")
}

// globOf is the family's pattern as Redis matches names: braces are themselves, and an
// argument is anything, for Redis knows no levels. A space would end the rule.
func globOf(f *keyspace.Family) string {
	var b strings.Builder
	rest := f.Pattern
	for i := range f.Args {
		name, hashTag := f.Placeholder(i)
		placeholder, star := "{"+name+"}", "*"
		if hashTag {
			placeholder, star = "{"+placeholder+"}", "{*}"
		}
		text, behind, _ := strings.Cut(rest, placeholder)
		b.WriteString(globbed.Replace(text) + star)
		rest = behind
	}
	b.WriteString(globbed.Replace(rest))
	return b.String()
}

var globbed = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`, ` `, `?`)
