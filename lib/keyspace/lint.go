package keyspace

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Lint checks the families of schemas and returns all faults, joined; each fault names its family. It checks rules that
// a single declaration cannot check. Call it in a test with all schemas of the program:
//
//   - levels are lower-case words joined by '_', between colons;
//   - the first level is a word that states the subject of the key;
//   - no physical key is longer than [MaxKey] bytes, whatever its arguments;
//   - owner, purpose and value form are stated;
//   - families that are used together share a hash tag;
//   - no key and no channel belongs to two families, see [Disjoint];
//   - no key matches a retired pattern, see [Retire];
//   - no key of a family can be read with other arguments.
//
// [Schema.Brownfield] and [Schema.BadWords] change the first two rules for a schema.
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

// lintRetired finds families whose keys a retired pattern could also have written.
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
	wordsPattern     = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	firstWordPattern = regexp.MustCompile(`^[A-Za-z0-9]+`)
	namePattern      = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
)

// meaningless lists first words that could begin any key; [Schema.BadWords] replaces the list.
var meaningless = []string{"bar", "data", "foo", "item", "key", "keys", "misc", "obj", "object", "temp", "test", "thing", "tmp", "value"}

func (f *Family) lintNames(bad []string) error {
	var faults []error
	if f.brownfield {
		return errors.Join(f.lintBrownfield(bad)...)
	}
	for i, l := range f.levels {
		switch {
		case l.form == nil && !wordsPattern.MatchString(l.text):
			faults = append(faults, f.fault("has the level %q, which is not lower-case words joined by '_'", l.text))
		case l.form != nil && !namePattern.MatchString(l.text):
			faults = append(faults, f.fault("has the placeholder {%s}, which is not lower-case words joined by '_'", l.text))
		case i == 0 && (l.form != nil || len(l.text) < 3 || !namePattern.MatchString(l.text) || slices.Contains(bad, l.text)):
			faults = append(faults, f.fault("begins with %q; the first level must be a word that states the subject of the key", l.text))
		}
		if l.form == nil {
			continue
		}
		for _, w := range l.form.Words {
			if !wordsPattern.MatchString(w) {
				faults = append(faults, f.fault("can have the word %q for {%s}, which is not lower-case words joined by '_'", w, l.text))
			}
		}
	}
	return errors.Join(faults...)
}

// lintBrownfield checks the names of placeholders, and the first word if the schema has a list of bad words.
func (f *Family) lintBrownfield(bad []string) (faults []error) {
	for _, l := range f.levels {
		if l.form != nil && !namePattern.MatchString(l.text) {
			faults = append(faults, f.fault("has the placeholder {%s}, which is not lower-case words joined by '_'", l.text))
		}
	}
	if first := firstWordPattern.FindString(f.Pattern); slices.Contains(bad, strings.ToLower(first)) {
		faults = append(faults, f.fault("begins with %q, which is one of the schema's bad words", first))
	}
	return faults
}

// lintReading finds keys that can be read with two sets of arguments. Arguments that fill their levels cannot be
// misread.
func (f *Family) lintReading() error {
	if !f.mixed {
		return nil
	}
	if name, twice := sharedName(f, f, true); twice {
		return f.fault("is ambiguous: %q can be read in two ways", name)
	}
	return nil
}

func (f *Family) lintLength() error {
	n, bounded := f.longest()
	if !bounded {
		return f.fault("has an argument without a maximum length; its type needs a Form with a Max")
	}
	if n += MaxPrefix + len(":"); n > MaxKey {
		return f.fault("can be %d bytes long, its prefix included; the limit is %d", n, MaxKey)
	}
	return nil
}

func (f *Family) lintDoc() error {
	var faults []error
	if !namePattern.MatchString(f.Doc.Owner) {
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

// lintTogether compares f with the first family of its set.
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
