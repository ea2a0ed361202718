package keyspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Form describes which strings a Segment type may append. [Disjoint] proves by
// it that no key belongs to two families, a [Parser] recognises arguments by
// it, and At refuses an argument that is not of it. The zero Form means any
// escaped text, which has no longest length.
type Form struct {
	Alphabet Alphabet
	Min, Max int      // length in bytes; a segment is never empty, and Max zero means unbounded
	Words    []string // if set, exactly these strings and nothing else
}

// Alphabet is the set of texts a segment may be.
type Alphabet uint8

// The alphabets. AnyText covers exactly what [Text] can write.
const (
	AnyText   Alphabet = iota
	Digits             // 0-9, and a leading '-'
	Hex                // 0-9 a-f
	Base64URL          // A-Z a-z 0-9 _ -
	RawText            // every byte but braces, as it is; see [Schema.Brownfield]
)

// Formed is implemented by Segment types that promise a [Form]. SegmentForm is
// asked of the type's zero value.
type Formed interface{ SegmentForm() Form }

func formOf[A Segment]() Form {
	var zero A
	if f, ok := any(zero).(Formed); ok {
		return f.SegmentForm()
	}
	return Form{}
}

// Match reports whether s is of form f.
func (f Form) Match(s string) bool { return f.match(s) }

func (f *Form) match(s string) bool {
	if f.Words != nil {
		return slices.Contains(f.Words, s)
	}
	if len(s) < f.Min || f.Max > 0 && len(s) > f.Max {
		return false
	}
	return automata[f.Alphabet].accepts(s)
}

var alphabetNames = [...]string{AnyText: "escaped text", Digits: "digits", Hex: "hex", Base64URL: "base64url", RawText: "raw text"}

// String describes the form for people, for example "base64url, 12 bytes".
func (f Form) String() string {
	if f.Words != nil {
		return "one of " + strings.Join(f.Words, ", ")
	}
	name := alphabetNames[f.Alphabet]
	switch {
	case f.Min == f.Max && f.Max > 0:
		return fmt.Sprintf("%s, %d bytes", name, f.Max)
	case f.Max > 0:
		return fmt.Sprintf("%s, %d to %d bytes", name, max(f.Min, 1), f.Max)
	case f.Min > 1:
		return fmt.Sprintf("%s, %d bytes or more", name, f.Min)
	}
	return name
}

// wide reports whether what is of form f can be several levels of a key.
func (f Form) wide() bool {
	return f.Words == nil && f.Alphabet == RawText || slices.ContainsFunc(f.Words, func(w string) bool { return strings.Contains(w, ":") })
}

// validate refuses a form that no string is of; asIs says that the schema takes keys as
// they are.
func (f *Form) validate(asIs bool) error {
	never := ":{}"
	if asIs {
		never = "{}"
	}
	switch {
	case int(f.Alphabet) >= len(automata):
		return fmt.Errorf("has the unknown alphabet %d", f.Alphabet)
	case f.Words != nil && len(f.Words) == 0, f.Min < 0, f.Max < 0, f.Max > 0 && f.Min > f.Max:
		return errors.New("is of a form that nothing has")
	case slices.ContainsFunc(f.Words, func(w string) bool { return w == "" || strings.ContainsAny(w, never) }):
		return fmt.Errorf("has a word that cannot stand in a key: one of %q", f.Words)
	case f.wide() && !asIs:
		return errors.New("is raw text, which may stand in keys of a Schema.Brownfield alone")
	}
	return nil
}

// longest returns the length of the longest string of form f; 0 if unbounded.
func (f *Form) longest() int {
	n := f.Max
	if f.Words != nil {
		n = 0
		for _, w := range f.Words {
			n = max(n, len(w))
		}
	}
	return n
}
