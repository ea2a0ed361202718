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

// letters are those whose plain form is no part of a decomposition, and signs that keyboards and programs put for others.
var letters = strings.NewReplacer("ı", "i", "ø", "o", "ł", "l", "đ", "d", "ħ", "h", "ŧ", "t", "æ", "ae", "œ", "oe",
	"Ø", "o", "Ł", "l", "Đ", "d", "Ħ", "h", "Ŧ", "t", "Æ", "ae", "Œ", "oe",
	"’", "'", "‘", "'", "‛", "'", "ʼ", "'", "′", "'", "´", "'", "“", "\"", "”", "\"", "„", "\"", "‐", "-", "‑", "-", "‒", "-", "–", "-", "—", "-", "−", "-",
	"\u00AD", "", "\u200B", "", "\uFE0E", "", "\uFE0F", "")

// plain returns a folded text without the diacritics of Latin, Greek and Cyrillic letters. The breve of й makes another letter, and
// the marks of other scripts are vowels and consonants.
func plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= 0xC0 && r < 0x2000 }) {
		return s // there are none
	}
	var out strings.Builder
	last := rune(0)
	for _, r := range norm.NFD.String(s) {
		if r < 0x300 || r > 0x36F || r == 0x306 && last == 'и' {
			out.WriteRune(r)
			last = r
		}
	}
	return norm.NFC.String(out.String())
}

// folded is a text in which cases, widths, diacritics, compositions of letters, shapes of ideographs, and kinds of quotation marks and
// dashes make no difference.
func folded(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(s) // which is the same for ASCII, at a tenth of the time
	}
	return plain(cases.Fold().String(norm.NFKC.String(letters.Replace(OneShape(s))))) // NFKC makes a space and a mark of some signs
}
