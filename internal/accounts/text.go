package accounts

import (
	"strings"
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
	return s, utf8.RuneCountInString(s) <= n && shown(strings.ReplaceAll(s, "\n", " "), n)
}
