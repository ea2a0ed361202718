package words

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Line trims what a user wrote, makes spaces of all blanks in it, and reports whether people can see
// all of it: at most n characters in one line, none of which hides or reorders others. It may be empty.
func Line(s string, n int) (string, bool) {
	s = strings.TrimSpace(blanks.ReplaceAllString(s, " "))
	return s, shown(s, n)
}

// Text is Line for several lines, however they end. A tab is a blank in it.
func Text(s string, n int) (string, bool) {
	s = strings.NewReplacer("\r\n", "\n", "\t", " ").Replace(s)
	s = strings.TrimSpace(blanks.ReplaceAllString(s, " "))
	return s, shown(strings.ReplaceAll(s, "\n", " "), n)
}

// blanks are those that people type for a space, such as the wide one of Chinese and Japanese keyboards and the one in French
// that does not break.
var blanks = regexp.MustCompile(`\p{Zs}`)

// shown reports whether s is at most n characters that people can see and tell apart:
// nothing that reorders, hides or is hidden, no blank but spaces, joiners only where
// a script or an emoji needs them, and no more marks upon one letter than a language has.
// The rules are those of UTS 39, 5.4 for marks and of RFC 5892, A.1 and A.2 for joiners.
func shown(s string, n int) bool {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > n || s != "" && Blank(s) {
		return false
	}
	text := []rune(flags.ReplaceAllString(s, "🏴"))
	marks := 0 // in a row
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

// flags are those of England, Scotland and Wales: a black one, hidden letters that say whose it is (gbeng, gbsct, gbwls), and their end.
var flags = regexp.MustCompile(`🏴\x{E0067}\x{E0062}(\x{E0065}\x{E006E}\x{E0067}|\x{E0073}\x{E0063}\x{E0074}|\x{E0077}\x{E006C}\x{E0073})\x{E007F}`)

// maxMarks is how many marks one letter may have.
const maxMarks = 4

// at returns a character, or 0 beyond the ends.
func at(text []rune, i int) rune {
	if i < 0 || i >= len(text) {
		return 0
	}
	return text[i]
}

// Blank reports whether people see nothing of s: it is empty, or all of it is space, marks, and characters that show nothing.
func Blank(s string) bool { return !strings.ContainsFunc(s, visible) }

func visible(r rune) bool {
	return !unicode.IsMark(r) && !unicode.IsSpace(r) && !unicode.In(r, unicode.Cc, unicode.Cf) && !isBlank(r)
}

// isBlank reports characters that show nothing although they are letters, marks or symbols. Unicode has a property for all but the empty
// pattern of Braille, the null notehead of music, and the blanks of hieroglyphs.
func isBlank(r rune) bool {
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || strings.ContainsRune("\u2800\U0001D159\U00013441\U00013442", r)
}

// isJoiner reports the zero-width joiner and non-joiner.
func isJoiner(r rune) bool { return unicode.Is(unicode.Join_Control, r) }

// isPictograph reports signs of the blocks that Unicode keeps for emoji, also of those to come: phones have them before
// this program's tables do.
func isPictograph(r rune) bool { return r >= 0x1F000 && r <= 0x1FAFF }

// isSelector reports what chooses among the forms of a sign or an ideograph.
func isSelector(r rune) bool { return unicode.Is(unicode.Variation_Selector, r) }

// selects reports whether a sign has forms among which a selector behind it chooses: that of a text and that of an emoji, or,
// as ideographs in names of Japan have them, several shapes.
func selects(selector, sign rune) bool {
	emoji := unicode.In(sign, unicode.So, unicode.Sm, unicode.Nd, unicode.Po) || isPictograph(sign) || sign == 'ℹ' || sign == '〰'
	return emoji || selector >= 0xE0100 && unicode.Is(unicode.Han, sign)
}

// joins reports whether a joiner between these two characters changes how they look as
// their script has it: behind a virama, between letters of a cursive script, or, for the
// joiner itself, between the parts of an emoji.
func joins(joiner, before, after rune) bool {
	const virama = 9 // its canonical combining class
	if norm.NFC.PropertiesString(string(before)).CCC() == virama {
		return true
	}
	cursive := func(r rune) bool {
		return unicode.IsLetter(r) && unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Nko, unicode.Mandaic, unicode.Adlam)
	}
	if cursive(before) && cursive(after) {
		return true
	}
	return joiner == '\u200d' && (unicode.In(before, unicode.So, unicode.Sk) || isPictograph(before) || isSelector(before)) && (unicode.In(after, unicode.So, unicode.Sm) || isPictograph(after))
}
