package words

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"
)

const (
	emojiSelector = '\uFE0F'
	textSelector  = '\uFE0E'
	keycap        = '\u20E3'

	// maxZWJ is the largest number of emoji that are joined to one: families and couples have four.
	maxZWJ = 4
)

// Emoji reports whether s is exactly one emoji sequence of UTS 51, and returns its canonical form, with U+FE0F after
// each character that is text without it.
func Emoji(s string) (string, bool) {
	text := []rune(s)
	switch {
	case !utf8.ValidString(s) || len(text) == 0:
		return "", false
	case isRegional(text[0]):
		return flagOf(text)
	case strings.ContainsRune("0123456789#*", text[0]):
		if rest := string(text[1:]); rest != string(keycap) && rest != string([]rune{emojiSelector, keycap}) {
			return "", false
		}
		return string([]rune{text[0], emojiSelector, keycap}), true
	case flags.FindString(s) == s:
		return s, true
	}
	var form []rune
	for elements := 1; ; elements++ {
		n := 0
		if form, n = element(form, text); n == 0 || elements > maxZWJ {
			return "", false
		}
		if text = text[n:]; len(text) == 0 {
			return string(form), true
		}
		if text[0] != '\u200D' {
			return "", false
		}
		form, text = append(form, '\u200D'), text[1:]
	}
}

// element appends the emoji at the beginning of a text to form, and returns its number of characters; 0: there is
// none.
func element(form, text []rune) ([]rune, int) {
	if len(text) == 0 || !unicode.Is(emojis, text[0]) {
		return form, 0
	}
	base, next := text[0], at(text, 1)
	form = append(form, base)
	isNew := !unicode.IsPrint(base) // and not in the tables of this program
	switch {
	case isSkin(next) && (unicode.Is(modifierBases, base) || isNew):
		return append(form, next), 2
	case next == textSelector:
		return form, 0
	case unicode.Is(textEmojis, base):
		form = append(form, emojiSelector)
	}
	if next == emojiSelector {
		return form, 2
	}
	return form, 1
}

func isSkin(r rune) bool { return r >= 0x1F3FB && r <= 0x1F3FF }

func isRegional(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }

// flagOf reports whether a text is two regional indicators that name a region.
func flagOf(text []rune) (string, bool) {
	if len(text) != 2 || !isRegional(text[1]) {
		return "", false
	}
	code := string([]rune{text[0] - 0x1F1E6 + 'A', text[1] - 0x1F1E6 + 'A'})
	region, err := language.ParseRegion(code)
	return string(text), err == nil && (region.IsCountry() || code == "EU")
}
