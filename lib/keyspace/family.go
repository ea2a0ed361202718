package keyspace

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unsafe"
)

// literal accepts only constants from outside this package, so that a pattern
// or a reason cannot be computed.
type literal string

// Doc tells people and the catalogue what a family is for.
type Doc struct {
	Owner         string   // the package that reads and writes it; empty means the schema's
	Purpose       string   // one line
	InvalidatedBy []string // the changes after which its keys are dropped
	MaxBytes      int      // the largest value expected, for the audit; 0 means 64 KiB
	Version       int      // of the layout of keys and values; 0 counts as 1. Raise it with a change of layout, see package keyspace/lock; package cache takes what was stored under another one for missing
	Migration     string   // what is done about the keys of the version before, for example the name of a move; package keyspace/lock says when one is wanted
	Together      string   // names a set of families used in one command or script; all must share a hash tag
}

// Family is one declared shape of key or channel. Treat it as read-only.
type Family struct {
	Pattern string // "user:sign:{{uid}}:{year}"; double braces mark the hash tag
	Type    string // what TYPE answers: string, hash, set, zset, list, stream, or "channel"
	Form    string // how values are written: "json {name string}", "int", the owner's words …
	TTL     TTL
	Doc     Doc
	Args    []Form  // one for each placeholder
	Log     *Family // of a channel whose messages are also entries of a stream; else nil

	// Carries is of a channel what [Payload.Carrying] said; else nil.
	Carries map[string]any

	// Check tells why a string's value cannot be one of the family's; nil means
	// that any can. See [Kind].Checked.
	Check func(value []byte) error

	levels []level  // the pattern between its colons; of a mixed one, its texts and arguments
	parts  []string // the literal text around the arguments, tag braces included
	tag    int      // which argument is the hash tag; -1 for none
	room   int      // bytes that hold most keys
	asIs   bool     // the schema is one of [Schema.Brownfield]
	mixed  bool     // an argument shares its level with text, or can be several levels
}

// level is a word of the pattern or the place of an argument.
type level struct {
	text string // the word, or the placeholder's name
	form *Form  // nil for a word
	tag  bool
}

// Schema collects the families of one owner. It is filled while the program is
// initialised and only read afterwards.
type Schema struct {
	owner    string
	families []*Family
	retired  []*Family
	asIs     bool
	badWords []string
}

// New returns an empty schema; owner is the package that declares it.
func New(owner literal) *Schema {
	return &Schema{owner: string(owner), badWords: meaningless}
}

// Families returns what was declared, in order.
func (s *Schema) Families() []*Family { return slices.Clone(s.families) }

// Retired returns what [Retire] was told, in order: families of the patterns that are no
// longer used, with the owner and the migration in their Doc. The forms of their arguments
// are not known any more and are those of any text.
func (s *Schema) Retired() []*Family { return slices.Clone(s.retired) }

// Retire says that a pattern of keys is no longer used, and what becomes of those that are
// there: the name of a move, or who sweeps them. Package keyspace/lock takes the removal of
// what lives for ever for a fault without it, and [Lint] keeps the pattern from being
// declared anew. It panics on a malformed pattern, and without a reason. Take it out when
// no Redis can have such a key any longer.
func Retire(s *Schema, pattern, migration literal) {
	f, err := undeclared(string(pattern), make([]Form, len(argumentsIn.FindAllString(string(pattern), -1))), s.asIs)
	if err == nil && strings.TrimSpace(string(migration)) == "" {
		err = errors.New("is retired, and nothing says what becomes of its keys")
	}
	if err != nil {
		panic(fmt.Sprintf("keyspace: %q %v", pattern, err))
	}
	f.Doc = Doc{Owner: s.owner, Migration: string(migration)}
	s.retired = append(s.retired, f)
}

// FamilyOf returns a family of string keys that no schema has, for tools that have the names
// alone: those of a lock file, or of another program. The pattern may be whatever a schema of
// [Schema.Brownfield] takes. An error is the rest of a sentence that begins with the pattern,
// such as "has two hash tags".
func FamilyOf(pattern string, args ...Form) (*Family, error) {
	return undeclared(pattern, slices.Clone(args), true)
}

func undeclared(pattern string, args []Form, asIs bool) (*Family, error) {
	f := &Family{Pattern: pattern, Type: "string", TTL: Forever("undeclared"), Args: args, tag: -1, asIs: asIs}
	if err := f.compile(); err != nil {
		return nil, err
	}
	return f, nil
}

func (s *Schema) add(pattern literal, typ, form string, ttl TTL, doc Doc, args ...Form) *Family {
	if doc.Owner == "" {
		doc.Owner = s.owner
	}
	f := &Family{Pattern: string(pattern), Type: typ, Form: form, TTL: ttl, Doc: doc, Args: args, tag: -1, asIs: s.asIs}
	if err := f.compile(); err != nil {
		panic(fmt.Sprintf("keyspace: %q %v", pattern, err))
	}
	s.families = append(s.families, f)
	return f
}

func (f *Family) checked(check func([]byte) error) *Family {
	f.Check = check
	return f
}

// types are what TYPE can answer, and channels.
var types = []string{"string", "hash", "set", "zset", "list", "stream", "channel"}

// compile checks what building and parsing rely on; [Lint] checks the rest.
func (f *Family) compile() error {
	if !slices.Contains(types, f.Type) {
		return fmt.Errorf("has the unknown type %q", f.Type)
	}
	if err := f.TTL.validate(); err != nil {
		return err
	}
	pieces, separator := strings.Split(f.Pattern, ":"), ":"
	if f.asIs && f.mixes(pieces) {
		f.mixed, separator = true, ""
		pieces = pieces[:0]
		for from, rest := 0, f.Pattern; from < len(rest); {
			at := argumentsIn.FindStringIndex(rest[from:])
			if at == nil {
				at = []int{len(rest) - from, len(rest) - from}
			}
			for _, piece := range []string{rest[from:][:at[0]], rest[from:][at[0]:at[1]]} {
				if piece != "" {
					pieces = append(pieces, piece)
				}
			}
			from += at[1]
		}
	}
	if err := f.assemble(pieces, separator); err != nil {
		return err
	}
	for i, p := range f.parts {
		if f.room += len(p); i > 0 {
			f.room += min(f.Args[i-1].longest(), 32)
		}
	}
	return nil
}

// argumentsIn finds the placeholders of a pattern in which they do not fill whole levels.
var argumentsIn = regexp.MustCompile(`\{\{[^{}:]+\}\}|\{[^{}:]+\}`)

// mixes reports whether a pattern is more than words and arguments between colons.
func (f *Family) mixes(levels []string) bool {
	return slices.ContainsFunc(f.Args, Form.wide) || slices.ContainsFunc(levels, func(word string) bool {
		_, kind := placeholder(word)
		return kind == noArgument && (word == "" || strings.ContainsAny(word, "{}"))
	})
}

// assemble makes the family's levels and parts of the pieces of its pattern.
func (f *Family) assemble(pieces []string, separator string) error {
	text, args := "", 0
	for i, word := range pieces {
		if i > 0 {
			text += separator
		}
		name, kind := placeholder(word)
		if kind == noArgument {
			switch {
			case !f.asIs && (word == "" || strings.ContainsAny(word, "{}")):
				return fmt.Errorf("has the level %q, which is neither a word nor {name} nor {{name}}; a pattern that Redis has already may be declared with Schema.Brownfield", word)
			case strings.ContainsAny(word, "{}"):
				return fmt.Errorf("has braces in %q that are neither {name} nor {{name}}", word)
			}
			f.levels = append(f.levels, level{text: word})
			text += word
			continue
		}
		if slices.ContainsFunc(f.levels, func(l level) bool { return l.form != nil && l.text == name }) {
			return fmt.Errorf("has two placeholders {%s}", name)
		}
		if args == len(f.Args) {
			return fmt.Errorf("has more placeholders than its %d arguments", args)
		}
		l := level{text: name, form: &f.Args[args], tag: kind == hashTag}
		if err := l.form.validate(f.asIs); err != nil {
			return fmt.Errorf("has an argument {%s} that %w", name, err)
		}
		closing := ""
		if l.tag {
			if f.tag >= 0 {
				return errors.New("has two hash tags")
			}
			f.tag = args
			text, closing = text+"{", "}"
		}
		f.levels = append(f.levels, l)
		f.parts, text = append(f.parts, text), closing
		args++
	}
	f.parts = append(f.parts, text)
	if args < len(f.Args) {
		return fmt.Errorf("has %d placeholders and was declared with %d arguments", args, len(f.Args))
	}
	return nil
}

const (
	noArgument = iota
	argument
	hashTag
)

// placeholder returns the name in {name} or {{name}}.
func placeholder(word string) (name string, kind int) {
	kind = argument
	name, ok := strings.CutPrefix(word, "{")
	if ok {
		name, ok = strings.CutSuffix(name, "}")
	}
	if inner, double := strings.CutPrefix(name, "{"); ok && double {
		kind = hashTag
		name, ok = strings.CutSuffix(inner, "}")
	}
	if !ok || name == "" || strings.ContainsAny(name, "{}") {
		return "", noArgument
	}
	return name, kind
}

// longest returns the length of the longest key without its prefix. When an
// argument is unbounded it is false.
func (f *Family) longest() (n int, bounded bool) {
	bounded = true
	for _, p := range f.parts {
		n += len(p)
	}
	for i := range f.Args {
		l := f.Args[i].longest()
		n += l
		bounded = bounded && l > 0
	}
	return n, bounded
}

// MaxKeyBytes returns the length of the longest key, or of a channel's name, without its
// prefix; 0 when an argument is unbounded.
func (f *Family) MaxKeyBytes() int {
	n, bounded := f.longest()
	if !bounded {
		return 0
	}
	return n
}

// MaxValueBytes returns the size of the largest value expected: [Doc].MaxBytes, or 64 KiB.
func (f *Family) MaxValueBytes() int { return cmp.Or(f.Doc.MaxBytes, 64<<10) }

// Placeholder returns the name of argument i in the pattern, and whether it is the hash tag.
func (f *Family) Placeholder(i int) (name string, hashTag bool) {
	for _, l := range f.levels {
		if l.form == nil {
			continue
		}
		if i == 0 {
			return l.text, l.tag
		}
		i--
	}
	return "", false
}

// next appends argument i, which segment wrote from b[from] on, and the text
// behind it; it panics when the argument is not of its form.
func (f *Family) next(b []byte, from, i int) []byte {
	if !f.Args[i].match(view(b[from:])) {
		panic(argumentFault(fmt.Sprintf("keyspace: argument %d of %s, %d bytes long, is not of the form its type declares: %s",
			i+1, f.Pattern, len(b)-from, f.Args[i])))
	}
	return append(b, f.parts[i+1]...)
}

// ErrArgument is what Try returns for an argument that is not of its type's [Form].
var ErrArgument = errors.New("keyspace: an argument is not of its form")

// argumentFault is what At panics with.
type argumentFault string

func (e argumentFault) Error() string        { return string(e) }
func (e argumentFault) Is(target error) bool { return target == ErrArgument }

// caught makes an error of At's panic, and lets others go on.
func caught(err *error) {
	switch p := recover().(type) {
	case nil:
	case argumentFault:
		*err = p
	default:
		panic(p)
	}
}

// begin returns a buffer for a key, with the text before the first argument.
func (f *Family) begin() []byte { return append(make([]byte, 0, f.room), f.parts[0]...) }

// key takes b over: it must not change afterwards.
func (f *Family) key(b []byte) Key { return Key{view(b), f} }

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
