package keyspace

import (
	"errors"
	"fmt"
	"strings"
)

// Disjoint proves that no key and no channel belongs to two families of schemas. It compares the languages of the
// arguments' forms, so the result is as exact as the forms are. The error has, for each pair of families that overlap,
// a shortest key that both could make.
func Disjoint(schemas ...*Schema) error {
	var faults []error
	var before []*Family
	for _, s := range schemas {
		for _, f := range s.families {
			for _, g := range before {
				if name, meet := f.Meets(g); meet {
					faults = append(faults, f.fault("can meet %q of %s: both can be %q", g.Pattern, g.Doc.Owner, name))
				}
			}
			before = append(before, f)
		}
	}
	return errors.Join(faults...)
}

// Meets returns a shortest name that both families can make; ok is false if there is none. A key and a channel never
// meet.
func (f *Family) Meets(g *Family) (name string, ok bool) {
	if f.IsChannel() != g.IsChannel() {
		return "", false
	}
	// An argument that fills its level never contains a colon. So two such names are equal if all their levels are
	// equal.
	if f.mixed || g.mixed {
		return sharedName(f, g, false)
	}
	if len(f.levels) != len(g.levels) {
		return "", false
	}
	words := make([]string, len(f.levels))
	for i := range f.levels {
		if words[i], ok = f.levels[i].meet(&g.levels[i]); !ok {
			return "", false
		}
	}
	return strings.Join(words, ":"), true
}

// Example returns a shortest name of the family. The result is always the same.
func (f *Family) Example() string {
	name, _ := f.Meets(f) // f meets itself, because compile refuses a form that matches no string
	return name
}

// meet returns a text that both levels can be. No word and no argument contains a brace, so a hash tag only meets
// another hash tag.
func (l *level) meet(m *level) (string, bool) {
	if l.tag != m.tag {
		return "", false
	}
	word, ok := intersect(l.language(), m.language())
	if l.tag {
		word = "{" + word + "}"
	}
	return word, ok
}

func (l *level) language() *Form {
	if l.form != nil {
		return l.form
	}
	return &Form{Words: []string{l.text}}
}

// fault is an error that names f.
func (f *Family) fault(format string, args ...any) error {
	return fmt.Errorf("keyspace: %s: %q "+format, append([]any{f.Doc.Owner, f.Pattern}, args...)...)
}
