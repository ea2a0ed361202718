// Package words checks the texts that people write, with the same rules for every language ([Line], [Text]), and
// searches in texts. A search ignores case, width and composition of letters, and finds each word at any place
// ([Of]).
package words

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Words are the words of a search; each found text contains all of them.
type Words []string

// Of returns the words of a query; none if the query has no word.
func Of(q string) Words {
	return strings.FieldsFunc(folded(q), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

// In reports whether the texts together contain all words.
func (w Words) In(texts ...string) bool {
	text := folded(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(w, func(word string) bool { return !strings.Contains(text, word) })
}

// OneShape returns a text without the invisible characters that select the shape of an ideograph, as in Japanese
// names.
func OneShape(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0xE0100 && r <= 0xE01EF {
			return -1
		}
		return r
	}, s)
}

// letters replaces letters whose plain form is not part of their decomposition, and variants of signs that keyboards
// and programs insert.
var letters = strings.NewReplacer("ı", "i", "ø", "o", "ł", "l", "đ", "d", "ħ", "h", "ŧ", "t", "æ", "ae", "œ", "oe",
	"Ø", "o", "Ł", "l", "Đ", "d", "Ħ", "h", "Ŧ", "t", "Æ", "ae", "Œ", "oe",
	"’", "'", "‘", "'", "‛", "'", "ʼ", "'", "′", "'", "´", "'", "“", "\"", "”", "\"", "„", "\"", "‐", "-", "‑", "-", "‒", "-", "–", "-", "—",
	"-", "−", "-",
	"\u00AD", "", "\u200B", "", "\uFE0E", "", "\uFE0F", "")

// plain returns a folded text without the diacritics of Latin, Greek and Cyrillic letters. It preserves the breve of
// й, which is another letter, and the marks of other scripts, which are vowels and consonants.
func plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= 0xC0 && r < 0x2000 }) {
		return s // no diacritics
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

// folded returns a normal form of a text. It is the same for all cases, widths, diacritics, compositions of letters,
// shapes of ideographs, and kinds of quotation marks and dashes.
func folded(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(s) // the same for ASCII, at a tenth of the time
	}
	return plain(cases.Fold().String(norm.NFKC.String(letters.Replace(OneShape(s))))) // NFKC turns some signs into a space and a mark
}
