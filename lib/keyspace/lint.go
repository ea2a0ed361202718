package keyspace

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Lint holds the families of schemas against the rules that a declaration alone
// cannot be held against, and returns every fault, joined; each names its
// family. Call it in a test with all schemas of the program:
//
//   - levels are lower-case words joined by '_', between colons;
//   - the first level is a word that says what the key is about;
//   - no physical key is longer than [MaxKey] bytes, whatever its arguments;
//   - owner, purpose and value form are stated;
//   - families used together share a hash tag;
//   - no key and no channel belongs to two families, see [Disjoint];
//   - no key is of a pattern that is retired, see [Retire];
//   - no key of a family can be read with other arguments.
//
// [Schema.Brownfield] and [Schema.BadWords] change the first two for a schema.
func Lint(schemas ...*Schema) error {
	var faults []error
	together := map[string]*Family{}
	for _, s := range schemas {
		for _, f := range s.families {
			faults = append(faults, f.lintNames(s.badWords), f.lintReading(), f.lintLength(), f.lintDoc(), f.lintTogether(together))
		}
	}
	return errors.Join(append(faults, Disjoint(schemas...), lintRetired(schemas))...)
}

// lintRetired finds families whose keys may be what a retired pattern left behind.
func lintRetired(schemas []*Schema) error {
	var faults []error
	for _, s := range schemas {
		for _, old := range s.retired {
			for _, t := range schemas {
				for _, f := range t.families {
					if name, meet := f.Meets(old); meet {
						faults = append(faults, f.fault("can meet %q, which %s has retired: both can be %q", old.Pattern, s.owner, name))
					}
				}
			}
		}
	}
	return errors.Join(faults...)
}

var (
	words = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	alnum = regexp.MustCompile(`^[A-Za-z0-9]+`)
	named = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
)

// meaningless first words could stand before any key; [Schema.BadWords] has others.
var meaningless = []string{"bar", "data", "foo", "item", "key", "keys", "misc", "obj", "object", "temp", "test", "thing", "tmp", "value"}

func (f *Family) lintNames(bad []string) error {
	var faults []error
	if f.asIs {
		return errors.Join(f.lintAsIs(bad)...)
	}
	for i, l := range f.levels {
		switch {
		case l.form == nil && !words.MatchString(l.text):
			faults = append(faults, f.fault("has the level %q, which is not lower-case words joined by '_'", l.text))
		case l.form != nil && !named.MatchString(l.text):
			faults = append(faults, f.fault("has the placeholder {%s}, which is not lower-case words joined by '_'", l.text))
		case i == 0 && (l.form != nil || len(l.text) < 3 || !named.MatchString(l.text) || slices.Contains(bad, l.text)):
			faults = append(faults, f.fault("begins with %q; the first level is a word that says what the key is about", l.text))
		}
		if l.form == nil {
			continue
		}
		for _, w := range l.form.Words {
			if !words.MatchString(w) {
				faults = append(faults, f.fault("can have the word %q for {%s}, which is not lower-case words joined by '_'", w, l.text))
			}
		}
	}
	return errors.Join(faults...)
}

// lintAsIs judges what is not in the keys, and the first word, if the schema has said
// which words are bad.
func (f *Family) lintAsIs(bad []string) (faults []error) {
	for _, l := range f.levels {
		if l.form != nil && !named.MatchString(l.text) {
			faults = append(faults, f.fault("has the placeholder {%s}, which is not lower-case words joined by '_'", l.text))
		}
	}
	if first := alnum.FindString(f.Pattern); slices.Contains(bad, strings.ToLower(first)) {
		faults = append(faults, f.fault("begins with %q, which is one of the schema's bad words", first))
	}
	return faults
}

// lintReading finds keys from which two sets of arguments can be read. Arguments that
// fill their levels cannot be misread.
func (f *Family) lintReading() error {
	if !f.mixed {
		return nil
	}
	if name, twice := common(f, f, true); twice {
		return f.fault("does not tell where an argument ends: %q can be read in two ways", name)
	}
	return nil
}

func (f *Family) lintLength() error {
	n, bounded := f.longest()
	if !bounded {
		return f.fault("has an argument without a longest length; its type needs a Form with a Max")
	}
	if n += MaxPrefix + len(":"); n > MaxKey {
		return f.fault("can be %d bytes long, its prefix included; the limit is %d", n, MaxKey)
	}
	return nil
}

func (f *Family) lintDoc() error {
	var faults []error
	if !named.MatchString(f.Doc.Owner) {
		faults = append(faults, f.fault("has the owner %q, which is not a package", f.Doc.Owner))
	}
	if p := f.Doc.Purpose; strings.TrimSpace(p) == "" || strings.Contains(p, "\n") {
		faults = append(faults, f.fault("does not state its purpose in one line"))
	}
	if strings.TrimSpace(f.Form) == "" {
		faults = append(faults, f.fault("does not state how its values are written"))
	}
	if f.Doc.MaxBytes < 0 || f.Doc.Version < 0 {
		faults = append(faults, f.fault("has a negative MaxBytes or Version"))
	}
	return errors.Join(faults...)
}

// lintTogether holds f against the first family of its set.
func (f *Family) lintTogether(first map[string]*Family) error {
	set := f.Doc.Together
	if set == "" {
		return nil
	}
	if f.tag < 0 {
		return f.fault("is used together with others (%s) and has no hash tag", set)
	}
	g, ok := first[set]
	if !ok {
		first[set] = f
		return nil
	}
	if !reflect.DeepEqual(f.Args[f.tag], g.Args[g.tag]) {
		return f.fault("is used together with %q (%s) and has a hash tag of another form", g.Pattern, set)
	}
	return nil
}
