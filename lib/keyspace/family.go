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

// literal accepts only constants from callers outside this package, so that a pattern or a reason cannot be computed.
type literal string

// Doc documents a family, for readers and for the catalogue.
type Doc struct {
	Owner         string   // the package that reads and writes it; empty means the schema's
	Purpose       string   // one line
	InvalidatedBy []string // the changes that invalidate its keys
	MaxBytes      int      // the largest value expected, for the audit; 0 means 64 KiB
	// Version is the version of the layout of keys and values; 0 counts as 1. Raise it with a change of layout, see
	// package keyspace/lock. Package cache treats a value of another version as a miss.
	Version int
	// Migration states what happens to the keys of the previous version, for example the name of a move. Package
	// keyspace/lock reports when it is required.
	Migration string
	Together  string // names a set of families that are used in one command or script; all must share a hash tag
}

// Family is one declared shape of key or channel. Treat it as read-only.
type Family struct {
	Pattern string // "user:sign:{{uid}}:{year}"; double braces mark the hash tag
	Type    string // the reply to TYPE: string, hash, set, zset, list or stream; or "channel"
	Form    string // the format of values: "json {name string}", "int", or the owner's words
	TTL     TTL
	Doc     Doc
	Args    []Form  // one for each placeholder
	Log     *Family // the stream of a channel whose messages are also stream entries; else nil

	// Carries is the argument of [Payload.Carrying], for a channel; else nil.
	Carries map[string]any

	// Check returns the reason why a string cannot be a value of the family. If Check is nil, every string can be. See
	// [Kind].Checked.
	Check func(value []byte) error

	levels     []level  // the pattern between its colons; if mixed, its texts and arguments
	parts      []string // the literal text around the arguments, tag braces included
	tag        int      // the index of the argument that is the hash tag; -1 for none
	capacity   int      // the number of bytes that is enough for most keys
	brownfield bool     // the schema is a [Schema.Brownfield]
	mixed      bool     // an argument shares its level with text, or can have several levels
}

// level is a word of the pattern or an argument.
type level struct {
	text string // the word, or the placeholder's name
	form *Form  // nil for a word
	tag  bool
}

// Schema collects the families of one owner. It is filled during the initialisation of the program and is read-only
// afterwards.
type Schema struct {
	owner      string
	families   []*Family
	retired    []*Family
	brownfield bool
	badWords   []string
}

// New returns an empty schema; owner is the package that declares it.
func New(owner literal) *Schema {
	return &Schema{owner: string(owner), badWords: meaningless}
}

// Families returns the declared families, in order.
func (s *Schema) Families() []*Family { return slices.Clone(s.families) }

// Retired returns the families that [Retire] declared, in order. Their Doc has the owner and the migration. The forms
// of their arguments are no longer known, so each argument matches any text.
func (s *Schema) Retired() []*Family { return slices.Clone(s.retired) }

// Retire declares that a pattern of keys is no longer used. migration states what happens to existing keys: the name of
// a move, or the job that deletes them. Without Retire, package keyspace/lock reports the removal of keys that never
// expire. With it, [Lint] reports a family that uses the pattern again. Retire panics if the pattern is malformed or
// migration is empty. Remove the call when no Redis can have such a key.
func Retire(s *Schema, pattern, migration literal) {
	f, err := undeclared(string(pattern), make([]Form, len(argumentsIn.FindAllString(string(pattern), -1))), s.brownfield)
	if err == nil && strings.TrimSpace(string(migration)) == "" {
		err = errors.New("is retired without a migration for its keys")
	}
	if err != nil {
		panic(fmt.Sprintf("keyspace: %q %v", pattern, err))
	}
	f.Doc = Doc{Owner: s.owner, Migration: string(migration)}
	s.retired = append(s.retired, f)
}

// FamilyOf returns a family of string keys that belongs to no schema. It is for tools that only have names, for example
// from a lock file or from another program. The pattern may be everything that a [Schema.Brownfield] accepts. The text
// of an error continues a sentence that begins with the pattern, such as "has two hash tags".
func FamilyOf(pattern string, args ...Form) (*Family, error) {
	return undeclared(pattern, slices.Clone(args), true)
}

func undeclared(pattern string, args []Form, brownfield bool) (*Family, error) {
	f := &Family{Pattern: pattern, Type: "string", TTL: Forever("undeclared"), Args: args, tag: -1, brownfield: brownfield}
	if err := f.compile(); err != nil {
		return nil, err
	}
	return f, nil
}

func (s *Schema) add(pattern literal, typ, form string, ttl TTL, doc Doc, args ...Form) *Family {
	if doc.Owner == "" {
		doc.Owner = s.owner
	}
	f := &Family{Pattern: string(pattern), Type: typ, Form: form, TTL: ttl, Doc: doc, Args: args, tag: -1, brownfield: s.brownfield}
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

// types are the possible replies to TYPE, and "channel".
var types = []string{"string", "hash", "set", "zset", "list", "stream", "channel"}

// compile checks what building and parsing keys rely on; [Lint] checks the rest.
func (f *Family) compile() error {
	if !slices.Contains(types, f.Type) {
		return fmt.Errorf("has the unknown type %q", f.Type)
	}
	if err := f.TTL.validate(); err != nil {
		return err
	}
	pieces, separator := strings.Split(f.Pattern, ":"), ":"
	if f.brownfield && f.mixes(pieces) {
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
		if f.capacity += len(p); i > 0 {
			f.capacity += min(f.Args[i-1].longest(), 32)
		}
	}
	return nil
}

// argumentsIn finds the placeholders of a pattern whose placeholders do not fill whole levels.
var argumentsIn = regexp.MustCompile(`\{\{[^{}:]+\}\}|\{[^{}:]+\}`)

// mixes reports whether a pattern is more than words and arguments between colons.
func (f *Family) mixes(levels []string) bool {
	return slices.ContainsFunc(f.Args, Form.wide) || slices.ContainsFunc(levels, func(word string) bool {
		_, kind := placeholder(word)
		return kind == noArgument && (word == "" || strings.ContainsAny(word, "{}"))
	})
}

// assemble sets the levels and parts of the family from the pieces of its pattern.
func (f *Family) assemble(pieces []string, separator string) error {
	text, args := "", 0
	for i, word := range pieces {
		if i > 0 {
			text += separator
		}
		name, kind := placeholder(word)
		if kind == noArgument {
			switch {
			case !f.brownfield && (word == "" || strings.ContainsAny(word, "{}")):
				return fmt.Errorf("has the level %q, which is neither a word nor {name} nor {{name}}; declare patterns of an existing Redis with "+
					"Schema.Brownfield", word)
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
		if err := l.form.validate(f.brownfield); err != nil {
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

// longest returns the length of the longest key without its prefix. bounded is false if an argument has no maximum
// length.
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

// MaxKeyBytes returns the length of the longest key or channel name, without its prefix. It returns 0 if an argument
// has no maximum length.
func (f *Family) MaxKeyBytes() int {
	n, bounded := f.longest()
	if !bounded {
		return 0
	}
	return n
}

// MaxValueBytes returns the expected size of the largest value: [Doc].MaxBytes, or 64 KiB.
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

// next appends the text after argument i. The segment has already written the argument to b[from:]; next panics if it
// does not match its form.
func (f *Family) next(b []byte, from, i int) []byte {
	if !f.Args[i].match(view(b[from:])) {
		panic(argumentFault(fmt.Sprintf("keyspace: argument %d of %s, %d bytes long, does not match the form of its type: %s",
			i+1, f.Pattern, len(b)-from, f.Args[i])))
	}
	return append(b, f.parts[i+1]...)
}

// ErrArgument is the error of Try for an argument that does not match the [Form] of its type.
var ErrArgument = errors.New("keyspace: an argument does not match its form")

// argumentFault is the value of At's panic.
type argumentFault string

func (e argumentFault) Error() string        { return string(e) }
func (e argumentFault) Is(target error) bool { return target == ErrArgument }

// recoverArgument converts the panic of At to an error. It panics again with any other value.
func recoverArgument(err *error) {
	switch p := recover().(type) {
	case nil:
	case argumentFault:
		*err = p
	default:
		panic(p)
	}
}

// begin returns a buffer for a key, with the text before the first argument.
func (f *Family) begin() []byte { return append(make([]byte, 0, f.capacity), f.parts[0]...) }

// key returns the Key with the name b. It retains b, so b must not change afterwards.
func (f *Family) key(b []byte) Key { return Key{view(b), f} }

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
