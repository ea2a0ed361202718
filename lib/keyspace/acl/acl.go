// Package acl writes the lines of Redis' ACL file for users that may only do what the declared families of a program
// and their role require.
//
//	fmt.Println(acl.User{Name: "shop", Prefix: "eu", Secret: "#" + sha256OfThePassword}.Line(shop.Keys))
//
// Package keyspace/tools/cli offers it to programs as the command acl. A program with Redis functions, see
// [keyspace.DefFunction], needs "fcall" in Commands; the user that loads the functions needs "function|load".
package acl

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/internal/commands"
)

// User describes a Redis user that may only do what the families of a program and its role require. The zero User is
// the program itself, with the prefix and the name "stoa".
type User struct {
	Name   string // empty means "stoa"
	Prefix string // of the deployment; empty means "stoa"
	// Secret is in the format of an ACL file, such as "#" and the password's SHA-256. Empty means a placeholder that no
	// server accepts.
	Secret string

	// ReadOnly is for people and tools that only read. They may read every key and the server's statistics, and change
	// nothing.
	ReadOnly bool
	// Wide allows every key and channel under the prefix, not only the declared ones. It lets a deployment start a
	// program with other families before it updates the user.
	Wide bool
	// NoPrefix is for keys without a prefix, for example in a Redis that existed before this package was used; see
	// [keyspace.Schema.Brownfield]. With Wide, it allows all keys.
	NoPrefix bool
	// Commands are additional allowed commands, for example "config|get".
	Commands []string
}

var (
	// readsAnyKey are commands on any key, and on the server itself. A client sends ASKING, on its own, before a
	// command on a slot that is moving to another server of a cluster.
	readsAnyKey = []string{"exists", "type", "ttl", "pttl", "expiretime", "pexpiretime", "object|encoding", "object|freq", "memory|usage",
		"scan", "dbsize", "dump",
		"ping", "hello", "auth", "reset", "quit", "select", "readonly", "asking", "client|setname", "client|getname", "client|id",
		"info", "role", "time", "cluster|slots", "cluster|shards", "cluster|info", "cluster|nodes"}
	// writesAnyKey are commands on any key, for roles that write.
	writesAnyKey = []string{"unlink", "del", "expire", "pexpire", "expireat", "pexpireat", "persist", "touch", "copy", "wait",
		"eval", "evalsha", "multi", "exec", "discard", "watch", "unwatch", "client|tracking", "client|caching"}
)

// Line returns the user's line of an ACL file, for Redis 7.0 and later. The same families give the same line, in any
// order of schemas.
func (u User) Line(schemas ...*keyspace.Schema) string {
	prefix, name := cmp.Or(u.Prefix, "stoa")+":", cmp.Or(u.Name, "stoa")
	if u.NoPrefix {
		prefix = ""
	}
	secret := cmp.Or(u.Secret, "#"+name+"-sha256")
	var keys, channels, allowed []string
	allow := func(cmds ...string) {
		for _, c := range cmds {
			if c = "+" + c; !slices.Contains(allowed, c) {
				allowed = append(allowed, c)
			}
		}
	}
	allow(readsAnyKey...)
	if !u.ReadOnly {
		allow(writesAnyKey...)
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
		allow(commands.Reads[f.Type]...)
		if !u.ReadOnly {
			allow(commands.Writes[f.Type]...)
		}
		for form, s := range commands.Special {
			if f.Type == s.Type && strings.HasPrefix(f.Form, form) {
				if allow(s.Reads...); !u.ReadOnly {
					allow(s.Writes...)
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
	allow(u.Commands...)
	line := []string{"user", name, "on", secret, "resetchannels", "-@all"}
	for _, part := range [][]string{keys, channels, allowed} {
		slices.Sort(part)
		line = append(line, slices.Compact(part)...)
	}
	return strings.Join(line, " ")
}

// globOf converts the family's pattern to a Redis glob. Braces match themselves, and an argument matches any text,
// because Redis has no levels. A space becomes '?', because it would end the rule.
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
		b.WriteString(globEscaper.Replace(text) + star)
		rest = behind
	}
	b.WriteString(globEscaper.Replace(rest))
	return b.String()
}

var globEscaper = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`, ` `, `?`)
