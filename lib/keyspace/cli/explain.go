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

// Explain says what a name is.
type Explain struct {
	Name string `arg:"" name:"key" help:"A key or channel, with the deployment's prefix or without."`
}

// explanation is what is known of one name.
type explanation struct {
	Name      string            `json:"name"` // without prefix
	Prefix    string            `json:"prefix"`
	Slot      uint16            `json:"slot"` // of the key with its prefix
	Family    catalogue.Entry   `json:"family"`
	Arguments map[string]string `json:"arguments"`
	With      []string          `json:"with"` // families that one command may name together with it
	Redis     *present          `json:"redis,omitempty"`
	Note      string            `json:"note,omitempty"` // why Redis was not asked, or did not answer

	args []string // names of the arguments, in order
}

// present is what Redis has under a key.
type present struct {
	Type     string   `json:"type"` // "none" when there is no such key
	TTL      int64    `json:"ttl_ms"`
	Elements int64    `json:"elements"` // bytes of a string
	Memory   int64    `json:"memory_bytes"`
	Encoding string   `json:"encoding"`
	Faults   []string `json:"faults"`
}

// Run explains the name, and ends with "nothing" when no family has it.
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
	case s.inside():
		e.Note = "not looked up: this Redis is inside the server"
	default:
		err := e.look(ctx, &Server{URL: s.URL, Prefix: e.Prefix, NoPrefix: e.Prefix == "", Log: s.Log}, found)
		if err != nil {
			e.Note = "not looked up: " + err.Error()
		}
	}
	return c.Result(e, e.write)
}

// explain finds the family of a name that may have the configured prefix, none,
// or another deployment's.
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
		err = fmt.Errorf("%w; those that begin alike: %s", err, strings.Join(near, ", "))
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
			if text.ReadSegment(value) == nil { // it is not of a text's hash
				value = text.S
			}
		}
		e.Arguments[a.Name] = value
		e.args = append(e.args, a.Name)
	}
	return e
}

// physical is a key's name in Redis.
func physical(prefix, logical string) string {
	if prefix == "" {
		return logical
	}
	return prefix + ":" + logical
}

// nearest returns the families with the most levels in common with a name, none
// when there are no such levels.
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

// counts is how each type tells the number of its elements.
var counts = map[string]string{"string": "STRLEN", "hash": "HLEN", "set": "SCARD", "zset": "ZCARD", "list": "LLEN", "stream": "XLEN"}

// look asks Redis for what is there.
func (e *explanation) look(ctx context.Context, s *Server, found keyspace.Parsed) (err error) {
	db, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	key := found.Key()
	kind := db.Do(ctx, keyspace.Cmd{Name: "TYPE", Key: key})
	if kind.Err != nil {
		return kind.Err
	}
	p := &present{Type: kind.Str, TTL: -2, Faults: []string{}}
	if p.Type != "none" {
		name := db.Physical(key)
		cmds := [][]string{{"PTTL", name}, {"MEMORY", "USAGE", name, "SAMPLES", "0"}, {"OBJECT", "ENCODING", name}, {counts[p.Type], name}}
		if counts[p.Type] == "" {
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

// atOwner sends commands on one key to the server that has it: of a cluster, the one that does not
// name another. In MEMORY and OBJECT the key stands where no client looks for it.
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

// judge holds what is there against the declaration.
func (p *present) judge(f *keyspace.Family) {
	fault := func(format string, args ...any) { p.Faults = append(p.Faults, fmt.Sprintf(format, args...)) }
	longest := f.TTL.Longest()
	if p.Type != f.Type {
		fault("it is a %s and should be a %s", p.Type, f.Type)
	}
	switch {
	case longest == 0 && p.TTL >= 0:
		fault("it expires and should live for ever")
	case longest > 0 && p.TTL == -1:
		fault("it lives for ever and should expire within %s", longest)
	case longest > 0 && p.TTL > longest.Milliseconds():
		fault("it has %s to live and %s is the most", millis(p.TTL), longest)
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// write tells people.
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
		life := "for ever"
		if p.TTL >= 0 {
			life = millis(p.TTL).Round(time.Second / 10).String()
		}
		unit := "elements"
		if p.Type == "string" {
			unit = "bytes"
		}
		line("redis", "%s, %d %s, %d bytes of memory (%s); lives %s", p.Type, p.Elements, unit, p.Memory, p.Encoding, life)
		for _, fault := range p.Faults {
			line("fault", "%s", fault)
		}
	}
	return tab.Flush()
}

// printable keeps what comes from outside from driving the terminal.
func printable(s string) string {
	if slices.ContainsFunc([]byte(s), func(c byte) bool { return c < ' ' || c > '~' }) || s == "" {
		return strconv.Quote(s)
	}
	return s
}
