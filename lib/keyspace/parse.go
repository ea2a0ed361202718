package keyspace

import (
	"reflect"
	"strings"
)

// Parser finds the family and the arguments of a key or channel. It is safe for concurrent use.
type Parser struct{ keys, channels node }

// node is the state after some levels of a pattern.
type node struct {
	words  map[string]*node
	args   []edge
	family *Family   // the family whose pattern ends here
	mixed  []*Family // of the root: the families with arguments that do not fill whole levels
}

// edge is a transition for any level of one form.
type edge struct {
	form *Form
	tag  bool
	to   *node
}

// MaxArgs is the largest number of arguments of a family.
const MaxArgs = 3

// Parsed is the result of a [Parser].
type Parsed struct {
	Family *Family
	Args   [MaxArgs]string // as in the key; ReadSegment of [Text] decodes escaped text
}

// NewParser returns a parser for the families of schemas, which must pass [Lint]. If two families can make the same
// key, the parser may return either of them.
func NewParser(schemas ...*Schema) *Parser {
	p := new(Parser)
	for _, s := range schemas {
		for _, f := range s.families {
			if f.IsChannel() {
				p.channels.insert(f)
			} else {
				p.keys.insert(f)
			}
		}
	}
	return p
}

// ParserOf returns a parser for single families. No two of them may make the same key.
func ParserOf(families ...*Family) *Parser {
	return NewParser(&Schema{families: families})
}

func (n *node) insert(f *Family) {
	if f.mixed {
		n.mixed = append(n.mixed, f)
		return
	}
	for _, l := range f.levels {
		n = n.child(l)
	}
	n.family = f
}

func (n *node) child(l level) *node {
	if l.form == nil {
		if n.words == nil {
			n.words = map[string]*node{}
		}
		if n.words[l.text] == nil {
			n.words[l.text] = new(node)
		}
		return n.words[l.text]
	}
	for _, e := range n.args {
		if e.tag == l.tag && reflect.DeepEqual(e.form, l.form) {
			return e.to
		}
	}
	e := edge{l.form, l.tag, new(node)}
	n.args = append(n.args, e)
	return e.to
}

// Key returns the parsed key, or the zero Key for a channel. It lets a tool read a key by its name; other code uses At
// of the family.
func (p Parsed) Key() Key {
	if p.Family == nil || p.Family.IsChannel() {
		return Key{}
	}
	b := p.Family.begin()
	for i := range p.Family.Args {
		b = p.Family.next(append(b, p.Args[i]...), len(b), i)
	}
	return p.Family.key(b)
}

// Key parses a logical key, which has no prefix; [Logical] removes the prefix. It allocates no memory.
func (p *Parser) Key(logical string) (Parsed, bool) { return p.keys.parse(logical) }

// Channel parses a logical channel name.
func (p *Parser) Channel(logical string) (Parsed, bool) { return p.channels.parse(logical) }

func (n *node) parse(name string) (found Parsed, ok bool) {
	if n.walk(name, &found, 0) {
		return found, true
	}
	for _, f := range n.mixed {
		if rest, begins := strings.CutPrefix(name, f.parts[0]); begins && f.read(rest, &found, 0) {
			found.Family = f
			return found, true
		}
	}
	return Parsed{}, false
}

// read finds argument i and the arguments after it in rest, which is the remainder of the name.
func (f *Family) read(rest string, found *Parsed, i int) bool {
	if i == len(f.Args) {
		return rest == ""
	}
	form, behind := &f.Args[i], f.parts[i+1]
	if i+1 == len(f.Args) {
		value, ok := strings.CutSuffix(rest, behind)
		if ok = ok && form.match(value); ok {
			found.Args[i] = value
		}
		return ok
	}
	for n := 1; n+len(behind) <= len(rest); n++ {
		if strings.HasPrefix(rest[n:], behind) && form.match(rest[:n]) && f.read(rest[n+len(behind):], found, i+1) {
			found.Args[i] = rest[:n]
			return true
		}
	}
	return false
}

// walk tries the word before the arguments. A level can match both, if a later level decides between the families.
func (n *node) walk(rest string, found *Parsed, arg int) bool {
	word, rest, more := strings.Cut(rest, ":")
	if to := n.words[word]; to != nil && to.end(rest, more, found, arg) {
		return true
	}
	for i := range n.args {
		e := &n.args[i]
		value, ok := word, true
		if e.tag {
			value, ok = untag(word)
		}
		if ok && e.form.match(value) && e.to.end(rest, more, found, arg+1) {
			found.Args[arg] = value
			return true
		}
	}
	return false
}

func (n *node) end(rest string, more bool, found *Parsed, arg int) bool {
	if more {
		return n.walk(rest, found, arg)
	}
	found.Family = n.family
	return n.family != nil
}

func untag(word string) (value string, ok bool) {
	if len(word) < 2 || word[0] != '{' || word[len(word)-1] != '}' {
		return "", false
	}
	return word[1 : len(word)-1], true
}
