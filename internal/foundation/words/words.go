// Package words says what people may write, in every language alike ([Line], [Text]), and compares what they look for
// with what is there: case, width and compositions of letters make no difference, and each word may stand anywhere ([Of]).
package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Words are what each text that is found has.
type Words []string

// Of returns the words of a query; none where there is nothing to look for.
func Of(q string) Words {
	return strings.FieldsFunc(folded(q), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

// In reports whether some texts together have all words.
func (w Words) In(texts ...string) bool {
	text := folded(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(w, func(word string) bool { return !strings.Contains(text, word) })
}

// OneShape returns a text without the hidden characters that choose a shape of an ideograph, as names of Japan have them.
func OneShape(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0xE0100 && r <= 0xE01EF {
			return -1
		}
		return r
	}, s)
}

// folded is a text in which cases, widths, compositions of letters and shapes of ideographs make no difference.
func folded(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(s) // which is the same for ASCII, at a tenth of the time
	}
	return cases.Fold().String(norm.NFKC.String(OneShape(s)))
}
