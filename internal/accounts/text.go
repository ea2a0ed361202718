package accounts

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line trims what a user wrote and reports whether people can see all of it: at
// most n characters in one line, none of which hides or reorders others. It may be
// empty.
func Line(s string, n int) (string, bool) {
	s = strings.TrimSpace(s)
	return s, shown(s, n)
}

// Text is Line for several lines.
func Text(s string, n int) (string, bool) {
	s = strings.TrimSpace(s)
	return s, shown(strings.ReplaceAll(s, "\n", " "), n)
}

// shown reports whether s is at most n characters, each of them visible, and
// holds nothing that reorders or hides what stands beside it.
func shown(s string, n int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= n && !strings.ContainsFunc(s, unprintable) &&
		(s == "" || strings.ContainsFunc(s, visible))
}

// unprintable lets the joiner U+200D pass: emoji and several scripts need it.
func unprintable(r rune) bool { return !unicode.IsPrint(r) && r != '\u200d' }

func visible(r rune) bool { return !unicode.IsMark(r) && !unicode.IsSpace(r) && r != '\u200d' }
