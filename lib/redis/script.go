package redis

import (
	"context"
	"crypto/sha1"
	"fmt"
	"strings"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// A Script is a Lua script, sent by its hash. Create it once, as a package variable, from an embedded file with a
// header that describes KEYS, ARGV and the reply.
type Script struct {
	name string // scriptMark, the hash, a space, the source
}

const (
	scriptMark = keyspace.ScriptMark
	shaLen     = 2 * sha1.Size
)

// NewScript prepares a script; it sends nothing.
func NewScript(src string) *Script { return &Script{keyspace.ScriptName(src)} }

// Source returns the script's text.
func (s *Script) Source() string { return s.name[len(scriptMark)+shaLen+1:] }

// Cmd returns one run of the script, for [DB.Do] or, among other commands, for [DB.DoMulti]. The keys must share a hash
// tag; without keys a cluster runs it on any owner. A server that does not have the script yet gets its source in a
// second round trip: that run then takes place after the other commands of the batch.
func (s *Script) Cmd(keys []keyspace.Key, args ...string) keyspace.Cmd {
	cmd := keyspace.Cmd{Name: s.name, Args: args}
	if len(keys) > 0 {
		cmd.Key, cmd.More = keys[0], keys[1:]
	}
	return cmd
}

// Run runs the script and returns its reply.
func (s *Script) Run(ctx context.Context, db *DB, keys []keyspace.Key, args ...string) keyspace.Reply {
	return db.Do(ctx, s.Cmd(keys, args...))
}

// Call is one run of a script, for [DB.RunMulti].
type Call struct {
	Script *Script
	Keys   []keyspace.Key
	Args   []string
}

// Cmd returns the call as a command, for [DB.DoMulti].
func (c Call) Cmd() keyspace.Cmd { return c.Script.Cmd(c.Keys, c.Args...) }

// RunMulti runs scripts in one round trip to each owner and returns one reply
// for each call; see [DB.DoMulti].
func (db *DB) RunMulti(ctx context.Context, calls []Call) []keyspace.Reply {
	cmds := make([]keyspace.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = c.Cmd()
	}
	return db.DoMulti(ctx, cmds)
}

func scripted(cmd *keyspace.Cmd) bool { return strings.HasPrefix(cmd.Name, scriptMark) }

// verb returns the first words of a command on the wire. A script is sent by its hash or, if full, by its source. After
// the name of a script or a function, the number of keys follows. of is "" for other commands.
func verb(cmd *keyspace.Cmd, full bool) (verb, of string) {
	switch {
	case scripted(cmd) && full:
		return "EVAL", cmd.Name[len(scriptMark)+shaLen+1:]
	case scripted(cmd):
		return "EVALSHA", cmd.Name[len(scriptMark) : len(scriptMark)+shaLen]
	}
	if name, function := strings.CutPrefix(cmd.Name, keyspace.FunctionMark); function {
		return "FCALL", name
	}
	return cmd.Name, ""
}

// LoadFunctions loads a library of functions, a text that begins with "#!lua name=…", into every server that owns keys,
// and replaces the library of that name; their replicas get it from them. A server that joins a cluster later has no
// library until this is called again. See [keyspace.DefFunction]. It needs Redis 7; the embedded server has no
// functions.
func (db *DB) LoadFunctions(ctx context.Context, library string) error {
	return db.eachOwner(ctx, func(s Server) error {
		_, _, err := s.Do(ctx, []Command{{Args: []string{"FUNCTION", "LOAD", "REPLACE", library}}})[0].Text()
		if err != nil {
			return fmt.Errorf("%s: %w", s.Addr, err)
		}
		return nil
	})
}
