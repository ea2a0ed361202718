package keyspace

import "strings"

// plain are the bytes that stand for themselves in escaped text.
var plain = func() (safe [256]bool) {
	for c := 0x21; c <= 0x7e; c++ {
		safe[c] = !strings.ContainsRune(`:{}%*?[]^\"'`, rune(c))
	}
	return safe
}()

// appendEscaped appends s in lower-case percent-encoding of ':', braces, '%',
// glob characters, quotes, controls, space and everything outside ASCII: up to
// three bytes for one. An empty s becomes a lone '%', which no other text does,
// so that unescape gets every string back.
func appendEscaped(b []byte, s string) []byte {
	if s == "" {
		return append(b, '%')
	}
	for i := range len(s) {
		if c := s[i]; plain[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', hexits[c>>4], hexits[c&15])
		}
	}
	return b
}

// unescape returns the text that appendEscaped wrote as s. It is false for
// everything that appendEscaped does not write: other spellings of the same
// text, and the hash that stands for a long [Text].
func unescape(s string) (text string, ok bool) {
	if !automata[AnyText].accepts(s) || strings.HasPrefix(s, "%%") {
		return "", false
	}
	if s == "%" {
		return "", true
	}
	if !strings.Contains(s, "%") {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		b = append(b, nibble(s[i+1])<<4|nibble(s[i+2]))
		i += 2
	}
	return string(b), true
}

func nibble(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}
