package keyspace

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Lock is what a lock file keeps of a program's families: enough to tell, in
// the next version, whether a value written by this one can still be found and
// read. It is a text that people review: one block for each family, by pattern.
type Lock struct{ Families []Locked }

// Locked is one family in a [Lock].
type Locked struct {
	Pattern string
	Type    string // as [Family].Type has it
	Form    string
	Args    []Argument
	Life    string // or a channel's delivery
	Owner   string
	Version int
}

// NewLock returns the lock of the families of schemas.
func NewLock(schemas ...*Schema) Lock {
	var l Lock
	for _, e := range NewCatalogue(schemas...).Families {
		e.Life.Reason = ""
		l.Families = append(l.Families, Locked{
			Pattern: e.Pattern, Type: e.Type, Form: oneLine(e.Form), Args: e.Arguments, Life: e.Lives(), Owner: e.Owner, Version: e.Version,
		})
	}
	slices.SortFunc(l.Families, func(a, b Locked) int {
		return cmp.Or(cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Type, b.Type))
	})
	return l
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

const lockHeader = `# The keys and channels of this program, as they were last agreed on. Written by a
# tool; a change of layout needs a higher version of its family, or another pattern.
`

// String returns the text of the lock file.
func (l Lock) String() string {
	var b strings.Builder
	b.WriteString(lockHeader)
	for _, f := range l.Families {
		fmt.Fprintf(&b, "\n%s\n", f.Pattern)
		line := func(name, value string) { fmt.Fprintf(&b, "\t%-8s %s\n", name, value) }
		line("type", f.Type)
		line("form", f.Form)
		for _, a := range f.Args {
			line("{"+a.Name+"}", a.Form)
		}
		line("life", f.Life)
		line("owner", f.Owner)
		line("version", strconv.Itoa(f.Version))
	}
	return b.String()
}

// ParseLock reads the text of a lock file.
func ParseLock(text string) (Lock, error) {
	var l Lock
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		field, indented := strings.CutPrefix(line, "\t")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !indented {
			l.Families = append(l.Families, Locked{Pattern: line})
			continue
		}
		name, value, ok := strings.Cut(field, " ")
		if !ok || len(l.Families) == 0 {
			return Lock{}, fmt.Errorf("keyspace: line %d of the lock file is neither a pattern nor a name and a value", n)
		}
		if err := l.Families[len(l.Families)-1].set(name, strings.TrimSpace(value)); err != nil {
			return Lock{}, fmt.Errorf("keyspace: line %d of the lock file: %w", n, err)
		}
	}
	return l, nil
}

func (f *Locked) set(name, value string) (err error) {
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
	default:
		inner, ok := strings.CutPrefix(name, "{")
		inner, closed := strings.CutSuffix(inner, "}")
		if !ok || !closed {
			return fmt.Errorf("there is no field %q", name)
		}
		f.Args = append(f.Args, Argument{Name: inner, Form: value, HashTag: strings.Contains(f.Pattern, "{"+name+"}")})
	}
	return err
}

// A ChangeKind says what became of a family.
type ChangeKind string

// The kinds of change, the gravest first.
const (
	LayoutChanged ChangeKind = "layout"  // keys or values are written differently
	Removed       ChangeKind = "removed" // what lives for ever stays in Redis
	Added         ChangeKind = "added"
	Widened       ChangeKind = "widened" // an argument may be more than before
	LifeChanged   ChangeKind = "life"    // keys keep the one they were written with
	VersionRaised ChangeKind = "version" // without a change that the lock can see
	OwnerChanged  ChangeKind = "owner"
	Renamed       ChangeKind = "renamed" // a placeholder, which no key shows
)

// A Change is one difference between a lock and the next one.
type Change struct {
	Kind    ChangeKind `json:"kind"`
	Pattern string     `json:"pattern"`         // as it is now; of a removed family as it was
	Was     string     `json:"was,omitempty"`   // what differs
	Is      string     `json:"is,omitempty"`    //
	Fault   string     `json:"fault,omitempty"` // why it must not be; "" when it may
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
func (l Lock) Diff(next Lock) []Change {
	was, is := slices.Clone(l.Families), slices.Clone(next.Families)
	var changes []Change
	for _, same := range []func(a, b Locked) bool{
		func(a, b Locked) bool { return a.Pattern == b.Pattern && a.isChannel() == b.isChannel() },
		func(a, b Locked) bool { return a.words() == b.words() && a.isChannel() == b.isChannel() },
	} {
		is = slices.DeleteFunc(is, func(b Locked) bool {
			i := slices.IndexFunc(was, func(a Locked) bool { return same(a, b) })
			if i < 0 {
				return false
			}
			changes = append(changes, was[i].changes(b)...)
			was = slices.Delete(was, i, i+1)
			return true
		})
	}
	for _, f := range was {
		c := Change{Kind: Removed, Pattern: f.Pattern}
		if f.Life == forever && !f.isChannel() {
			c.Was = "its keys live for ever; sweep or move what is there"
		}
		changes = append(changes, c)
	}
	for _, f := range is {
		changes = append(changes, Change{Kind: Added, Pattern: f.Pattern})
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(a.Pattern, b.Pattern) })
	return changes
}

func (f Locked) isChannel() bool { return f.Type == channelType }

var placeholders = regexp.MustCompile(`\{[^{}:]*\}`)

// blank is the pattern without the names of its arguments.
func (f Locked) blank() string { return placeholders.ReplaceAllString(f.Pattern, "{}") }

// words are the levels of the pattern that are no argument.
func (f Locked) words() string {
	return strings.Join(slices.DeleteFunc(strings.Split(f.Pattern, ":"), func(level string) bool { return level[0] == '{' }), ":")
}

// changes tells what is different in next, which is the same family.
func (f Locked) changes(next Locked) (all []Change) {
	note := func(kind ChangeKind, was, is string) {
		c := Change{Kind: kind, Pattern: next.Pattern, Was: was, Is: is}
		switch {
		case next.Version < f.Version:
			c.Fault = fmt.Sprintf("the version went down from %d to %d", f.Version, next.Version)
		case kind == LayoutChanged && next.Version == f.Version:
			c.Fault = fmt.Sprintf("raise Doc.Version above %d, or put a new word in the pattern", f.Version)
		}
		all = append(all, c)
	}
	if f.blank() != next.blank() {
		note(LayoutChanged, f.Pattern, next.Pattern)
	} else if f.Pattern != next.Pattern {
		note(Renamed, f.Pattern, next.Pattern)
	}
	if f.Type != next.Type {
		note(LayoutChanged, f.Type, next.Type)
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
	}
	if f.Owner != next.Owner {
		note(OwnerChanged, f.Owner, next.Owner)
	}
	if f.Version != next.Version && len(all) == 0 {
		note(VersionRaised, strconv.Itoa(f.Version), strconv.Itoa(next.Version))
	}
	return all
}

// wider reports whether everything of one form is of the other as well.
func wider(was, is string) bool {
	a, ok := parseForm(was)
	b, ok2 := parseForm(is)
	switch {
	case !ok || !ok2:
		return false
	case a.Words != nil:
		return !slices.ContainsFunc(a.Words, func(w string) bool { return !b.match(w) })
	}
	return b.Words == nil && a.Alphabet == b.Alphabet && b.Min <= a.Min && (b.Max == 0 || a.Max > 0 && a.Max <= b.Max)
}

var sized = regexp.MustCompile(`^(.+?)(?:, (\d+)(?: to (\d+))? bytes( or more)?)?$`)

// parseForm reads what [Form.String] wrote.
func parseForm(s string) (f Form, ok bool) {
	if words, ok := strings.CutPrefix(s, "one of "); ok {
		return Form{Words: strings.Split(words, ", ")}, true
	}
	m := sized.FindStringSubmatch(s)
	if m == nil {
		return Form{}, false
	}
	alphabet := slices.Index(alphabetNames[:], m[1])
	f.Min, _ = strconv.Atoi(m[2])
	f.Max, _ = strconv.Atoi(m[3])
	if m[3] == "" && m[4] == "" {
		f.Max = f.Min
	}
	f.Alphabet = Alphabet(max(alphabet, 0))
	return f, alphabet >= 0
}
