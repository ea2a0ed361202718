// Package lock keeps what a program declared, as the text of a file beside its sources, and
// tells what the next version changes: which keys it would lose and which values it would
// misread.
//
//	was, err := lock.Parse(string(text)) // of the file that was reviewed last
//	for _, c := range lock.Faults(was.Diff(lock.New(shop.Keys))) {
//		fmt.Println(c) // layout   cart:{user}: string → set: raise Doc.Version above 1, or put a new word in the pattern
//	}
//
// Programs have it as a command by package keyspace/cli: diff, and diff --write.
package lock

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/catalogue"
)

// A File is what a lock file keeps of a program's families: enough to tell, in
// the next version, whether a value written by this one can still be found and
// read. It is a text that people review: one block for each family, by pattern.
type File struct{ Families []Family }

// Family is one family in a [File].
type Family struct {
	Pattern string
	Type    string // as [keyspace.Family].Type has it
	Form    string
	Args    []catalogue.Argument
	Life    string // or a channel's delivery
	Owner   string
	Version int

	// Migration is [keyspace.Doc].Migration. Of a retired pattern, whose Type is "retired" and
	// which has nothing else but an owner, it is what [keyspace.Retire] was told.
	Migration string
}

// New returns the lock of the families of schemas, and of what they have retired.
func New(schemas ...*keyspace.Schema) File {
	var families, retired []*keyspace.Family
	for _, s := range schemas {
		families, retired = append(families, s.Families()...), append(retired, s.Retired()...)
	}
	return lockOf(families, retired)
}

func lockOf(families, retired []*keyspace.Family) File {
	var l File
	for _, f := range retired {
		l.Families = append(l.Families, Family{Pattern: f.Pattern, Type: retiredType, Owner: f.Doc.Owner, Migration: oneLine(f.Doc.Migration)})
	}
	for _, f := range families {
		e := catalogue.Describe(f)
		e.Life.Reason = ""
		l.Families = append(l.Families, Family{
			Pattern: e.Pattern, Type: e.Type, Form: oneLine(e.Form), Args: e.Arguments, Life: e.Lives(), Owner: e.Owner, Version: e.Version,
			Migration: oneLine(e.Migration),
		})
	}
	slices.SortFunc(l.Families, func(a, b Family) int {
		return cmp.Or(cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Owner, b.Owner))
	})
	return l
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

const lockHeader = `# The keys and channels of this program, as they were last agreed on. Written by a
# tool; a change of layout needs a higher version of its family, or another pattern.
`

// lockEnd is the last line, by which a file that was cut off is known.
const lockEnd = "end"

// ErrTruncated reports a lock file without its last line: [File.Diff] against it would take families that were cut off
// for new ones. Early versions wrote no such line.
var ErrTruncated = errors.New("the lock file is cut off, or an early version wrote it: restore it, or end it with the line \"" + lockEnd + "\"")

// String returns the text of the lock file.
func (l File) String() string {
	var b strings.Builder
	b.WriteString(lockHeader)
	for _, f := range l.Families {
		fmt.Fprintf(&b, "\n%s\n", lockedName(f.Pattern))
		line := func(name, value string) { fmt.Fprintf(&b, "\t%-8s %s\n", name, value) }
		line("type", f.Type)
		if f.Type != retiredType {
			line("form", f.Form)
			for _, a := range f.Args {
				line("{"+a.Name+"}", a.Form)
			}
			line("life", f.Life)
		}
		line("owner", f.Owner)
		if f.Type != retiredType {
			line("version", strconv.Itoa(f.Version))
		}
		if f.Migration != "" {
			line("migration", f.Migration)
		}
	}
	b.WriteString("\n" + lockEnd + "\n")
	return b.String()
}

// lockedName is a pattern as it stands in a lock file: quoted where it would pass for
// something else.
func lockedName(pattern string) string {
	if pattern == lockEnd || strings.Trim(pattern, " #\"") != pattern || strings.ContainsFunc(pattern, unicode.IsControl) {
		return strconv.Quote(pattern)
	}
	return pattern
}

// Parse reads the text of a lock file. One that is not whole is [ErrTruncated].
func Parse(text string) (File, error) {
	var l File
	n, began, whole := 0, 0, false
	fault := func(n int, err error) (File, error) {
		return File{}, fmt.Errorf("keyspace: line %d of the lock file: %w", n, err)
	}
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		field, indented := strings.CutPrefix(line, "\t")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		switch {
		case whole:
			return fault(n, errors.New("there is something after the end"))
		case !indented:
			if err := l.complete(); err != nil {
				return fault(began, err)
			}
			began, whole = n, line == lockEnd
			if strings.HasPrefix(line, `"`) {
				var err error
				if line, err = strconv.Unquote(line); err != nil {
					return fault(n, errors.New("a quoted pattern that does not end"))
				}
			}
			if !whole {
				l.Families = append(l.Families, Family{Pattern: line})
			}
			continue
		}
		name, value, ok := strings.Cut(field, " ")
		if !ok || len(l.Families) == 0 {
			return fault(n, errors.New("neither a pattern nor a name and a value"))
		}
		if err := l.Families[len(l.Families)-1].set(name, strings.TrimSpace(value)); err != nil {
			return fault(n, err)
		}
	}
	if !whole {
		return File{}, fmt.Errorf("keyspace: line %d: %w", n, ErrTruncated)
	}
	return l, nil
}

// complete reports what the last family lacks.
func (l File) complete() error {
	if len(l.Families) == 0 {
		return nil
	}
	f := l.Families[len(l.Families)-1]
	if f.Type == "" || f.Owner == "" || f.Type != retiredType && (f.Form == "" || f.Life == "" || f.Version == 0) {
		return fmt.Errorf("%s lacks a line: type, form, life, owner and version are wanted", f.Pattern)
	}
	if _, err := f.family(); err != nil {
		return fmt.Errorf("%s %w", f.Pattern, err)
	}
	return nil
}

func (f *Family) set(name, value string) (err error) {
	switch name {
	case "type":
		f.Type = value
	case "form":
		f.Form = value
	case "life":
		f.Life = value
	case "owner":
		f.Owner = value
	case "version":
		f.Version, err = strconv.Atoi(value)
	case "migration":
		f.Migration = value
	default:
		inner, ok := strings.CutPrefix(name, "{")
		inner, closed := strings.CutSuffix(inner, "}")
		if !ok || !closed {
			return fmt.Errorf("there is no field %q", name)
		}
		f.Args = append(f.Args, catalogue.Argument{Name: inner, Form: value, HashTag: strings.Contains(f.Pattern, "{"+name+"}")})
	}
	return err
}

// A Kind says what became of a family.
type Kind string

// The kinds of change, the gravest first.
const (
	LayoutChanged Kind = "layout"  // keys or values are written differently
	Removed       Kind = "removed" // what lives for ever stays in Redis
	Retired       Kind = "retired" // removed, and [keyspace.Retire] says what becomes of its keys
	Added         Kind = "added"
	Widened       Kind = "widened"   // an argument may be more than before
	Overlaps      Kind = "overlaps"  // keys that another pattern left behind are of this one
	LifeChanged   Kind = "life"      // keys keep the one they were written with
	VersionRaised Kind = "version"   // without a change that the lock can see
	Migrates      Kind = "migration" // another one is named, and nothing else differs
	OwnerChanged  Kind = "owner"
	Renamed       Kind = "renamed" // a placeholder, which no key shows
)

// A Change is one difference between a lock and the next one.
type Change struct {
	Kind    Kind   `json:"kind"`
	Pattern string `json:"pattern"`         // as it is now; of a removed family as it was
	Was     string `json:"was,omitempty"`   // what differs
	Is      string `json:"is,omitempty"`    //
	Fault   string `json:"fault,omitempty"` // why it must not be; "" when it may
}

// String tells the change in one line.
func (c Change) String() string {
	s := fmt.Sprintf("%-8s %s", c.Kind, c.Pattern)
	switch {
	case c.Was != "" && c.Is != "":
		s += ": " + c.Was + " → " + c.Is
	case c.Was+c.Is != "":
		s += ": " + c.Was + c.Is
	}
	if c.Fault != "" {
		s += ": " + c.Fault
	}
	return s
}

// Faults returns those of changes that must not be.
func Faults(changes []Change) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.Fault == "" })
}

// Diff returns what is different in next, by pattern. A family is found again by
// its pattern, or else by the words in it: one that only moved its arguments is
// the same family in another layout, one with a new word is another family.
//
// These are faults, since the next program would lose or misread what this one wrote:
//
//   - a layout that changed without a higher [keyspace.Doc].Version, and a version that fell;
//   - another type, another pattern of what lives for ever, a life that is new or shorter,
//     unless [keyspace.Doc].Migration names what is done about the keys that are there;
//   - a family that lived for ever and is gone, unless [keyspace.Retire] names that;
//   - a pattern whose keys may be those that another one has left behind, unless its
//     [keyspace.Doc].Migration says why that does no harm.
func (l File) Diff(next File) []Change {
	was, is := slices.Clone(l.Families), slices.Clone(next.Families)
	var changes []Change
	var left, fresh []Family // what keys were left behind by, and what takes keys that nothing took before
	for _, same := range []func(a, b Family) bool{
		func(a, b Family) bool { return a.Pattern == b.Pattern && a.class() == b.class() },
		func(a, b Family) bool {
			return a.words() == b.words() && a.class() == b.class() && a.class() != retiredType
		},
	} {
		is = slices.DeleteFunc(is, func(b Family) bool {
			i := slices.IndexFunc(was, func(a Family) bool { return same(a, b) })
			if i < 0 {
				return false
			}
			a := was[i]
			if changes = append(changes, a.changes(b)...); a.blank() != b.blank() {
				left = append(left, a)
			}
			if a.blank() != b.blank() || !slices.EqualFunc(a.Args, b.Args, func(x, y catalogue.Argument) bool { return x.Form == y.Form }) {
				fresh = append(fresh, b)
			}
			was = slices.Delete(was, i, i+1)
			return true
		})
	}
	for _, f := range was {
		c := Change{Kind: Removed, Pattern: f.Pattern}
		i := slices.IndexFunc(is, func(b Family) bool { return b.Type == retiredType && b.blank() == f.blank() })
		switch {
		case i >= 0 && f.class() == "":
			c.Kind, c.Is = Retired, is[i].Migration
			is = slices.Delete(is, i, i+1)
		case f.Life == forever && f.class() == "":
			c.Was = "its keys live for ever"
			c.Fault = "move or sweep them, and say so with keyspace.Retire"
		}
		left, changes = append(left, f), append(changes, c)
	}
	for _, f := range is {
		if f.Type == retiredType {
			changes = append(changes, Change{Kind: Retired, Pattern: f.Pattern, Is: f.Migration})
			continue
		}
		fresh, changes = append(fresh, f), append(changes, Change{Kind: Added, Pattern: f.Pattern})
	}
	for _, f := range fresh {
		for _, old := range left {
			if name, meet := f.meets(old); meet && f.Migration == "" {
				changes = append(changes, Change{Kind: Overlaps, Pattern: f.Pattern, Was: old.Pattern,
					Fault: fmt.Sprintf("%q may be there from before; put a new word in the pattern, or name a Doc.Migration", name)})
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return changes
}

// retiredType stands in a lock in place of a type for a pattern that is no longer used.
const retiredType = "retired"

// forever is the life of a key that has none.
var forever = catalogue.Life{}.String()

// class parts what is never the same family.
func (f Family) class() string {
	if f.isChannel() || f.Type == retiredType {
		return f.Type
	}
	return ""
}

// family compiles what the lock has of a family. A form that this version does not
// know counts as any text, which meets more and never less.
func (f Family) family() (*keyspace.Family, error) {
	var args []keyspace.Form
	if f.Type == retiredType {
		args = make([]keyspace.Form, len(placeholders.FindAllString(f.Pattern, -1)))
	}
	for _, a := range f.Args {
		form, _ := parseForm(a.Form)
		args = append(args, form)
	}
	return keyspace.FamilyOf(f.Pattern, args...)
}

// meets returns a key that both families can have.
func (f Family) meets(old Family) (string, bool) {
	if f.Pattern == old.Pattern && f.class() == old.class() || f.isChannel() || old.isChannel() {
		return "", false
	}
	a, err := f.family()
	b, err2 := old.family()
	if err != nil || err2 != nil {
		return "", false // Parse and New make none of these
	}
	return a.Meets(b)
}

func (f Family) isChannel() bool { return f.Type == "channel" }

var placeholders = regexp.MustCompile(`\{[^{}:]*\}`)

// blank is the pattern without the names of its arguments.
func (f Family) blank() string { return placeholders.ReplaceAllString(f.Pattern, "{}") }

// words are the levels of the pattern that are no argument.
func (f Family) words() string {
	return strings.Join(slices.DeleteFunc(strings.Split(f.blank(), ":"), func(level string) bool { return level == "{}" || level == "{{}}" }), ":")
}

// changes tells what is different in next, which is the same family.
func (f Family) changes(next Family) (all []Change) {
	note := func(kind Kind, was, is string) {
		c := Change{Kind: kind, Pattern: next.Pattern, Was: was, Is: is}
		switch {
		case next.Version < f.Version:
			c.Fault = fmt.Sprintf("the version went down from %d to %d", f.Version, next.Version)
		case kind == LayoutChanged && next.Version == f.Version:
			c.Fault = fmt.Sprintf("raise Doc.Version above %d, or put a new word in the pattern", f.Version)
		}
		all = append(all, c)
	}
	// unless asks for a migration that the lock does not know yet.
	unless := func(why string) {
		if c := &all[len(all)-1]; c.Fault == "" && (next.Migration == "" || next.Migration == f.Migration) {
			c.Fault = why + ": name in Doc.Migration what is done about the keys that are there"
		}
	}
	if f.blank() != next.blank() {
		note(LayoutChanged, f.Pattern, next.Pattern)
		if f.Life == forever {
			unless("keys that live for ever get another name")
		}
	} else if f.Pattern != next.Pattern {
		note(Renamed, f.Pattern, next.Pattern)
	}
	if f.Type != next.Type {
		note(LayoutChanged, f.Type, next.Type)
		unless("commands fail on keys of the other type")
	}
	if f.Form != next.Form {
		note(LayoutChanged, f.Form, next.Form)
	}
	for i := range min(len(f.Args), len(next.Args)) {
		was, is := f.Args[i].Form, next.Args[i].Form
		switch {
		case was == is:
		case wider(was, is):
			note(Widened, was, is)
		default:
			note(LayoutChanged, was, is)
		}
	}
	if f.Life != next.Life {
		note(LifeChanged, f.Life, next.Life)
		switch was, is := longestLife(f.Life), longestLife(next.Life); {
		case f.isChannel():
		case was == 0 && is > 0:
			unless("keys that were to live for ever will expire, and those that are there will not")
		case is > 0 && is < was:
			unless("keys that are there live longer")
		}
	}
	if f.Owner != next.Owner {
		note(OwnerChanged, f.Owner, next.Owner)
	}
	if f.Version != next.Version && len(all) == 0 {
		note(VersionRaised, strconv.Itoa(f.Version), strconv.Itoa(next.Version))
	}
	if f.Migration != next.Migration && len(all) == 0 {
		note(Migrates, f.Migration, next.Migration)
	}
	return all
}

var spans = regexp.MustCompile(`(\d+) (d|h|min|s|ms)\b`)

// longestLife returns in milliseconds how long a key lives at most whose life
// [catalogue.Life.String] wrote so; 0 is for ever. The life of an empty value is no longer than
// the other.
func longestLife(life string) (ms int64) {
	units := map[string]int64{"d": 24 * 3600_000, "h": 3600_000, "min": 60_000, "s": 1000, "ms": 1}
	for part := range strings.SplitSeq(life, ", ") {
		if strings.HasPrefix(part, "empty ") {
			continue
		}
		for _, m := range spans.FindAllStringSubmatch(part, -1) {
			n, _ := strconv.ParseInt(m[1], 10, 64)
			ms += n * units[m[2]]
		}
	}
	return ms
}

// wider reports whether everything of one form is of the other as well.
func wider(was, is string) bool {
	a, ok := parseForm(was)
	b, ok2 := parseForm(is)
	switch {
	case !ok || !ok2:
		return false
	case a.Words != nil:
		return !slices.ContainsFunc(a.Words, func(w string) bool { return !b.Match(w) })
	}
	return b.Words == nil && a.Alphabet == b.Alphabet && b.Min <= a.Min && (b.Max == 0 || a.Max > 0 && a.Max <= b.Max)
}

var sized = regexp.MustCompile(`^(.+?)(?:, (\d+)(?: to (\d+))? bytes( or more)?)?$`)

// parseForm reads what [keyspace.Form.String] wrote.
func parseForm(s string) (f keyspace.Form, ok bool) {
	if words, ok := strings.CutPrefix(s, "one of "); ok {
		return keyspace.Form{Words: strings.Split(words, ", ")}, true
	}
	m := sized.FindStringSubmatch(s)
	if m == nil {
		return keyspace.Form{}, false
	}
	f.Min, _ = strconv.Atoi(m[2])
	f.Max, _ = strconv.Atoi(m[3])
	if m[3] == "" && m[4] == "" {
		f.Max = f.Min
	}
	for a := keyspace.AnyText; a <= keyspace.RawText; a++ {
		if (keyspace.Form{Alphabet: a}).String() == m[1] {
			f.Alphabet, ok = a, true
		}
	}
	return f, ok
}
