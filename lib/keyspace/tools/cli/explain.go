package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/catalogue"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Explain describes a name.
type Explain struct {
	Name string `arg:"" name:"key" help:"A key or channel, with the deployment's prefix or without."`
}

// explanation describes one name.
type explanation struct {
	Name      string            `json:"name"` // without prefix
	Prefix    string            `json:"prefix"`
	Slot      uint16            `json:"slot"` // of the key with its prefix
	Family    catalogue.Entry   `json:"family"`
	Arguments map[string]string `json:"arguments"`
	With      []string          `json:"with"` // families that can be used together with it in one command
	Redis     *redisKey         `json:"redis,omitempty"`
	Note      string            `json:"note,omitempty"` // why Redis was not read, or did not respond

	args []string // names of the arguments, in order
}

// redisKey is the state of a key in Redis.
type redisKey struct {
	Type     string   `json:"type"` // "none" if the key does not exist
	TTL      int64    `json:"ttl_ms"`
	Elements int64    `json:"elements"` // of a string, bytes
	Memory   int64    `json:"memory_bytes"`
	Encoding string   `json:"encoding"`
	Faults   []string `json:"faults"`
}

// Run describes the name. It returns ErrNothing if no family has it.
func (cmd *Explain) Run(ctx context.Context, c *Console, s *Server) error {
	prefix := s.Prefix
	if s.NoPrefix {
		prefix = ""
	}
	e, found, err := explain(cmd.Name, prefix, c.Schemas)
	if err != nil {
		return err
	}
	switch {
	case found.Family.IsChannel():
	case s.isEmbedded():
		e.Note = "not read: Redis runs inside the server"
	default:
		err := e.load(ctx, &Server{URL: s.URL, Prefix: e.Prefix, NoPrefix: e.Prefix == "", Log: s.Log}, found)
		if err != nil {
			e.Note = "not read: " + err.Error()
		}
	}
	return c.Result(e, e.write)
}

// explain finds the family of a name. The name may have the configured prefix, no prefix, or the prefix of another
// deployment.
func explain(name, prefix string, schemas []*keyspace.Schema) (*explanation, keyspace.Parsed, error) {
	p := keyspace.NewParser(schemas...)
	type reading struct{ prefix, logical string }
	readings := []reading{{prefix, name}}
	if logical, ok := keyspace.Logical(prefix, name); ok {
		readings = append([]reading{{prefix, logical}}, readings...)
	} else if other, logical, ok := strings.Cut(name, ":"); ok && other != "" && redis.CheckPrefix(other) == nil {
		readings = append(readings, reading{other, logical})
	}
	for _, r := range readings {
		found, ok := p.Key(r.logical)
		if !ok {
			found, ok = p.Channel(r.logical)
		}
		if ok {
			return newExplanation(r.prefix, r.logical, found, schemas), found, nil
		}
	}
	err := fmt.Errorf("%w: no family has %q", ErrNothing, name)
	if near := nearest(readings[0].logical, schemas); len(near) > 0 {
		err = fmt.Errorf("%w; similar families: %s", err, strings.Join(near, ", "))
	}
	return nil, keyspace.Parsed{}, err
}

func newExplanation(prefix, logical string, found keyspace.Parsed, schemas []*keyspace.Schema) *explanation {
	e := &explanation{
		Name: logical, Prefix: prefix, Slot: keyspace.Slot(physical(prefix, logical)),
		Arguments: map[string]string{}, With: []string{},
	}
	for _, f := range catalogue.New(schemas...).Families {
		if f.Pattern == found.Family.Pattern && f.Type == found.Family.Type {
			e.Family = f
		} else if set := found.Family.Doc.Together; set != "" && f.Together == set && f.Owner == found.Family.Doc.Owner {
			e.With = append(e.With, f.Pattern)
		}
	}
	for i, a := range e.Family.Arguments {
		value := found.Args[i]
		if form := found.Family.Args[i]; form.Alphabet == keyspace.AnyText && form.Words == nil {
			var text keyspace.Text
			if text.ReadSegment(value) == nil { // it is not the hash of a text
				value = text.S
			}
		}
		e.Arguments[a.Name] = value
		e.args = append(e.args, a.Name)
	}
	return e
}

// physical returns the name of a key in Redis.
func physical(prefix, logical string) string {
	if prefix == "" {
		return logical
	}
	return prefix + ":" + logical
}

// nearest returns the families with the most leading levels in common with a name. It returns none if there are no such
// levels.
func nearest(name string, schemas []*keyspace.Schema) (patterns []string) {
	levels, most := strings.Split(name, ":"), 1
	for _, f := range catalogue.New(schemas...).Families {
		n := 0
		for i, level := range strings.Split(f.Pattern, ":") {
			if i == len(levels) || level != levels[i] {
				break
			}
			n++
		}
		if n > most {
			patterns, most = nil, n
		}
		if n == most {
			patterns = append(patterns, f.Pattern)
		}
	}
	return patterns
}

// sizeCommands has the command that returns the number of elements, for each type.
var sizeCommands = map[string]string{"string": "STRLEN", "hash": "HLEN", "set": "SCARD", "zset": "ZCARD", "list": "LLEN", "stream": "XLEN"}

// load reads the state of the key in Redis.
func (e *explanation) load(ctx context.Context, s *Server, found keyspace.Parsed) (err error) {
	db, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	key := found.Key()
	kind := db.Do(ctx, keyspace.Cmd{Name: "TYPE", Key: key})
	if kind.Err != nil {
		return kind.Err
	}
	p := &redisKey{Type: kind.Str, TTL: -2, Faults: []string{}}
	if p.Type != "none" {
		name := db.Physical(key)
		cmds := [][]string{{"PTTL", name}, {"MEMORY", "USAGE", name, "SAMPLES", "0"}, {"OBJECT", "ENCODING", name}, {sizeCommands[p.Type], name}}
		if sizeCommands[p.Type] == "" {
			cmds = cmds[:3]
		}
		replies, err := atOwner(ctx, db, cmds)
		if err != nil {
			return err
		}
		for i, r := range replies {
			if r.Err != nil {
				return r.Err
			}
			switch i {
			case 0:
				p.TTL = r.N
			case 1:
				p.Memory = r.N
			case 2:
				p.Encoding = r.Str
			case 3:
				p.Elements = r.N
			}
		}
		p.judge(found.Family)
	}
	e.Redis = p
	return nil
}

// atOwner sends commands on one key to the server that has it. In a cluster, that is the server that does not reply
// with MOVED. MEMORY and OBJECT have the key at a position where clients do not search for it.
func atOwner(ctx context.Context, db *redis.DB, cmds [][]string) (replies []keyspace.Reply, err error) {
	owners, err := db.Owners(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range owners {
		defer o.Close()
	}
	for _, o := range owners {
		replies = o.Do(ctx, cmds...)
		if e, refused := errors.AsType[redis.ServerError](replies[0].Err); !refused || e.Code() != "MOVED" {
			break
		}
	}
	return replies, nil
}

// judge compares the state of the key with the declaration.
func (p *redisKey) judge(f *keyspace.Family) {
	fault := func(format string, args ...any) { p.Faults = append(p.Faults, fmt.Sprintf(format, args...)) }
	longest := f.TTL.Longest()
	if p.Type != f.Type {
		fault("the type is %s, but %s is declared", p.Type, f.Type)
	}
	switch {
	case longest == 0 && p.TTL >= 0:
		fault("it expires, but it is declared to never expire")
	case longest > 0 && p.TTL == -1:
		fault("it never expires, but a TTL of at most %s is declared", longest)
	case longest > 0 && p.TTL > longest.Milliseconds():
		fault("its TTL is %s, but at most %s is declared", millis(p.TTL), longest)
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// write writes the explanation as text.
func (e *explanation) write(w io.Writer) error {
	tab := NewTable(w, 2)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(tab, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	f := e.Family
	line("name", "%s", physical(e.Prefix, e.Name))
	line("family", "%s", f.Pattern)
	for _, name := range e.args {
		line("{"+name+"}", "%s", printable(e.Arguments[name]))
	}
	line("owner", "%s", f.Owner)
	line("purpose", "%s", f.Purpose)
	line("type", "%s: %s", f.Type, f.Form)
	if f.Delivery != "" {
		line("delivery", "%s", f.Delivery)
	} else {
		line("life", "%s", f.Lives())
	}
	if len(f.InvalidatedBy) > 0 {
		line("dropped by", "%s", strings.Join(f.InvalidatedBy, ", "))
	}
	if len(e.With) > 0 {
		line("used with", "%s", strings.Join(e.With, ", "))
	}
	line("slot", "%d", e.Slot)
	switch p := e.Redis; {
	case p == nil && e.Note != "":
		line("redis", "%s", e.Note)
	case p == nil:
	case p.Type == "none":
		line("redis", "no such key")
	default:
		life := "without a TTL"
		if p.TTL >= 0 {
			life = "with a TTL of " + millis(p.TTL).Round(time.Second/10).String()
		}
		unit := "elements"
		if p.Type == "string" {
			unit = "bytes"
		}
		line("redis", "%s, %d %s, %d bytes of memory (%s); %s", p.Type, p.Elements, unit, p.Memory, p.Encoding, life)
		for _, fault := range p.Faults {
			line("fault", "%s", fault)
		}
	}
	return tab.Flush()
}

// printable quotes s if it has characters that could control the terminal.
func printable(s string) string {
	if slices.ContainsFunc([]byte(s), func(c byte) bool { return c < ' ' || c > '~' }) || s == "" {
		return strconv.Quote(s)
	}
	return s
}
