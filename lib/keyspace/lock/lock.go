// Package lock stores the declarations of a program in a text file next to its sources. It reports what the next version
// changes: which keys it would lose and which values it would misread.
//
//	was, err := lock.Parse(string(text)) // of the last reviewed file
//	for _, c := range lock.Faults(was.Diff(lock.New(shop.Keys))) {
//		fmt.Println(c) // layout   cart:{user}: string → set: raise Doc.Version above 1, or put a new word in the pattern
//	}
//
// Package keyspace/tools/cli offers it to programs as the commands diff and diff --write.
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

// A File is the part of a program's families that a lock file stores. It is enough to decide whether the next version
// can find and read a value that this one wrote. Its text is for review: one block for each family, sorted by pattern.
type File struct{ Families []Family }

// Family is one family in a [File].
type Family struct {
	Pattern string
	Type    string // the same as [keyspace.Family].Type
	Form    string
	Args    []catalogue.Argument
	Life    string // or the delivery of a channel
	Owner   string
	Version int

	// Migration is [keyspace.Doc].Migration. For a retired pattern, it is the migration of [keyspace.Retire]; such a
	// Family has the Type "retired", and otherwise only an owner.
	Migration string
}

// New returns the lock of the families and the retired patterns of schemas.
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

// lockEnd is the last line. It shows that a file was not truncated.
const lockEnd = "end"

// ErrTruncated reports a lock file without its last line: [File.Diff] would report the missing families as new. Early
// versions did not write that line.
var ErrTruncated = errors.New("the lock file is truncated, or an early version wrote it: restore it, or append the line \"" + lockEnd +
	"\"")

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

// lockedName returns a pattern for a lock file. The pattern is quoted if it could be read as something else.
func lockedName(pattern string) string {
	if pattern == lockEnd || strings.Trim(pattern, " #\"") != pattern || strings.ContainsFunc(pattern, unicode.IsControl) {
		return strconv.Quote(pattern)
	}
	return pattern
}

// Parse reads the text of a lock file. It returns [ErrTruncated] if the text has no last line.
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
			return fault(n, errors.New("text after the end"))
		case !indented:
			if err := l.complete(); err != nil {
				return fault(began, err)
			}
			began, whole = n, line == lockEnd
			if strings.HasPrefix(line, `"`) {
				var err error
				if line, err = strconv.Unquote(line); err != nil {
					return fault(n, errors.New("a quoted pattern without a closing quote"))
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

// complete returns an error if the last family lacks a line.
func (l File) complete() error {
	if len(l.Families) == 0 {
		return nil
	}
	f := l.Families[len(l.Families)-1]
	if f.Type == "" || f.Owner == "" || f.Type != retiredType && (f.Form == "" || f.Life == "" || f.Version == 0) {
		return fmt.Errorf("%s lacks a line: type, form, life, owner and version are required", f.Pattern)
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

// A Kind is a kind of change to a family.
type Kind string

// The kinds of change, the most serious first.
const (
	LayoutChanged Kind = "layout"  // the format of keys or values has changed
	Removed       Kind = "removed" // keys that never expire remain in Redis
	Retired       Kind = "retired" // removed, and [keyspace.Retire] states what happens to its keys
	Added         Kind = "added"
	Widened       Kind = "widened"   // an argument has a wider form than before
	Overlaps      Kind = "overlaps"  // keys of a former pattern can belong to this one
	LifeChanged   Kind = "life"      // existing keys keep their former TTL
	VersionRaised Kind = "version"   // without a change that the lock contains
	Migrates      Kind = "migration" // another migration is named, and everything else is equal
	OwnerChanged  Kind = "owner"
	Renamed       Kind = "renamed" // a placeholder was renamed, which does not change keys
)

// A Change is one difference between a lock and the next one.
type Change struct {
	Kind    Kind   `json:"kind"`
	Pattern string `json:"pattern"`         // the new pattern; for a removed family, the former one
	Was     string `json:"was,omitempty"`   // the former value
	Is      string `json:"is,omitempty"`    // the new value
	Fault   string `json:"fault,omitempty"` // why the change is not allowed; "" if it is allowed
}

// String describes the change in one line.
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

// Faults returns the changes that are not allowed.
func Faults(changes []Change) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.Fault == "" })
}

// Diff returns the differences of next, sorted by pattern. A family is identified by its pattern, or else by the words
// in its pattern: if only its arguments moved, it is the same family in another layout; with a new word, it is another
// family.
//
// These changes are faults, because the next program would lose or misread existing keys:
//
//   - a changed layout without a higher [keyspace.Doc].Version, and a lower version;
//   - another type, another pattern for keys that never expire, or a TTL that is new or smaller,
//     unless [keyspace.Doc].Migration states what happens to existing keys;
//   - a removed family whose keys never expire, unless [keyspace.Retire] states what happens to them;
//   - a pattern that existing keys of another pattern can match, unless its [keyspace.Doc].Migration states why that
//     does no harm.
func (l File) Diff(next File) []Change {
	was, is := slices.Clone(l.Families), slices.Clone(next.Families)
	var changes []Change
	var left, fresh []Family // families that left keys behind, and families with keys that no family had before
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
			if changes = append(changes, a.changes(b)...); a.shape() != b.shape() {
				left = append(left, a)
			}
			if a.shape() != b.shape() || !slices.EqualFunc(a.Args, b.Args, func(x, y catalogue.Argument) bool { return x.Form == y.Form }) {
				fresh = append(fresh, b)
			}
			was = slices.Delete(was, i, i+1)
			return true
		})
	}
	for _, f := range was {
		c := Change{Kind: Removed, Pattern: f.Pattern}
		i := slices.IndexFunc(is, func(b Family) bool { return b.Type == retiredType && b.shape() == f.shape() })
		switch {
		case i >= 0 && f.class() == "":
			c.Kind, c.Is = Retired, is[i].Migration
			is = slices.Delete(is, i, i+1)
		case f.Life == forever && f.class() == "":
			c.Was = "its keys never expire"
			c.Fault = "move or sweep them, and declare it with keyspace.Retire"
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
					Fault: fmt.Sprintf("%q may exist already; put a new word in the pattern, or set Doc.Migration", name)})
			}
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return changes
}

// retiredType is the type in a lock of a pattern that is no longer used.
const retiredType = "retired"

// forever is the Life of a key that never expires.
var forever = catalogue.Life{}.String()

// class separates families that are never the same.
func (f Family) class() string {
	if f.isChannel() || f.Type == retiredType {
		return f.Type
	}
	return ""
}

// family compiles the family of the lock. A form that this version does not support becomes any text, so that it meets
// more families, never fewer.
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

// meets returns a key that both families can make.
func (f Family) meets(old Family) (string, bool) {
	if f.Pattern == old.Pattern && f.class() == old.class() || f.isChannel() || old.isChannel() {
		return "", false
	}
	a, err := f.family()
	b, err2 := old.family()
	if err != nil || err2 != nil {
		return "", false // Parse and New return no such families
	}
	return a.Meets(b)
}

func (f Family) isChannel() bool { return f.Type == "channel" }

var placeholders = regexp.MustCompile(`\{[^{}:]*\}`)

// shape returns the pattern without the names of its arguments.
func (f Family) shape() string { return placeholders.ReplaceAllString(f.Pattern, "{}") }

// words returns the levels of the pattern that are not arguments.
func (f Family) words() string {
	return strings.Join(slices.DeleteFunc(strings.Split(f.shape(), ":"), func(level string) bool {
		return level == "{}" || level == "{{}}"
	}), ":")
}

// changes returns the differences of next, which is the same family.
func (f Family) changes(next Family) (all []Change) {
	add := func(kind Kind, was, is string) {
		c := Change{Kind: kind, Pattern: next.Pattern, Was: was, Is: is}
		switch {
		case next.Version < f.Version:
			c.Fault = fmt.Sprintf("the version went down from %d to %d", f.Version, next.Version)
		case kind == LayoutChanged && next.Version == f.Version:
			c.Fault = fmt.Sprintf("raise Doc.Version above %d, or put a new word in the pattern", f.Version)
		}
		all = append(all, c)
	}
	// requireMigration adds a fault to the last change if next has no new migration.
	requireMigration := func(why string) {
		if c := &all[len(all)-1]; c.Fault == "" && (next.Migration == "" || next.Migration == f.Migration) {
			c.Fault = why + ": set Doc.Migration to what happens to existing keys"
		}
	}
	if f.shape() != next.shape() {
		add(LayoutChanged, f.Pattern, next.Pattern)
		if f.Life == forever {
			requireMigration("keys that never expire get another name")
		}
	} else if f.Pattern != next.Pattern {
		add(Renamed, f.Pattern, next.Pattern)
	}
	if f.Type != next.Type {
		add(LayoutChanged, f.Type, next.Type)
		requireMigration("commands fail on keys of the other type")
	}
	if f.Form != next.Form {
		add(LayoutChanged, f.Form, next.Form)
	}
	for i := range min(len(f.Args), len(next.Args)) {
		was, is := f.Args[i].Form, next.Args[i].Form
		switch {
		case was == is:
		case wider(was, is):
			add(Widened, was, is)
		default:
			add(LayoutChanged, was, is)
		}
	}
	if f.Life != next.Life {
		add(LifeChanged, f.Life, next.Life)
		switch was, is := longestLife(f.Life), longestLife(next.Life); {
		case f.isChannel():
		case was == 0 && is > 0:
			requireMigration("new keys expire, existing ones never do")
		case is > 0 && is < was:
			requireMigration("existing keys have a larger TTL")
		}
	}
	if f.Owner != next.Owner {
		add(OwnerChanged, f.Owner, next.Owner)
	}
	if f.Version != next.Version && len(all) == 0 {
		add(VersionRaised, strconv.Itoa(f.Version), strconv.Itoa(next.Version))
	}
	if f.Migration != next.Migration && len(all) == 0 {
		add(Migrates, f.Migration, next.Migration)
	}
	return all
}

var spans = regexp.MustCompile(`(\d+) (d|h|min|s|ms)\b`)

// longestLife returns the largest TTL in milliseconds of a text of [catalogue.Life.String]; 0 means that keys never
// expire. The TTL of a negative entry is never the largest.
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

// wider reports whether every text of form was has form is as well.
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

var formPattern = regexp.MustCompile(`^(.+?)(?:, (\d+)(?: to (\d+))? bytes( or more)?)?$`)

// parseForm reads the text of [keyspace.Form.String].
func parseForm(s string) (f keyspace.Form, ok bool) {
	if words, ok := strings.CutPrefix(s, "one of "); ok {
		return keyspace.Form{Words: strings.Split(words, ", ")}, true
	}
	m := formPattern.FindStringSubmatch(s)
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
