// Package words compares what users look for with what is there, in every language alike: case, width and
// compositions of letters make no difference, and each word may stand anywhere.
package words

import (
	"slices"
	"strings"
	"unicode"

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

// folded is a text in which cases, widths and compositions of letters make no difference.
func folded(s string) string {
	return cases.Fold().String(norm.NFKC.String(s))
}
