package words

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Line trims a user's text, replaces each blank in it by a space, and reports whether the result is fully visible: at
// most n characters on one line, without any that hide or reorder others. It may be empty.
func Line(s string, n int) (string, bool) {
	s = strings.TrimSpace(blanks.ReplaceAllString(s, " "))
	return s, shown(s, n)
}

// Text is Line for several lines, with any line ends. It replaces a tab by a space as well.
func Text(s string, n int) (string, bool) {
	s = strings.NewReplacer("\r\n", "\n", "\t", " ").Replace(s)
	s = strings.TrimSpace(blanks.ReplaceAllString(s, " "))
	return s, shown(strings.ReplaceAll(s, "\n", " "), n)
}

// blanks are the characters that people type instead of a space, such as the wide one of Chinese and Japanese
// keyboards and the non-breaking one in French.
var blanks = regexp.MustCompile(`\p{Zs}`)

// shown reports whether s is at most n characters that people can see and distinguish. It refuses characters that
// reorder, hide or are hidden, blanks other than spaces, joiners that no script or emoji needs, and more marks on one
// letter than a language uses. The rules are those of UTS 39, 5.4 for marks and of RFC 5892, A.1 and A.2 for joiners.
func shown(s string, n int) bool {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > n || s != "" && Blank(s) {
		return false
	}
	text := []rune(flags.ReplaceAllString(s, "🏴"))
	marks := 0 // consecutive marks
	for i, r := range text {
		before, after := at(text, i-1), at(text, i+1)
		switch {
		case isJoiner(r):
			if !joins(r, before, after) {
				return false
			}
		case isSelector(r):
			if !selects(r, before) {
				return false
			}
		case !unicode.IsPrint(r) && !isPictograph(r) || isBlank(r):
			return false
		}
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		} else if marks++; marks > maxMarks || r == before {
			return false
		}
	}
	return true
}

// flags are those of England, Scotland and Wales: a black flag, invisible letters of the region (gbeng, gbsct,
// gbwls), and an end tag.
var flags = regexp.MustCompile(`🏴\x{E0067}\x{E0062}(\x{E0065}\x{E006E}\x{E0067}|\x{E0073}\x{E0063}\x{E0074}|\x{E0077}\x{E006C}\x{E0073})\x{E007F}`)

// maxMarks is the largest number of marks on one letter.
const maxMarks = 4

// at returns a character, or 0 beyond the ends.
func at(text []rune, i int) rune {
	if i < 0 || i >= len(text) {
		return 0
	}
	return text[i]
}

// Blank reports whether s shows nothing: it is empty, or consists of spaces, marks and invisible characters only.
func Blank(s string) bool { return !strings.ContainsFunc(s, visible) }

func visible(r rune) bool {
	return !unicode.IsMark(r) && !unicode.IsSpace(r) && !unicode.In(r, unicode.Cc, unicode.Cf) && !isBlank(r)
}

// isBlank reports whether r is a letter, mark or symbol that shows nothing. Unicode has a property for all but the
// empty pattern of Braille, the null notehead of music, and the blanks of hieroglyphs.
func isBlank(r rune) bool {
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || strings.ContainsRune("\u2800\U0001D159\U00013441\U00013442", r)
}

// isJoiner reports whether r is the zero-width joiner or non-joiner.
func isJoiner(r rune) bool { return unicode.Is(unicode.Join_Control, r) }

// isPictograph reports whether r is in the Unicode blocks for emoji, including unassigned characters, because phones
// support new ones before this program's tables do.
func isPictograph(r rune) bool { return r >= 0x1F000 && r <= 0x1FAFF }

// isSelector reports whether r selects a form of a sign or an ideograph.
func isSelector(r rune) bool { return unicode.Is(unicode.Variation_Selector, r) }

// selects reports whether a sign has forms that the selector after it can choose: text or emoji, or the shapes of an
// ideograph in Japanese names.
func selects(selector, sign rune) bool {
	emoji := unicode.In(sign, unicode.So, unicode.Sm, unicode.Nd, unicode.Po) || isPictograph(sign) || sign == 'ℹ' || sign == '〰'
	return emoji || selector >= 0xE0100 && unicode.Is(unicode.Han, sign)
}

// joins reports whether a joiner between these two characters has an effect in their script: after a virama, between
// letters of a cursive script, or, for the zero-width joiner, between the parts of an emoji.
func joins(joiner, before, after rune) bool {
	const virama = 9 // its canonical combining class
	if norm.NFC.PropertiesString(string(before)).CCC() == virama {
		return true
	}
	cursive := func(r rune) bool {
		return unicode.IsLetter(r) && unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Nko, unicode.Mandaic,
			unicode.Adlam)
	}
	if cursive(before) && cursive(after) {
		return true
	}
	return joiner == '\u200d' && (unicode.In(before, unicode.So, unicode.Sk) || isPictograph(before) || isSelector(before)) &&
		(unicode.In(after, unicode.So, unicode.Sm) || isPictograph(after))
}
