package keyspace

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Form describes the strings that a Segment type may append. [Disjoint] uses it to prove that no key belongs to two
// families. A [Parser] uses it to recognise arguments, and At refuses an argument that does not match it. The zero Form
// is any escaped text, without a maximum length.
type Form struct {
	Alphabet Alphabet
	Min, Max int      // length in bytes; a segment is never empty, and Max 0 means no maximum
	Words    []string // if set, the form is exactly these strings
}

// Alphabet is the set of texts that a segment may be.
type Alphabet uint8

// The alphabets. AnyText is exactly the set of texts that [Text] can write.
const (
	AnyText   Alphabet = iota
	Digits             // 0-9, with an optional leading '-'
	Hex                // 0-9 a-f
	Base64URL          // A-Z a-z 0-9 _ -
	RawText            // every byte except braces, not escaped; see [Schema.Brownfield]
)

// Formed is implemented by Segment types that declare a [Form]. SegmentForm is called on the zero value of the type.
type Formed interface{ SegmentForm() Form }

func formOf[A Segment]() Form {
	var zero A
	if f, ok := any(zero).(Formed); ok {
		return f.SegmentForm()
	}
	return Form{}
}

// Match reports whether s matches f.
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

// String describes the form, for example "base64url, 12 bytes".
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

// wide reports whether a text of form f can have several levels of a key.
func (f Form) wide() bool {
	return f.Words == nil && f.Alphabet == RawText || slices.ContainsFunc(f.Words, func(w string) bool { return strings.Contains(w, ":") })
}

// validate refuses a form that matches no string, or that cannot be part of a key. brownfield allows what only a
// [Schema.Brownfield] accepts.
func (f *Form) validate(brownfield bool) error {
	never := ":{}"
	if brownfield {
		never = "{}"
	}
	switch {
	case int(f.Alphabet) >= len(automata):
		return fmt.Errorf("has the unknown alphabet %d", f.Alphabet)
	case f.Words != nil && len(f.Words) == 0, f.Min < 0, f.Max < 0, f.Max > 0 && f.Min > f.Max:
		return errors.New("has a form that matches no string")
	case slices.ContainsFunc(f.Words, func(w string) bool { return w == "" || strings.ContainsAny(w, never) }):
		return fmt.Errorf("has a word that a key cannot contain: one of %q", f.Words)
	case f.wide() && !brownfield:
		return errors.New("is raw text, which only a Schema.Brownfield accepts")
	}
	return nil
}

// longest returns the length of the longest string of form f, or 0 if there is no maximum.
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
